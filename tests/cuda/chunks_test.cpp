// Calls in chunks on the fake driver, which carries out copies and the kernels of words, but none
// that moves data: what is issued in which order, and what lies behind a word when it is written.
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/number.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
constexpr int kMembers = 3;
constexpr size_t kShare = 1000;
constexpr size_t kChunk = 400;
constexpr size_t kChunks = 3;
constexpr size_t kMemory = 1 << 20;

// A rank whose operands and words lie in its own block.
struct Chunked {
  Chunked(int own_rank, const std::shared_ptr<Group>& own_group)
      : rank(own_rank),
        group(own_group),
        memory(Memory::rendezvous(group, Buffer::allocate(*group, kMemory), 0)),
        recv(memory->pointer(rank) + 4096),
        words(reinterpret_cast<uint32_t*>(memory->pointer(rank) + kMemory / 2)),
        epoch(words + kMembers * kChunks) {
    std::memset(words, 0, (kMembers * kChunks + 1) * sizeof(uint32_t));
    std::memset(recv, 0xff, kMembers * kShare);
    for (size_t i = 0; i < kShare; ++i) {
      own_part()[i] = byte_of(rank, i);
    }
  }

  static std::byte byte_of(int of, size_t i) {
    return static_cast<std::byte>((17 * static_cast<size_t>(of) + 3 * i) % 251);
  }
  std::byte* own_part() const { return recv + static_cast<size_t>(rank) * kShare; }

  CollectiveCall call(Collective collective, size_t count, uint32_t value) {
    CollectiveCall call = call_of(collective, recv, count, DType::u8);
    if (collective == Collective::allgather) call.send = own_part();
    if (collective == Collective::reduce_scatter) call.recv = recv + kMembers * kShare;
    call.stream = this;  // any pointer is a stream of the fake driver
    call.words.chunk_bytes = kChunk;
    call.words.value = value;
    if (collective == Collective::allgather) {
      call.words.progress = words;
    } else {
      call.words.ready = words;
    }
    call.scaling.factor = Number::of_bits(call.words.number(count));
    return call;
  }

  int rank;
  std::shared_ptr<Group> group;
  std::shared_ptr<Memory> memory;
  std::byte* recv;
  uint32_t* words;
  uint32_t* epoch;
};

class CudaChunks : public OnFakeDriver {
 protected:
  ~CudaChunks() override {
    fake_cuda::carry_out("symm_write_word", nullptr);
    fake_cuda::carry_out("symm_wait_word", nullptr);
  }
  void meet() { together_.arrive_and_wait(); }
  void as_chunked(const std::function<void(Chunked& caller)>& body) {
    as_groups(kMembers, [&](int rank, const auto& group) {
      Chunked caller(rank, group);
      meet();
      if (rank == 0) fake_cuda::launches();
      meet();
      try {
        body(caller);
      } catch (...) {
        together_.arrive_and_drop();  // so that the others do not wait for it
        throw;
      }
      meet();
    });
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
  }

  // What was launched on the stream of a rank: a word that is written (w) or awaited (a), a barrier
  // (b), a check (c), or a kernel that moves or combines (k).
  static std::string kinds_on(const std::vector<fake_cuda::Launch>& all, const void* stream) {
    std::string kinds;
    for (const fake_cuda::Launch& one : all) {
      if (one.stream != stream) continue;
      if (one.kernel == "symm_write_word") {
        kinds += 'w';
      } else if (one.kernel == "symm_wait_word") {
        kinds += 'a';
      } else if (one.kernel == "symm_barrier") {
        kinds += 'b';
      } else {
        kinds += one.kernel == "symm_check" ? 'c' : 'k';
      }
    }
    return kinds;
  }

 private:
  std::barrier<> together_{kMembers};
};

