// SPDX-License-Identifier: Apache-2.0
#include "kernels/types.hpp"

namespace symm {
namespace {
constexpr char kUnknown[] = "?";
}  // namespace

// No default case: the compiler then names a value that was forgotten here.
const char* name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::i8: return "i8";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
    case DType::u32: return "u32";
    case DType::u64: return "u64";
    case DType::f16: return "f16";
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::bf16: return "bf16";
    case DType::f8e4m3: return "f8e4m3";
    case DType::f8e5m2: return "f8e5m2";
  }
  return kUnknown;
}

const char* name_of(Op op) noexcept {
  switch (op) {
    case Op::sum: return "sum";
    case Op::avg: return "avg";
    case Op::min: return "min";
    case Op::max: return "max";
    case Op::prod: return "prod";
  }
  return kUnknown;
}

const char* name_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::allreduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::allgather: return "allgather";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
    case Collective::alltoall: return "alltoall";
  }
  return kUnknown;
}

const char* name_of(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::automatic: return "auto";
    case Algorithm::ll: return "ll";
    case Algorithm::one_shot: return "one_shot";
    case Algorithm::two_shot: return "two_shot";
    case Algorithm::two_shot_staged: return "two_shot_staged";
    case Algorithm::hybrid_cube_mesh: return "hybrid_cube_mesh";
    case Algorithm::multimem_one_shot: return "multimem_one_shot";
    case Algorithm::multimem_two_shot: return "multimem_two_shot";
  }
  return kUnknown;
}

bool is_valid(DType dtype) noexcept { return name_of(dtype) != kUnknown; }
bool is_valid(Op op) noexcept { return name_of(op) != kUnknown; }
bool is_valid(Collective collective) noexcept { return name_of(collective) != kUnknown; }
bool is_valid(Algorithm algorithm) noexcept { return name_of(algorithm) != kUnknown; }

}  // namespace symm
