// Options of C calls, made where they are passed.
#pragma once

#include <limits>

#include "symm/fused.h"
#include "tools/bench/call.hpp"

// The structs of options, each by the names of its type and of its initialiser: ROW(type, macro),
// separated by commas.
#define SYMM_EACH_OPTIONS(ROW)                                                          \
  ROW(group_config, GROUP_CONFIG), ROW(group_options, GROUP_OPTIONS),                   \
      ROW(alloc_options, ALLOC_OPTIONS), ROW(adopt_options, ADOPT_OPTIONS),             \
      ROW(rendezvous_options, RENDEZVOUS_OPTIONS), ROW(call_options, CALL_OPTIONS),     \
      ROW(heap_options, HEAP_OPTIONS), ROW(collective_options, COLLECTIVE_OPTIONS),     \
      ROW(batch_options, BATCH_OPTIONS), ROW(ipc_export_options, IPC_EXPORT_OPTIONS),   \
      ROW(ipc_import_options, IPC_IMPORT_OPTIONS), ROW(invite_options, INVITE_OPTIONS), \
      ROW(grow_options, GROW_OPTIONS), ROW(ipc_publish_options, IPC_PUBLISH_OPTIONS),   \
      ROW(ipc_lookup_options, IPC_LOOKUP_OPTIONS)

namespace support {
// A struct of arguments that lives as long as the call to which it is passed.
template <class Struct>
struct Passed {
  Struct value;
  operator const Struct*() const { return &value; }
};

inline Passed<symm_call_options_t> within(uint64_t timeout_ms) {
  return {{sizeof(symm_call_options_t), timeout_ms, nullptr, nullptr}};
}

// A piece of a bundle, of 8 bytes.
inline Passed<symm_ipc_piece_t> bundled(void* pointer, const char* name) {
  return {{sizeof(symm_ipc_piece_t), pointer, 8, name, nullptr, 0}};
}

inline Passed<symm_ipc_lookup_options_t> looking(uint64_t timeout_ms) {
  return {{sizeof(symm_ipc_lookup_options_t), timeout_ms, nullptr, nullptr}};
}

inline Passed<symm_rmsnorm_call_t> normed(const void* weight, void* norm_out, double epsilon = 0,
    symm_dtype_t weight_dtype = 0, symm_quant_scale_t scale_kind = 0) {
  Passed<symm_rmsnorm_call_t> made{SYMM_RMSNORM_CALL_INIT};
  made.value.weight = weight;
  made.value.norm_out = norm_out;
  // f32 rounds the smallest double to 0, which itself means the default.
  made.value.epsilon = epsilon != 0 ? epsilon : std::numeric_limits<double>::denorm_min();
  made.value.weight_dtype = weight_dtype;
  made.value.scale_kind = scale_kind;
  return made;
}

inline Passed<symm_alloc_options_t> placed(uint64_t flags, int32_t node = 0) {
  Passed<symm_alloc_options_t> made{SYMM_ALLOC_OPTIONS_INIT};
  made.value.flags = flags;
  made.value.numa_node = node;
  return made;
}

inline Passed<symm_collective_options_t> forced(
    symm_algorithm_t algorithm, uint64_t timeout_ms = 0) {
  Passed<symm_collective_options_t> made{SYMM_COLLECTIVE_OPTIONS_INIT};
  made.value.algorithm = algorithm;
  made.value.timeout_ms = timeout_ms;
  return made;
}

inline Passed<symm_collective_options_t> ordered(
    symm_order_t order, symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO) {
  Passed<symm_collective_options_t> made = forced(algorithm);
  made.value.order = order;
  return made;
}

inline Passed<symm_collective_options_t> tagged(const char* tag, int32_t max_blocks = 0) {
  Passed<symm_collective_options_t> made{SYMM_COLLECTIVE_OPTIONS_INIT};
  made.value.tag = tag;
  made.value.max_blocks = max_blocks;
  return made;
}
inline Passed<symm_collective_options_t> scaled(symm_scale_t position, double scale,
    const float* scale_pointer = nullptr, symm_dtype_t result_dtype = 0) {
  Passed<symm_collective_options_t> made{SYMM_COLLECTIVE_OPTIONS_INIT};
  made.value.scale_position = position;
  made.value.scale = scale;
  made.value.scale_pointer = scale_pointer;
  made.value.result_dtype = result_dtype;
  return made;
}

inline Passed<symm_collective_options_t> wired(symm_dtype_t wire, int32_t group,
    symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO, symm_order_t order = SYMM_ORDER_GROUP) {
  Passed<symm_collective_options_t> made = ordered(order, algorithm);
  made.value.wire_dtype = wire;
  made.value.wire_group = group;
  return made;
}

inline Passed<symm_collective_options_t> in_chunks(size_t chunk, uint32_t value,
    uint32_t* progress = nullptr, const uint32_t* ready = nullptr,
    const uint32_t* value_at = nullptr) {
  Passed<symm_collective_options_t> made{SYMM_COLLECTIVE_OPTIONS_INIT};
  made.value.chunk_bytes = chunk;
  made.value.word_value = value;
  made.value.progress = progress;
  made.value.ready = ready;
  made.value.word_pointer = value_at;
  return made;
}

// The call for run() and plan_of(). `recv` may be const, because a plan writes nothing.
inline Passed<symm_collective_call_t> call_of(symm_collective_t collective, const void* send,
    const void* recv, size_t count, symm_dtype_t dtype, symm_op_t op = SYMM_OP_SUM,
    int32_t root = 0) {
  Passed<symm_collective_call_t> made{SYMM_COLLECTIVE_CALL_INIT};
  made.value.collective = collective;
  made.value.send = send;
  made.value.recv = const_cast<void*>(recv);
  made.value.count = count;
  made.value.dtype = dtype;
  made.value.op = op;
  made.value.root = root;
  return made;
}

// Asks for the plan of a call; returns the status of symm_collective_plan().
inline symm_status_t plan_of(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, symm_plan_info_t& out) {
  out = {};
  out.struct_size = sizeof out;
  return symm_collective_plan(group, call, options, &out);
}

inline symm_status_t run(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, void* stream = nullptr) {
  return symm::tool::run(group, *call, options, stream);
}

// A put or get of the `count` pieces at `pieces`, with a signal on channel 0.
inline Passed<symm_pieces_call_t> pieces_at(const symm_piece_t* pieces, size_t count = 1) {
  Passed<symm_pieces_call_t> made{SYMM_PIECES_CALL_INIT};
  made.value.pieces = pieces;
  made.value.count = count;
  made.value.flags = SYMM_PIECES_SIGNAL;
  made.value.value = 1;
  return made;
}

inline Passed<symm_signal_wait_t> awaited(
    int32_t rank, int32_t channel, symm_compare_t compare, uint64_t value = 1) {
  return {{sizeof(symm_signal_wait_t), rank, channel, compare, value}};
}
}  // namespace support
