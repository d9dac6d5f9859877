// SPDX-License-Identifier: Apache-2.0
//
// The C interface in C++ clothes, as far as the tool needs it.
#pragma once

#include <symm/symm.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace symm::tool {

struct LibraryError : std::runtime_error {
  LibraryError(symm_status_t code, const std::string& message) : std::runtime_error(message), status(code) {}
  symm_status_t status;
};

inline void check(symm_status_t status, const char* call) {
  if (status == SYMM_OK) return;
  throw LibraryError(status, std::string(call) + ": " + symm_status_string(status) + ": " + symm_last_error());
}

struct Release {
  void operator()(symm_group_t* group) const { symm_group_release(group); }
  void operator()(symm_buffer_t* buffer) const { symm_buffer_release(buffer); }
  void operator()(symm_memory_t* memory) const { symm_memory_release(memory); }
};
using Group = std::unique_ptr<symm_group_t, Release>;
using Buffer = std::unique_ptr<symm_buffer_t, Release>;
using Memory = std::unique_ptr<symm_memory_t, Release>;

inline Group create_group(const symm_group_config_t& config) {
  symm_group_t* group = nullptr;
  check(symm_group_create(&config, &group), "symm_group_create");
  return Group(group);
}

// A block and everybody else's.
struct Heap {
  Buffer buffer;
  Memory memory;
  void* block = nullptr;
};

inline Heap make_heap(symm_group_t* group, size_t bytes) {
  Heap heap;
  symm_buffer_t* buffer = nullptr;
  check(symm_alloc(group, bytes, 0, &buffer), "symm_alloc");
  heap.buffer.reset(buffer);
  symm_memory_t* memory = nullptr;
  check(symm_rendezvous(group, buffer, 0, &memory), "symm_rendezvous");
  heap.memory.reset(memory);
  check(symm_buffer_pointer(buffer, &heap.block), "symm_buffer_pointer");
  return heap;
}

}  // namespace symm::tool
