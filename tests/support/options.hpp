// Options of C calls, made where they are passed.
#pragma once

#include <symm/symm.h>

namespace support {
// Lives as long as the call that it is an argument of.
template <class Struct> struct Passed {
  Struct value;
  operator const Struct*() const { return &value; }
};

inline Passed<symm_wait_options_t> within(uint64_t timeout_ms) { return {{sizeof(symm_wait_options_t), timeout_ms, nullptr}}; }

inline Passed<symm_alloc_options_t> placed(uint64_t flags, int32_t node = SYMM_NODE_NEAREST) {
  Passed<symm_alloc_options_t> made{SYMM_ALLOC_OPTIONS_INIT};
  made.value.flags = flags;
  made.value.numa_node = node;
  return made;
}

// For a plan, which writes nothing.
inline Passed<symm_collective_call_t> call_of(symm_collective_t collective, const void* send, const void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op = SYMM_OP_SUM, int32_t root = 0) {
  return {{sizeof(symm_collective_call_t), collective, send, const_cast<void*>(recv), count, dtype, op, root, nullptr, nullptr,
      nullptr, nullptr, 0, 0}};
}

inline Passed<symm_signal_wait_t> awaited(int32_t rank, int32_t channel, symm_compare_t compare, uint64_t value = 1) {
  return {{sizeof(symm_signal_wait_t), rank, channel, compare, value}};
}
}  // namespace support
