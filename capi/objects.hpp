// From the opaque types of symm.h to the objects of core.
#pragma once

#include <memory>

#include "capi/handle.hpp"
#include "core/group/group.hpp"
#include "core/group/heap.hpp"
#include "core/group/memory.hpp"
#include "core/group/neighbor_exchange.hpp"
#include "symm/symm.h"

namespace symm::capi {
inline std::shared_ptr<Group>& group_of(symm_group_t* handle, const char* name = "group") {
  return slot_of<Group>(handle, name).object;
}
inline std::shared_ptr<Buffer>& buffer_of(symm_buffer_t* handle) {
  return slot_of<Buffer>(handle, "buffer").object;
}
inline std::shared_ptr<Memory>& memory_of(symm_memory_t* handle) {
  return slot_of<Memory>(handle, "memory").object;
}
inline std::shared_ptr<Heap>& heap_of(symm_heap_t* handle) {
  return slot_of<Heap>(handle, "heap").object;
}
inline std::shared_ptr<NeighborExchange>& exchange_of(symm_exchange_t* handle) {
  return slot_of<NeighborExchange>(handle, "exchange").object;
}
}  // namespace symm::capi
