#include "core/group/collective.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "capi/guard.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/little_endian.hpp"
#include "core/group/group.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS_WITH_INIT(
    symm_collective_options, options, scale_pointer, SYMM_COLLECTIVE_OPTIONS_INIT)
SYMM_OPTIONS_WITH_INIT(symm_rmsnorm, norm, scale_out, SYMM_RMSNORM_INIT)

namespace {
// What the caller asks for: nothing is added to it later, and nothing changed.
CollectiveCall make_call(const Group& group, Collective collective, const void* send, void* recv,
    size_t count, symm_dtype_t dtype, symm_op_t op, int32_t root,
    const symm_collective_options_t* options, void* stream) {
  CollectiveCall call(send, recv, group.timeout_or_default(0), stream);
  call.collective = collective;
  call.count = count;
  call.dtype = static_cast<DType>(dtype);
  call.op = static_cast<Op>(op);
  call.root = root;
  call.heaps = group.heap_history();
  if (options == nullptr) return call;
  const symm_collective_options_t given = read_options(options);
  call.algorithm = static_cast<Algorithm>(given.algorithm);
  call.timeout_ms = group.timeout_or_default(given.timeout_ms);
  const bool is_wider = given.result_dtype != 0 && given.result_dtype != dtype;
  if (given.scale_position != SYMM_SCALE_NONE || is_wider || given.scale != 0 ||
      given.scale_pointer != nullptr) {
    call.scaling = {call.dtype, is_wider ? static_cast<DType>(given.result_dtype) : call.dtype,
        static_cast<ScalePosition>(given.scale_position),
        given.scale_pointer != nullptr ? Factor::pointer : Factor::value, given.scale};
    call.scale_pointer = given.scale_pointer;
  }
  return call;
}

// Of an all-reduce with RMSNorm: what cannot be told is refused with the rest of the arguments.
void set_rows(CollectiveCall& call, size_t tokens, size_t hidden) {
  call.root = static_cast<int32_t>(std::min<size_t>(hidden, kMostNormBytes));
  if (__builtin_mul_overflow(tokens, hidden, &call.count)) call.count = SIZE_MAX;
}

constexpr PieceCounts kNoPieces;

void run(symm_group_t* handle, Collective collective, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, int32_t root, const symm_collective_options_t* options,
    void* stream, const PieceCounts& counts = kNoPieces) {
  Group& group = *group_of(handle);
  run_collective(group,
      make_call(group, collective, send, recv, count, dtype, op, root, options, stream), counts);
}
}  // namespace

symm_status_t symm_allreduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options, void* stream) {
  return quick(options,
      [&] { run(group, Collective::allreduce, send, recv, count, dtype, op, 0, options, stream); });
}

symm_status_t symm_reduce_scatter(symm_group_t* group, const void* send, void* recv,
    size_t recv_count, symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options,
    void* stream) {
  return quick(options, [&] {
    run(group, Collective::reduce_scatter, send, recv, recv_count, dtype, op, 0, options, stream);
  });
}

symm_status_t symm_allgather(symm_group_t* group, const void* send, void* recv, size_t send_count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::allgather, send, recv, send_count, dtype, SYMM_OP_SUM, 0, options,
        stream);
  });
}

symm_status_t symm_broadcast(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::broadcast, send, recv, count, dtype, SYMM_OP_SUM, root, options, stream);
  });
}

symm_status_t symm_reduce(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, symm_op_t op, int32_t root, const symm_collective_options_t* options,
    void* stream) {
  return quick(options,
      [&] { run(group, Collective::reduce, send, recv, count, dtype, op, root, options, stream); });
}

symm_status_t symm_alltoall(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::alltoall, send, recv, count, dtype, SYMM_OP_SUM, 0, options, stream);
  });
}

symm_status_t symm_allgatherv(symm_group_t* group, const void* send, void* recv,
    const size_t* recv_counts, const size_t* recv_displacements, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::allgatherv, send, recv, 0, dtype, SYMM_OP_SUM, 0, options, stream,
        {.recv_counts = recv_counts, .recv_displacements = recv_displacements});
  });
}

symm_status_t symm_reduce_scatterv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, symm_dtype_t dtype, symm_op_t op,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::reduce_scatterv, send, recv, 0, dtype, op, 0, options, stream,
        {.send_counts = send_counts, .send_displacements = send_displacements});
  });
}

