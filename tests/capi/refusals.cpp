#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/capi/refusal.hpp"

// One row: SYMM_REFUSE(symm_alloc, size, "0", INVALID_ARGUMENT, 0)
#define SYMM_REFUSE(function, parameter, how, status, value) \
  SYMM_REFUSE_OF(parameter, how, status, value, #function)
// One row for several functions.
#define SYMM_REFUSE_OF(parameter, how, status, value, ...)                                      \
  {{__VA_ARGS__}, {#parameter}, how, SYMM_ERR_##status, [](World& w) { return w.bits(value); }, \
      nullptr}
// One row whose message names only a part of the argument.
#define SYMM_REFUSE_NAMED(function, parameter, named, how, status, value)                     \
  {{#function}, {#parameter}, how, SYMM_ERR_##status, [](World& w) { return w.bits(value); }, \
      #named}
// A row for every function that has one of the parameters, which are names or types.
#define SYMM_REFUSE_ALL(how, status, value, ...) \
  {{}, {__VA_ARGS__}, how, SYMM_ERR_##status, [](World& w) { return w.bits(value); }, nullptr}
#define SYMM_REFUSE_NULL(...) SYMM_REFUSE_ALL("NULL", INVALID_ARGUMENT, nullptr, __VA_ARGS__)
#define SYMM_STRUCT(type, ...) struct_of<type>("const " #type "*", type __VA_ARGS__)
#define SYMM_INITIALISED(kind, macro) SYMM_STRUCT(symm_##kind##_t, SYMM_##macro##_INIT)
#define SYMM_REFUSE_SCALED(named, how, status, ...)         \
  {{"symm_allreduce"}, {"options"}, how, SYMM_ERR_##status, \
      [](World& w) { return w.bits(support::scaled(__VA_ARGS__)); }, named}
// A call that is not right but for one argument.
#define SYMM_REFUSE_CALL(function, named, how, status, ...) \
  {#function, #named, how, SYMM_ERR_##status, [](World& w) { return function(__VA_ARGS__); }}
// A put of pieces of `source`, which has 256 bytes, with a list that `change` has changed.
#define SYMM_REFUSE_PIECES(named, how, status, ...)   \
  {"symm_put_pieces", #named, how, SYMM_ERR_##status, \
      [](World& w) { return put_pieces(w, [](symm_pieces_call_t& call) { __VA_ARGS__; }); }}
#define SYMM_REFUSE_CONFIG(named, how, status, ...)     \
  {"symm_group_create", #named, how, SYMM_ERR_##status, \
      [](World& w) { return create(w, [](symm_group_config_t& config) { __VA_ARGS__; }); }}

namespace symm_test {
namespace {
constexpr size_t kBytes = World::kBytes;
constexpr int32_t kNoChannel = 1 << 30;
constexpr int32_t kOne[] = {1};
constexpr int32_t kMinusOne[] = {-1};

// A stream of another library; the host back end has none.
void* stream() {
  static int somebody_elses;
  return &somebody_elses;
}

template <class T>
Struct struct_of(const char* type, T known) {
  struct Newer {
    T known;
    uint64_t appended;
  };

  static T cut = known;
  static Newer used{known, 1};
  static Newer unused{known, 0};
  cut.struct_size = sizeof(size_t);
  used.known.struct_size = unused.known.struct_size = sizeof(Newer);
  static symm_failure_t failure = SYMM_FAILURE_INIT;
  // Bytes between the fields are zero, too, as where a language clears memory.
  static const T zeroed = [&] {
    T made;
    std::memset(static_cast<void*>(&made), 0, sizeof made);
    made.struct_size = sizeof made;
    if constexpr (std::is_same_v<T, symm_rmsnorm_call_t>) {
      made.weight = known.weight;
      made.norm_out = known.norm_out;
    }
    return made;
  }();
  constexpr bool tells = requires { known.failure; };
  if constexpr (tells) used.known.failure = unused.known.failure = &failure;
  return {type, &cut, &used, &unused, tells ? &failure : nullptr, &zeroed};
}

support::Passed<symm_heap_options_t> heap_with(uint64_t flags, int32_t node, uint64_t alignment) {
  return {{sizeof(symm_heap_options_t), flags, node, alignment, 0, nullptr, 0, nullptr}};
}

support::Passed<symm_adopt_options_t> adopting(uint64_t flags, int32_t fd, uint64_t offset) {
  return {{sizeof(symm_adopt_options_t), flags, offset, fd, nullptr, nullptr}};
}

support::Passed<symm_group_options_t> grouped(
    uint64_t flags, uint64_t removed, int32_t channels = 0) {
  support::Passed<symm_group_options_t> made{SYMM_GROUP_OPTIONS_INIT};
  made.value.flags = flags;
  made.value.remove_flags = removed;
  made.value.channels = channels;
  return made;
}

constexpr std::byte kNoId[SYMM_UNIQUE_ID_MAX_BYTES] = {};

support::Passed<symm_grow_options_t> growing(symm_grow_mode_t mode, int32_t count) {
  return {{sizeof(symm_grow_options_t), 1, nullptr, mode, count}};
}

// Calls symm_group_create() with a configuration that `change` has changed.
template <class Change>
symm_status_t create(World& w, Change change) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 1000;
  change(config);
  return symm_group_create(&config, w.out<symm_group_t*>());
}

// The second piece of each list is what its name says.
constexpr symm_piece_t kRight = {0, 0, 8, 2, 16, 8};
constexpr symm_piece_t kBeyondSource[] = {kRight, {249, 0, 8, 1, 0, 0}};
constexpr symm_piece_t kRowsBeyondSource[] = {kRight, {0, 0, 8, 17, 16, 8}};
constexpr symm_piece_t kFarFromSource[] = {kRight, {UINT64_MAX - 3, 0, 8, 0, 0, 0}};
constexpr symm_piece_t kRowsWrapAround[] = {kRight, {0, 0, 8, UINT64_MAX, UINT64_MAX / 2, 8}};
constexpr symm_piece_t kRowWrapsAround[] = {kRight, {8, 0, UINT64_MAX - 3, 1, 0, 0}};
constexpr symm_piece_t kBeyondBlock[] = {kRight, {0, kBytes - 7, 8, 1, 0, 0}};
constexpr symm_piece_t kRowsBeyondBlock[] = {kRight, {0, 0, 8, 3, 0, kBytes / 2}};
constexpr symm_piece_t kOverlappingRows[] = {kRight, {0, 0, 8, 2, 8, 7}};
constexpr symm_piece_t kRowsOnOnePlace[] = {kRight, {0, 0, 8, 2, 8, 0}};
constexpr uint64_t kPages[] = {0, 31, 32};
constexpr uint64_t kFarPages[] = {0, 64};
constexpr uint64_t kPageThatWraps[] = {0, UINT64_MAX / 4, 1};

template <class Change>
symm_status_t put_pieces(World& w, Change change) {
  symm_pieces_call_t call = SYMM_PIECES_CALL_INIT;
  call.count = 2;
  change(call);
  return symm_put_pieces(w.memory, 0, 0, w.source.data(), sizeof w.source, &call, nullptr, nullptr);
}

support::Passed<symm_neighbor_t> without_memory(const World& w) {
  support::Passed<symm_neighbor_t> made = neighbor(w, &kRight);
  made.value.memory = nullptr;
  return made;
}

symm_status_t unused_set(void*, const char*, const void*, size_t, uint64_t) {
  return SYMM_ERR_INTERNAL;
}

symm_status_t unused_get(void*, const char*, void*, size_t, size_t*, uint64_t) {
  return SYMM_ERR_INTERNAL;
}

const symm_store_t kStore{sizeof(symm_store_t), nullptr, unused_set, unused_get};
const symm_store_t kWithoutSet{sizeof(symm_store_t), nullptr, nullptr, unused_get};
const symm_store_t kWithoutGet{sizeof(symm_store_t), nullptr, unused_set, nullptr};
const symm_store_t kShortStore{8, nullptr, unused_set, unused_get};
}  // namespace

// A table with a row for each struct and parameter, so it is as long as the C ABI.
const std::vector<Refusal>& refusals() {
  using support::normed;
  using support::placed;
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE_NULL(kAnyOutput, "callback", "combine", "pointer", "token", "ticket", "ranks",
          "waits", "source", "destination", "messages", "neighbors", "send_ranks", "recv_ranks",
          "call", "norm", "requests", "pieces", "name"),
      SYMM_REFUSE_NULL("send", "send_counts", "recv", "recv_counts"),
      SYMM_REFUSE_ALL(
          "struct_size 0", INVALID_ARGUMENT, w.out_struct<symm_failure_t>(0), kOutputStruct),
      SYMM_REFUSE_ALL("not initialised", INVALID_ARGUMENT, w.out_struct<symm_failure_t>(0x5A5A5A5A),
          kOutputStruct),
      SYMM_REFUSE_ALL("more than memory", INVALID_ARGUMENT, &w.too_many, "send_counts",
          "send_displacements", "recv_counts", "recv_displacements"),
      SYMM_REFUSE_ALL("more than memory", INVALID_ARGUMENT, w.too_many, "send_count", "recv_count",
          "rows", "row_count", "recv_stride", "send_stride", "tokens"),
      SYMM_REFUSE_ALL("overlaps", INVALID_ARGUMENT, w.source.data() + 1, "recv"),
      SYMM_REFUSE_ALL("-1", INVALID_ARGUMENT, -1, "rank", "root", "channel"),
      SYMM_REFUSE_ALL("= size", INVALID_ARGUMENT, 1, "rank", "root"),
      SYMM_REFUSE_ALL("too large", INVALID_ARGUMENT, kNoChannel, "channel"),
      SYMM_REFUSE_ALL("wraps around", INVALID_ARGUMENT, SIZE_MAX - 3, "offset"),
      SYMM_REFUSE_ALL("beyond the block", INVALID_ARGUMENT, kBytes + 8, "offset"),
      SYMM_REFUSE_ALL("not NULL", INVALID_ARGUMENT, stream(), "stream", "after_stream"),
      SYMM_REFUSE_ALL("-1", INVALID_ARGUMENT, -1, "symm_dtype_t", "symm_op_t", "symm_signal_op_t",
          "symm_atomic_op_t", "symm_compare_t", "symm_backend_t", "symm_log_level_t"),
      SYMM_REFUSE_ALL("0", INVALID_ARGUMENT, 0, "symm_dtype_t"),
      SYMM_REFUSE_ALL("33 bits", UNSUPPORTED, SYMM_DTYPE_F32 + 1, "symm_dtype_t"),
      SYMM_REFUSE_ALL("unknown", UNSUPPORTED, 10, "symm_op_t"),
      SYMM_REFUSE_ALL("unknown", UNSUPPORTED, 2, "symm_signal_op_t"),
      SYMM_REFUSE_ALL("unknown", UNSUPPORTED, 7, "symm_atomic_op_t"),
      SYMM_REFUSE_ALL("unknown", UNSUPPORTED, 6, "symm_compare_t"),
      SYMM_REFUSE_ALL("unknown", UNSUPPORTED, 3, "symm_backend_t"),
      SYMM_REFUSE_ALL("0", UNSUPPORTED, 0, "symm_log_level_t"),
      SYMM_REFUSE_ALL("one too many", UNSUPPORTED, SYMM_LOG_DEBUG + 1, "symm_log_level_t"),
      {{}, {"const symm_collective_options_t*"}, "algorithm unknown", SYMM_ERR_UNSUPPORTED,
          [](World& w) { return w.bits(support::forced(99)); }, "algorithm"},

      SYMM_REFUSE(symm_log_to_fd, fd, "-1", INVALID_ARGUMENT, -1),
      SYMM_REFUSE(symm_log_to_fd, fd, "not open", INVALID_ARGUMENT, 1 << 20),
      SYMM_REFUSE(symm_device_info, device, "beyond the last", INVALID_ARGUMENT, 1),
      SYMM_REFUSE(symm_device_info, device, "-2", INVALID_ARGUMENT, -2),
      SYMM_REFUSE(symm_topology, capacity, "too small", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_group_topology, capacity, "too small", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_group_create_from_ranks, ranks, "not in the group", INVALID_ARGUMENT, kOne),
      SYMM_REFUSE(symm_group_create_from_ranks, count, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE_NAMED(symm_group_create_from_ranks, count, ranks, "more than there are",
          INVALID_ARGUMENT, w.too_many),
      SYMM_REFUSE_NAMED(
          symm_barrier, count, ranks, "more than there are", INVALID_ARGUMENT, w.too_many),
      SYMM_REFUSE(symm_barrier, ranks, "-1", INVALID_ARGUMENT, kMinusOne),
      SYMM_REFUSE(symm_barrier, count, "0 with ranks", INVALID_ARGUMENT, 0),

      SYMM_REFUSE_OF(bytes, "0", INVALID_ARGUMENT, 0, "symm_alloc", "symm_buffer_adopt",
          "symm_buffer_export_dmabuf", "symm_heap_alloc"),
      SYMM_REFUSE_NAMED(symm_alloc, bytes, 1152921504606846976, "more than there is", OUT_OF_MEMORY,
          size_t{1} << 60),
      SYMM_REFUSE_OF(bytes, "SIZE_MAX", OUT_OF_MEMORY, SIZE_MAX, "symm_alloc", "symm_heap_alloc"),
      SYMM_REFUSE_NAMED(symm_alloc, options, flags, "unknown bit", UNSUPPORTED, placed(4)),
      SYMM_REFUSE_NAMED(symm_alloc, options, flags, "unknown high bit", UNSUPPORTED,
          placed(SYMM_ALLOC_HOST | uint64_t{1} << 48)),
      SYMM_REFUSE_NAMED(symm_alloc, options, SYMM_ALLOC_ON_NODE, "without its flag",
          INVALID_ARGUMENT, placed(SYMM_ALLOC_HOST, 1)),
      SYMM_REFUSE_NAMED(symm_alloc, options, numa_node, "the last that can be named",
          INVALID_ARGUMENT, placed(SYMM_ALLOC_HOST | SYMM_ALLOC_ON_NODE, INT32_MAX)),
      SYMM_REFUSE_NAMED(symm_alloc, options, numa_node, "the last, on memory that is the host's",
          INVALID_ARGUMENT, placed(SYMM_ALLOC_ON_NODE, INT32_MAX)),
      SYMM_REFUSE_NAMED(symm_alloc, options, numa_node, "-2", INVALID_ARGUMENT,
          placed(SYMM_ALLOC_HOST | SYMM_ALLOC_ON_NODE, -2)),
      SYMM_REFUSE_NAMED(symm_buffer_adopt, options, SYMM_ADOPT_FD, "fd without its flag",
          INVALID_ARGUMENT, adopting(0, 3, 0)),
      SYMM_REFUSE_NAMED(symm_buffer_adopt, options, SYMM_ADOPT_FD, "offset without its flag",
          INVALID_ARGUMENT, adopting(0, 0, 16)),
      SYMM_REFUSE_NAMED(
          symm_buffer_adopt, options, flags, "unknown bit", UNSUPPORTED, adopting(2, 0, 0)),
      SYMM_REFUSE_NAMED(symm_buffer_adopt, options, pointer, "both", INVALID_ARGUMENT,
          adopting(SYMM_ADOPT_FD, 0, 0)),
      SYMM_REFUSE(symm_buffer_adopt, pointer, "memory of the host", UNSUPPORTED, w.source.data()),
      SYMM_REFUSE(symm_buffer_export_dmabuf, buffer, "of the host back end", UNAVAILABLE, w.buffer),
      SYMM_REFUSE(symm_buffer_export_dmabuf, offset, "inside a page", INVALID_ARGUMENT, 8),
      SYMM_REFUSE_OF(bytes, "beyond the end", INVALID_ARGUMENT, kBytes + 1,
          "symm_buffer_export_dmabuf", "symm_ipc_withdraw", "symm_ipc_holders", "symm_ipc_fence"),
      SYMM_REFUSE_OF(bytes, "SIZE_MAX", INVALID_ARGUMENT, SIZE_MAX, "symm_buffer_export_dmabuf",
          "symm_ipc_export"),
      SYMM_REFUSE(symm_buffer_suspend, buffer, "that has met", INVALID_ARGUMENT, w.buffer),
      SYMM_REFUSE(symm_buffer_suspend, buffer, "suspended", INVALID_ARGUMENT, w.suspended_buffer()),
      SYMM_REFUSE(symm_buffer_suspend, flags, "unknown bit", UNSUPPORTED, 2),
      SYMM_REFUSE(symm_buffer_resume, buffer, "not suspended", INVALID_ARGUMENT, w.buffer),
      SYMM_REFUSE(symm_memory_device_view, memory, "of the host back end", UNSUPPORTED, w.memory),
      SYMM_REFUSE(
          symm_memory_multicast_pointer, memory, "of the host back end", UNAVAILABLE, w.memory),
      SYMM_REFUSE_OF(address, "of no buffer", NOT_FOUND, w.source.data(), "symm_buffer_find",
          "symm_memory_find"),
      SYMM_REFUSE_OF(address, "NULL", NOT_FOUND, nullptr, "symm_buffer_find", "symm_memory_find"),

      SYMM_REFUSE(symm_memory_move, new_group, "has it already", INVALID_ARGUMENT, w.group),
      SYMM_REFUSE(symm_heap_move, new_group, "has it already", INVALID_ARGUMENT, w.group),
      SYMM_REFUSE(symm_memory_move, memory, "NULL on all ranks", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE(symm_heap_move, heap, "NULL on all ranks", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE(symm_heap_create, bytes, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_heap_create, bytes, "SIZE_MAX", UNSUPPORTED, SIZE_MAX),
      SYMM_REFUSE(symm_heap_create, bytes, "more than there is", OUT_OF_MEMORY, size_t{1} << 39),
      SYMM_REFUSE_NAMED(symm_heap_create, options, flags, "unknown bit", UNSUPPORTED,
          heap_with(uint64_t{1} << 60, 0, 0)),
      SYMM_REFUSE_NAMED(symm_heap_create, options, SYMM_ALLOC_ON_NODE, "without its flag",
          INVALID_ARGUMENT, heap_with(0, 1, 0)),
      SYMM_REFUSE_NAMED(
          symm_heap_create, options, alignment, "3", INVALID_ARGUMENT, heap_with(0, 0, 3)),
      SYMM_REFUSE(symm_heap_alloc, bytes, "1 too many", OUT_OF_MEMORY, 1),
      SYMM_REFUSE(symm_heap_alloc, alignment, "24", INVALID_ARGUMENT, 24),
      SYMM_REFUSE(symm_heap_alloc, alignment, "more than the block's", INVALID_ARGUMENT, 8192),
      SYMM_REFUSE(symm_heap_free, pointer, "not of a heap", INVALID_ARGUMENT, w.block),
      SYMM_REFUSE(symm_heap_free, pointer, "inside a piece", INVALID_ARGUMENT,
          static_cast<char*>(w.piece) + 8),
      SYMM_REFUSE(symm_heap_find, address, "of no heap", NOT_FOUND, w.block),
      SYMM_REFUSE(symm_heap_find, address, "behind the piece", NOT_FOUND,
          static_cast<char*>(w.piece) + kBytes - 8),

      SYMM_REFUSE(symm_fill16, offset, "not a multiple of 2", INVALID_ARGUMENT, 1),
      SYMM_REFUSE_OF(offset, "not a multiple of 4", INVALID_ARGUMENT, 2, "symm_fill32",
          "symm_write_value32", "symm_read_value32", "symm_atomic32", "symm_wait_value32"),
      SYMM_REFUSE(symm_fill8, count, "more than the block", INVALID_ARGUMENT, kBytes + 1),
      SYMM_REFUSE(symm_fill16, count, "wraps around", INVALID_ARGUMENT, SIZE_MAX / 2 + 2),
      SYMM_REFUSE(symm_fill32, count, "wraps around", INVALID_ARGUMENT, SIZE_MAX / 4 + 2),
      SYMM_REFUSE(symm_fill64, count, "wraps around", INVALID_ARGUMENT, SIZE_MAX / 8 + 2),
      SYMM_REFUSE_OF(offset, "not a multiple of 8", INVALID_ARGUMENT, 4, "symm_fill64",
          "symm_write_value64", "symm_read_value64", "symm_atomic64", "symm_wait_value64"),
      SYMM_REFUSE(symm_wait_signals, waits, "rank = size", INVALID_ARGUMENT,
          support::awaited(1, 0, SYMM_COMPARE_EQ)),
      SYMM_REFUSE(symm_wait_signals, waits, "channel -1", INVALID_ARGUMENT,
          support::awaited(0, -1, SYMM_COMPARE_EQ)),
      SYMM_REFUSE(
          symm_wait_signals, waits, "unknown compare", UNSUPPORTED, support::awaited(0, 0, 6)),
      SYMM_REFUSE(symm_wait_signals, count, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_wait_signals, count, "too large", INVALID_ARGUMENT, 65),
      SYMM_REFUSE(symm_messages, messages, "rank = size", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_SEND, w.source.data(), nullptr, 1)),
      SYMM_REFUSE(symm_messages, messages, "channel -1", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_SEND, w.source.data(), nullptr, 0, -1)),
      SYMM_REFUSE(symm_messages, messages, "kind -1", INVALID_ARGUMENT, message(-1, nullptr)),
      SYMM_REFUSE(symm_messages, messages, "unknown kind", UNSUPPORTED, message(2, nullptr)),
      SYMM_REFUSE_NAMED(symm_messages, messages, source, "NULL", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_SEND, nullptr)),
      SYMM_REFUSE_NAMED(symm_messages, messages, destination, "NULL", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_RECV, nullptr)),
      SYMM_REFUSE_NAMED(symm_messages, messages, destination, "of a send", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_SEND, w.source.data(), w.destination())),
      SYMM_REFUSE_NAMED(symm_messages, messages, source, "of a receive", INVALID_ARGUMENT,
          message(SYMM_MESSAGE_RECV, w.source.data(), w.destination())),
      SYMM_REFUSE(symm_messages, count, "more than there can be", INVALID_ARGUMENT, SIZE_MAX),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, neighbors[0].rank, "is size",
          INVALID_ARGUMENT, neighbor(w, &kRight, 1)),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, neighbors[0].offset, "beyond the block",
          INVALID_ARGUMENT, neighbor(w, &kRight, 0, kBytes + 1)),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, neighbors[0].pieces[0].from,
          "beyond source", INVALID_ARGUMENT, neighbor(w, &kBeyondSource[1])),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, neighbors[0].pieces, "NULL",
          INVALID_ARGUMENT, neighbor(w, nullptr)),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, neighbors[0].memory, "NULL",
          INVALID_HANDLE, without_memory(w)),
      SYMM_REFUSE_NAMED(symm_exchange_create, neighbors, rank 0 puts 16 bytes to rank 0,
          "more than is expected", MISMATCH, neighbor(w, &kRight)),
      SYMM_REFUSE(
          symm_exchange_create, count, "more than there can be", INVALID_ARGUMENT, SIZE_MAX),
      SYMM_REFUSE(symm_request_wait_any, requests, "of another kind", INVALID_HANDLE,
          reinterpret_cast<symm_request_t* const*>(&w.group)),
      SYMM_REFUSE(
          symm_request_wait_any, count, "more than there can be", INVALID_ARGUMENT, SIZE_MAX),
      SYMM_REFUSE_NAMED(symm_request_wait_any, count, requests, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE_OF(send_ranks, "[0] is size", INVALID_ARGUMENT, +kOne, "symm_neighbor_alltoallv"),
      SYMM_REFUSE_OF(
          recv_ranks, "[0] is -1", INVALID_ARGUMENT, +kMinusOne, "symm_neighbor_alltoallv"),
      SYMM_REFUSE(symm_wait_signals, mode, "-1", INVALID_ARGUMENT, -1),
      SYMM_REFUSE(symm_wait_signals, mode, "2", UNSUPPORTED, 2),

      SYMM_REFUSE_OF(count, "more than memory", INVALID_ARGUMENT, w.too_many, "symm_allreduce",
          "symm_broadcast", "symm_reduce", "symm_scan", "symm_exscan", "symm_alltoall",
          "symm_gather", "symm_scatter"),
      SYMM_REFUSE_OF(
          op, "average of ranks", INVALID_ARGUMENT, SYMM_OP_AVG, "symm_scan", "symm_exscan"),
      SYMM_REFUSE_OF(op, "bits of f32", INVALID_ARGUMENT, SYMM_OP_BXOR, "symm_allreduce",
          "symm_reduce_scatter", "symm_reduce", "symm_reduce_scatterv", "symm_reduce_scatter_rows",
          "symm_scan", "symm_exscan"),
      SYMM_REFUSE_OF(op, "place of f32", INVALID_ARGUMENT, SYMM_OP_MAXLOC, "symm_allreduce",
          "symm_reduce_scatter", "symm_reduce", "symm_reduce_scatterv", "symm_reduce_scatter_rows",
          "symm_scan", "symm_exscan"),
      SYMM_REFUSE_NAMED(
          symm_allreduce, dtype, op, "a sum of pairs", INVALID_ARGUMENT, SYMM_DTYPE_F32_I32),
      SYMM_REFUSE_NAMED(
          symm_exscan, dtype, op, "a sum of pairs", INVALID_ARGUMENT, SYMM_DTYPE_I64_I64),
      SYMM_REFUSE_NAMED(
          symm_scan, options, order, "TREE", INVALID_ARGUMENT, support::ordered(SYMM_ORDER_TREE)),
      SYMM_REFUSE(symm_reduce_by, collective, "all-gather combines nothing", INVALID_ARGUMENT,
          SYMM_COLLECTIVE_ALLGATHER),
      SYMM_REFUSE(symm_reduce_by, collective, "99", UNSUPPORTED, 99),
      SYMM_REFUSE(symm_reduce_by, element_bytes, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_reduce_by, element_bytes, "more than 2^20", INVALID_ARGUMENT, 1 + (1 << 20)),
      SYMM_REFUSE(symm_reduce_by, count, "more than memory", INVALID_ARGUMENT, w.too_many),
      SYMM_REFUSE(symm_reduce_by, root, "1 of an all-reduce", INVALID_ARGUMENT, 1),
      SYMM_REFUSE_NAMED(symm_broadcast_bytes, send_bytes, send, "beyond the address space",
          INVALID_ARGUMENT, SIZE_MAX),
      SYMM_REFUSE_NAMED(symm_collective, call, collective, "has an output", INVALID_ARGUMENT,
          planned(w, SYMM_COLLECTIVE_BROADCAST_BYTES)),
      SYMM_REFUSE(symm_gatherv, send_count, "not that of recv_counts", INVALID_ARGUMENT, 7),
      SYMM_REFUSE(symm_scatterv, recv_count, "not that of send_counts", INVALID_ARGUMENT, 9),
      SYMM_REFUSE(symm_allgather_rows, recv_stride, "less than a row", INVALID_ARGUMENT, 3),
      SYMM_REFUSE(symm_reduce_scatter_rows, send_stride, "less than a row", INVALID_ARGUMENT, 3),
      SYMM_REFUSE(symm_allreduce_rmsnorm, hidden, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_allreduce_rmsnorm, hidden, "12", INVALID_ARGUMENT, 12),
      SYMM_REFUSE(symm_allreduce_rmsnorm, hidden, "too many", INVALID_ARGUMENT, 8200),
      SYMM_REFUSE(symm_allreduce_rmsnorm, dtype, "f64", INVALID_ARGUMENT, SYMM_DTYPE_F64),
      SYMM_REFUSE(symm_allreduce_rmsnorm, send, "odd", INVALID_ARGUMENT, w.source.data() + 1),
      SYMM_REFUSE_NAMED(
          symm_allreduce_rmsnorm, norm, weight, "NULL", INVALID_ARGUMENT, normed(nullptr, w.block)),
      SYMM_REFUSE(symm_allreduce_rmsnorm, norm, "no output", INVALID_ARGUMENT,
          normed(w.source.data(), nullptr)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, norm_out, "odd", INVALID_ARGUMENT,
          normed(w.source.data(), w.block + 8)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, norm_out, "overlaps", INVALID_ARGUMENT,
          normed(w.block + 16, w.block)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, epsilon, "-1", INVALID_ARGUMENT,
          normed(w.source.data(), w.block, -1)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, weight_dtype, "f64", INVALID_ARGUMENT,
          normed(w.source.data(), w.block, 0, SYMM_DTYPE_F64)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, weight_dtype, "unknown", UNSUPPORTED,
          normed(w.source.data(), w.block, 0, 0x999)),
      SYMM_REFUSE_NAMED(symm_allreduce_rmsnorm, norm, scale_kind, "unknown", UNSUPPORTED,
          normed(w.source.data(), w.block, 0, 0, 3)),
      SYMM_REFUSE_ALL("less than a block", INVALID_ARGUMENT, 7, "send_capacity", "recv_capacity"),
      SYMM_REFUSE_NAMED(symm_allreduce, options, algorithm, "on no host", INVALID_ARGUMENT,
          support::forced(SYMM_ALGORITHM_MARKED)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, max_blocks, "-1", INVALID_ARGUMENT,
          support::tagged("a tag", -1)),
      SYMM_REFUSE_NAMED(
          symm_allreduce, options, order, "4", UNSUPPORTED, support::ordered(symm_order_t{4})),
      SYMM_REFUSE_NAMED(
          symm_allreduce, options, order, "258", UNSUPPORTED, support::ordered(symm_order_t{258})),
      SYMM_REFUSE_NAMED(symm_allreduce, options, order, "-1", INVALID_ARGUMENT,
          support::ordered(symm_order_t{-1})),
      SYMM_REFUSE_SCALED("options.scale_position: 3", "unknown", UNSUPPORTED, 3, 1),
      SYMM_REFUSE_SCALED(
          "options.scale, scale_pointer", "no factor", INVALID_ARGUMENT, SYMM_SCALE_BEFORE, 0),
      SYMM_REFUSE_SCALED("options.scale, scale_pointer", "two", INVALID_ARGUMENT, SYMM_SCALE_AFTER,
          2, w.source.data()),
      SYMM_REFUSE_SCALED(
          "options.scale_position: NONE", "a factor", INVALID_ARGUMENT, SYMM_SCALE_NONE, 2),
      SYMM_REFUSE_SCALED("options.scale_position: NONE", "a pointer", INVALID_ARGUMENT,
          SYMM_SCALE_NONE, 0, w.source.data()),
      SYMM_REFUSE_SCALED("options.scale: nan", "NaN", INVALID_ARGUMENT, SYMM_SCALE_BEFORE, NAN),
      SYMM_REFUSE_SCALED(
          "not a finite f32", "too large", INVALID_ARGUMENT, SYMM_SCALE_BEFORE, 1e200),
      SYMM_REFUSE_SCALED("options.result_dtype: 0x999", "unknown", UNSUPPORTED, SYMM_SCALE_BEFORE,
          1, nullptr, 0x999),
      SYMM_REFUSE_SCALED("result_dtype: f64 of f32", "wider", INVALID_ARGUMENT, SYMM_SCALE_NONE, 0,
          nullptr, SYMM_DTYPE_F64),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_dtype, "0x999", UNSUPPORTED,
          support::wired(symm_dtype_t{0x999}, 0)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_dtype, "f16", INVALID_ARGUMENT,
          support::wired(SYMM_DTYPE_F16, 0)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_dtype, "-8", INVALID_ARGUMENT,
          support::wired(symm_dtype_t{-8}, 0)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_group, "64", INVALID_ARGUMENT,
          support::wired(SYMM_DTYPE_I8, 64)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_group, "-32", INVALID_ARGUMENT,
          support::wired(SYMM_DTYPE_I8, -32)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, wire_group, "no wire", INVALID_ARGUMENT,
          support::wired(symm_dtype_t{0}, 32)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, algorithm, "ll with a wire", INVALID_ARGUMENT,
          support::wired(SYMM_DTYPE_I8, 0, SYMM_ALGORITHM_LL)),
      SYMM_REFUSE_NAMED(
          symm_allreduce, options, chunk_bytes, "24", INVALID_ARGUMENT, support::in_chunks(24, 1)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, chunk_bytes, "0, and a value", INVALID_ARGUMENT,
          support::in_chunks(0, 1)),
      SYMM_REFUSE_NAMED(symm_allreduce, options, progress, "of a reduction", INVALID_ARGUMENT,
          support::in_chunks(16, 1, words_at(w))),
      SYMM_REFUSE_NAMED(symm_allreduce, options, ready, "odd", INVALID_ARGUMENT,
          support::in_chunks(16, 1, nullptr, words_at(w, 1))),
      SYMM_REFUSE_NAMED(symm_allreduce, options, word_pointer, "odd", INVALID_ARGUMENT,
          support::in_chunks(16, 0, nullptr, nullptr, words_at(w, 1))),
      SYMM_REFUSE_NAMED(symm_allreduce, options, word_value, "and a pointer", INVALID_ARGUMENT,
          support::in_chunks(16, 1, nullptr, nullptr, words_at(w))),
      SYMM_REFUSE_NAMED(
          symm_collective_plan, call, collective, "unknown", UNSUPPORTED, planned(w, 19)),
      SYMM_REFUSE_NAMED(
          symm_collective_plan, call, collective, "-1", INVALID_ARGUMENT, planned(w, -1)),
      SYMM_REFUSE(symm_batch, calls, "NULL", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE(symm_batch, count, "more than there can be", INVALID_ARGUMENT, SIZE_MAX),
      SYMM_REFUSE_NAMED(symm_batch, calls, recv, "NULL", INVALID_ARGUMENT,
          support::call_of(SYMM_COLLECTIVE_ALLREDUCE, w.source.data(), nullptr, 8, SYMM_DTYPE_F32)),
      SYMM_REFUSE(symm_collective, call, "NULL", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE_NAMED(symm_collective, call, collective, "unknown", UNSUPPORTED, planned(w, 19)),
      SYMM_REFUSE_NAMED(symm_collective_plan, call, count, "more than memory", INVALID_ARGUMENT,
          planned(w, 0, w.too_many)),
      SYMM_REFUSE_NAMED(
          symm_collective_plan, call, dtype, "-1", INVALID_ARGUMENT, planned(w, 0, 8, -1)),
      SYMM_REFUSE_NAMED(symm_collective_plan, call, op, "unknown", UNSUPPORTED,
          planned(w, 0, 8, SYMM_DTYPE_F32, 10)),
      SYMM_REFUSE_NAMED(symm_collective_plan, call, root, "= size", INVALID_ARGUMENT,
          planned(w, SYMM_COLLECTIVE_BROADCAST, 8, SYMM_DTYPE_F32, SYMM_OP_SUM, 1)),

      SYMM_REFUSE_OF(pointer, "of no buffer", INVALID_ARGUMENT, w.source.data(), "symm_ipc_export",
          "symm_ipc_withdraw", "symm_ipc_fence"),
      SYMM_REFUSE(symm_ipc_export, bytes, "beyond the end", INVALID_ARGUMENT, kBytes),
      SYMM_REFUSE(symm_ipc_export, options, "imports without a time", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 0, 1, nullptr, 0, 0}})),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, SYMM_IPC_NO_HOLD, "beside a time",
          INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), SYMM_IPC_NO_HOLD, 1000, 0, nullptr, 0, 0}})),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, flags, "unknown bit", UNSUPPORTED,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 2, 0, 0, nullptr, 0, 0}})),
      SYMM_REFUSE(symm_ipc_export, capacity, "too small", INVALID_ARGUMENT, 100),
      SYMM_REFUSE(symm_unique_id, capacity, "too small", INVALID_ARGUMENT, 127),
      SYMM_REFUSE(
          symm_group_invite, capacity, "too small", INVALID_ARGUMENT, SYMM_TICKET_MAX_BYTES - 1),
      SYMM_REFUSE_NAMED(symm_group_invite, options, lifetime_ms, "NOW", INVALID_ARGUMENT,
          (support::Passed<symm_invite_options_t>{
              {sizeof(symm_invite_options_t), SYMM_TIMEOUT_NOW, nullptr}})),
      SYMM_REFUSE(symm_group_join, ticket, "no ticket", INVALID_ARGUMENT, w.source.data()),
      SYMM_REFUSE(symm_group_join, ticket, "a token", INVALID_ARGUMENT, w.token.data()),
      SYMM_REFUSE(symm_group_join, ticket_bytes, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(
          symm_group_join, ticket_bytes, "one too few", INVALID_ARGUMENT, w.ticket_size - 1),
      SYMM_REFUSE(
          symm_group_join, ticket_bytes, "one too many", INVALID_ARGUMENT, w.ticket_size + 1),
      SYMM_REFUSE_NAMED(symm_group_grow, options, mode, "unknown", UNSUPPORTED, growing(3, 0)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, mode, "-1", INVALID_ARGUMENT, growing(-1, 0)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "fills, with a number", INVALID_ARGUMENT,
          growing(SYMM_GROW_FILL_DEAD, 1)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "appends nobody", INVALID_ARGUMENT,
          growing(SYMM_GROW_APPEND, 0)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "appends -1", INVALID_ARGUMENT,
          growing(SYMM_GROW_APPEND, -1)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "appends too many", INVALID_ARGUMENT,
          growing(SYMM_GROW_APPEND, 32767)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "admits nobody", INVALID_ARGUMENT,
          growing(SYMM_GROW_SPARE, 0)),
      SYMM_REFUSE_NAMED(symm_group_grow, options, count, "admits too many", INVALID_ARGUMENT,
          growing(SYMM_GROW_SPARE, 257)),
      SYMM_REFUSE_OF(token, "no token", INVALID_ARGUMENT, w.source.data(), "symm_ipc_import",
          "symm_ipc_resume", "symm_ipc_publish", "symm_ipc_wait_value"),
      SYMM_REFUSE_OF(token_bytes, "0", INVALID_ARGUMENT, 0, "symm_ipc_import", "symm_ipc_resume",
          "symm_ipc_publish", "symm_ipc_wait_value"),
      SYMM_REFUSE_OF(token_bytes, "one too few", INVALID_ARGUMENT, w.token_size - 1,
          "symm_ipc_import", "symm_ipc_resume", "symm_ipc_publish", "symm_ipc_wait_value"),
      SYMM_REFUSE_OF(token_bytes, "one too many", INVALID_ARGUMENT, w.token_size + 1,
          "symm_ipc_import", "symm_ipc_resume", "symm_ipc_publish", "symm_ipc_wait_value"),
      SYMM_REFUSE(symm_ipc_suspend, ipc, "suspended", INVALID_ARGUMENT, w.suspended_import()),
      SYMM_REFUSE(symm_ipc_resume, ipc, "not suspended", INVALID_ARGUMENT, w.fresh_import()),
      SYMM_REFUSE(symm_ipc_resume, token, "NULL beside its bytes", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE_NAMED(symm_ipc_resume, options, flags, "unknown bit", UNSUPPORTED,
          (support::Passed<symm_ipc_import_options_t>{
              {sizeof(symm_ipc_import_options_t), SYMM_IPC_READ_ONLY, 0, nullptr, 0, nullptr}})),
      SYMM_REFUSE_NAMED(symm_ipc_resume, options, device, "a device", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_import_options_t>{
              {sizeof(symm_ipc_import_options_t), 0, 0, nullptr, 1, nullptr}})),
      SYMM_REFUSE_NAMED(symm_ipc_export_bundle, pieces, pieces[0].name, "two lines",
          INVALID_ARGUMENT, support::bundled(w.block, "two\nlines")),
      SYMM_REFUSE_NAMED(symm_ipc_export_bundle, pieces, pieces[0].pointer, "of no buffer",
          INVALID_ARGUMENT, support::bundled(w.source.data(), "a piece")),
      SYMM_REFUSE(symm_ipc_export_bundle, count, "0", INVALID_ARGUMENT, 0),
      SYMM_REFUSE(symm_ipc_export_bundle, count, "more than a bundle has", INVALID_ARGUMENT,
          SYMM_IPC_BUNDLE_MAX_PIECES + 1),
      SYMM_REFUSE(symm_ipc_export_bundle, options, "imports without a time", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 0, 1, nullptr, 0, 0}})),
      SYMM_REFUSE(symm_ipc_export_bundle, capacity, "too small", INVALID_ARGUMENT, 100),
      SYMM_REFUSE(symm_ipc_bundle_piece, index, "= size", INVALID_ARGUMENT, 1),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, channels, "-1", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 0, 0, nullptr, -1, 0}})),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, channels, "too many", UNSUPPORTED,
          (support::Passed<symm_ipc_export_options_t>{{sizeof(symm_ipc_export_options_t), 0, 0, 0,
              nullptr, SYMM_IPC_CHANNELS_MAX + 1, 0}})),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, fence_bytes, "without channels", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 0, 0, nullptr, 0, 64}})),
      SYMM_REFUSE_NAMED(symm_ipc_export, options, hold_ms, "beside channels", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 1000, 0, nullptr, 1, 0}})),
      SYMM_REFUSE_NAMED(symm_ipc_export_bundle, options, channels, "of a bundle", UNSUPPORTED,
          (support::Passed<symm_ipc_export_options_t>{
              {sizeof(symm_ipc_export_options_t), 0, 0, 0, nullptr, 1, 0}})),
      SYMM_REFUSE_OF(ipc, "a bundle", INVALID_ARGUMENT, w.ipc, "symm_ipc_put_pieces",
          "symm_ipc_get_pieces", "symm_ipc_signal_value"),
      SYMM_REFUSE_OF(ipc, "suspended", INVALID_ARGUMENT, w.suspended_import(),
          "symm_ipc_put_pieces", "symm_ipc_get_pieces", "symm_ipc_signal_value"),
      SYMM_REFUSE(symm_ipc_put_pieces, epoch, "of no put", INVALID_ARGUMENT, UINT64_MAX),
      SYMM_REFUSE_NAMED(symm_ipc_put_pieces, source_bytes, call.pieces[0].from, "less than a piece",
          INVALID_ARGUMENT, 7),
      SYMM_REFUSE_NAMED(symm_ipc_get_pieces, destination_bytes, call.pieces[0].to,
          "less than a piece", INVALID_ARGUMENT, 7),
      SYMM_REFUSE(symm_ipc_fence, bytes, "some bytes of a part", INVALID_ARGUMENT, 8),
      SYMM_REFUSE(symm_ipc_publish, name, "empty", INVALID_ARGUMENT, ""),
      SYMM_REFUSE(symm_ipc_publish, name, "two lines", INVALID_ARGUMENT, "two\nlines"),
      SYMM_REFUSE(symm_ipc_lookup, name, "two lines", INVALID_ARGUMENT, "two\nlines"),
      SYMM_REFUSE(symm_ipc_lookup, capacity, "too small", INVALID_ARGUMENT, 100),
      SYMM_REFUSE_NAMED(
          symm_ipc_withdraw_version, name, version, "never published", INVALID_ARGUMENT, "nobody"),
      SYMM_REFUSE(symm_ipc_withdraw_version, version, "never published", INVALID_ARGUMENT, 2),
      SYMM_REFUSE(symm_ipc_import, options, "device -2", INVALID_ARGUMENT,
          (support::Passed<symm_ipc_import_options_t>{
              {sizeof(symm_ipc_import_options_t), SYMM_IPC_ON_DEVICE, 0, nullptr, -2, nullptr}})),
      SYMM_REFUSE_NAMED(symm_ipc_import, options, SYMM_IPC_ON_DEVICE, "without its flag",
          INVALID_ARGUMENT,
          (support::Passed<symm_ipc_import_options_t>{
              {sizeof(symm_ipc_import_options_t), 0, 0, nullptr, 1, nullptr}})),
      SYMM_REFUSE_NAMED(symm_ipc_import, options, flags, "unknown bit", UNSUPPORTED,
          (support::Passed<symm_ipc_import_options_t>{
              {sizeof(symm_ipc_import_options_t), 4, 0, nullptr, 0, nullptr}})),

      {{}, {"const symm_group_options_t*"}, "unknown flag", SYMM_ERR_UNSUPPORTED,
          [](World& w) { return w.bits(grouped(uint64_t{1} << 40, 0)); }, "options.flags"},
      {{}, {"const symm_group_options_t*"}, "removes an unknown flag", SYMM_ERR_UNSUPPORTED,
          [](World& w) { return w.bits(grouped(0, uint64_t{1} << 40)); }, "options.remove_flags"},
      {{}, {"const symm_group_options_t*"}, "a flag beside its opposite", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) { return w.bits(grouped(SYMM_GROUP_CHECK | SYMM_GROUP_NO_CHECK, 0)); },
          "options.flags"},
      {{}, {"const symm_group_options_t*"}, "added and removed", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) { return w.bits(grouped(SYMM_GROUP_CHECK, SYMM_GROUP_CHECK)); },
          "options.remove_flags"},
      {{}, {"const symm_group_options_t*"}, "a device", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) { return w.bits(grouped(SYMM_GROUP_ON_DEVICE, 0)); },
          "SYMM_GROUP_ON_DEVICE"},
      {{}, {"const symm_group_options_t*"}, "variables at load", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) { return w.bits(grouped(SYMM_GROUP_VARIABLES_AT_LOAD, 0)); },
          "SYMM_GROUP_VARIABLES_AT_LOAD"},
      {{}, {"const symm_group_options_t*"}, "257 channels", SYMM_ERR_UNSUPPORTED,
          [](World& w) { return w.bits(grouped(0, 0, 257)); }, "options.channels"},
      {{}, {"const symm_group_options_t*"}, "-1 channels", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) { return w.bits(grouped(0, 0, -1)); }, "options.channels"},
      {{}, {"const symm_group_options_t*"}, "looks once", SYMM_ERR_INVALID_ARGUMENT,
          [](World& w) {
            auto made = grouped(0, 0);
            made.value.timeout_ms = SYMM_TIMEOUT_NOW;
            return w.bits(made);
          },
          "options.timeout_ms"},
      SYMM_REFUSE_OF(options, "looks once", INVALID_ARGUMENT, support::within(SYMM_TIMEOUT_NOW),
          "symm_signal", "symm_signal_value", "symm_put", "symm_get", "symm_put_signal",
          "symm_put_signal_value", "symm_fill8", "symm_fill16", "symm_fill32", "symm_fill64",
          "symm_put_pieces", "symm_get_pieces", "symm_write_value32", "symm_write_value64",
          "symm_read_value32", "symm_read_value64", "symm_atomic32", "symm_atomic64", "symm_send",
          "symm_messages", "symm_exchange_create", "symm_exchange_start",
          "symm_neighbor_alltoallv"),
      SYMM_REFUSE_NAMED(symm_put_pieces, source_bytes, call.pieces[0].from, "less than a piece",
          INVALID_ARGUMENT, 7),
      SYMM_REFUSE_NAMED(symm_get_pieces, destination_bytes, call.pieces[0].to, "less than a piece",
          INVALID_ARGUMENT, 7),
      SYMM_REFUSE(symm_group_collective_stats, collective, "19", UNSUPPORTED, 19),
      SYMM_REFUSE(symm_group_collective_stats, collective, "-1", INVALID_ARGUMENT, -1),
      SYMM_REFUSE(symm_group_algorithm_stats, algorithm, "99", UNSUPPORTED, 99),
      SYMM_REFUSE(symm_group_algorithm_stats, algorithm, "-1", INVALID_ARGUMENT, -1),
  };
  return rows;
}

