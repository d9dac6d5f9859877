// Calls of collectives by their number, for the parts of symm bench that loop over them.
#pragma once

#include <symm/symm.h>

namespace symm::tool {
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
    case SYMM_COLLECTIVE_SCAN:
      return symm_scan(group, c.send, c.recv, c.count, c.dtype, c.op, options, stream);
    case SYMM_COLLECTIVE_EXSCAN:
      return symm_exscan(group, c.send, c.recv, c.count, c.dtype, c.op, options, stream);
    default: return symm_alltoall(group, c.send, c.recv, c.count, c.dtype, options, stream);
  }
}
}  // namespace symm::tool
