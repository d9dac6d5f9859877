// The options that all calls that allocate have in common: a name, and the placement
// of the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "symm/symm.h"

namespace symm::capi {
inline constexpr size_t kMostName = 63;
inline std::string bounded_name(const char* given) {
  if (given == nullptr) return {};
  return printable({given, length_within(kMostName, given)});
}

template <class Options>
Placement placement_of(const Options& given) {
  require_known_bits(given.flags, SYMM_ALLOC_HOST | SYMM_ALLOC_ON_NODE, "options.flags");
  const bool on_node = (given.flags & SYMM_ALLOC_ON_NODE) != 0;
  require_with_flag(on_node, static_cast<uint64_t>(int64_t{given.numa_node}), "options.numa_node",
      "SYMM_ALLOC_ON_NODE");
  if (given.numa_node < 0) {
    throw Error(
        Status::invalid_argument, format("options.numa_node: %d is negative", given.numa_node));
  }

  Placement placement;
  placement.on_host = (given.flags & SYMM_ALLOC_HOST) != 0;
  if (on_node) placement.node = given.numa_node;
  placement.alignment = given.alignment;
  placement.page_bytes = given.page_bytes;
  return placement;
}
}  // namespace symm::capi