const std::vector<Struct>& structs() {
  alignas(64) static float weight[64];
  alignas(64) static float norm_out[64];
  static const std::vector<Struct> rows = {
      SYMM_EACH_OPTIONS(SYMM_INITIALISED),
      SYMM_STRUCT(symm_signal_wait_t, {sizeof(symm_signal_wait_t), 0, 0, SYMM_COMPARE_EQ, 0}),
      SYMM_STRUCT(symm_message_t, SYMM_MESSAGE_INIT),
      SYMM_STRUCT(symm_collective_call_t, SYMM_COLLECTIVE_CALL_INIT),
      SYMM_STRUCT(symm_pieces_call_t, SYMM_PIECES_CALL_INIT),
      SYMM_STRUCT(symm_neighbor_t, SYMM_NEIGHBOR_INIT),
      SYMM_STRUCT(symm_ipc_piece_t, SYMM_IPC_PIECE_INIT),
      struct_of("const symm_rmsnorm_call_t*", support::normed(weight, norm_out).value),
  };
  return rows;
}

// A table with a row for each wrong call.
const std::vector<WrongCall>& wrong_calls() {
  using support::scaled;
  static const int32_t kTwice[] = {0, 0};
  static const int32_t kStranger[] = {0, 1};
  static const std::vector<WrongCall> rows = {
      SYMM_REFUSE_CALL(symm_group_create_from_ranks, ranks, "twice", INVALID_ARGUMENT, w.group,
          kTwice, 2, nullptr, w.out<symm_group_t*>()),
      SYMM_REFUSE_CALL(symm_barrier, ranks, "twice the same", INVALID_ARGUMENT, w.group, kTwice, 2,
          0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_barrier, ranks, "= size", INVALID_ARGUMENT, w.group, kStranger, 2, 0,
          nullptr, nullptr),
      // Ranges whose last bytes, or all bytes, lie beyond the end of the block.
      SYMM_REFUSE_CALL(symm_put, offset, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes + 1,
          w.source.data(), 0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_put, bytes, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes - 4,
          w.source.data(), 8, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_put, bytes, "SIZE_MAX", INVALID_ARGUMENT, w.memory, 0, 8,
          w.source.data(), SIZE_MAX, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_get, offset, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes + 1,
          w.destination(), 0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_get, bytes, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes - 4,
          w.destination(), 8, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_get, bytes, "SIZE_MAX", INVALID_ARGUMENT, w.memory, 0, 8,
          w.destination(), SIZE_MAX, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_put_signal, offset, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes + 1,
          w.source.data(), 0, 0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_put_signal, bytes, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes - 4,
          w.source.data(), 8, 0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_fill32, offset, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes + 4, 7,
          0, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_fill32, count, "beyond", INVALID_ARGUMENT, w.memory, 0, kBytes - 4, 7,
          2, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_put_signal_value, bytes, "beyond", INVALID_ARGUMENT, w.memory, 0,
          kBytes - 4, w.source.data(), 8, 0, SYMM_SIGNAL_ADD, 1, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_atomic32, compare, "of a swap", INVALID_ARGUMENT, w.memory, 0, 0,
          SYMM_ATOMIC_SWAP, 1, 1, nullptr, w.destination(), nullptr),
      SYMM_REFUSE_CALL(symm_atomic64, fetched, "is not there", INVALID_ARGUMENT, w.memory, 0, 0,
          SYMM_ATOMIC_FETCH, 0, 0, nullptr, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_atomic32, fetched, "is not there", INVALID_ARGUMENT, w.memory, 0, 0,
          SYMM_ATOMIC_FETCH, 0, 0, nullptr, nullptr, nullptr),
      SYMM_REFUSE_CALL(symm_atomic64, value, "of a fetch", INVALID_ARGUMENT, w.memory, 0, 0,
          SYMM_ATOMIC_FETCH, 1, 0, nullptr, w.destination(), nullptr),
      SYMM_REFUSE_CALL(symm_atomic64, compare, "of an addition", INVALID_ARGUMENT, w.memory, 0, 0,
          SYMM_ATOMIC_ADD, 1, 1, nullptr, w.destination(), nullptr),
      SYMM_REFUSE_PIECES(
          call.pieces[1].from, "beyond source", INVALID_ARGUMENT, call.pieces = kBeyondSource),
      SYMM_REFUSE_PIECES(call.pieces[1].from, "rows beyond source", INVALID_ARGUMENT,
          call.pieces = kRowsBeyondSource),
      SYMM_REFUSE_PIECES(
          call.pieces[1].from, "far from source", INVALID_ARGUMENT, call.pieces = kFarFromSource),
      SYMM_REFUSE_PIECES(
          call.pieces[1].from, "rows wrap around", INVALID_ARGUMENT, call.pieces = kRowsWrapAround),
      SYMM_REFUSE_PIECES(call.pieces[1].from, "a row wraps around", INVALID_ARGUMENT,
          call.pieces = kRowWrapsAround),
      SYMM_REFUSE_PIECES(
          call.pieces[1].to, "beyond the block", INVALID_ARGUMENT, call.pieces = kBeyondBlock),
      SYMM_REFUSE_PIECES(call.pieces[1].to, "rows beyond the block", INVALID_ARGUMENT,
          call.pieces = kRowsBeyondBlock),
      SYMM_REFUSE_PIECES(call.pieces[1].to_stride, "rows overlap", INVALID_ARGUMENT,
          call.pieces = kOverlappingRows),
      SYMM_REFUSE_PIECES(call.pieces[1].to_stride, "rows on one place", INVALID_ARGUMENT,
          call.pieces = kRowsOnOnePlace),
      SYMM_REFUSE_PIECES(call.pieces, "are missing", INVALID_ARGUMENT, call.pieces = nullptr),
      SYMM_REFUSE_PIECES(call.pieces, "beside pages", INVALID_ARGUMENT, call.pieces = kBeyondSource,
          call.page_bytes = 8),
      SYMM_REFUSE_PIECES(call.from_table, "without pages", INVALID_ARGUMENT,
          call.pieces = kBeyondSource, call.from_table = kPages),
      SYMM_REFUSE_PIECES(call.to_table, "without pages", INVALID_ARGUMENT,
          call.pieces = kBeyondSource, call.to_table = kPages),
      SYMM_REFUSE_PIECES(call.from_table[2], "beyond source", INVALID_ARGUMENT, call.count = 3,
          call.page_bytes = 8, call.from_table = kPages),
      SYMM_REFUSE_PIECES(call.from_table[1], "wraps around", INVALID_ARGUMENT, call.count = 3,
          call.page_bytes = 8, call.from_table = kPageThatWraps),
      SYMM_REFUSE_PIECES(call.to_table[1], "beyond the block", INVALID_ARGUMENT,
          call.page_bytes = 128, call.to_table = kFarPages),
      SYMM_REFUSE_PIECES(call.count, "more pages than source has", INVALID_ARGUMENT,
          call.count = 33, call.page_bytes = 8),
      SYMM_REFUSE_PIECES(call.flags, "unknown bit", UNSUPPORTED, call.flags = 4),
      SYMM_REFUSE_PIECES(call.device_count, "without its flag", INVALID_ARGUMENT,
          call.pieces = kBeyondSource, call.device_count = kPages),
      SYMM_REFUSE_PIECES(call.device_count, "more than there may be", INVALID_ARGUMENT,
          call.pieces = kBeyondSource, call.device_count = kPages + 2,
          call.flags = SYMM_PIECES_ON_DEVICE),
      SYMM_REFUSE_PIECES(call.pieces[1].from, "beyond source, on the device", INVALID_ARGUMENT,
          call.pieces = kBeyondSource, call.flags = SYMM_PIECES_ON_DEVICE),
      SYMM_REFUSE_PIECES(call.channel, "without its flag", INVALID_ARGUMENT, call.channel = 1),
      SYMM_REFUSE_PIECES(call.op, "without its flag", INVALID_ARGUMENT, call.op = SYMM_SIGNAL_SET),
      SYMM_REFUSE_PIECES(call.value, "without its flag", INVALID_ARGUMENT, call.value = 1),
      SYMM_REFUSE_PIECES(channel, "too large", INVALID_ARGUMENT, call.count = 0,
          call.flags = SYMM_PIECES_SIGNAL, call.channel = kNoChannel),
      SYMM_REFUSE_PIECES(channel, "-1", INVALID_ARGUMENT, call.count = 0,
          call.flags = SYMM_PIECES_SIGNAL, call.channel = -1),
      SYMM_REFUSE_PIECES(
          op, "unknown", UNSUPPORTED, call.count = 0, call.flags = SYMM_PIECES_SIGNAL, call.op = 2),
      SYMM_REFUSE_PIECES(op, "-1", INVALID_ARGUMENT, call.count = 0,
          call.flags = SYMM_PIECES_SIGNAL, call.op = -1),
      SYMM_REFUSE_CALL(symm_allreduce, scale_position, "i32 is not a float", INVALID_ARGUMENT,
          w.group, w.source.data(), w.destination(), 8, SYMM_DTYPE_I32, SYMM_OP_SUM,
          scaled(SYMM_SCALE_BEFORE, 2), nullptr),
      SYMM_REFUSE_CALL(symm_allreduce, result_dtype, "f32 of f64", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 8, SYMM_DTYPE_F64, SYMM_OP_SUM,
          scaled(SYMM_SCALE_NONE, 0, nullptr, SYMM_DTYPE_F32), nullptr),
      SYMM_REFUSE_CALL(symm_allreduce, wire_dtype, "goes with sum", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 8, SYMM_DTYPE_F32, SYMM_OP_MAX,
          support::wired(SYMM_DTYPE_I8, 32), nullptr),
      SYMM_REFUSE_CALL(symm_allreduce, wire_dtype, "not with f64", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 8, SYMM_DTYPE_F64, SYMM_OP_SUM,
          support::wired(SYMM_DTYPE_I8, 32), nullptr),
      SYMM_REFUSE_CALL(symm_allgather, wire_dtype, "reduces nothing", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 1, SYMM_DTYPE_F32, support::wired(SYMM_DTYPE_I8, 32),
          nullptr),
      SYMM_REFUSE_CALL(symm_reduce_scatter, algorithm, "one shot with a wire", INVALID_ARGUMENT,
          w.group, w.source.data(), w.destination(), 1, SYMM_DTYPE_F32, SYMM_OP_SUM,
          support::wired(SYMM_DTYPE_I8, 32, SYMM_ALGORITHM_ONE_SHOT), nullptr),
      SYMM_REFUSE_CALL(symm_allgather, ready, "of an all-gather", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 1, SYMM_DTYPE_F32,
          support::in_chunks(16, 1, nullptr, words_at(w)), nullptr),
      SYMM_REFUSE_CALL(symm_allgather, progress, "overlaps recv", INVALID_ARGUMENT, w.group,
          w.destination(), w.source.data(), 1, SYMM_DTYPE_F32,
          support::in_chunks(16, 1, words_at(w)), nullptr),
      SYMM_REFUSE_CALL(symm_allreduce, ready, "overlaps recv", INVALID_ARGUMENT, w.group,
          w.destination(), w.source.data(), 8, SYMM_DTYPE_F32, SYMM_OP_SUM,
          support::in_chunks(16, 1, nullptr, words_at(w, 16)), nullptr),
      SYMM_REFUSE_CALL(symm_broadcast, chunk_bytes, "of a broadcast", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 8, SYMM_DTYPE_F32, 0, support::in_chunks(16, 0),
          nullptr),
      SYMM_REFUSE_CALL(symm_allreduce, recv, "wider in place", INVALID_ARGUMENT, w.group,
          w.source.data(), w.source.data(), 8, SYMM_DTYPE_BF16, SYMM_OP_SUM,
          scaled(SYMM_SCALE_NONE, 0, nullptr, SYMM_DTYPE_F32), nullptr),
      SYMM_REFUSE_CALL(symm_allgather, scale, "reduces nothing", INVALID_ARGUMENT, w.group,
          w.source.data(), w.destination(), 1, SYMM_DTYPE_F32, scaled(SYMM_SCALE_AFTER, 2),
          nullptr),
      SYMM_REFUSE_CALL(symm_reduce_scatterv, neither, "a factor", INVALID_ARGUMENT, w.group,
          w.source.data(), &w.eight, nullptr, w.destination(), SYMM_DTYPE_F32, SYMM_OP_SUM,
          scaled(SYMM_SCALE_AFTER, 2), nullptr),

      SYMM_REFUSE_CONFIG(struct_size, "0", INVALID_ARGUMENT, config.struct_size = 0),
      SYMM_REFUSE_CONFIG(struct_size, "short", INVALID_ARGUMENT, config.struct_size -= 8),
      SYMM_REFUSE_CONFIG(size, "-1", INVALID_ARGUMENT, config.size = -1),
      SYMM_REFUSE_CONFIG(backend, "unknown", UNSUPPORTED, config.backend = 3),
      SYMM_REFUSE_CONFIG(flags, "unknown bit", UNSUPPORTED, config.flags = uint64_t{1} << 63),
      SYMM_REFUSE_CONFIG(flags, "a flag beside its opposite", INVALID_ARGUMENT,
          config.flags = SYMM_GROUP_ANY_ORDER | SYMM_GROUP_RANK_ORDER),
      SYMM_REFUSE_CONFIG(flags, "the tree beside the ranks", INVALID_ARGUMENT,
          config.flags = SYMM_GROUP_TREE_ORDER | SYMM_GROUP_RANK_ORDER),
      SYMM_REFUSE_CONFIG(flags, "the tree beside any order", INVALID_ARGUMENT,
          config.flags = SYMM_GROUP_TREE_ORDER | SYMM_GROUP_ANY_ORDER),
      SYMM_REFUSE_CONFIG(device, "without its flag", INVALID_ARGUMENT, config.device = 1),
      SYMM_REFUSE_CONFIG(
          device, "-1", INVALID_ARGUMENT, config.flags = SYMM_GROUP_ON_DEVICE, config.device = -1),
      SYMM_REFUSE_CONFIG(device, "the host's second", INVALID_ARGUMENT,
          config.flags = SYMM_GROUP_ON_DEVICE, config.device = 1),
      SYMM_REFUSE_CONFIG(scratch_bytes, "1", INVALID_ARGUMENT, config.scratch_bytes = 1),
      SYMM_REFUSE_CONFIG(channels, "-1", INVALID_ARGUMENT, config.channels = -1),
      SYMM_REFUSE_CONFIG(channels, "one too many", UNSUPPORTED, config.channels = 257),
      SYMM_REFUSE_CONFIG(
          bootstrap, "unknown scheme", INVALID_ARGUMENT, config.bootstrap = "pigeon://coop"),
      SYMM_REFUSE_CONFIG(bootstrap, "no scheme", INVALID_ARGUMENT, config.bootstrap = "nonsense"),
      SYMM_REFUSE_CONFIG(rank, "= size", INVALID_ARGUMENT, config.bootstrap = "thread://refused",
          config.rank = config.size = 2),
      SYMM_REFUSE_CONFIG(rank, "-1", INVALID_ARGUMENT, config.bootstrap = "thread://refused",
          config.size = 2, config.rank = -1),
      SYMM_REFUSE_CONFIG(
          store.set, "is NULL", INVALID_ARGUMENT, config.store = &kWithoutSet, config.size = 1),
      SYMM_REFUSE_CONFIG(
          store.get, "is NULL", INVALID_ARGUMENT, config.store = &kWithoutGet, config.size = 1),
      SYMM_REFUSE_CONFIG(store, "struct_size short", INVALID_ARGUMENT, config.store = &kShortStore,
          config.size = 1),
      SYMM_REFUSE_CONFIG(
          size, "0 with a store", INVALID_ARGUMENT, config.store = &kStore, config.size = 0),
      SYMM_REFUSE_CONFIG(id, "NULL with a size", INVALID_ARGUMENT, config.id = nullptr,
          config.id_bytes = 128, config.size = 1),
      SYMM_REFUSE_CONFIG(id_bytes, "0 with an id", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = 0, config.size = 1),
      SYMM_REFUSE_CONFIG(id, "no id", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = sizeof kNoId, config.size = 1),
      SYMM_REFUSE_CONFIG(id_bytes, "SIZE_MAX", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = SIZE_MAX, config.size = 1),
      SYMM_REFUSE_CONFIG(id, "with a bootstrap", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = sizeof kNoId, config.size = 1, config.bootstrap = "thread://x"),
      SYMM_REFUSE_CONFIG(id, "with a store", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = sizeof kNoId, config.size = 1, config.store = &kStore),
      SYMM_REFUSE_CONFIG(size, "0 with an id", INVALID_ARGUMENT, config.id = kNoId,
          config.id_bytes = sizeof kNoId, config.size = 0),
  };
  return rows;
}

