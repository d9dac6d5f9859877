#include "tools/bench/options.hpp"
#include <algorithm>
#include <array>

namespace symm::tool {
namespace {
constexpr std::array<OperationTraits, 7> operations = {{
    {"allreduce", SYMM_COLLECTIVE_ALLREDUCE, true, false, false},
    {"reduce_scatter", SYMM_COLLECTIVE_REDUCE_SCATTER, true, false, true},
    {"allgather", SYMM_COLLECTIVE_ALLGATHER, false, false, true},
    {"broadcast", SYMM_COLLECTIVE_BROADCAST, false, true, false},
    {"reduce", SYMM_COLLECTIVE_REDUCE, true, true, false},
    {"alltoall", SYMM_COLLECTIVE_ALLTOALL, false, false, true},
    {"barrier", kBarrier, false, false, false},
}};
}  // namespace

const OperationTraits* find_operation(const std::string& name) {
  for (const OperationTraits& traits : operations)
    if (name == traits.name) return &traits;
  return nullptr;
}

double bus_factor(symm_collective_t collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case SYMM_COLLECTIVE_ALLREDUCE: return 2 * (n - 1) / n;
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
    case SYMM_COLLECTIVE_ALLGATHER:
    case SYMM_COLLECTIVE_ALLTOALL: return (n - 1) / n;
    default: return 1;
  }
}

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
