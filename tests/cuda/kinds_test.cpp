// Ranks whose calls on streams differ wait for each other on the device. They are told so by the
// names of both calls, long before a deadline where their hosts wait too, and at the deadline
// anyhow. The fake driver's streams do not go on as long as a test holds them.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
using std::chrono::milliseconds;
using Groups = std::shared_ptr<Group>;

constexpr int kRanks = 3;

// Holds up all streams and barriers from its making to its end.
class Held {
 public:
  Held() {
    *goes_on_ = false;
    fake_cuda::carry_out("symm_barrier",
        [goes_on = goes_on_](const void*) { return [goes_on] { return goes_on->load(); }; });
  }
  ~Held() { end(); }
  Held(Held&&) = delete;

  void stream(void* stream) const {
    fake_cuda::enqueue(stream, [goes_on = goes_on_] { return goes_on->load(); });
  }
  void end() const { *goes_on_ = true; }

 private:
  const std::shared_ptr<std::atomic<bool>> goes_on_ = std::make_shared<std::atomic<bool>>(false);
};

void* stream_of(int rank) {
  return reinterpret_cast<void*>(uintptr_t{80} + static_cast<uintptr_t>(rank));
}

// Makes a call on the stream of its rank, where it needs one.
struct Call {
  std::string name;  // in messages
  std::function<void(const Groups& group, std::byte* memory, void* stream)> make;
};

