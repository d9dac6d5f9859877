// Names of the constants of symm.h.
#pragma once

#include <string>
#include "tools/bench/reference.hpp"

namespace symm::tool {
template <typename Value> struct Named {
  const char* name;
  Value value;
};

const std::vector<Named<symm_dtype_t>>& dtypes();
const std::vector<Named<symm_op_t>>& ops();
const std::vector<Named<symm_algorithm_t>>& algorithms();

template <typename Value> std::string name_of(const std::vector<Named<Value>>& list, Value value) {
  for (const auto& entry : list)
    if (entry.value == value) return entry.name;
  return "unknown";
}

using reference::size_of;
}  // namespace symm::tool
