// Kernels of large groups, with more ranks than a word has bits. The tests of the pipeline and of
// pieces run with the kernels of large groups, too (CMakeLists.txt).
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_large_ll_reduce,
    symm_large_ll_move, symm_large_marked, symm_large_pipeline_f32, symm_large_pipeline_move;
extern "C" void symm_large_barrier(symm::cuda::BarrierArgs args);
extern "C" void symm_large_check(symm::cuda::CheckArgs args);

namespace symm::cuda::model {
namespace {
static_assert(kRoom == kMaxRanks);
// More than small groups have. Sets of ranks have a second word from kMany on.
constexpr int kSome = 18;
constexpr int kMany = 34;

// The operands of all ranks for one call of floats, and what each rank is to get.
struct Operands {
  Operands(Collective which, int ranks, size_t count, int root = 0, bool tree = false)
      : collective(which), in_tree(tree) {
    const auto n = static_cast<size_t>(ranks);
    const CollectiveTraits what = traits(collective);
    const auto value = [](size_t rank, size_t i) {
      std::mt19937 random(static_cast<unsigned>(rank * 7 + i));
      return draw_number(random);
    };
    const auto sum = [&](size_t i) {
      std::vector<float> numbers;
      for (size_t rank = 0; rank < n; ++rank) {
        numbers.push_back(value(rank, i));
      }
      return sum_of(numbers, in_tree);
    };
    for (size_t rank = 0; rank < n; ++rank) {
      auto& mine = send.emplace_back(count * (what.send_per_rank ? n : 1));
      for (size_t i = 0; i < mine.size(); ++i) {
        mine[i] = value(rank, i);
      }
      recv.emplace_back(count * n, -1.0F);
    }

    for (size_t rank = 0; rank < n; ++rank) {
      auto& wanted = right.emplace_back(count * n, -1.0F);
      const auto me = static_cast<int>(rank);
      if (!is_delivered_to(collective, me, root)) continue;
      for (size_t i = 0; i < count; ++i) {
        for (size_t source = 0; source < n; ++source) {
          switch (collective) {
            case Collective::allreduce:
            case Collective::reduce: wanted[i] = sum(i); break;
            case Collective::reduce_scatter: wanted[i] = sum(rank * count + i); break;
            case Collective::allgather: wanted[source * count + i] = value(source, i); break;
            case Collective::alltoall:
              wanted[source * count + i] = value(source, rank * count + i);
              break;
            default: wanted[i] = value(static_cast<size_t>(root), i); break;
          }
        }
      }
    }
  }

  Collective collective;
  bool in_tree;
  std::vector<std::vector<float>> send;
  std::vector<std::vector<float>> recv;
  std::vector<std::vector<float>> right;
};

constexpr std::array kAll{Collective::allreduce, Collective::reduce_scatter, Collective::reduce,
    Collective::allgather, Collective::alltoall, Collective::broadcast};

// Several calls one after the other, so that slots come round again.
void run_calls(const Ranks::Options& options, const std::vector<Collective>& collectives,
    size_t count, void (*reduces)(CollectiveArgs), void (*moves)(CollectiveArgs),
    const std::function<void(int rank, CollectiveArgs& args)>& change = {}) {
  constexpr int kRoot = 17;
  Ranks ranks(options);
  std::vector<Operands> calls;
  for (const Collective collective : collectives) {
    calls.emplace_back(collective, options.ranks, count, kRoot, calls.size() % 2 == 0);
  }
  for (Operands& call : calls) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      CollectiveArgs args = args_of(ranks, r, call.collective, call.send[r], call.recv[r], count);
      args.root = kRoot;
      args.in_tree = call.in_tree ? 1 : 0;
      args.detail = static_cast<uint64_t>(&call - calls.data());
      if (change) change(rank, args);
      ranks.launch(rank, traits(call.collective).has_op ? reduces : moves, args);
    }
  }

  ASSERT_TRUE(ranks.run());
  for (int rank = 0; rank < options.ranks; ++rank) {
    ASSERT_EQ(ranks.record(rank).state, 0U) << rank;
  }
  for (const Operands& call : calls) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const bool keeps = !is_delivered_to(call.collective, rank, kRoot);
      ASSERT_TRUE(keeps || call.recv[r] == call.right[r])
          << collective_name(call.collective) << " on rank " << rank;
    }
  }
}

