// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"

namespace symm_test {

const std::vector<Refusal>& memory_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_alloc, size, "0", INVALID_ARGUMENT, w.group, 0, 0, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, size, "more than there is", OUT_OF_MEMORY, w.group, size_t{1} << 60, 0, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, size, "SIZE_MAX", OUT_OF_MEMORY, w.group, SIZE_MAX, 0, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, flags, "unknown bit", INVALID_ARGUMENT, w.group, 64, 1, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, out, "NULL", INVALID_ARGUMENT, w.group, 64, 0, nullptr),
      SYMM_REFUSE(symm_buffer_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.buffer, nullptr),
      SYMM_REFUSE(symm_buffer_size, out_bytes, "NULL", INVALID_ARGUMENT, w.buffer, nullptr),

      SYMM_REFUSE(symm_rendezvous, out, "NULL", INVALID_ARGUMENT, w.group, w.buffer, 0, nullptr),
      SYMM_REFUSE(symm_memory_info, out, "NULL", INVALID_ARGUMENT, w.memory, nullptr),
      SYMM_REFUSE(symm_memory_info, out, "struct_size 0", INVALID_ARGUMENT, w.memory, w.out_struct<symm_memory_info_t>(0)),
      SYMM_REFUSE(symm_memory_pointer, rank, "= size", INVALID_ARGUMENT, w.memory, 1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_pointer, rank, "-1", INVALID_ARGUMENT, w.memory, -1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.memory, 0, nullptr),
      SYMM_REFUSE(symm_memory_signal_pad, rank, "= size", INVALID_ARGUMENT, w.memory, 1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_signal_pad, rank, "-1", INVALID_ARGUMENT, w.memory, -1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_signal_pad, out_pad, "NULL", INVALID_ARGUMENT, w.memory, 0, nullptr),
      SYMM_REFUSE(symm_memory_pointer_table, out_table, "NULL", INVALID_ARGUMENT, w.memory, nullptr),
      SYMM_REFUSE(symm_memory_signal_pad_table, out_table, "NULL", INVALID_ARGUMENT, w.memory, nullptr),

      SYMM_REFUSE(symm_memory_find, address, "not symmetric", INVALID_ARGUMENT, w.group, w.source.data(), w.out<symm_memory_t*>(),
                  w.out<int32_t>(), w.out<size_t>()),
      SYMM_REFUSE(symm_memory_find, address, "NULL", INVALID_ARGUMENT, w.group, nullptr, w.out<symm_memory_t*>(),
                  w.out<int32_t>(), w.out<size_t>()),
  };
  return rows;
}

}  // namespace symm_test
