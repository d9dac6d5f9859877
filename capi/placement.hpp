// SPDX-License-Identifier: Apache-2.0
//
// What the options of all calls that allocate have in common.
#pragma once

#include <string>

#include "capi/structs.hpp"
#include "core/backend/backend.hpp"

namespace symm::capi {

inline std::string name_of(const char* given) { return given == nullptr ? "" : std::string(given).substr(0, 63); }

template <class Options>
Placement placement_of(const Options& given) {
  require_known_bits(given.flags, SYMM_ALLOC_HOST, "options.flags");
  Placement placement;
  placement.on_host = (given.flags & SYMM_ALLOC_HOST) != 0;
  placement.node = given.numa_node;
  return placement;
}

}  // namespace symm::capi
