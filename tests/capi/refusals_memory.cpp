// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"
#include "tests/support/options.hpp"

namespace symm_test {

namespace {

const WrongSize<symm_alloc_options_t> kAlloc;
const WrongSize<symm_adopt_options_t> kAdopt;
const WrongSize<symm_rendezvous_options_t> kRendezvous;

}  // namespace

const std::vector<Refusal>& memory_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_alloc, size, "0", INVALID_ARGUMENT, w.group, 0, nullptr, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, size, "more than there is", OUT_OF_MEMORY, w.group, size_t{1} << 60, nullptr,
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, size, "SIZE_MAX", OUT_OF_MEMORY, w.group, SIZE_MAX, nullptr, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, flags, "unknown bit", UNSUPPORTED, w.group, 64, support::placed(2), w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, flags, "unknown high bit", UNSUPPORTED, w.group, 64,
                  support::placed(SYMM_ALLOC_HOST | uint64_t{1} << 48), w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, numa_node, "a node without SYMM_ALLOC_HOST", INVALID_ARGUMENT, w.group, 64, support::placed(0, 0),
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, numa_node, "the last node that can be named", INVALID_ARGUMENT, w.group, 64,
                  support::placed(SYMM_ALLOC_HOST, INT32_MAX), w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, numa_node, "-2", INVALID_ARGUMENT, w.group, 64, support::placed(SYMM_ALLOC_HOST, -2),
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, options, "short", INVALID_ARGUMENT, w.group, 64, kAlloc.small(), w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, options, "newer", UNSUPPORTED, w.group, 64, kAlloc.newer(), w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_alloc, out, "NULL", INVALID_ARGUMENT, w.group, 64, nullptr, nullptr),
      SYMM_REFUSE(symm_buffer_adopt, pointer, "NULL", INVALID_ARGUMENT, w.group, nullptr, 64, nullptr, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_buffer_adopt, pointer, "memory of the host", UNSUPPORTED, w.group, w.source.data(), 64, nullptr,
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_buffer_adopt, options, "short", INVALID_ARGUMENT, w.group, w.source.data(), 64, kAdopt.small(),
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_buffer_adopt, options, "newer", UNSUPPORTED, w.group, w.source.data(), 64, kAdopt.newer(),
                  w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_buffer_adopt, size, "0", INVALID_ARGUMENT, w.group, w.source.data(), 0, nullptr, w.out<symm_buffer_t*>()),
      SYMM_REFUSE(symm_buffer_adopt, out, "NULL", INVALID_ARGUMENT, w.group, w.source.data(), 64, nullptr, nullptr),
      SYMM_REFUSE(symm_buffer_export_dmabuf, buffer, "of the host back end", UNAVAILABLE, w.buffer, 0, 64, w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, offset, "beyond the buffer", INVALID_ARGUMENT, w.buffer, w.kBytes + 1, 1,
                  w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, offset, "inside a page", INVALID_ARGUMENT, w.buffer, 8, 8, w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, size, "0", INVALID_ARGUMENT, w.buffer, 0, 0, w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, size, "beyond the buffer", INVALID_ARGUMENT, w.buffer, 0, w.kBytes + 1,
                  w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, size, "SIZE_MAX", INVALID_ARGUMENT, w.buffer, 0, SIZE_MAX, w.out<int32_t>()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, out_fd, "NULL", INVALID_ARGUMENT, w.buffer, 0, 64, nullptr),
      SYMM_REFUSE(symm_buffer_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.buffer, nullptr),
      SYMM_REFUSE(symm_buffer_size, out_bytes, "NULL", INVALID_ARGUMENT, w.buffer, nullptr),

      SYMM_REFUSE(symm_rendezvous, out, "NULL", INVALID_ARGUMENT, w.group, w.buffer, nullptr, nullptr),
      SYMM_REFUSE(symm_rendezvous, options, "short", INVALID_ARGUMENT, w.group, w.buffer, kRendezvous.small(),
                  w.out<symm_memory_t*>()),
      SYMM_REFUSE(symm_rendezvous, options, "newer", UNSUPPORTED, w.group, w.buffer, kRendezvous.newer(),
                  w.out<symm_memory_t*>()),
      SYMM_REFUSE_INIT(alloc),
      SYMM_REFUSE_INIT(adopt),
      SYMM_REFUSE_INIT(rendezvous),
      SYMM_REFUSE_INIT(wait),
      SYMM_REFUSE(symm_memory_info, out, "NULL", INVALID_ARGUMENT, w.memory, nullptr),
      SYMM_REFUSE(symm_memory_info, out, "struct_size 0", INVALID_ARGUMENT, w.memory, w.out_struct<symm_memory_info_t>(0)),
      SYMM_REFUSE(symm_memory_pointer, rank, "= size", INVALID_ARGUMENT, w.memory, 1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_pointer, rank, "-1", INVALID_ARGUMENT, w.memory, -1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.memory, 0, nullptr),
      SYMM_REFUSE(symm_memory_signal_pad, rank, "= size", INVALID_ARGUMENT, w.memory, 1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_signal_pad, rank, "-1", INVALID_ARGUMENT, w.memory, -1, w.out<void*>()),
      SYMM_REFUSE(symm_memory_signal_pad, out_pad, "NULL", INVALID_ARGUMENT, w.memory, 0, nullptr),
      SYMM_REFUSE(symm_memory_pointer_table, out_table, "NULL", INVALID_ARGUMENT, w.memory, nullptr),
      SYMM_REFUSE(symm_memory_device_view, memory, "of the host back end", UNSUPPORTED, w.memory, 0, nullptr,
                  w.out_struct<symm_memory_view_t>()),
      SYMM_REFUSE(symm_memory_device_view, out, "NULL", INVALID_ARGUMENT, w.memory, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_memory_signal_pad_table, out_table, "NULL", INVALID_ARGUMENT, w.memory, nullptr),

      SYMM_REFUSE(symm_memory_multicast_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.memory, nullptr),
      SYMM_REFUSE(symm_memory_multicast_pointer, memory, "host memory", UNAVAILABLE, w.memory, w.out<void*>()),
      SYMM_REFUSE(symm_buffer_info, out, "NULL", INVALID_ARGUMENT, w.buffer, nullptr),
      SYMM_REFUSE(symm_buffer_info, out, "struct_size 0", INVALID_ARGUMENT, w.buffer, w.out_struct<symm_buffer_info_t>(0)),
      SYMM_REFUSE(symm_buffer_find, address, "no buffer", NOT_FOUND, w.source.data(), w.out<symm_buffer_t*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_buffer_find, address, "NULL", NOT_FOUND, nullptr, w.out<symm_buffer_t*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_buffer_memory, out, "NULL", INVALID_ARGUMENT, w.buffer, w.group, nullptr),
      SYMM_REFUSE(symm_memory_find, address, "not symmetric", NOT_FOUND, w.group, w.source.data(), w.out<symm_memory_t*>(),
                  w.out<int32_t>(), w.out<size_t>()),
      SYMM_REFUSE(symm_memory_find, address, "NULL", NOT_FOUND, w.group, nullptr, w.out<symm_memory_t*>(), w.out<int32_t>(),
                  w.out<size_t>()),
  };
  return rows;
}

}  // namespace symm_test
