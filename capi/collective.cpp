// The C ABI of collectives: each function makes one CollectiveCall of its arguments and passes
// it to core/group/collective.hpp. Arguments are checked there.
#include "core/group/collective.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "capi/guard.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/group/group.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "symm/fused.h"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_collective_options, options, max_blocks, SYMM_COLLECTIVE_OPTIONS_INIT)
SYMM_OPTIONS(symm_rmsnorm_call, norm, scale_out, SYMM_RMSNORM_CALL_INIT)

namespace {
// Adds what the group and the options say. After this, nothing of the call changes. Returns the
// tag, or null.
const char* complete(
    CollectiveCall& call, const Group& group, const symm_collective_options_t* options) {
  call.heaps = group.heap_history();
  call.timeout_ms = group.timeout_or_default(0);
  if (options == nullptr) return nullptr;

  const symm_collective_options_t given = read_options(options);
  call.algorithm = static_cast<Algorithm>(given.algorithm);
  call.timeout_ms = group.timeout_or_default(given.timeout_ms);
  if (given.max_blocks < 0) {
    throw Error(
        Status::invalid_argument, format("options.max_blocks: %d is negative", given.max_blocks));
  }
  call.block_limit =
      static_cast<uint8_t>(std::min(given.max_blocks, CallSignature::kMostBlockLimit));

  const auto result = static_cast<DType>(given.result_dtype);
  const bool is_wider = given.result_dtype != 0 && result != call.dtype;
  const Number factor(given.scale);
  if (given.scale_position != SYMM_SCALE_NONE || is_wider || !factor.is_zero() ||
      given.scale_pointer != nullptr) {
    call.scaling = {call.dtype, is_wider ? result : call.dtype,
        static_cast<ScalePosition>(given.scale_position),
        given.scale_pointer != nullptr ? Factor::pointer : Factor::value, factor};
    call.scale_pointer = given.scale_pointer;
  }
  return given.tag;
}

void complete_and_run(
    Group& group, CollectiveCall& call, const symm_collective_options_t* options) {
  const char* tag = nullptr;
  group.with_refusals_told(
      collective_name(call.collective), [&] { tag = complete(call, group, options); });
  if (tag == nullptr) return run_collective(group, call);

  const CallTag tagged(tag);
  run_collective(group, call);
}

// A number of elements; SIZE_MAX, which check_call() refuses, if it does not fit.
size_t product(size_t a, size_t b) {
  size_t elements = 0;
  return __builtin_mul_overflow(a, b, &elements) ? SIZE_MAX : elements;
}

// The length of a row stands where other calls have their root. check_call() refuses one that is
// too long, which it remains when it is cut.
void set_norm_rows(CollectiveCall& call, size_t tokens, size_t hidden) {
  call.op = Op::sum;
  call.root = static_cast<int32_t>(std::min<size_t>(hidden, kMostNormBytes));
  call.count = product(tokens, hidden);
}

void make(symm_group_t* handle, CollectiveCall& call, const symm_collective_options_t* options) {
  complete_and_run(*group_of(handle), call, options);
}

// The epsilon of symm_rmsnorm_call_t where it is 0.
constexpr Number kDefaultEpsilon = Number::of_f32(0x358637BD);  // 1e-6

symm_status_t run(symm_group_t* handle, CollectiveCall&& call,
    const symm_collective_options_t* options) noexcept {
  return quick(options, [&] { make(handle, call, options); });
}

symm_status_t run_in_pieces(symm_group_t* handle, CollectiveCall&& call, const PieceCounts& counts,
    const symm_collective_options_t* options) noexcept {
  return quick(options, [&] {
    Pieces pieces;
    pieces.counts = counts;
    call.pieces = &pieces;
    make(handle, call, options);
  });
}
}  // namespace

symm_status_t symm_allreduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::allreduce, send, recv, count, dtype, stream, op), options);
}

symm_status_t symm_reduce_scatter(symm_group_t* group, const void* send, void* recv,
    size_t recv_count, symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options,
    void* stream) {
  return run(group,
      CollectiveCall(Collective::reduce_scatter, send, recv, recv_count, dtype, stream, op),
      options);
}

symm_status_t symm_allgather(symm_group_t* group, const void* send, void* recv, size_t send_count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::allgather, send, recv, send_count, dtype, stream), options);
}

symm_status_t symm_broadcast(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run(group,
      CollectiveCall(Collective::broadcast, send, recv, count, dtype, stream, SYMM_OP_SUM, root),
      options);
}

symm_status_t symm_reduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, int32_t root, const symm_collective_options_t* options,
    void* stream) {
  return run(group, CollectiveCall(Collective::reduce, send, recv, count, dtype, stream, op, root),
      options);
}

symm_status_t symm_alltoall(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run(
      group, CollectiveCall(Collective::alltoall, send, recv, count, dtype, stream), options);
}

