#include "kernels/host/plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include "kernels/collective.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/world.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"

namespace symm::host {
namespace {
using support::for_each_combination;

PlanInput allreduce(size_t count, int size = 2) {
  PlanInput input;
  input.collective = Collective::allreduce;
  input.dtype = DType::f32;
  input.count = count;
  input.size = size;
  input.scratch_bytes = 1 << 20;
  input.llc_bytes = 32 << 20;
  input.tuning = testing::tuning_for(size);
  return input;
}

TEST(Plan, GrowsWithTheMessage) {
  EXPECT_EQ(plan(allreduce(0)).algorithm, Algorithm::one_shot);
  EXPECT_EQ(plan(allreduce(1)).algorithm, Algorithm::ll);
  EXPECT_EQ(plan(allreduce(14)).algorithm, Algorithm::ll);
  EXPECT_EQ(plan(allreduce(15)).algorithm, Algorithm::one_shot);

  const Plan large = plan(allreduce(1 << 20));
  EXPECT_EQ(large.algorithm, Algorithm::two_shot);
  EXPECT_TRUE(large.entered);
  EXPECT_TRUE(large.zero_copy);
  EXPECT_FALSE(large.nontemporal);
  EXPECT_TRUE(plan(allreduce(8 << 20)).nontemporal);

  int last = 0;
  for (size_t count = 1; count < (1 << 22); count = count * 5 / 4 + 1) {
    const int now = static_cast<int>(plan(allreduce(count)).algorithm);
    EXPECT_GE(now, last) << count;
    last = now;
  }
}

TEST(Plan, ManyRanksShareTheWorkSooner) {
  const size_t count = 250;
  EXPECT_EQ(plan(allreduce(count, 2)).algorithm, Algorithm::one_shot);
  EXPECT_EQ(plan(allreduce(count, 16)).algorithm, Algorithm::two_shot);
}

TEST(Plan, FollowsItsThresholds) {
  PlanInput input = allreduce(14);
  input.tuning = {16, 4096, 128};
  EXPECT_EQ(plan(input).algorithm, Algorithm::one_shot);
  input.count = 4;
  EXPECT_EQ(plan(input).algorithm, Algorithm::ll);
  input.count = 1024;
  EXPECT_EQ(plan(input).algorithm, Algorithm::one_shot);
  EXPECT_NE(explain(input, plan(input)).find("4096"), std::string::npos);
  input.count = 1025;
  EXPECT_EQ(plan(input).algorithm, Algorithm::two_shot);
  // Two ranks share the chunk.
  EXPECT_EQ(settle(input, plan(input), false).chunk_bytes, 256U);

  // The threshold of LL counts no further than what fits into a line.
  input.tuning = {1000, 0, 128};
  input.count = 15;
  EXPECT_EQ(plan(input).algorithm, Algorithm::two_shot);

  // A message that scratch cannot hold goes in chunks.
  input.tuning.one_shot_max = 8 << 20;
  input.count = 2 << 20;
  EXPECT_EQ(plan(input).algorithm, Algorithm::one_shot);
  EXPECT_GT(plan(input).chunk_bytes, 0U);
}

TEST(Plan, EveryBlockCountsWhereThereIsOnePerRank) {
  PlanInput input = allreduce(14, 2);
  input.collective = Collective::alltoall;
  EXPECT_EQ(plan(input).algorithm, Algorithm::one_shot);
  input.count = 7;
  EXPECT_EQ(plan(input).algorithm, Algorithm::ll);
}

TEST(Settle, PrivateMemoryIsStaged) {
  const PlanInput input = allreduce(1 << 20);
  const Plan first = plan(input);
  EXPECT_EQ(settle(input, first, true).algorithm, Algorithm::two_shot);
  const Plan staged = settle(input, first, false);
  EXPECT_EQ(staged.algorithm, Algorithm::two_shot_staged);
  EXPECT_TRUE(staged.entered);
  EXPECT_FALSE(staged.zero_copy);
  EXPECT_GT(staged.chunk_bytes, 0U);
  const PlanInput small = allreduce(100);
  EXPECT_EQ(settle(small, plan(small), false).algorithm, Algorithm::one_shot);
}

TEST(Plan, ChunksFitIntoScratch) {
  const std::array collectives = {Collective::allreduce, Collective::reduce_scatter,
      Collective::allgather, Collective::broadcast, Collective::reduce, Collective::alltoall,
      Collective::scan, Collective::exscan};
  for (const int size : {2, 3, 8, 64, 1000}) {
    const std::array scratches = {
        minimum_scratch(size), minimum_scratch(size) + 72, size_t{1} << 20, size_t{64} << 20};
    for_each_combination(std::tuple(scratches, collectives,
                             std::array{Algorithm::one_shot, Algorithm::two_shot_staged,
                                 Algorithm::hybrid_cube_mesh}),
        [&](size_t scratch, Collective collective, Algorithm algorithm) {
          PlanInput input = allreduce(1 << 24, size);
          input.collective = collective;
          input.algorithm = algorithm;
          input.scratch_bytes = scratch;
          if (scratch < minimum_scratch(size) || !refuse(input, false).empty()) return;

          const Plan chosen = plan(input);
          const size_t pieces = traits(collective).send_per_rank ? static_cast<size_t>(size) : 1;
          if (algorithm == Algorithm::one_shot && input.count * 4 * pieces <= scratch) {
            EXPECT_EQ(chosen.chunk_bytes, 0U) << "all at once";
            return;
          }

          ASSERT_GE(chosen.chunk_bytes, 64U);
          EXPECT_EQ(chosen.chunk_bytes % 64, 0U);
          EXPECT_LE(3 * chosen.chunk_bytes * pieces, scratch);
        });
    if (HasFatalFailure()) return;
  }
}

TEST(Refuse, SaysWhatIsInTheWay) {
  PlanInput input = allreduce(15);
  input.algorithm = Algorithm::ll;
  EXPECT_NE(refuse(input, true).find("56 bytes"), std::string::npos);
  EXPECT_NE(refuse(input, true).find("60"), std::string::npos);

  input.algorithm = Algorithm::two_shot;
  EXPECT_EQ(refuse(input, true), "");
  EXPECT_NE(refuse(input, false).find("symmetric"), std::string::npos);

  for (const auto multimem : {Algorithm::multimem_one_shot, Algorithm::multimem_two_shot}) {
    for (const int size : {1, 8}) {
      input.size = size;
      input.algorithm = multimem;
      EXPECT_NE(refuse(input, true).find("multicast"), std::string::npos);
    }
  }

  input.algorithm = Algorithm::hybrid_cube_mesh;
  EXPECT_EQ(refuse(input, false), "");
  input.collective = Collective::broadcast;
  EXPECT_NE(refuse(input, false).find("does allreduce, not broadcast"), std::string::npos);
  input.collective = Collective::allreduce;
  input.size = 7;
  EXPECT_NE(refuse(input, false).find("needs 8 ranks, not 7"), std::string::npos);

  input.algorithm = Algorithm::marked;
  EXPECT_NE(refuse(input, true).find("CUDA"), std::string::npos);

  input.algorithm = Algorithm::chain;
  EXPECT_NE(refuse(input, true).find("several machines"), std::string::npos);

  input.algorithm = static_cast<Algorithm>(77);
  EXPECT_NE(refuse(input, false).find("77"), std::string::npos);
}

TEST(Explain, IsShortAndNamesTheReason) {
  for_each_combination(
      std::tuple(std::array{0UL, 1UL, 100UL, 1UL << 20, 1UL << 40}, std::array{1, 2, 8},
          std::array{Algorithm::automatic, Algorithm::one_shot, Algorithm::two_shot,
              Algorithm::two_shot_staged, Algorithm::hybrid_cube_mesh},
          std::array{false, true}),
      [](size_t count, int size, Algorithm forced, bool symmetric) {
        PlanInput input = allreduce(count, size);
        input.algorithm = forced;
        const std::string why = explain(input, settle(input, plan(input), symmetric));
        EXPECT_FALSE(why.empty());
        EXPECT_LT(why.size(), 192U) << why;
      });

  const PlanInput input = allreduce(1 << 20);
  EXPECT_NE(explain(input, settle(input, plan(input), false)).find("private"), std::string::npos);
  EXPECT_NE(explain(input, plan(input)).find("symmetric"), std::string::npos);
}

TEST(RemoteOperands, AllToAllInPlaceCannotBeZeroCopy) {
  EXPECT_TRUE(remote_operands(Collective::alltoall).out_of_place);
  EXPECT_TRUE(remote_operands(Collective::scan).recv);
  EXPECT_FALSE(remote_operands(Collective::scan).out_of_place);
  EXPECT_FALSE(remote_operands(Collective::allreduce).out_of_place);
  EXPECT_TRUE(remote_operands(Collective::allreduce).recv);
  EXPECT_FALSE(remote_operands(Collective::allgather).recv);
  EXPECT_TRUE(remote_operands(Collective::broadcast).root_only);
}

TEST(Slices, CoverEverythingOnceAndCutAtLines) {
  for (const int parts : {1, 2, 3, 4, 7, 8, 64, 1000}) {
    for (const size_t bytes : {0U, 1U, 63U, 64U, 65U, 511U, 512U, 513U, 4096U, 100003U}) {
      size_t end = 0;
      size_t largest = 0;
      size_t smallest = bytes + 1;

      for (int i = 0; i < parts; ++i) {
        const Range part = slice(bytes, i, parts);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.begin, part.end);
        if (part.end != bytes) {
          EXPECT_EQ(part.end % kLine, 0U);
        }
        end = part.end;
        largest = std::max(largest, part.size());
        smallest = std::min(smallest, part.size());
      }

      EXPECT_EQ(end, bytes);
      EXPECT_LT(largest - smallest, 2 * kLine) << "a line, and what the last one lacks";
      EXPECT_EQ(slice(bytes, 0, parts).size(), largest)
          << "scratch for results is as large as the first";
    }
  }
}
}  // namespace
}  // namespace symm::host
