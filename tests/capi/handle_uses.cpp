// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"
#include "tests/support/options.hpp"

// One row: the call with `h`, any pointer, where the handle belongs.
// clang-format off
#define SYMM_USE(kind, function, ...)                                                                     \
  {#function, #kind, [](World& w, void* h) {                                                              \
     return static_cast<void>(w), function(static_cast<symm_##kind##_t*>(h) __VA_OPT__(, ) __VA_ARGS__);  \
   }}
// clang-format on

namespace symm_test {

const std::vector<HandleUse>& handle_uses() {
  static const std::vector<HandleUse> rows = {
      SYMM_USE(group, symm_group_split, 0, 0, w.out<symm_group_t*>()),
      SYMM_USE(group, symm_group_create_from_ranks, std::array<int32_t, 1>{}.data(), 1, w.out<symm_group_t*>()),
      SYMM_USE(group, symm_group_shrink, nullptr, w.out<symm_group_t*>()),
      SYMM_USE(group, symm_group_translate_rank, w.group, 0, w.out<int32_t>()),
      {"symm_group_translate_rank", "other",
       [](World& w, void* h) { return symm_group_translate_rank(w.group, static_cast<symm_group_t*>(h), 0, w.out<int32_t>()); }},
      SYMM_USE(group, symm_group_failed_ranks, nullptr, 0, w.out<size_t>()),
      SYMM_USE(group, symm_group_failure_fd, w.out<int32_t>()),
      SYMM_USE(group, symm_peer_info, 0, w.out_struct<symm_peer_info_t>()),
      SYMM_USE(group, symm_group_stats, w.out_struct<symm_group_stats_t>()),
      SYMM_USE(group, symm_group_rank, w.out<int32_t>()),
      SYMM_USE(group, symm_group_size, w.out<int32_t>()),
      SYMM_USE(group, symm_group_info, w.out_struct<symm_group_info_t>()),
      SYMM_USE(group, symm_group_status, w.out_struct<symm_group_status_t>()),
      SYMM_USE(group, symm_group_abort, "a test"),
      SYMM_USE(group, symm_group_finalize, support::within(1)),
      SYMM_USE(group, symm_group_synchronize, nullptr, support::within(1)),
      SYMM_USE(group, symm_stream_wait, nullptr, nullptr),
      SYMM_USE(group, symm_stream_query, nullptr, w.out<int32_t>()),
      SYMM_USE(group, symm_group_retain),
      SYMM_USE(group, symm_alloc, 64, nullptr, w.out<symm_buffer_t*>()),
      SYMM_USE(group, symm_buffer_adopt, w.source.data(), 64, nullptr, w.out<symm_buffer_t*>()),
      SYMM_USE(group, symm_rendezvous, w.buffer, nullptr, w.out<symm_memory_t*>()),
      SYMM_USE(group, symm_memory_find, w.block, w.out<symm_memory_t*>(), w.out<int32_t>(), w.out<size_t>()),
      SYMM_USE(group, symm_barrier, nullptr, 0, 0, support::within(1), nullptr),
      SYMM_USE(group, symm_allreduce, w.source.data(), w.destination(), 8, kF32, kSum, nullptr, nullptr),
      SYMM_USE(group, symm_reduce_scatter, w.source.data(), w.destination(), 8, kF32, kSum, nullptr, nullptr),
      SYMM_USE(group, symm_allgather, w.source.data(), w.destination(), 8, kF32, nullptr, nullptr),
      SYMM_USE(group, symm_broadcast, w.source.data(), w.destination(), 8, kF32, 0, nullptr, nullptr),
      SYMM_USE(group, symm_reduce, w.source.data(), w.destination(), 8, kF32, kSum, 0, nullptr, nullptr),
      SYMM_USE(group, symm_alltoall, w.source.data(), w.destination(), 8, kF32, nullptr, nullptr),
      SYMM_USE(group, symm_allgatherv, w.source.data(), w.destination(), &w.eight, nullptr, kF32, nullptr, nullptr),
      SYMM_USE(group, symm_reduce_scatterv, w.source.data(), &w.eight, nullptr, w.destination(), kF32, kSum, nullptr, nullptr),
      SYMM_USE(group, symm_alltoallv, w.source.data(), &w.eight, nullptr, w.destination(), &w.eight, nullptr, kF32, nullptr,
               nullptr),
      SYMM_USE(group, symm_alltoallv_device, w.source.data(), 8, &w.eight, nullptr, w.destination(), 8, &w.eight, nullptr, kF32,
               nullptr, nullptr),
      SYMM_USE(group, symm_gather, w.source.data(), w.destination(), 8, kF32, 0, nullptr, nullptr),
      SYMM_USE(group, symm_scatter, w.source.data(), w.destination(), 8, kF32, 0, nullptr, nullptr),
      SYMM_USE(group, symm_allgather_rows, w.source.data(), w.destination(), 2, 4, 4, kF32, nullptr, nullptr),
      SYMM_USE(group, symm_collective_plan,
               support::call_of(SYMM_COLLECTIVE_ALLREDUCE, w.source.data(), w.source.data(), 8, kF32, kSum), nullptr,
               w.out_struct<symm_plan_info_t>()),

      SYMM_USE(buffer, symm_buffer_pointer, w.out<void*>()),
      SYMM_USE(buffer, symm_buffer_export_dmabuf, 0, 64, w.out<int32_t>()),
      SYMM_USE(buffer, symm_buffer_size, w.out<size_t>()),
      SYMM_USE(buffer, symm_buffer_retain),
      SYMM_USE(buffer, symm_buffer_record_use, nullptr),
      SYMM_USE(buffer, symm_buffer_info, w.out_struct<symm_buffer_info_t>()),
      SYMM_USE(buffer, symm_buffer_memory, w.group, w.out<symm_memory_t*>()),
      {"symm_buffer_memory", "group",
       [](World& w, void* h) { return symm_buffer_memory(w.buffer, static_cast<symm_group_t*>(h), w.out<symm_memory_t*>()); }},
      {"symm_rendezvous", "buffer",
       [](World& w,
          void* h) { return symm_rendezvous(w.group, static_cast<symm_buffer_t*>(h), nullptr, w.out<symm_memory_t*>()); }},

      SYMM_USE(memory, symm_memory_info, w.out_struct<symm_memory_info_t>()),
      SYMM_USE(memory, symm_memory_pointer, 0, w.out<void*>()),
      SYMM_USE(memory, symm_memory_signal_pad, 0, w.out<void*>()),
      SYMM_USE(memory, symm_memory_pointer_table, w.out<void* const*>()),
      SYMM_USE(memory, symm_memory_signal_pad_table, w.out<void* const*>()),
      SYMM_USE(memory, symm_memory_multicast_pointer, w.out<void*>()),
      SYMM_USE(memory, symm_memory_retain),
      SYMM_USE(memory, symm_memory_record_use, nullptr),
      SYMM_USE(memory, symm_signal, 0, 0, nullptr),
      SYMM_USE(memory, symm_wait_signal, 0, 0, support::within(1), nullptr),
      SYMM_USE(memory, symm_memory_device_view, 0, nullptr, w.out_struct<symm_memory_view_t>()),
      SYMM_USE(memory, symm_signal_value, 0, 0, SYMM_SIGNAL_ADD, 1, nullptr),
      SYMM_USE(memory, symm_wait_signal_value, 0, 0, SYMM_COMPARE_EQ, 1, support::within(1), nullptr, nullptr),
      SYMM_USE(memory, symm_wait_signals, support::awaited(0, 0, SYMM_COMPARE_EQ, 1), 1, 0, support::within(1), nullptr, nullptr),
      SYMM_USE(memory, symm_test_signal, 0, 0, w.out<uint64_t>()),
      SYMM_USE(memory, symm_test_signal_value, 0, 0, w.out<uint64_t>()),
      SYMM_USE(memory, symm_put, 0, 0, w.source.data(), 8, nullptr),
      SYMM_USE(memory, symm_get, 0, 0, w.destination(), 8, nullptr),
      SYMM_USE(memory, symm_put_signal, 0, 0, w.source.data(), 8, 0, nullptr),
      SYMM_USE(memory, symm_fill32, 0, 0, 7, 1, nullptr),
      SYMM_USE(memory, symm_write_value32, 0, 0, 7, nullptr),
      SYMM_USE(memory, symm_write_value64, 0, 0, 7, nullptr),
      SYMM_USE(memory, symm_wait_value32, 0, SYMM_COMPARE_EQ, 7, support::within(1), nullptr),
      SYMM_USE(memory, symm_wait_value64, 0, SYMM_COMPARE_EQ, 7, support::within(1), nullptr),

      SYMM_USE(group, symm_heap_create, 4096, nullptr, w.out<symm_heap_t*>()),
      SYMM_USE(heap, symm_heap_alloc, 64, 0, w.out<void*>(), w.out<size_t>()),
      SYMM_USE(heap, symm_heap_free, w.piece),
      SYMM_USE(heap, symm_heap_find, w.piece, w.out<void*>(), w.out<size_t>()),
      SYMM_USE(heap, symm_heap_memory, w.out<symm_memory_t*>()),
      SYMM_USE(heap, symm_heap_info, w.out_struct<symm_heap_info_t>()),
      SYMM_USE(heap, symm_heap_retain),

      SYMM_USE(ipc, symm_ipc_retain),
      SYMM_USE(ipc, symm_ipc_pointer, w.out<void*>()),
      SYMM_USE(ipc, symm_ipc_size, w.out<size_t>()),
      SYMM_USE(ipc, symm_ipc_stream_wait, nullptr),
      SYMM_USE(ipc, symm_ipc_record_use, nullptr),
      SYMM_USE(ipc, symm_ipc_info, w.out_struct<symm_ipc_info_t>()),
  };
  return rows;
}

const std::vector<Exemption>& exemptions() {
  static const std::vector<Exemption> rows = {
      {nullptr, "timeout_ms", "every number is a deadline"},
      {"symm_status_string", "status", "an unknown one has a name too"},
      {"symm_log_add_listener", "user", "is passed on unseen"},
      {"symm_log_remove_listener", "id", "one that is not there is NOT_FOUND, which names nothing"},
      {"symm_group_create_from_ranks", "count", "goes with ranks"},
      {"symm_group_failed_ranks", "capacity", "may be smaller than the count"},
      {"symm_group_create", "config", "NULL means the defaults; its fields have rows of their own"},
      {"symm_group_split", "color", "negative means no group"},
      {"symm_group_split", "key", "any order is an order"},
      {"symm_group_abort", "reason", "NULL means none"},
      {"symm_group_release", "group", "never fails"},
      {"symm_buffer_release", "buffer", "never fails"},
      {"symm_memory_release", "memory", "never fails"},
      {"symm_heap_release", "heap", "never fails"},
      {"symm_heap_alloc", "out_offset", "may be NULL"},
      {"symm_heap_find", "out_size", "may be NULL"},
      {"symm_ipc_release", "ipc", "never fails"},
      {"symm_ipc_release", "stream", "never fails"},
      {"symm_buffer_find", "out", "may be NULL"},
      {"symm_buffer_find", "out_offset", "may be NULL"},
      {"symm_memory_find", "out", "may be NULL"},
      {"symm_memory_find", "out_rank", "may be NULL"},
      {"symm_memory_find", "out_offset", "may be NULL"},
      {nullptr, "value", "any number is a value"},
      {"symm_wait_signal_value", "out_seen", "may be NULL"},
      {"symm_wait_signals", "out_index", "may be NULL"},
      {"symm_memory_device_view", "stop", "NULL means none"},
  };
  return rows;
}

}  // namespace symm_test
