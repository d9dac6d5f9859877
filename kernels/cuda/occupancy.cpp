// The number of blocks that a launch may have, so that all groups of a device can be
// on it at once.
#include "kernels/cuda/occupancy.hpp"

#include <algorithm>

#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
int max_blocks_of(int multiprocessors, int size, int on_one, const Tuning& tuning) {
  multiprocessors = std::min(multiprocessors, tuning.multiprocessors);
  const int reserved = std::max(2, multiprocessors / 32);
  const int left_out = size == 2 && on_one == 1 ? 2 : 1;
  const int at_once = std::max(1, on_one * tuning.groups - left_out);
  return std::max(1, 2 * (multiprocessors - reserved) / at_once);
}
}  // namespace symm::cuda