// Blocks of a call with a root have a warp for tokens.
TEST(LargeKernels, LlDoesEveryCollective) {
  for (unsigned seed = 1; seed < 3; ++seed) {
    const Ranks::Options options{.ranks = kSome, .seed = seed, .threads = kWarp + 2, .slot = 2048};
    run_calls(options,
        {Collective::allreduce, Collective::allgather, Collective::broadcast, Collective::reduce,
            Collective::alltoall, Collective::reduce_scatter, Collective::allreduce},
        5, symm_large_ll_reduce, symm_large_ll_move);
  }
}

TEST(LargeKernels, PipelineDoesEveryCollective) {
  constexpr uint64_t kTile = 16;
  for (const Collective collective : kAll) {
    const Ranks::Options options{.ranks = kSome, .threads = kSome, .slot = kTile, .work_groups = 1};
    const size_t count = collective == Collective::allreduce ? 100 : 5;
    run_calls(options, {collective, collective}, count, symm_large_pipeline_f32,
        symm_large_pipeline_move, [&](int rank, CollectiveArgs& args) {
          args.tile = kTile;
          args.spares_root = collective == Collective::broadcast ? 1 : 0;
          const auto owners =
              static_cast<uint64_t>(kSome) - static_cast<uint64_t>(args.spares_root);
          const uint64_t parts = traits(collective).cut_into_slices ? owners : 1;
          args.tiles = (args.unit + parts * kTile - 1) / (parts * kTile);
          args.copies_out = is_delivered_to(collective, rank, args.root) ? 1 : 0;
        });
  }
}

TEST(LargeKernels, BarriersAndChecksReachEveryRank) {
  Ranks ranks({.ranks = kMany, .threads = kMany});
  std::vector<int> begun(kMany);
  bool too_early = false;
  RankSet some{};
  for (const int rank : {1, 31, 32, 33}) {
    some.add(rank);
  }

  for (int round = 1; round <= 2; ++round) {
    for (int rank = 0; rank < kMany; ++rank) {
      const BarrierArgs all{ranks.comm(rank), RankSet::first(kMany), 2};
      ranks.launch(rank,
          [&, all, rank, round](const CollectiveArgs&) {
            begun[static_cast<size_t>(rank)] = round;
            symm_large_barrier(all);
            for (const int other : begun) {
              too_early = too_early || other < round;
            }
          },
          {});
      if (some.has(rank)) {
        const BarrierArgs part{ranks.comm(rank), some, 5};
        ranks.launch(rank, [part](const CollectiveArgs&) { symm_large_barrier(part); }, {});
      }
      // Rank 32 says something else.
      const uint64_t detail = round == 2 && rank == 32 ? 8 : 7;
      const CheckArgs check{ranks.comm(rank), detail, 1, 0, 0};
      ranks.launch(rank, [check](const CollectiveArgs&) { symm_large_check(check); }, {});
    }
  }
  ASSERT_TRUE(ranks.run());
  EXPECT_FALSE(too_early);
  for (int rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(ranks.record(rank).trouble, static_cast<uint32_t>(WaitError::mismatch)) << rank;
    if (rank != 32) {
      EXPECT_EQ(ranks.record(rank).peer, 32);
    }
  }
}

// A rank that does not come is named, and so is one that has left.
TEST(LargeKernels, TheRankThatIsMissingIsNamed) {
  constexpr int kMissing = 17;
  for (const bool has_left : {false, true}) {
    Ranks ranks({.ranks = kSome, .slot = 2048, .timeout_ns = has_left ? UINT64_MAX : 300'000});
    std::vector<Operands> call{Operands(Collective::allreduce, kSome, 4)};
    for (int rank = 0; rank < kSome; ++rank) {
      if (rank == kMissing) continue;
      if (has_left) ranks.told(rank).departed.add(kMissing);
      const auto r = static_cast<size_t>(rank);
      ranks.launch(rank, symm_large_ll_reduce,
          args_of(ranks, r, Collective::allreduce, call[0].send[r], call[0].recv[r], 4));
    }
    ASSERT_TRUE(ranks.run());
    for (int rank = 0; rank < kSome; ++rank) {
      if (rank == kMissing) continue;
      const ErrorRecord& record = ranks.record(rank);
      EXPECT_EQ(record.trouble,
          static_cast<uint32_t>(has_left ? WaitError::departed : WaitError::timeout));
      EXPECT_EQ(record.peer, kMissing);
    }
  }
}
}  // namespace
}  // namespace symm::cuda::model
