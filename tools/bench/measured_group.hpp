// The group that symm bench measures.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tools/bench/options.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
// Makes the group that is measured. A refusal names the option of the command where the library
// names a flag.
inline Group create_measured(symm_group_config_t config, const BenchOptions& options) {
  constexpr std::string_view kFlag = "SYMM_GROUP_OVERLAPPING_DEVICES";
  if (options.overlapping_devices) config.flags |= SYMM_GROUP_OVERLAPPING_DEVICES;

  try {
    return Group::create(config);
  } catch (const Error& error) {
    std::string text = error.what();
    const size_t at = text.find(kFlag);
    if (at == std::string::npos) throw;
    throw std::runtime_error(text.replace(at, kFlag.size(), "--overlapping-devices"));
  }
}
}  // namespace symm::tool
