// SPDX-License-Identifier: Apache-2.0
//
// Ranks are delayed at random between any two steps, and calls of all kinds follow one another with no barrier between: what one
// rank overwrites while another still needs it shows as a wrong result.
#include <gtest/gtest.h>

#include <random>

#include "kernels/host/plan.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/world.hpp"

namespace symm::testing {
namespace {

Case any_case(std::minstd_rand& random, int size) {
  const auto pick = [&](unsigned below) { return static_cast<int32_t>(random() / 7 % below); };
  for (;;) {
    Case c;
    c.collective = static_cast<Collective>(pick(6));
    c.dtype = reference::kDTypes[pick(12)];
    c.op = static_cast<Op>(pick(5));
    c.count = static_cast<size_t>(pick(pick(2) ? 12 : 700));
    c.root = pick(static_cast<unsigned>(size));
    c.algorithm = static_cast<Algorithm>(pick(6));
    c.symmetric = pick(2) == 0;
    c.place = static_cast<Case::Place>(pick(3));
    c.misalignment = static_cast<size_t>(pick(3));
    host::PlanInput input;
    input.collective = c.collective;
    input.dtype = c.dtype;
    input.count = c.count;
    input.size = size;
    input.algorithm = c.algorithm;
    if (host::refuse(input, c.symmetric && (c.collective != Collective::alltoall || c.place == Case::Place::out)).empty())
      return c;
  }
}

class Protocol : public ::testing::TestWithParam<int> {};

TEST_P(Protocol, DelayedRanksAndMixedCalls) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    World world;
    world.size = GetParam();
    world.scratch_bytes = host::minimum_scratch(world.size);
    world.delays = true;
    world.seed = seed;
    std::minstd_rand random(seed * 977 + static_cast<unsigned>(world.size));
    std::vector<Case> cases;
    for (int i = 0; i < 150; ++i) cases.push_back(any_case(random, world.size));
    world.run(cases);
  }
}

// Data flows from or to one rank: nothing but the wait for the previous call keeps ranks from running away.
TEST_P(Protocol, OneDirectionOnly) {
  for (const Algorithm algorithm : {Algorithm::ll, Algorithm::one_shot, Algorithm::two_shot_staged, Algorithm::automatic})
    for (const bool rotating : {false, true}) {
      World world;
      world.size = GetParam();
      world.scratch_bytes = host::minimum_scratch(world.size);
      world.delays = true;
      std::vector<Case> cases;
      for (int i = 0; i < 60; ++i) {
        Case c;
        c.collective = i / 10 % 2 == 0 ? Collective::broadcast : Collective::reduce;
        c.dtype = DType::i32;
        c.count = algorithm == Algorithm::ll ? 14 : static_cast<size_t>(20 + 37 * i);
        c.root = rotating ? i % world.size : 0;
        c.algorithm = algorithm;
        cases.push_back(c);
      }
      world.run(cases);
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Protocol, ::testing::Values(2, 3, 5, 8), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace symm::testing
