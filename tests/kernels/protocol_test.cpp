// Ranks are delayed at random between any two steps, and calls of all kinds follow one another
// with no barrier between them. Memory that one rank overwrites while another still needs it
// shows as a wrong result.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/host/plan.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/world.hpp"
#include "tests/support/test.hpp"

namespace symm::testing {
namespace {
Case any_case(std::minstd_rand& random, int size) {
  const auto pick = [&](unsigned below) { return static_cast<int32_t>(random() / 7 % below); };
  for (;;) {
    Case c;
    constexpr Collective kScans[] = {Collective::scan, Collective::exscan};
    const int32_t one = pick(8);
    c.collective = one < 6 ? static_cast<Collective>(one) : kScans[one - 6];
    c.dtype = reference::kDTypes[pick(12)];
    c.op = static_cast<Op>(pick(8));
    c.count = static_cast<size_t>(pick(pick(2) ? 12 : 700));
    c.root = pick(static_cast<unsigned>(size));
    c.algorithm = static_cast<Algorithm>(pick(6));
    c.symmetric = pick(2) == 0;
    c.place = static_cast<Case::Place>(pick(3));
    c.misalignment = static_cast<size_t>(pick(3));
    if (c.is_possible(size)) return c;
  }
}

class Protocol : public ::testing::TestWithParam<int> {};

TEST_P(Protocol, DelayedRanksAndMixedCalls) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const World world{GetParam(), host::minimum_scratch(GetParam()), true, seed};
    std::minstd_rand random(seed * 977 + static_cast<unsigned>(world.size));
    std::vector<Case> cases;
    for (int i = 0; i < 150; ++i) {
      cases.push_back(any_case(random, world.size));
    }
    world.run(cases);
  }
}

// Data flows from or to one rank only, so that nothing but the wait for the previous call keeps
// a rank from running ahead of the others.
TEST_P(Protocol, OneDirectionOnly) {
  for (const Algorithm algorithm :
      {Algorithm::ll, Algorithm::one_shot, Algorithm::two_shot_staged, Algorithm::automatic}) {
    for (const bool rotating : {false, true}) {
      const World world{
          .size = GetParam(), .scratch_bytes = host::minimum_scratch(GetParam()), .delays = true};

      std::vector<Case> cases;
      for (int i = 0; i < 60; ++i) {
        cases.push_back({.collective = i / 10 % 2 == 0 ? Collective::broadcast : Collective::reduce,
            .dtype = DType::i32,
            .count = algorithm == Algorithm::ll ? 14 : static_cast<size_t>(20 + 37 * i),
            .root = rotating ? i % world.size : 0,
            .algorithm = algorithm});
      }

      world.run(cases);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, Protocol, ::testing::Values(2, 3, 5, 8), ::testing::PrintToStringParamName());
}  // namespace
}  // namespace symm::testing
