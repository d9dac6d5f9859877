// What the parts of symm bench ask of the library: the group that is measured, and calls of
// collectives by their number.
#pragma once

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

// Makes a call of a collective that passes no lengths of its own.
inline symm_status_t run(symm_group_t* group, const symm_collective_call_t& c,
    const symm_collective_options_t* options, void* stream) {
  switch (c.collective) {
    case SYMM_COLLECTIVE_ALLREDUCE:
      return symm_allreduce(group, c.send, c.recv, c.count, c.dtype, c.op, options, stream);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return symm_reduce_scatter(group, c.send, c.recv, c.count, c.dtype, c.op, options, stream);
    case SYMM_COLLECTIVE_ALLGATHER:
      return symm_allgather(group, c.send, c.recv, c.count, c.dtype, options, stream);
    case SYMM_COLLECTIVE_BROADCAST:
      return symm_broadcast(group, c.send, c.recv, c.count, c.dtype, c.root, options, stream);
    case SYMM_COLLECTIVE_REDUCE:
      return symm_reduce(group, c.send, c.recv, c.count, c.dtype, c.op, c.root, options, stream);
    default: return symm_alltoall(group, c.send, c.recv, c.count, c.dtype, options, stream);
  }
}
}  // namespace symm::tool
