// Collectives by copy engines on the fake driver, which carries copies out, but no kernels.
#include <barrier>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
constexpr int kSize = 3;
constexpr int kRoot = 1;
constexpr size_t kUnit = 1024;  // bytes of a rank's part
constexpr size_t kBytes = 1 << 20;

using Kernels = std::map<std::string, int>;

// A rank and its operands, which lie in its own block.
struct Caller {
  Caller(int own_rank, const std::shared_ptr<Group>& own_group, void* own_stream)
      : rank(own_rank),
        group(own_group),
        stream(own_stream),
        memory(Memory::rendezvous(group, Buffer::allocate(*group, kBytes), 0)),
        send(memory->pointer(rank) + kBytes / 2),
        recv(memory->pointer(rank) + 4096) {}

  CollectiveCall call(Collective collective, void* operand, size_t count) const {
    CollectiveCall call = call_of(collective, recv, count, DType::u8);
    call.send = operand;
    call.root = kRoot;
    call.stream = stream;
    call.algorithm = Algorithm::copy_engine;
    return call;
  }

  int rank;
  std::shared_ptr<Group> group;
  void* stream;
  std::shared_ptr<Memory> memory;
  std::byte* send;
  std::byte* recv;
};

class CudaCopyEngines : public OnFakeDriver {
 protected:
  // All ranks make the call, and launch these kernels, together.
  void expect_launches(const Kernels& expected, const Caller& caller, const CollectiveCall& call) {
    meet();
    if (caller.rank == 0) fake_cuda::launches();  // forgets the former ones
    meet();
    run_collective(*caller.group, call);
    meet();

    // One fake driver serves all ranks; rank 0 counts for them.
    if (caller.rank == 0) {
      EXPECT_EQ(launched(), expected);
    }
    meet();
  }

  void meet() { together_.arrive_and_wait(); }

  void as_callers(const std::function<void(const Caller& caller)>& body) {
    as_groups(kSize, [&](int rank, const auto& group) {
      const Caller caller(rank, group, &together_);  // any pointer is a stream of the fake driver
      body(caller);
      meet();  // memory that one rank releases would invalidate the captures of the others
    });
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
  }

 private:
  std::barrier<> together_{kSize};
};

// ---- calls that move

struct Move {
  const char* name;
  Collective collective;
  bool in_place;
  // The number of ranks that copy their own part by a kernel.
  int kept_by_kernels;
};

void PrintTo(const Move& move, std::ostream* out) { *out << move.name; }

class CudaCopyEngineMoves : public CudaCopyEngines, public testing::WithParamInterface<Move> {
 protected:
  // Byte i of the send operand of rank `writer`.
  static std::byte written_by(int writer, size_t i) {
    const auto salt = static_cast<size_t>(GetParam().collective);
    return static_cast<std::byte>((17 * static_cast<size_t>(writer) + 3 * i + salt) % 251);
  }

  // Where the send operand of a rank lies.
  static std::byte* operand_of(const Caller& caller) {
    if (!GetParam().in_place) return caller.send;
    if (GetParam().collective == Collective::broadcast) return caller.recv;
    return caller.recv + static_cast<size_t>(caller.rank) * kUnit;
  }

  // The part of recv that comes from `source`, which is the root of a broadcast.
  static void expect_part(const Caller& caller, int source) {
    const Collective collective = GetParam().collective;
    const size_t to = collective == Collective::broadcast ? 0 : static_cast<size_t>(source) * kUnit;
    const size_t from =
        collective == Collective::alltoall ? static_cast<size_t>(caller.rank) * kUnit : 0;
    for (size_t i = 0; i < kUnit; ++i) {
      ASSERT_EQ(caller.recv[to + i], written_by(source, from + i))
          << "byte " << i << " of rank " << source << " on rank " << caller.rank;
    }
  }
};

TEST_P(CudaCopyEngineMoves, CopyBetweenTwoMeetings) {
  const Collective collective = GetParam().collective;
  Kernels kernels = {{"symm_barrier", kSize}, {"symm_check", kSize}};
  if (GetParam().kept_by_kernels != 0) kernels["symm_convert"] = GetParam().kept_by_kernels;

  as_callers([&](const Caller& caller) {
    std::memset(caller.recv, 0xff, kSize * kUnit);
    std::byte* const operand = operand_of(caller);
    const size_t written = collective == Collective::alltoall ? kSize * kUnit : kUnit;
    for (size_t i = 0; i < written; ++i) {
      operand[i] = written_by(caller.rank, i);
    }

    expect_launches(kernels, caller, caller.call(collective, operand, kUnit));

    // A rank keeps its own part by a kernel, which the
    // fake driver does not carry out, or in place.
    for (int source = 0; source < kSize; ++source) {
      if (collective == Collective::broadcast && source != kRoot) continue;
      if (source == caller.rank && !GetParam().in_place) continue;
      expect_part(caller, source);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Each, CudaCopyEngineMoves,
    testing::Values(Move{"Allgather", Collective::allgather, false, kSize},
        Move{"AllgatherInPlace", Collective::allgather, true, 0},
        Move{"Alltoall", Collective::alltoall, false, kSize},
        Move{"Broadcast", Collective::broadcast, false, 1},
        Move{"BroadcastInPlace", Collective::broadcast, true, 0}),
    [](const auto& each) { return std::string(each.param.name); });

// ---- other calls

TEST_F(CudaCopyEngines, AnAllreduceIsAReduceScatterBeforeTheCopies) {
  as_callers([&](const Caller& caller) {
    CollectiveCall sum = caller.call(Collective::allreduce, caller.recv, kSize * kUnit);
    sum.dtype = DType::f32;
    expect_launches(
        {{"symm_one_shot_f32_3", kSize}, {"symm_barrier", kSize}, {"symm_check", kSize}}, caller,
        sum);
  });
}

TEST_F(CudaCopyEngines, RefuseWhatTheyCannotCopy) {
  as_callers([&](const Caller& caller) {
    const auto expect_refused = [&](const char* why, const CollectiveCall& call) {
      support::expect_failure(
          Status::invalid_argument, {why}, [&] { run_collective(*caller.group, call); });
    };

    CollectiveCall uneven = caller.call(Collective::allreduce, caller.recv, kSize * kUnit + 1);
    uneven.dtype = DType::f32;
    expect_refused("of as many elements for each rank", uneven);

    expect_refused("not in place", caller.call(Collective::alltoall, caller.recv, kUnit));

    for (const Collective collective :
        {Collective::allgather, Collective::alltoall, Collective::broadcast}) {
      std::byte elsewhere[kSize * kUnit];
      CollectiveCall outside = caller.call(collective, caller.send, kUnit);
      outside.recv = elsewhere;
      expect_refused("recv is not in this rank's block", outside);
    }
  });
}

TEST_F(CudaCopyEngines, CopyInCapturesThatAlternateAndOutsideOfThem) {
  as_callers([&](const Caller& caller) {
    // The first call allocates, which would invalidate the captures of all ranks.
    run_collective(*caller.group, caller.call(Collective::allgather, caller.send, kUnit));
    meet();

    // Streams of this rank's own.
    void* const captured[] = {caller.recv, caller.recv + 1};
    for (void* const stream : captured) {
      fake_cuda::begin_capture(stream);
    }

    for (void* const stream : {captured[0], captured[1], caller.stream, captured[0]}) {
      CollectiveCall call = caller.call(Collective::allgather, caller.send, kUnit);
      call.stream = stream;
      run_collective(*caller.group, call);
    }

    for (void* const stream : captured) {
      fake_cuda::end_capture(stream);
    }
  });
}
}  // namespace
}  // namespace symm
