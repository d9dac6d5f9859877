// A collective call as the program has made it, and the scalar of an operation of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include <symm/symm.h>

namespace symm::nccl {
// The values of ncclDataType_t that are told apart here.
inline constexpr int kFloat16 = 6;
inline constexpr int kFloat32 = 7;
inline constexpr int kBfloat16 = 9;
inline constexpr int kFloat8e4m3 = 10;
inline constexpr int kFloat8e5m2 = 11;

inline bool is_float(int type) { return type >= kFloat16 && type <= kFloat8e5m2; }

// The values of ncclRedOp_t for which the order of operands does not matter.
inline constexpr int kMax = 2;
inline constexpr int kMin = 3;
// ncclRedOp_t has five operations. Numbers above are those of ncclRedOpCreatePreMulSum().
inline constexpr int kFirstOwnOp = 5;

// By NCCL's numbers. What a collective has no argument for is 0.
struct Call {
  symm_collective_t collective;
  const void* send;
  void* recv;
  size_t count;
  int type;
  int op;
  int root;
  void* stream;
  // ncclBcast(), whose only operand is `recv`.
  bool is_bcast = false;
};

// ncclSend() or ncclRecv(), by NCCL's numbers.
struct MessageCall {
  bool is_send;
  const void* send;
  void* recv;
  size_t count;
  int type;
  int peer;
  void* stream;
};

// Whether the call combines operands.
inline bool is_reduction(const Call& call) {
  return call.collective == SYMM_COLLECTIVE_ALLREDUCE ||
         call.collective == SYMM_COLLECTIVE_REDUCE ||
         call.collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
}

// Whether the operation is one that ncclRedOpCreatePreMulSum() has made.
inline bool is_scaled(const Call& call) { return is_reduction(call) && call.op >= kFirstOwnOp; }

// By which every operand of a sum is multiplied.
struct Scalar {
  int type = 0;
  // The address of the scalar if the device reads it when the call runs; else null.
  const void* where = nullptr;
  float value = 0;
};
}  // namespace symm::nccl
