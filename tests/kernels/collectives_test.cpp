// Every collective, algorithm, type and operation against the reference, in many shapes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/world.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"

namespace symm::testing {
namespace {
using support::for_each_combination;

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::reduce_scatter,
    Collective::allgather, Collective::broadcast, Collective::reduce, Collective::alltoall,
    Collective::scan, Collective::exscan};
constexpr Algorithm kAlgorithms[] = {Algorithm::automatic, Algorithm::ll, Algorithm::one_shot,
    Algorithm::two_shot, Algorithm::two_shot_staged, Algorithm::hybrid_cube_mesh};

constexpr Case::Place kPlaces[] = {Case::Place::out, Case::Place::in, Case::Place::mixed};

World world_of(int size) { return {.size = size, .scratch_bytes = host::minimum_scratch(size)}; }

void run_possible(const World& world, std::vector<Case> cases) {
  std::erase_if(cases, [&](const Case& c) { return !c.is_possible(world.size); });
  EXPECT_FALSE(cases.empty());
  world.run(cases);
}

void vary(Case& c, Algorithm algorithm, int size, unsigned turn) {
  c.algorithm = algorithm;
  c.root = static_cast<int>(turn % static_cast<unsigned>(size));
  c.symmetric = algorithm == Algorithm::two_shot || turn % 2 == 0;
}

class Collectives : public ::testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(Collectives, AllTypesAndOperations) {
  const auto [collective, size] = GetParam();
  std::vector<Case> cases;
  unsigned turn = 0;

  const auto add = [&](DType dtype, Op op, Algorithm algorithm, size_t count) {
    if (!traits(collective).has_op && op != Op::sum) return;
    if (size > 8 && count > 65) return;

    Case c{.collective = collective, .dtype = dtype, .op = op, .count = count};
    vary(c, algorithm, size, turn);
    c.place = kPlaces[turn % 3];
    c.misalignment = turn % 5 < 3 ? 0 : turn % 5 - 2;
    ++turn;
    cases.push_back(c);
  };
  for_each_combination(std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
                           std::span(kAlgorithms), std::array<size_t, 4>{1, 7, 65, 333}),
      add);

  run_possible(world_of(size), cases);
}

// Counts around what fits into one line, and into one chunk of every kind.
std::vector<size_t> awkward_counts(Collective collective, DType dtype, const World& world) {
  std::vector<size_t> counts = {0, 1, 2, 3, 7, 13, 63, 64, 65, 1000};
  const auto size = static_cast<size_t>(world.size);
  const bool in_blocks = traits(collective).send_per_rank;
  const std::vector<size_t> divisors =
      in_blocks ? std::vector<size_t>{3 * size} : std::vector<size_t>{3, 5, 7};

  for (const size_t divisor : divisors) {
    const size_t chunk = world.scratch_bytes / divisor / 64 * 64 / size_of(dtype);
    if (chunk == 0) continue;  // a single rank's scratch is not used
    for (const size_t chunks : {1U, 2U, 3U, 4U}) {
      for (const size_t nearby : {chunk * chunks - 1, chunk * chunks, chunk * chunks + 1}) {
        counts.push_back(nearby);
      }
    }
  }

  counts.push_back(world.scratch_bytes / size_of(dtype) / (in_blocks ? size : 1));
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

TEST_P(Collectives, AwkwardCountsPlacesAndAlignments) {
  const auto [collective, size] = GetParam();
  const World world = world_of(size);
  std::vector<Case> cases;
  unsigned turn = 0;

  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const auto add = [&](size_t count, Algorithm algorithm, Case::Place place) {
      if (size > 8 && (turn++ % 9 != 0 || count > 600)) return;
      Case c{.collective = collective, .dtype = dtype, .count = count, .place = place};
      vary(c, algorithm, size, turn);
      c.misalignment = turn % 4;
      c.llc_bytes = turn % 3 == 0 ? 64 : 0;
      ++turn;
      cases.push_back(c);
    };
    for_each_combination(std::tuple(awkward_counts(collective, dtype, world),
                             std::span(kAlgorithms), std::span(kPlaces)),
        add);
  }

  run_possible(world, cases);
}

TEST_P(Collectives, LargerThanTheCacheBlocks) {
  const auto [collective, size] = GetParam();
  if (size > 8) GTEST_SKIP() << "too much data for many ranks";

  World world = world_of(size);
  world.scratch_bytes = 256 * 1024;
  std::vector<Case> cases;

  for (const Algorithm algorithm : kAlgorithms) {
    for (const bool symmetric : {false, true}) {
      for (const size_t llc : {size_t{0}, size_t{1024}}) {
        // The operands are larger than scratch. A reduce-scatter or an all-to-all needs a share of
        // scratch for each rank.
        const size_t count =
            traits(collective).send_per_rank ? 90011 / static_cast<size_t>(size) : 90011;
        cases.push_back({.collective = collective,
            .count = count,
            .root = size - 1,
            .algorithm = algorithm,
            .symmetric = symmetric,
            .misalignment = 4,
            .llc_bytes = llc});
      }
    }
  }

  run_possible(world, cases);
}

// Trees of all numbers of ranks up to 16, by every algorithm.
class TreeOrder : public ::testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(TreeOrder, HasTheBitsOfTheReference) {
  const auto [collective, size] = GetParam();
  std::vector<Case> cases;
  unsigned turn = 0;

  const auto add = [&](DType dtype, Op op, Algorithm algorithm, size_t count) {
    if (!depends_on_order(dtype, op)) return;
    if (size > 8 && count > 65) return;

    Case c{.collective = collective, .dtype = dtype, .op = op, .count = count};
    vary(c, algorithm, size, turn);
    c.place = kPlaces[turn % 3];
    c.misalignment = turn % 4;
    c.order = Order::tree;
    c.llc_bytes = turn % 7 == 0 ? 64 : 0;
    ++turn;
    cases.push_back(c);
  };
  for_each_combination(std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
                           std::span(kAlgorithms), std::array<size_t, 5>{1, 3, 14, 65, 1009}),
      add);

  run_possible(world_of(size), cases);
}

// ThreadSanitizer takes ten times as long.
#ifdef SYMM_UNDER_TSAN
constexpr int kSizes[] = {2, 3, 5, 16, 64};
constexpr int kTrees[] = {4, 6, 8};
#else
constexpr int kTrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64};
constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 64};
#endif
std::string name_of(const ::testing::TestParamInfo<std::tuple<Collective, int>>& test) {
  return std::string(collective_name(std::get<0>(test.param))) + "_" +
         std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
    ::testing::Combine(::testing::ValuesIn(kCollectives), ::testing::ValuesIn(kSizes)), name_of);
INSTANTIATE_TEST_SUITE_P(Ranks, TreeOrder,
    ::testing::Combine(
        ::testing::Values(Collective::allreduce, Collective::reduce_scatter, Collective::reduce),
        ::testing::ValuesIn(kTrees)),
    name_of);
}  // namespace
}  // namespace symm::testing
