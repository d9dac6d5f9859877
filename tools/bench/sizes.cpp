// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tools/bench/options.hpp"

namespace symm::tool {

std::vector<uint64_t> sizes(const BenchOptions& options) {
  std::vector<uint64_t> out;
  for (auto size = static_cast<double>(options.begin); size <= static_cast<double>(options.end); size *= options.factor) {
    const auto bytes = static_cast<uint64_t>(size);
    if (out.empty() || bytes > out.back()) out.push_back(bytes);
    if (size == 0) size = 1;
  }
  return out;
}

int iterations_for(const BenchOptions& options, uint64_t bytes) {
  if (options.iterations > 0) return options.iterations;
  constexpr uint64_t volume = uint64_t{64} << 20;
  return static_cast<int>(std::clamp<uint64_t>(volume / std::max<uint64_t>(bytes, 1), 20, 500));
}

}  // namespace symm::tool