symm_status_t symm_allgatherv(symm_group_t* group, const void* send, void* recv,
    const size_t* recv_counts, const size_t* recv_displacements, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::allgatherv, send, recv, 0, dtype, stream),
      {.recv_counts = recv_counts, .recv_displacements = recv_displacements}, options);
}

symm_status_t symm_reduce_scatterv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, symm_dtype_t dtype, symm_op_t op,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::reduce_scatterv, send, recv, 0, dtype, stream, op),
      {.send_counts = send_counts, .send_displacements = send_displacements}, options);
}

symm_status_t symm_alltoallv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, const size_t* recv_counts,
    const size_t* recv_displacements, symm_dtype_t dtype, const symm_collective_options_t* options,
    void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::alltoallv, send, recv, 0, dtype, stream),
      {send_counts, send_displacements, recv_counts, recv_displacements}, options);
}

symm_status_t symm_alltoallv_device(symm_group_t* group, const void* send, size_t send_capacity,
    const uint64_t* send_counts, const uint64_t* send_displacements, void* recv,
    size_t recv_capacity, const uint64_t* recv_counts, const uint64_t* recv_displacements,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group, CollectiveCall(Collective::alltoallv, send, recv, 0, dtype, stream),
      {.send_counts = send_counts,
          .send_displacements = send_displacements,
          .recv_counts = recv_counts,
          .recv_displacements = recv_displacements,
          .capacities = Capacities{send_capacity, recv_capacity}},
      options);
}

symm_status_t symm_gather(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::gather, send, recv, count, dtype, stream, SYMM_OP_SUM, root), {},
      options);
}

symm_status_t symm_scatter(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(Collective::scatter, send, recv, count, dtype, stream, SYMM_OP_SUM, root), {},
      options);
}

symm_status_t symm_allgather_rows(symm_group_t* group, const void* send, void* recv, size_t rows,
    size_t row_count, size_t recv_stride, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return run_in_pieces(group,
      CollectiveCall(
          Collective::allgather_rows, send, recv, product(rows, row_count), dtype, stream),
      {.rows = rows, .row_count = row_count, .recv_stride = recv_stride}, options);
}

symm_status_t symm_allreduce_rmsnorm(symm_group_t* group, const void* send, size_t tokens,
    size_t hidden, symm_dtype_t dtype, const symm_rmsnorm_call_t* norm,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    const symm_rmsnorm_call_t given = read_options(&require(norm, "norm"));
    const Number epsilon(given.epsilon);
    const auto input = [](const void* matrix) { return static_cast<const std::byte*>(matrix); };
    const auto output = [](void* matrix) { return static_cast<std::byte*>(matrix); };
    const RmsNorm wanted{input(given.residual_in), output(given.residual_out),
        output(given.norm_out), input(given.weight),
        static_cast<DType>(given.weight_dtype != 0 ? given.weight_dtype : dtype),
        (epsilon.is_zero() ? kDefaultEpsilon : epsilon).f32(), Number(given.weight_offset).f32(),
        static_cast<QuantScale>(given.scale_kind), output(given.quant_out),
        static_cast<const float*>(given.scale_in), static_cast<float*>(given.scale_out), hidden};

    Group& owner = *group_of(group);
    CollectiveCall call(Collective::allreduce_rmsnorm, send, nullptr, 0, dtype, stream);
    set_norm_rows(call, tokens, hidden);
    call.norm = &wanted;
    complete_and_run(owner, call, options);
  });
}

symm_status_t symm_collective_plan(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, symm_plan_info_t* out) {
  return fill_struct(options, out, SYMM_FIRST_SIZE(symm_plan_info_t, reason), [&] {
    Group& owner = *group_of(group);
    const symm_collective_call_t asked = read_struct(
        &require(call, "call"), {}, SYMM_FIRST_SIZE(symm_collective_call_t, recv_stride), "call");

    CollectiveCall planned(static_cast<Collective>(asked.collective), asked.send, asked.recv,
        asked.count, asked.dtype != 0 ? asked.dtype : SYMM_DTYPE_F32, nullptr, asked.op,
        asked.root);
    Pieces pieces;
    pieces.counts = {asked.send_counts, asked.send_displacements, asked.recv_counts,
        asked.recv_displacements, asked.rows, asked.count, asked.recv_stride};
    if (traits(planned.collective).in_pieces) planned.pieces = &pieces;
    if (has_counts(planned.collective)) planned.count = 0;
    if (planned.collective == Collective::allgather_rows) {
      planned.count = product(asked.rows, asked.count);
    }
    if (planned.collective == Collective::allreduce_rmsnorm) {
      set_norm_rows(planned, asked.rows, asked.count);
    }
    complete(planned, owner, options);

    const PlanReport report = plan_collective(owner, planned);
    symm_plan_info_t filled{};
    filled.algorithm = static_cast<int32_t>(report.algorithm);
    filled.slices = report.slices;
    filled.chunk_bytes = report.chunk_bytes;
    filled.nontemporal = report.nontemporal ? 1 : 0;
    write_text(filled.reason, report.reason);
    return filled;
  });
}
