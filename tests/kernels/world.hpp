// Ranks as threads, with the weakest implementation of Sync that keeps its contract: ranks may be
// delayed at every step, and nothing beyond the contract is waited for. World::run() makes
// collective calls back to back and compares everything that they may and may not write.
#pragma once

#include <span>

#include "kernels/host/execution.hpp"

namespace symm::testing {
// Thresholds that tests count on. The thresholds of the library are in
// core/backend/plan_table.txt, which the kernels do not know.
inline host::Tuning tuning_for(int size) {
  return {56, 2048 / static_cast<size_t>(size), 32 * 1024};
}

struct Case {
  Collective collective = Collective::allreduce;
  DType dtype = DType::f32;
  Op op = Op::sum;
  size_t count = 0;
  int root = 0;
  Algorithm algorithm = Algorithm::automatic;
  bool symmetric = false;
  // Mixed: some ranks call in place.
  enum class Place { out, in, mixed } place = Place::out;
  // Bytes, to which every rank adds its number unless they are 0.
  size_t misalignment = 0;
  Order order = Order::ranks;
  // A small cache has non-temporal stores used.
  size_t llc_bytes = 0;

  // Whether zero copy is possible.
  bool all_direct() const {
    return symmetric && (collective != Collective::alltoall || place == Place::out);
  }

  // Whether the library takes the call.
  bool is_possible(int size) const;
};

struct World {
  int size = 1;
  // The bytes of one half of the scratch.
  size_t scratch_bytes = 0;
  // Ranks are delayed at random, by up to a few hundred microseconds.
  bool delays = false;
  unsigned seed = 1;

  // Runs all cases, many in one group of ranks, and adds a test failure for every rank and case
  // that is wrong.
  void run(std::span<const Case> cases) const;
};
}  // namespace symm::testing
