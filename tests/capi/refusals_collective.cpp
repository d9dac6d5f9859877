// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"
#include "tests/support/options.hpp"

namespace symm_test {

namespace {

constexpr int32_t kMinusOne = -1;
constexpr size_t kTooMany = SIZE_MAX / 2;

const WrongSize<symm_collective_options_t> kOptions;
const WrongSize<symm_collective_call_t> kCall;
const symm_collective_options_t kUnknownAlgorithm = {sizeof(symm_collective_options_t), 99, 0, nullptr, 0, 0, 0, nullptr};
const symm_collective_options_t kCubeOfOne = {
    sizeof(symm_collective_options_t), SYMM_ALGORITHM_HYBRID_CUBE_MESH, 0, nullptr, 0, 0, 0, nullptr};

}  // namespace

// What all collectives check alike. `count` is what the header calls the count; after the dtype come op and root, if any, each
// with its comma.
#define SYMM_SRC w.source.data()
#define SYMM_REFUSE_COMMON(function, count, ...)                                                                                \
  SYMM_REFUSE(function, send, "NULL", INVALID_ARGUMENT, w.group, nullptr, w.destination(), 8, kF32, __VA_ARGS__ nullptr,        \
              nullptr),                                                                                                         \
      SYMM_REFUSE(function, recv, "NULL", INVALID_ARGUMENT, w.group, SYMM_SRC, nullptr, 8, kF32, __VA_ARGS__ nullptr, nullptr), \
      SYMM_REFUSE(function, recv, "overlaps", INVALID_ARGUMENT, w.group, SYMM_SRC, SYMM_SRC + 1, 8, kF32, __VA_ARGS__ nullptr,  \
                  nullptr),                                                                                                     \
      SYMM_REFUSE(function, count, "more than memory", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), kTooMany, kF32,    \
                  __VA_ARGS__ nullptr, nullptr),                                                                                \
      SYMM_REFUSE(function, dtype, "0", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, 0, __VA_ARGS__ nullptr,        \
                  nullptr),                                                                                                     \
      SYMM_REFUSE(function, options, "short", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32,                    \
                  __VA_ARGS__ kOptions.small(), nullptr),                                                                       \
      SYMM_REFUSE(function, options, "newer", UNSUPPORTED, w.group, SYMM_SRC, w.destination(), 8, kF32,                         \
                  __VA_ARGS__ kOptions.newer(), nullptr),                                                                       \
      SYMM_REFUSE(function, algorithm, "unknown", UNSUPPORTED, w.group, SYMM_SRC, w.destination(), 8, kF32,                     \
                  __VA_ARGS__& kUnknownAlgorithm, nullptr),                                                                     \
      SYMM_REFUSE(function, stream, "not NULL", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32,                  \
                  __VA_ARGS__ nullptr, stream())

#define SYMM_REFUSE_OP(function, ...)                                                                                         \
  SYMM_REFUSE(function, op, "unknown", UNSUPPORTED, w.group, SYMM_SRC, w.destination(), 8, kF32, 5, __VA_ARGS__ nullptr,      \
              nullptr),                                                                                                       \
      SYMM_REFUSE(function, op, "-1", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32, -1, __VA_ARGS__ nullptr, \
                  nullptr)

#define SYMM_REFUSE_ROOT(function, ...)                                                                                        \
  SYMM_REFUSE(function, root, "= size", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32, __VA_ARGS__ 1, nullptr, \
              nullptr),                                                                                                        \
      SYMM_REFUSE(function, root, "-1", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32, __VA_ARGS__ kMinusOne,  \
                  nullptr, nullptr)

// A plan of an all-reduce with one argument changed.
#define SYMM_REFUSE_PLAN(parameter, how, status, collective, count, dtype, op, options, out) \
  SYMM_REFUSE(symm_collective_plan, parameter, how, status, w.group,                         \
              support::call_of(collective, SYMM_SRC, w.source.data(), count, dtype, op), options, out)
#define SYMM_PLAN_OUT w.out_struct<symm_plan_info_t>()

