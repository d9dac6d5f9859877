// Groups of more than 16 ranks on the fake driver: 72 ranks that are threads, each with a device of
// its own.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
constexpr int kMany = cuda::kMaxRanks;

struct CudaLargeGroup : OnFakeDriver {
  void SetUp() override {
    const uint64_t most = descriptors_.raise();
    if (most < 16384) {
      GTEST_SKIP() << "72 ranks in one process need 16384 descriptors; `ulimit -Hn` is " << most;
    }
    fake_cuda::settings().devices = {.count = kMany + 1, .first = 0};
    fake_cuda::launches();
  }
  void TearDown() override {
    OnFakeDriver::TearDown();
    fake_cuda::settings().devices = {};
  }

 private:
  const support::Limit descriptors_{RLIMIT_NOFILE};
};

// The words of a rank as a kernel of the group was told.
using Words = cuda::ControlWordsOf<cuda::kMaxRanks>;
Words& words_of(const cuda::BarrierArgsOf<cuda::kMaxRanks>& args, int rank) {
  return *reinterpret_cast<Words*>(args.comm.control[rank]);
}

// Does the work of symm_large_barrier, as far as the words say that ranks come or have left.
std::function<bool()> barrier(const void* arguments) {
  const auto args = *static_cast<const cuda::BarrierArgsOf<cuda::kMaxRanks>*>(arguments);
  if (args.comm.size == 0) return [] { return true; };
  return [args, claimed = std::map<int, uint32_t>()]() mutable {
    Words& mine = words_of(args, args.comm.rank);
    auto& told =
        *reinterpret_cast<cuda::ToldOf<cuda::kMaxRanks>*>(args.comm.record + cuda::kToldAt);
    bool over = true;
    for (int rank = 0; rank < args.comm.size; ++rank) {
      if (!args.ranks.has(rank)) continue;
      if (!claimed.contains(rank)) {
        claimed[rank] = ++std::atomic_ref(mine.barrier_taken[args.channel][rank]);
        ++std::atomic_ref(words_of(args, rank).from_peers.barrier[args.channel][args.comm.rank]);
      }
      const auto come = std::atomic_ref(mine.from_peers.barrier[args.channel][rank]).load();
      const auto departed = std::atomic_ref(told.departed.word[rank / 32]).load();
      over = over && (come >= claimed[rank] || (departed >> rank % 32 & 1U) != 0);
    }
    return over;
  };
}

TEST_F(CudaLargeGroup, SeventyTwoRanksShareMemoryAndIssueEveryKindOfCall) {
  std::barrier<> together(kMany);
  as_groups(kMany, [&](int rank, const auto& group) {
    ASSERT_EQ(group->size(), kMany);
    EXPECT_EQ(group->transport().max_ranks(), kMany);

    // On the stream of all threads one rank would wait behind another.
    int of_rank = 0;
    void* const stream = &of_rank;

    // Every rank reads what every other one has stored.
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    *reinterpret_cast<int*>(memory->pointer(rank)) = 100 + rank;
    group->barrier({}, 0, 0, stream);
    together.arrive_and_wait();
    for (int peer = 0; peer < kMany; ++peer) {
      ASSERT_EQ(*reinterpret_cast<int*>(memory->pointer(peer)), 100 + peer);
      EXPECT_EQ(memory->pointer_table()[peer], memory->pointer(peer));
      EXPECT_EQ(memory->pad_table()[peer], memory->pad(peer));
    }

    // A signal from each rank to the next, by words that the pads have for each source.
    memory->send_signal((rank + 1) % kMany, 3, SignalOp::add, 7, stream);
    memory->wait_signal_value(
        {.rank = (rank + kMany - 1) % kMany, .channel = 3, .compare = Compare::ge, .value = 7}, 0,
        nullptr, stream);
    if (rank % 24 == 0) {
      EXPECT_TRUE(support::eventually([&] { return fake_cuda::idle(stream); }));
      EXPECT_EQ(memory->look_at_signal((rank + kMany - 1) % kMany, 3).value, 7U);
    }

    // Barriers of some ranks: of the last two, which are not in the first word of a set.
    const int32_t last[] = {kMany - 2, kMany - 1};
    if (rank >= kMany - 2) group->barrier(last, 1, 0, stream);

    std::byte* const block = memory->pointer(rank);
    for (const size_t count : {100, 1000, 4000}) {
      run_collective(*group, call_of(Collective::allreduce, block, count, DType::bf16));
      run_collective(*group, call_of(Collective::allreduce, block, count, DType::i32));
      run_collective(*group, call_of(Collective::broadcast, block, count, DType::u8));
      run_collective(*group, call_of(Collective::reduce, block, count, DType::f32));
    }
    CollectiveCall gather = call_of(Collective::allgather, block, 100, DType::u8);
    gather.recv = block + 8192;
    run_collective(*group, gather);
    run_collective(*group, call_of(Collective::alltoall, block, 64, DType::bf16));
    together.arrive_and_wait();

    if (rank == 0) {
      for (const auto& [kernel, count] : launched()) {
        const bool is_large = kernel.starts_with("symm_large_");
        EXPECT_TRUE(is_large || kernel == "symm_write_word") << kernel;
        if (kernel == "symm_large_barrier") {
          EXPECT_EQ(count, kMany + 2);
        }
      }
    }
    together.arrive_and_wait();
  });
}