// When a word is written, its chunk is there, and the words before it were written.
TEST_F(CudaChunks, CopiedByEnginesAreThereWhenTheirWordsAreWritten) {
  std::mutex mutex;
  std::vector<Chunked*> callers;
  std::vector<size_t> written(kMembers, 0);
  fake_cuda::carry_out("symm_write_word", [&](const void* arguments) {
    return [&, args = *static_cast<const cuda::WriteArgs*>(arguments)] {
      if (args.word == 0) return true;
      const std::lock_guard lock(mutex);
      for (Chunked* caller : callers) {
        auto* const word = reinterpret_cast<uint32_t*>(args.word);
        if (word < caller->words || word >= caller->epoch) continue;
        const auto rank = static_cast<size_t>(caller->rank);
        const size_t step = written[rank] / kChunks;
        const size_t chunk = written[rank]++ % kChunks;
        const size_t part = (rank + step) % kMembers;
        EXPECT_EQ(word, caller->words + part * kChunks + chunk) << "the word is out of turn";
        EXPECT_NE(args.unless, 0U);
        for (size_t i = chunk * kChunk; i < std::min((chunk + 1) * kChunk, kShare); ++i) {
          EXPECT_EQ(caller->recv[part * kShare + i], Chunked::byte_of(static_cast<int>(part), i));
        }
        *word = static_cast<uint32_t>(args.value);
      }
      return true;
    };
  });

  as_chunked([&](Chunked& caller) {
    {
      const std::lock_guard lock(mutex);
      callers.push_back(&caller);
    }
    meet();
    CollectiveCall gather = caller.call(Collective::allgather, kShare, 7);
    gather.algorithm = Algorithm::copy_engine;
    const std::string reason = plan_collective(*caller.group, gather).reason;
    EXPECT_NE(reason.find("3 chunks of 400 bytes"), std::string::npos) << reason;
    run_collective(*caller.group, gather);
    meet();
    EXPECT_EQ(written[static_cast<size_t>(caller.rank)], kMembers * kChunks);
    EXPECT_EQ(std::vector<uint32_t>(caller.words, caller.epoch),
        std::vector<uint32_t>(kMembers * kChunks, 7));
    static std::vector<fake_cuda::Launch> all;
    if (caller.rank == 0) all = fake_cuda::launches();
    meet();
    EXPECT_EQ(kinds_on(all, &caller), "cwwwbwwwwwwb");
  });
}

// Each chunk is moved by a kernel, and then told; or awaited, and then combined.
TEST_F(CudaChunks, MovedByKernelsAreBetweenTheirWords) {
  as_chunked([&](Chunked& caller) {
    static std::vector<fake_cuda::Launch> all;
    const auto kinds = [&] {
      meet();
      if (caller.rank == 0) all = fake_cuda::launches();
      meet();
      return kinds_on(all, &caller);
    };

    run_collective(*caller.group, caller.call(Collective::allgather, kShare, 7));
    EXPECT_EQ(kinds(), "wwwkwkwkwkwkwkw");
    EXPECT_EQ(std::vector<uint32_t>(caller.words, caller.epoch),
        std::vector<uint32_t>(kMembers * kChunks, 7));

    run_collective(*caller.group, caller.call(Collective::allreduce, kShare, 7));
    EXPECT_EQ(kinds(), "akakak");
    run_collective(*caller.group, caller.call(Collective::reduce_scatter, kShare, 7));
    EXPECT_EQ(kinds(), "aaakaaakaaak");
  });
}

// A captured call takes the value of each replay.
TEST_F(CudaChunks, ReadTheirValueAtEachReplay) {
  as_chunked([&](Chunked& caller) {
    CollectiveCall gather = caller.call(Collective::allgather, kShare, 0);
    gather.words.pointer = caller.epoch;
    gather.algorithm = Algorithm::copy_engine;
    run_collective(*caller.group, gather);  // allocates what a capture must not
    meet();
    const fake_cuda::Graph graph =
        fake_cuda::graph_of(&caller, [&] { run_collective(*caller.group, gather); });
    for (const uint32_t value : {UINT32_MAX, 0U, 1U}) {
      *caller.epoch = value;
      fake_cuda::replay(graph, &caller);
      EXPECT_EQ(std::vector<uint32_t>(caller.words, caller.epoch),
          std::vector<uint32_t>(kMembers * kChunks, value));
    }
    meet();
  });
}

TEST_F(CudaChunks, ThatAreNeverReadyAreNamed) {
  as_chunked([&](Chunked& caller) {
    if (caller.rank == 0) {
      fake_cuda::carry_out("symm_wait_word", [](const void* arguments) {
        const auto args = *static_cast<const cuda::WaitWordArgsOf<cuda::kSmallRanks>*>(arguments);
        return [args] {
          auto* const record = reinterpret_cast<cuda::ErrorRecord*>(args.comm.record);
          if (args.wait.channel != 2 || args.comm.rank != 1) return true;
          record->trouble = static_cast<uint32_t>(cuda::WaitError::timeout);
          record->operation = args.comm.operation;
          record->peer = -1;
          record->channel = args.wait.channel;
          record->my_count = args.wait.value;
          record->peer_count = 6;
          std::atomic_ref(record->state).store(1, std::memory_order_release);
          return true;
        };
      });
    }
    meet();
    // The call may find out itself, or that another rank has.
    support::failure_of(
        [&] { run_collective(*caller.group, caller.call(Collective::allreduce, kShare, 7)); });
    meet();
    if (caller.rank == 1) {
      support::expect_failure(Status::timeout,
          {"options.ready[2] on device", "of rank 1 was 6, and had not reached 7"},
          [&] { caller.group->require_usable(); });
    }
  });
}
}  // namespace
}  // namespace symm