// The same for the collectives with counts, whose way to be called `call` is: (source, counts, destination, dtype, options,
// stream).
#define SYMM_REFUSE_COUNTS(function, operand, call, ...)                                                                        \
  SYMM_REFUSE(function, send, "NULL", INVALID_ARGUMENT, w.group, call(nullptr, &w.eight, nullptr, w.destination(), kF32),       \
              __VA_ARGS__ nullptr, nullptr),                                                                                    \
      SYMM_REFUSE(function, recv, "NULL", INVALID_ARGUMENT, w.group, call(SYMM_SRC, &w.eight, nullptr, nullptr, kF32),          \
                  __VA_ARGS__ nullptr, nullptr),                                                                                \
      SYMM_REFUSE(function, recv, "overlaps", INVALID_ARGUMENT, w.group, call(SYMM_SRC, &w.eight, nullptr, SYMM_SRC + 1, kF32), \
                  __VA_ARGS__ nullptr, nullptr),                                                                                \
      SYMM_REFUSE(function, operand##_counts, "NULL", INVALID_ARGUMENT, w.group,                                                \
                  call(SYMM_SRC, nullptr, nullptr, w.destination(), kF32), __VA_ARGS__ nullptr, nullptr),                       \
      SYMM_REFUSE(function, operand##_counts, "more than memory", INVALID_ARGUMENT, w.group,                                    \
                  call(SYMM_SRC, &w.too_many, nullptr, w.destination(), kF32), __VA_ARGS__ nullptr, nullptr),                   \
      SYMM_REFUSE(function, operand##_displacements, "more than memory", INVALID_ARGUMENT, w.group,                             \
                  call(SYMM_SRC, &w.eight, &w.too_many, w.destination(), kF32), __VA_ARGS__ nullptr, nullptr),                  \
      SYMM_REFUSE(function, dtype, "0", INVALID_ARGUMENT, w.group, call(SYMM_SRC, &w.eight, nullptr, w.destination(), 0),       \
                  __VA_ARGS__ nullptr, nullptr),                                                                                \
      SYMM_REFUSE(function, options, "short", INVALID_ARGUMENT, w.group,                                                        \
                  call(SYMM_SRC, &w.eight, nullptr, w.destination(), kF32), __VA_ARGS__ kOptions.small(), nullptr),             \
      SYMM_REFUSE(function, stream, "not NULL", INVALID_ARGUMENT, w.group,                                                      \
                  call(SYMM_SRC, &w.eight, nullptr, w.destination(), kF32), __VA_ARGS__ nullptr, stream())
#define SYMM_COUNTS_OF_RECV(send, counts, displacements, recv, dtype) send, recv, counts, displacements, dtype
#define SYMM_COUNTS_OF_SEND(send, counts, displacements, recv, dtype) send, counts, displacements, recv, dtype
#define SYMM_COUNTS_OF_SEND_TOO(send, counts, displacements, recv, dtype) \
  send, counts, displacements, recv, &w.eight, nullptr, dtype
#define SYMM_COUNTS_OF_RECV_TOO(send, counts, displacements, recv, dtype) \
  send, &w.eight, nullptr, recv, counts, displacements, dtype

#define SYMM_DEVICE_OF_SEND(send, counts, displacements, recv, dtype) \
  send, 8, counts, displacements, recv, 8, &w.eight, nullptr, dtype
#define SYMM_DEVICE_OF_RECV(send, counts, displacements, recv, dtype) \
  send, 8, &w.eight, nullptr, recv, 8, counts, displacements, dtype

#define SYMM_REFUSE_ROWS(parameter, how, send, recv, rows, count, stride, dtype, options, stream)                              \
  SYMM_REFUSE(symm_allgather_rows, parameter, how, INVALID_ARGUMENT, w.group, send, recv, rows, count, stride, dtype, options, \
              stream)

