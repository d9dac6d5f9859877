#include "tools/bench/options.hpp"
#include <algorithm>
#include <array>

namespace symm::tool {
namespace {
constexpr std::array<OperationTraits, 7> operations = {{
    {"allreduce", Operation::allreduce, true, false, false},
    {"reduce_scatter", Operation::reduce_scatter, true, false, true},
    {"allgather", Operation::allgather, false, false, true},
    {"broadcast", Operation::broadcast, false, true, false},
    {"reduce", Operation::reduce, true, true, false},
    {"alltoall", Operation::alltoall, false, false, true},
    {"barrier", Operation::barrier, false, false, false},
}};
}  // namespace

const OperationTraits* find_operation(const std::string& name) {
  for (const OperationTraits& traits : operations)
    if (name == traits.name) return &traits;
  return nullptr;
}

double bus_factor(Operation operation, int ranks) {
  const double n = ranks;
  switch (operation) {
    case Operation::allreduce: return 2 * (n - 1) / n;
    case Operation::reduce_scatter:
    case Operation::allgather:
    case Operation::alltoall: return (n - 1) / n;
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