Call collective(Collective which, size_t count, const std::string& name) {
  return {name, [=](const Groups& group, std::byte* memory, void* stream) {
            CollectiveCall call = call_of(which, memory, count, DType::f32);
            if (which != Collective::allreduce) call.recv = memory + 65'536;
            call.op = which == Collective::allreduce ? Op::sum : Op{};
            call.timeout_ms = 20'000;
            call.stream = stream;
            run_collective(*group, call);
          }};
}
Call reducing(size_t count = 64) {
  return collective(
      Collective::allreduce, count, "allreduce(f32, sum, count " + std::to_string(count) + ")");
}
Call gathering() { return collective(Collective::allgather, 64, "allgather(f32, count 64)"); }
Call meeting_on(int channel) {
  return {"barrier on channel " + std::to_string(channel),
      [=](const Groups& group, std::byte*, void* stream) {
        group->barrier({}, channel, 20'000, stream);
      }};
}
Call finalizing() {
  return {"group_finalize", [](const Groups& group, std::byte*, void*) { group->finalize(0); }};
}
Call rendezvous() {
  return {"rendezvous", [](const Groups& group, std::byte*, void*) {
            Memory::rendezvous(group, Buffer::allocate(*group, 4096), 0);
          }};
}
Call splitting() {
  return {"group_split", [](const Groups& group, std::byte*, void*) { group->split(0, 0); }};
}

struct Pair {
  std::string name;
  Call common;
  Call odd;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.name; }

// Every rank makes its call, and then waits for what is on its stream.
void expect_mismatch(const Pair& pair, int odd, const std::function<void()>& before = {}) {
  const Held held;
  std::barrier<> over(kRanks);
  as_groups(kRanks, [&](int rank, const Groups& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    held.stream(stream_of(rank));
    const Call& call = rank == odd ? pair.odd : pair.common;
    const uint64_t began = now_ns();
    const Failure failure = support::failure_of([&] {
      call.make(group, memory->pointer(rank), stream_of(rank));
      if (before) before();
      group->synchronize(stream_of(rank), 20'000);
    });

    EXPECT_EQ(failure.status, Status::mismatch) << failure.message;
    EXPECT_EQ(failure.rank, odd) << failure.message;
    for (const Call& one : {pair.common, pair.odd}) {
      EXPECT_NE(failure.message.find("makes " + one.name), std::string::npos) << failure.message;
    }
    EXPECT_LT(now_ns() - began, 15'000 * kMillisecondNs) << "nearer to the deadline than to now";
    EXPECT_EQ(group->revocation().failure().status, Status::mismatch);
    over.arrive_and_wait();
    held.end();
  });
}

class CudaKinds : public testing::TestWithParam<Pair> {
 protected:
  void TearDown() override { EXPECT_EQ(left_in_the_end(), kNothing); }
};

TEST_P(CudaKinds, ThatDifferAreToldSoonAndByName) {
  for (const int odd : {0, 1, 2}) {
    expect_mismatch(GetParam(), odd);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CudaKinds,
    testing::Values(Pair{"BarrierAllreduce", meeting_on(0), reducing()},
        Pair{"AllreduceBarrier", reducing(), meeting_on(0)},
        Pair{"AllgatherBarrier", gathering(), meeting_on(7)},
        Pair{"BarriersOfTwoChannels", meeting_on(3), meeting_on(4)},
        Pair{"FinalizeAllreduce", finalizing(), reducing()},
        Pair{"BarrierFinalize", meeting_on(0), finalizing()},
        Pair{"RendezvousAllreduce", rendezvous(), reducing()},
        Pair{"AllreduceRendezvous", reducing(), rendezvous()},
        Pair{"BarrierRendezvous", meeting_on(0), rendezvous()},
        Pair{"BarrierSplit", meeting_on(0), splitting()},
        Pair{"AllreduceAllgather", reducing(), gathering()},
        Pair{"AllreducesOfTwoCounts", reducing(64), reducing(65)},
        Pair{"LargeAllreduceBarrier", reducing(60'000), meeting_on(1)}),
    [](const auto& pair) { return pair.param.name; });

using CudaKindsOfCalls = OnFakeDriver;

// The hosts do not wait, and a kernel passes its deadline.
TEST_F(CudaKindsOfCalls, ThatDifferAreNamedAtTheDeadlineAnyhow) {
  static std::atomic<bool> gives_up{true};
  fake_cuda::carry_out("symm_barrier", [](const void* arguments) -> std::function<bool()> {
    const cuda::DeviceComm comm = static_cast<const cuda::BarrierArgs*>(arguments)->comm;
    if (!gives_up) return [] { return true; };
    return gives_up_on(comm, 1);
  });

  std::barrier<> over(2);
  as_groups(2, [&](int rank, const Groups& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 4096), 0);
    const Call call = rank == 0 ? meeting_on(2) : reducing();
    call.make(group, memory->pointer(rank), stream_of(rank));
    over.arrive_and_wait();
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(1100));
      group->transport().device().check_device_errors();
    }
    over.arrive_and_wait();
    EXPECT_TRUE(support::eventually([&] { return group->revocation().revoked(); }));
    const Failure failure = group->revocation().failure();
    EXPECT_EQ(failure.status, Status::mismatch);
    EXPECT_EQ(failure.rank, 1);
    EXPECT_NE(failure.message.find("rank 0 makes barrier on channel 2, rank 1 makes allreduce"),
        std::string::npos)
        << failure.message;
  });
  gives_up = false;
}

// Rank 0 waits for a collective; rank 1 is in its barrier already, computes, and comes: neither the
// order of calls on different streams nor a slow rank is a mismatch.
TEST_F(CudaKindsOfCalls, OfARankThatStillComesAreNoMismatch) {
  const Held held;
  as_groups(2, [&](int rank, const Groups& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    held.stream(stream_of(rank));
    const auto call = [&](const Call& made) {
      made.make(group, memory->pointer(rank), stream_of(rank));
    };
    call(rank == 0 ? reducing() : meeting_on(0));
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(2500));
      call(reducing());
      held.end();
    }
    group->synchronize(stream_of(rank), 20'000);
    if (rank == 0) call(meeting_on(0));
    EXPECT_FALSE(group->revocation().revoked()) << group->revocation().failure().message;
  });
}

// Threads of one rank may issue the calls of several streams in any order.
TEST_F(CudaKindsOfCalls, OfSeveralThreadsMayCross) {
  const Held held;
  as_groups(2, [&](int rank, const Groups& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    const auto thread = [&](const Call& made, int number, bool comes_late) {
      return std::thread([&, made, number, comes_late] {
        void* const stream = stream_of(2 * rank + number);
        held.stream(stream);
        if (comes_late) std::this_thread::sleep_for(milliseconds(2500));
        made.make(group, memory->pointer(rank), stream);
        if (comes_late) held.end();
        group->synchronize(stream, 20'000);
      });
    };
    meeting_on(5).make(group, nullptr, stream_of(2 * rank));
    std::thread first = thread(reducing(), 0, rank == 0);
    std::thread second = thread(meeting_on(0), 1, rank == 1);
    first.join();
    second.join();
    EXPECT_FALSE(group->revocation().revoked()) << group->revocation().failure().message;
  });
}

// Graphs are replayed unseen.
TEST_F(CudaKindsOfCalls, OfGraphsAreNotCompared) {
  const Held held;
  std::barrier<> over(2);
  as_groups(2, [&](int rank, const Groups& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    if (rank == 0) {
      fake_cuda::begin_capture(stream_of(5));
      reducing().make(group, memory->pointer(rank), stream_of(5));
      fake_cuda::end_capture(stream_of(5));
    }
    held.stream(stream_of(rank));
    const Call call = rank == 0 ? meeting_on(0) : reducing();
    call.make(group, memory->pointer(rank), stream_of(rank));
    const Failure failure = support::failure_of([&] { group->synchronize(stream_of(rank), 2500); });
    EXPECT_EQ(failure.status, Status::timeout) << failure.message;
    over.arrive_and_wait();
    held.end();
  });
}
}  // namespace
}  // namespace symm