const std::vector<Refusal>& collective_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE_INIT(collective),

      SYMM_REFUSE_COMMON(symm_allreduce, count, kSum, ),
      SYMM_REFUSE_OP(symm_allreduce, ),
      SYMM_REFUSE(symm_allreduce, algorithm, "cube of one", INVALID_ARGUMENT, w.group, SYMM_SRC, w.destination(), 8, kF32, kSum,
                  &kCubeOfOne, nullptr),
      SYMM_REFUSE_COMMON(symm_reduce_scatter, recv_count, kSum, ),
      SYMM_REFUSE_OP(symm_reduce_scatter, ),
      SYMM_REFUSE_COMMON(symm_allgather, send_count, ),
      SYMM_REFUSE_COMMON(symm_broadcast, count, 0, ),
      SYMM_REFUSE_ROOT(symm_broadcast, ),
      SYMM_REFUSE_COMMON(symm_reduce, count, kSum, 0, ),
      SYMM_REFUSE_OP(symm_reduce, 0, ),
      SYMM_REFUSE_ROOT(symm_reduce, kSum, ),
      SYMM_REFUSE_COMMON(symm_alltoall, count, ),

      SYMM_REFUSE_COUNTS(symm_allgatherv, recv, SYMM_COUNTS_OF_RECV, ),
      SYMM_REFUSE_COUNTS(symm_reduce_scatterv, send, SYMM_COUNTS_OF_SEND, kSum, ),
      SYMM_REFUSE(symm_reduce_scatterv, op, "unknown", UNSUPPORTED, w.group, SYMM_SRC, &w.eight, nullptr, w.destination(), kF32,
                  5, nullptr, nullptr),
      SYMM_REFUSE_COUNTS(symm_alltoallv, send, SYMM_COUNTS_OF_SEND_TOO, ),
      SYMM_REFUSE_COUNTS(symm_alltoallv, recv, SYMM_COUNTS_OF_RECV_TOO, ),
      SYMM_REFUSE_COUNTS(symm_alltoallv_device, send, SYMM_DEVICE_OF_SEND, ),
      SYMM_REFUSE_COUNTS(symm_alltoallv_device, recv, SYMM_DEVICE_OF_RECV, ),
      SYMM_REFUSE(symm_alltoallv_device, send_capacity, "less than a block", INVALID_ARGUMENT, w.group, SYMM_SRC, 7, &w.eight,
                  nullptr, w.destination(), 8, &w.eight, nullptr, kF32, nullptr, nullptr),
      SYMM_REFUSE(symm_alltoallv_device, recv_capacity, "less than a block", INVALID_ARGUMENT, w.group, SYMM_SRC, 8, &w.eight,
                  nullptr, w.destination(), 7, &w.eight, nullptr, kF32, nullptr, nullptr),
      SYMM_REFUSE_COMMON(symm_gather, count, 0, ),
      SYMM_REFUSE_ROOT(symm_gather, ),
      SYMM_REFUSE_COMMON(symm_scatter, count, 0, ),
      SYMM_REFUSE_ROOT(symm_scatter, ),
      SYMM_REFUSE_ROWS(send, "NULL", nullptr, w.destination(), 2, 4, 4, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(recv, "NULL", SYMM_SRC, nullptr, 2, 4, 4, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(rows, "more than memory", SYMM_SRC, w.destination(), kTooMany, 4, 4, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(row_count, "more than memory", SYMM_SRC, w.destination(), 2, kTooMany, 4, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(recv_stride, "less than a row", SYMM_SRC, w.destination(), 2, 4, 3, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(recv_stride, "more than memory", SYMM_SRC, w.destination(), 2, 4, kTooMany, kF32, nullptr, nullptr),
      SYMM_REFUSE_ROWS(dtype, "0", SYMM_SRC, w.destination(), 2, 4, 4, 0, nullptr, nullptr),
      SYMM_REFUSE_ROWS(options, "short", SYMM_SRC, w.destination(), 2, 4, 4, kF32, kOptions.small(), nullptr),
      SYMM_REFUSE_ROWS(stream, "not NULL", SYMM_SRC, w.destination(), 2, 4, 4, kF32, nullptr, stream()),

      SYMM_REFUSE_PLAN(collective, "unknown", UNSUPPORTED, 12, 8, kF32, kSum, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(collective, "-1", INVALID_ARGUMENT, -1, 8, kF32, kSum, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(count, "more than memory", INVALID_ARGUMENT, 0, kTooMany, kF32, kSum, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(dtype, "0", INVALID_ARGUMENT, 0, 8, 0, kSum, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(op, "unknown", UNSUPPORTED, 0, 8, kF32, 5, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(options, "short", INVALID_ARGUMENT, 0, 8, kF32, kSum, kOptions.small(), SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(options, "newer", UNSUPPORTED, 0, 8, kF32, kSum, kOptions.newer(), SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(algorithm, "unknown", UNSUPPORTED, 0, 8, kF32, kSum, &kUnknownAlgorithm, SYMM_PLAN_OUT),
      SYMM_REFUSE(symm_collective_plan, call, "NULL", INVALID_ARGUMENT, w.group, nullptr, nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE(symm_collective_plan, call, "short", INVALID_ARGUMENT, w.group, kCall.small(), nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE(symm_collective_plan, call, "newer", UNSUPPORTED, w.group, kCall.newer(), nullptr, SYMM_PLAN_OUT),
      SYMM_REFUSE(symm_collective_plan, root, "= size", INVALID_ARGUMENT, w.group,
                  support::call_of(SYMM_COLLECTIVE_BROADCAST, SYMM_SRC, w.source.data(), 8, kF32, kSum, 1), nullptr,
                  SYMM_PLAN_OUT),
      SYMM_REFUSE_PLAN(out, "NULL", INVALID_ARGUMENT, 0, 8, kF32, kSum, nullptr, nullptr),
      SYMM_REFUSE_PLAN(out, "struct_size 0", INVALID_ARGUMENT, 0, 8, kF32, kSum, nullptr, w.out_struct<symm_plan_info_t>(0)),
  };
  return rows;
}

}  // namespace symm_test