symm_status_t symm_alltoallv(symm_group_t* group, const void* send, const size_t* send_counts,
    const size_t* send_displacements, void* recv, const size_t* recv_counts,
    const size_t* recv_displacements, symm_dtype_t dtype, const symm_collective_options_t* options,
    void* stream) {
  return quick(options, [&] {
    run(group, Collective::alltoallv, send, recv, 0, dtype, SYMM_OP_SUM, 0, options, stream,
        {send_counts, send_displacements, recv_counts, recv_displacements});
  });
}

symm_status_t symm_alltoallv_device(symm_group_t* group, const void* send, size_t send_capacity,
    const uint64_t* send_counts, const uint64_t* send_displacements, void* recv,
    size_t recv_capacity, const uint64_t* recv_counts, const uint64_t* recv_displacements,
    symm_dtype_t dtype, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::alltoallv, send, recv, 0, dtype, SYMM_OP_SUM, 0, options, stream,
        {.send_counts = send_counts,
            .send_displacements = send_displacements,
            .recv_counts = recv_counts,
            .recv_displacements = recv_displacements,
            .capacities = Capacities{send_capacity, recv_capacity}});
  });
}

symm_status_t symm_gather(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::gather, send, recv, count, dtype, SYMM_OP_SUM, root, options, stream);
  });
}

symm_status_t symm_scatter(symm_group_t* group, const void* send, void* recv, size_t count,
    symm_dtype_t dtype, int32_t root, const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::scatter, send, recv, count, dtype, SYMM_OP_SUM, root, options, stream);
  });
}

symm_status_t symm_allgather_rows(symm_group_t* group, const void* send, void* recv, size_t rows,
    size_t row_count, size_t recv_stride, symm_dtype_t dtype,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    run(group, Collective::allgather_rows, send, recv, row_count, dtype, SYMM_OP_SUM, 0, options,
        stream, {.rows = rows, .recv_stride = recv_stride});
  });
}

symm_status_t symm_allreduce_rmsnorm(symm_group_t* group, const void* send, size_t tokens,
    size_t hidden, symm_dtype_t dtype, const symm_rmsnorm_t* norm,
    const symm_collective_options_t* options, void* stream) {
  return quick(options, [&] {
    const symm_rmsnorm_t given = read_options(&require(norm, "norm"));
    const auto of = [](const void* matrix) { return static_cast<const std::byte*>(matrix); };
    const auto to = [](void* matrix) { return static_cast<std::byte*>(matrix); };
    const RmsNorm wanted{of(given.residual_in), to(given.residual_out), to(given.norm_out),
        of(given.weight), static_cast<DType>(given.weight_dtype != 0 ? given.weight_dtype : dtype),
        static_cast<float>(given.epsilon), static_cast<float>(given.weight_offset),
        static_cast<QuantScale>(given.scale_kind), to(given.quant_out),
        static_cast<const float*>(given.scale_in), static_cast<float*>(given.scale_out), hidden};
    Group& owner = *group_of(group);
    CollectiveCall call = make_call(owner, Collective::allreduce_rmsnorm, send, nullptr, 0, dtype,
        SYMM_OP_SUM, 0, options, stream);
    set_rows(call, tokens, hidden);
    call.norm = &wanted;
    run_collective(owner, call);
  });
}

symm_status_t symm_collective_plan(symm_group_t* group, const symm_collective_call_t* call,
    const symm_collective_options_t* options, symm_plan_info_t* out) {
  return fill_struct(options, out, SYMM_FIRST_SIZE(symm_plan_info_t, reason), [&] {
    Group& owner = *group_of(group);
    const symm_collective_call_t asked = read_struct(
        &require(call, "call"), {}, SYMM_FIRST_SIZE(symm_collective_call_t, recv_stride), "call");
    CollectiveCall wanted = make_call(owner, static_cast<Collective>(asked.collective), asked.send,
        asked.recv, asked.count, asked.dtype, asked.op, asked.root, options, nullptr);
    if (wanted.collective == Collective::allreduce_rmsnorm) {
      wanted.op = Op::sum;
      set_rows(wanted, asked.rows, asked.count);
    }
    const PlanReport report = plan_collective(owner, wanted,
        {asked.send_counts, asked.send_displacements, asked.recv_counts, asked.recv_displacements,
            asked.rows, asked.recv_stride});
    symm_plan_info_t filled{};
    filled.algorithm = static_cast<int32_t>(report.algorithm);
    filled.slices = report.slices;
    filled.chunk_bytes = report.chunk_bytes;
    filled.nontemporal = report.nontemporal ? 1 : 0;
    write_text(filled.reason, report.reason);
    return filled;
  });
}