TEST_F(CudaLargeGroup, KernelsHaveAThreadForEachRank) {
  as_groups(
      kMany,
      [&](int, const auto& group) {
        group->barrier({}, 0, 0, nullptr);
        const auto buffer = Buffer::allocate(*group, 1 << 20);
        run_collective(*group, call_of(Collective::allreduce, buffer->data(), 10, DType::f32));
      },
      [](GroupConfig& config) { config.check = true; });
  std::set<std::string> seen;
  for (const auto& launch : fake_cuda::launches()) {
    if (launch.kernel == "symm_large_barrier" || launch.kernel == "symm_large_check") {
      EXPECT_EQ(launch.threads, 96U) << launch.kernel;
      seen.insert(launch.kernel);
    }
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(CudaLargeGroup, OneRankMoreIsRefused) {
  const std::string name = unique();
  support::as_threads(kMany + 1, [&](int rank) {
    const Failure failure =
        support::failure_of([&] { Group::create(config_of(rank, kMany + 1, name)); });
    EXPECT_EQ(failure.status, Status::unsupported);
    EXPECT_NE(failure.message.find("at most 72 ranks a group, not 73"), std::string::npos)
        << failure.message;
  });
}

// That rank 70 has left is told to kernels in the third word of the set. Rank 0 waits for it.
TEST_F(CudaLargeGroup, KernelsHearThatARankHasLeft) {
  constexpr int kGone = 70;
  fake_cuda::carry_out("symm_large_barrier", barrier);
  std::barrier<> together(kMany);
  as_groups(kMany, [&](int rank, std::shared_ptr<Group> group) {
    together.arrive_and_wait();
    if (rank == kGone) {
      group.reset();
      together.arrive_and_wait();
      return;
    }
    if (rank == 0) {
      int stream = 0;
      const int32_t both[] = {0, kGone};
      group->barrier(both, 0, 0, &stream);
      EXPECT_TRUE(support::eventually([&] { return fake_cuda::idle(&stream); }));
    }
    together.arrive_and_wait();
  });
  fake_cuda::carry_out("symm_large_barrier", [](const void*) { return [] { return true; }; });
}

// Groups of a few ranks, which are made of a large one and work in its stages, have kernels of
// small groups. A failure of theirs is told where the large group looks.
TEST_F(CudaLargeGroup, PartsOfItAreSmallGroupsInItsStages) {
  constexpr int kWhole = 20;
  std::barrier<> together(kWhole);
  as_groups(
      kWhole,
      [&](int rank, const auto& whole) {
        const auto part = whole->split(rank < 4 ? 0 : 1, 0);
        const auto buffer = Buffer::allocate(*whole, 1 << 20);
        together.arrive_and_wait();
        fake_cuda::launches();
        together.arrive_and_wait();

        if (rank == 0) {
          const auto launch_of = [&](Group& group) {
            CollectiveCall call =
                call_of(Collective::allreduce, buffer->data(), 10'000, DType::bf16);
            call.algorithm = Algorithm::two_shot_staged;
            run_collective(group, call);
            return fake_cuda::launches().at(0);
          };
          const auto all = launch_of(*whole);
          const auto of_part = launch_of(*part);
          EXPECT_EQ(all.kernel, "symm_large_pipeline_bf16");
          EXPECT_EQ(of_part.kernel, "symm_pipeline_bf16_4");
          EXPECT_EQ(of_part.stages[1], all.stages[1]);

          part->fail({Status::aborted, 0, 0, "a test"});
          const auto& words = *reinterpret_cast<const Words*>(all.stages[0]);
          EXPECT_TRUE(
              support::eventually([&] { return std::atomic_ref(words.spoilt).load() == 1; }));
        }
        together.arrive_and_wait();
      },
      [](GroupConfig& config) { config.shared_scratch = true; });
}

// What a launch of a small group copies, and the control block that it clears, are no larger than
// when 16 ranks were the most. Older drivers take arguments of 4 KB.
TEST(CudaLargeGroups, SmallGroupsKeepTheirStructs) {
  using namespace cuda;
  EXPECT_EQ(sizeof(DeviceCommOf<kSmallRanks>), 368U);
  EXPECT_LE(sizeof(CollectiveArgsOf<kSmallRanks>), 784U);
  EXPECT_LE(sizeof(PiecesArgsOf<kSmallRanks>), 1368U);
  EXPECT_LE(sizeof(ControlWordsOf<kSmallRanks>), 257'088U);
  EXPECT_LE(sizeof(StageArgsOf<kMaxRanks>), 4096U);
  EXPECT_LE(sizeof(RmsNormArgsOf<kMaxRanks>), 4096U);
  EXPECT_LE(sizeof(CombineArgsOf<kMaxRanks>), 4096U);
}

// So that these kernels can be tried where there are few devices.
TEST_F(CudaLargeGroup, SmallGroupsHaveItsKernelsIfTheTableSaysSo) {
  const std::string before = getenv("SYMM_CUDA_TUNE");
  setenv("SYMM_CUDA_TUNE", (before + ",large=1").c_str(), 1);
  as_groups(3, [&](int, const auto& group) {
    const auto buffer = Buffer::allocate(*group, 1 << 20);
    for (const DType dtype : {DType::bf16, DType::i32}) {
      run_collective(*group, call_of(Collective::allreduce, buffer->data(), 10, dtype));
      run_collective(*group, call_of(Collective::allreduce, buffer->data(), 100'000, dtype));
    }
    CollectiveCall forced = call_of(Collective::allreduce, buffer->data(), 10, DType::bf16);
    forced.algorithm = Algorithm::one_shot;
    const Failure refused = support::failure_of([&] { plan_collective(*group, forced); });
    EXPECT_NE(refused.message.find("of groups of up to 16 ranks"), std::string::npos)
        << refused.message;
  });
  setenv("SYMM_CUDA_TUNE", before.c_str(), 1);
  EXPECT_EQ(launched(), (std::map<std::string, int>{{"symm_large_ll_reduce", 6},
                            {"symm_large_pipeline_any", 3}, {"symm_large_pipeline_bf16", 3}}));
}
}  // namespace
}  // namespace symm
