#include <cstddef>
#include <cstdint>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/capi/refusal.hpp"

// One row: the function with arguments that are right.
#define SYMM_CALL(function, ...)                                              \
  {#function, [](World& w, size_t changed, uint64_t bits) {                   \
     return static_cast<void>(w), call(function, changed, bits, __VA_ARGS__); \
   }}
// Operands of a collective of so many elements.
#define SYMM_OPERANDS w.group, w.source.data(), w.destination(), 8

namespace symm_test {
namespace {
constexpr symm_dtype_t kF32 = SYMM_DTYPE_F32;
constexpr symm_op_t kSum = SYMM_OP_SUM;
constexpr int32_t kSelf[] = {0};
constexpr symm_piece_t kPiece = {0, 0, 4, 2, 4, 4};

void ignore(void*, symm_log_level_t, const char*) {}

// The configuration of a newcomer that looks once: nobody takes it.
symm_group_config_t joining() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.create_timeout_ms = 1;
  return config;
}

uint64_t give_nothing(void*, symm_backend_t, int32_t, uint64_t) { return 0; }

int32_t keep(void*, void*, const void*, size_t) { return 0; }
}  // namespace

// A table with a row for each function of the C ABI.
const std::vector<Call>& calls() {
  using support::bundled;
  using support::looking;
  using support::within;
  static const std::vector<Call> rows = {
      SYMM_CALL(symm_log_add_listener, ignore, nullptr, SYMM_LOG_INFO, w.out<uint64_t>()),
      SYMM_CALL(symm_log_to_fd, 2, SYMM_LOG_ERROR, w.out<uint64_t>()),
      SYMM_CALL(symm_thread_interrupt, nullptr, nullptr),
      SYMM_CALL(symm_dtype_bytes, kF32, w.out<size_t>()),
      SYMM_CALL(symm_last_failure, w.out_struct<symm_failure_t>()),
      SYMM_CALL(symm_device_count, SYMM_BACKEND_HOST, w.out<int32_t>()),
      SYMM_CALL(symm_device_info, SYMM_BACKEND_HOST, 0, w.out_struct<symm_device_info_t>()),
      SYMM_CALL(symm_topology, SYMM_BACKEND_HOST, w.out<symm_topology_class_t>(), w.out<int32_t>(),
          1, w.out<size_t>()),

      SYMM_CALL(symm_memory_pressure_add_listener, give_nothing, nullptr, w.out<uint64_t>()),
      SYMM_CALL(symm_unique_id, nullptr, w.out_token(), w.kToken, w.out<size_t>()),
      SYMM_CALL(symm_group_create, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_split, w.group, 0, 0, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_create_from_ranks, w.group, kSelf, 1, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_local, w.group, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_shrink, w.group, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_invite, w.group, nullptr, w.out_token(), w.kToken, w.out<size_t>()),
      SYMM_CALL(symm_group_join, w.ticket.data(), w.ticket_size,
          (support::Passed<symm_group_config_t>{joining()}), w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_grow, w.group, nullptr, w.out<symm_group_t*>()),
      SYMM_CALL(symm_group_translate_rank, w.group, w.group, 0, w.out<int32_t>()),
      SYMM_CALL(symm_group_failed_ranks, w.group, w.out<int32_t>(), 1, w.out<size_t>()),
      SYMM_CALL(symm_group_failure_fd, w.group, w.out<int32_t>()),
      SYMM_CALL(symm_group_topology, w.group, w.out<symm_topology_class_t>(), w.out<int32_t>(), 1,
          w.out<size_t>()),
      SYMM_CALL(symm_group_peer_info, w.group, 0, w.out_struct<symm_group_peer_info_t>()),
      SYMM_CALL(symm_group_stats, w.group, w.out_struct<symm_group_stats_t>()),
      SYMM_CALL(symm_group_collective_stats, w.group, SYMM_COLLECTIVE_ALLREDUCE,
          w.out_struct<symm_collective_stats_t>()),
      SYMM_CALL(symm_group_algorithm_stats, w.group, SYMM_ALGORITHM_LL,
          w.out_struct<symm_algorithm_stats_t>()),
      SYMM_CALL(symm_group_rank, w.group, w.out<int32_t>()),
      SYMM_CALL(symm_group_size, w.group, w.out<int32_t>()),
      SYMM_CALL(symm_group_info, w.group, w.out_struct<symm_group_info_t>()),
      SYMM_CALL(symm_group_status, w.group, w.out_struct<symm_failure_t>()),
      SYMM_CALL(symm_group_abort, w.group, "a test"),
      SYMM_CALL(symm_group_finalize, w.group, within(1)),
      SYMM_CALL(symm_group_synchronize, w.group, nullptr, within(1)),
      SYMM_CALL(symm_stream_wait, w.group, nullptr, nullptr, nullptr),
      SYMM_CALL(symm_stream_query, w.group, nullptr, nullptr, w.out<int32_t>()),
      SYMM_CALL(symm_group_retain, w.group),

      SYMM_CALL(symm_alloc, w.group, 64, nullptr, w.out<symm_buffer_t*>()),
      SYMM_CALL(symm_buffer_adopt, w.group, w.source.data(), 64, nullptr, w.out<symm_buffer_t*>()),
      SYMM_CALL(symm_buffer_export_dmabuf, w.buffer, 0, 64, nullptr, w.out<int32_t>()),
      SYMM_CALL(symm_buffer_pointer, w.buffer, w.out<void*>()),
      SYMM_CALL(symm_buffer_bytes, w.buffer, w.out<size_t>()),
      SYMM_CALL(symm_buffer_retain, w.buffer),
      SYMM_CALL(symm_buffer_record_use, w.buffer, nullptr, nullptr),
      SYMM_CALL(symm_buffer_suspend, w.unmet_buffer(), SYMM_SUSPEND_KEEP, nullptr, nullptr),
      SYMM_CALL(symm_buffer_resume, w.suspended_buffer(), nullptr, nullptr),
      SYMM_CALL(symm_buffer_info, w.buffer, w.out_struct<symm_buffer_info_t>()),
      SYMM_CALL(symm_buffer_group, w.buffer, w.out<symm_group_t*>()),
      SYMM_CALL(symm_buffer_find, w.block, nullptr, w.out<symm_buffer_t*>(), w.out<size_t>()),
      SYMM_CALL(symm_buffer_memory, w.buffer, w.group, nullptr, w.out<symm_memory_t*>()),
      SYMM_CALL(symm_rendezvous, w.group, w.buffer, nullptr, w.out<symm_memory_t*>()),
      SYMM_CALL(symm_memory_move, w.memory, w.group, nullptr, w.out<symm_memory_t*>()),
      SYMM_CALL(symm_memory_info, w.memory, w.out_struct<symm_memory_info_t>()),
      SYMM_CALL(symm_memory_group, w.memory, w.out<symm_group_t*>()),
      SYMM_CALL(symm_memory_buffer, w.memory, w.out<symm_buffer_t*>()),
      SYMM_CALL(symm_memory_pointer, w.memory, 0, w.out<void*>()),
      SYMM_CALL(symm_memory_signal_pad, w.memory, 0, w.out<void*>()),
      SYMM_CALL(symm_memory_pointer_table, w.memory, w.out<void* const*>()),
      SYMM_CALL(symm_memory_signal_pad_table, w.memory, w.out<void* const*>()),
      SYMM_CALL(symm_memory_multicast_pointer, w.memory, nullptr, w.out<void*>()),
      SYMM_CALL(
          symm_memory_device_view, w.memory, nullptr, nullptr, w.out_struct<symm_memory_view_t>()),
      SYMM_CALL(symm_memory_find, w.group, w.block, nullptr, w.out<symm_memory_t*>(),
          w.out<int32_t>(), w.out<size_t>()),
      SYMM_CALL(symm_memory_retain, w.memory),
      SYMM_CALL(symm_memory_record_use, w.memory, nullptr, nullptr),

      SYMM_CALL(symm_heap_create, w.group, 4096, nullptr, w.out<symm_heap_t*>()),
      SYMM_CALL(symm_heap_move, w.heap, w.group, nullptr, w.out<symm_heap_t*>()),
      SYMM_CALL(symm_heap_alloc, w.heap, 64, 0, nullptr, w.out<void*>(), w.out<size_t>()),
      SYMM_CALL(symm_heap_free, w.heap, w.piece, nullptr),
      SYMM_CALL(symm_heap_find, w.heap, w.piece, nullptr, w.out<void*>(), w.out<size_t>()),
      SYMM_CALL(symm_heap_memory, w.heap, w.out<symm_memory_t*>()),
      SYMM_CALL(symm_heap_group, w.heap, w.out<symm_group_t*>()),
      SYMM_CALL(symm_heap_info, w.heap, w.out_struct<symm_heap_info_t>()),
      SYMM_CALL(symm_heap_retain, w.heap),

      SYMM_CALL(symm_barrier, w.group, kSelf, 1, 0, within(1), nullptr),
      SYMM_CALL(symm_signal, w.memory, 0, 0, nullptr, nullptr),
      SYMM_CALL(symm_wait_signal, w.memory, 0, 0, within(1), nullptr),
      SYMM_CALL(symm_signal_value, w.memory, 0, 0, SYMM_SIGNAL_ADD, 1, nullptr, nullptr),
      SYMM_CALL(symm_wait_signal_value, w.memory, 0, 0, SYMM_COMPARE_EQ, 1, within(1),
          w.out<uint64_t>(), nullptr),
      SYMM_CALL(symm_wait_signals, w.memory, support::awaited(0, 0, SYMM_COMPARE_EQ), 1,
          SYMM_WAIT_ALL, within(1), w.out<size_t>(), nullptr),
      SYMM_CALL(symm_test_signal, w.memory, 0, 0, nullptr, w.out<uint64_t>()),
      SYMM_CALL(symm_test_signal_value, w.memory, 0, 0, nullptr, w.out<uint64_t>()),
      SYMM_CALL(symm_put, w.memory, 0, 0, w.source.data(), 8, nullptr, nullptr),
      SYMM_CALL(symm_get, w.memory, 0, 0, w.destination(), 8, nullptr, nullptr),
      SYMM_CALL(symm_put_signal, w.memory, 0, 0, w.source.data(), 8, 0, nullptr, nullptr),
      SYMM_CALL(symm_put_signal_value, w.memory, 0, 0, w.source.data(), 8, 0, SYMM_SIGNAL_ADD, 1,
          nullptr, nullptr),
      SYMM_CALL(symm_send, w.group, 0, 0, w.source.data(), 8, within(1), nullptr),
      SYMM_CALL(symm_recv, w.group, 0, 0, w.destination(), 8, within(1), w.out<size_t>(), nullptr),
      SYMM_CALL(symm_messages, w.group, message(SYMM_MESSAGE_SEND, w.source.data()), 1, within(1),
          w.out<size_t>(), nullptr),
      SYMM_CALL(symm_put_pieces, w.memory, 0, 0, w.source.data(), 8, support::pieces_at(&kPiece),
          nullptr, nullptr),
      SYMM_CALL(symm_get_pieces, w.memory, 0, 0, w.destination(), 8, support::pieces_at(&kPiece),
          nullptr, nullptr),
      SYMM_CALL(symm_exchange_create, w.group, neighbor(w, &kPiece), 1, nullptr,
          w.out<symm_exchange_t*>()),
      SYMM_CALL(symm_exchange_start, w.exchange, nullptr, nullptr),
      SYMM_CALL(symm_exchange_finish, w.exchange, within(1), nullptr),
      SYMM_CALL(symm_exchange_retain, w.exchange),
      SYMM_CALL(symm_request_test, w.request, nullptr, w.out<int32_t>()),
      SYMM_CALL(symm_request_wait, w.request, within(1)),
      SYMM_CALL(symm_request_wait_any, &w.request, 1, within(1), w.out<size_t>()),
      SYMM_CALL(symm_request_info, w.request, w.out_struct<symm_request_info_t>()),
      SYMM_CALL(symm_request_fd, w.request, w.out<int32_t>()),
      SYMM_CALL(symm_request_retain, w.request),
      SYMM_CALL(symm_neighbor_alltoallv, w.group, kSelf, 1, w.source.data(), &w.eight, nullptr,
          kSelf, 1, w.destination(), &w.eight, nullptr, kF32, 0, within(1), nullptr),
      SYMM_CALL(symm_fill8, w.memory, 0, 0, 7, 1, nullptr, nullptr),
      SYMM_CALL(symm_fill16, w.memory, 0, 0, 7, 1, nullptr, nullptr),
      SYMM_CALL(symm_fill32, w.memory, 0, 0, 7, 1, nullptr, nullptr),
      SYMM_CALL(symm_fill64, w.memory, 0, 0, 7, 1, nullptr, nullptr),
      SYMM_CALL(symm_write_value32, w.memory, 0, 0, 7, nullptr, nullptr),
      SYMM_CALL(symm_write_value64, w.memory, 0, 0, 7, nullptr, nullptr),
      SYMM_CALL(symm_read_value32, w.memory, 0, 0, nullptr, w.out<uint32_t>()),
      SYMM_CALL(symm_read_value64, w.memory, 0, 0, nullptr, w.out<uint64_t>()),
      SYMM_CALL(symm_atomic32, w.memory, 0, 0, SYMM_ATOMIC_COMPARE_SWAP, 7, 7, nullptr,
          w.destination(), nullptr),
      SYMM_CALL(symm_atomic64, w.memory, 0, 0, SYMM_ATOMIC_COMPARE_SWAP, 7, 7, nullptr,
          w.destination(), nullptr),
      SYMM_CALL(symm_wait_value32, w.memory, 0, SYMM_COMPARE_EQ, 7, within(1), nullptr),
      SYMM_CALL(symm_wait_value64, w.memory, 0, SYMM_COMPARE_EQ, 7, within(1), nullptr),

      SYMM_CALL(symm_allreduce, SYMM_OPERANDS, kF32, kSum, nullptr, nullptr),
      SYMM_CALL(symm_reduce_scatter, SYMM_OPERANDS, kF32, kSum, nullptr, nullptr),
      SYMM_CALL(symm_allgather, SYMM_OPERANDS, kF32, nullptr, nullptr),
      SYMM_CALL(symm_broadcast, SYMM_OPERANDS, kF32, 0, nullptr, nullptr),
      SYMM_CALL(symm_reduce, SYMM_OPERANDS, kF32, kSum, 0, nullptr, nullptr),
      SYMM_CALL(symm_scan, SYMM_OPERANDS, kF32, kSum, nullptr, nullptr),
      SYMM_CALL(symm_exscan, SYMM_OPERANDS, kF32, kSum, nullptr, nullptr),
      SYMM_CALL(symm_reduce_by, w.group, SYMM_COLLECTIVE_ALLREDUCE, w.source.data(),
          w.destination(), 2, 12, keep, nullptr, 0, within(1)),
      SYMM_CALL(symm_alltoall, SYMM_OPERANDS, kF32, nullptr, nullptr),
      SYMM_CALL(symm_gather, SYMM_OPERANDS, kF32, 0, nullptr, nullptr),
      SYMM_CALL(symm_scatter, SYMM_OPERANDS, kF32, 0, nullptr, nullptr),
      SYMM_CALL(symm_allgather_rows, w.group, w.source.data(), w.destination(), 2, 4, 4, kF32,
          nullptr, nullptr),
      SYMM_CALL(symm_reduce_scatter_rows, w.group, w.source.data(), w.destination(), 2, 4, 4, kF32,
          kSum, nullptr, nullptr),
      SYMM_CALL(symm_allreduce_rmsnorm, w.group, w.source.data(), 1, 8, kF32,
          support::normed(w.source.data(), w.destination()), nullptr, nullptr),
      SYMM_CALL(symm_allgatherv, w.group, w.source.data(), w.destination(), &w.eight, nullptr, kF32,
          nullptr, nullptr),
      SYMM_CALL(symm_broadcast_bytes, w.group, w.source.data(), 8, nullptr, 0, 0, nullptr,
          w.out<size_t>(), nullptr),
      SYMM_CALL(symm_gatherv, w.group, w.source.data(), 8, w.destination(), &w.eight, nullptr, kF32,
          0, nullptr, nullptr),
      SYMM_CALL(symm_scatterv, w.group, w.source.data(), &w.eight, nullptr, w.destination(), 8,
          kF32, 0, nullptr, nullptr),
      SYMM_CALL(symm_reduce_scatterv, w.group, w.source.data(), &w.eight, nullptr, w.destination(),
          kF32, kSum, nullptr, nullptr),
      SYMM_CALL(symm_alltoallv, w.group, w.source.data(), &w.eight, nullptr, w.destination(),
          &w.eight, nullptr, kF32, nullptr, nullptr),
      SYMM_CALL(symm_alltoallv_device, w.group, w.source.data(), 8, &w.eight, nullptr,
          w.destination(), 8, &w.eight, nullptr, kF32, nullptr, nullptr),
      SYMM_CALL(symm_collective, w.group, planned(w, SYMM_COLLECTIVE_ALLREDUCE), nullptr, nullptr),
      SYMM_CALL(symm_batch, w.group, planned(w, SYMM_COLLECTIVE_ALLREDUCE), 1, nullptr, nullptr),
      SYMM_CALL(symm_collective_plan, w.group, planned(w, SYMM_COLLECTIVE_ALLREDUCE), nullptr,
          w.out_struct<symm_plan_info_t>()),

      SYMM_CALL(symm_ipc_export, w.block + 1, 8, nullptr, w.out_token(), w.kToken, w.out<size_t>(),
          nullptr),
      SYMM_CALL(
          symm_ipc_import, w.token.data(), w.token_size, nullptr, w.out<symm_ipc_t*>(), nullptr),
      SYMM_CALL(symm_ipc_retain, w.ipc),
      SYMM_CALL(symm_ipc_pointer, w.ipc, w.out<void*>()),
      SYMM_CALL(symm_ipc_bytes, w.ipc, w.out<size_t>()),
      SYMM_CALL(symm_ipc_stream_wait, w.ipc, nullptr, nullptr),
      SYMM_CALL(symm_ipc_record_use, w.ipc, nullptr, nullptr),
      SYMM_CALL(symm_ipc_suspend, w.fresh_import(), nullptr, nullptr),
      SYMM_CALL(
          symm_ipc_resume, w.suspended_import(), w.token.data(), w.token_size, nullptr, nullptr),
      SYMM_CALL(symm_ipc_info, w.ipc, w.out_struct<symm_ipc_info_t>()),
      SYMM_CALL(symm_ipc_export_bundle, bundled(w.block, "a piece"), 1, nullptr, w.out_token(),
          w.kToken, w.out<size_t>(), nullptr),
      SYMM_CALL(symm_ipc_bundle_size, w.ipc, w.out<size_t>()),
      SYMM_CALL(symm_ipc_bundle_piece, w.ipc, 0, w.out_struct<symm_ipc_piece_t>()),
      SYMM_CALL(symm_ipc_bundle_find, w.ipc, "whole", w.out<size_t>()),
      SYMM_CALL(symm_ipc_put_pieces, w.fresh_import(), 0, w.source.data(), 8,
          support::pieces_at(&kPiece), 0, nullptr, nullptr),
      SYMM_CALL(symm_ipc_get_pieces, w.fresh_import(), 0, w.destination(), 8,
          support::pieces_at(&kPiece), nullptr, nullptr),
      SYMM_CALL(symm_ipc_signal_value, w.fresh_import(), 0, SYMM_SIGNAL_ADD, 1, nullptr, nullptr),
      SYMM_CALL(symm_ipc_wait_value, w.token.data(), w.token_size, 0, SYMM_COMPARE_EQ, 0, within(1),
          w.out<uint64_t>(), nullptr),
      SYMM_CALL(symm_ipc_fence, w.block, w.kBytes, 0, within(1), nullptr),
      SYMM_CALL(symm_ipc_publish, w.fresh_name(), 1, w.token.data(), w.token_size, nullptr),
      SYMM_CALL(symm_ipc_lookup, w.version_name.c_str(), SYMM_COMPARE_GE, 0,
          looking(SYMM_TIMEOUT_NOW), w.out_token(), w.kToken, w.out<size_t>(), w.out<uint64_t>()),
      SYMM_CALL(symm_ipc_withdraw_version, w.version_name.c_str(), 1, within(1)),
      SYMM_CALL(symm_ipc_withdraw, w.block, 8, within(1)),
      SYMM_CALL(symm_ipc_holders, w.block, 8, nullptr, w.out_struct<symm_ipc_holders_t>()),
      SYMM_CALL(symm_ipc_collect, nullptr, w.out_struct<symm_ipc_collect_stats_t>()),
      SYMM_CALL(symm_ipc_stats, w.out_struct<symm_ipc_stats_t>()),
  };
  return rows;
}
}  // namespace symm_test