const std::vector<Exemption>& exemptions() {
  static const std::vector<Exemption> rows = {
      {{}, {"value"}, "any number is a value"},
      {{"symm_status_string"}, {"status"}, "an unknown one has a name too"},
      {{"symm_log_add_listener", "symm_thread_interrupt", "symm_memory_pressure_add_listener",
           "symm_reduce_by"},
          {"user"}, "is passed on unseen"},
      {{"symm_thread_interrupt"}, {"callback"}, "NULL means none"},
      {{"symm_log_remove_listener", "symm_memory_pressure_remove_listener"}, {"id"},
          "one that is not there is NOT_FOUND, which names nothing"},
      {{"symm_group_failed_ranks"}, {"capacity"}, "may be smaller than the count"},
      {{"symm_group_split"}, {"color"}, "negative means no group"},
      {{"symm_group_split"}, {"key"}, "any order is an order"},
      {{"symm_group_abort"}, {"reason"}, "NULL means none"},
      {{"symm_memory_device_view"}, {"stop"}, "NULL means none"},
      {{"symm_group_topology"}, {"out_count"}, "may be NULL"},
      {{"symm_memory_move"}, {"memory"}, kNullOnNewcomers},
      {{"symm_heap_move"}, {"heap"}, kNullOnNewcomers},
      {{"symm_heap_free"}, {"pointer"}, "may be NULL"},
      {{"symm_heap_alloc"}, {"out_offset"}, "may be NULL"},
      {{"symm_heap_find"}, {"out_bytes"}, "may be NULL"},
      {{"symm_topology"}, {"out_count"}, "may be NULL"},
      {{"symm_buffer_find"}, {"out_offset"}, "may be NULL"},
      {{"symm_memory_find"}, {"out_rank", "out_offset"}, "may be NULL"},
      {{"symm_wait_signal_value"}, {"out_seen"}, "may be NULL"},
      {{"symm_wait_signals"}, {"out_index"}, "may be NULL"},
      {{"symm_send", "symm_recv"}, {"bytes"}, "any length may be meant"},
      {{"symm_recv"}, {"out_bytes"}, "may be NULL"},
      {{"symm_messages"}, {"out_lengths"}, "may be NULL"},
      {{"symm_broadcast_bytes"}, {"recv", "recv_capacity"}, kNotLookedAt},
      {{"symm_broadcast_bytes"}, {"out_bytes"}, "may be NULL"},
      {{"symm_ipc_collect"}, {"out"}, "may be NULL"},
      {{"symm_ipc_wait_value"}, {"out_seen"}, "may be NULL"},
      {{"symm_ipc_fence"}, {"epoch"}, "any number is an epoch"},
      {{"symm_ipc_publish", "symm_ipc_lookup"}, {"version"}, "any number is a version"},
      {{"symm_ipc_publish", "symm_ipc_lookup"}, {"options"}, "has no field with a bad value"},
  };

  return rows;
}
}  // namespace symm_test
