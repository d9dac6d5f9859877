// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "tools/bench/collective.hpp"

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

}  // namespace symm::tool
