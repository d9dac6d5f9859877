// The words that core and kernels share: data types, operators, collectives, algorithms. Each is
// one list, of which the enumeration, the names and the comparison with symm.h (capi/library.cpp)
// are made.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define SYMM_HOST_DEVICE __host__ __device__
#else
#define SYMM_HOST_DEVICE
#endif

// X(the name here, the end of its name in symm.h, its value in symm.h)
#define SYMM_DTYPES(X)      \
  X(i8, I8, 0x0008)         \
  X(i16, I16, 0x0010)       \
  X(i32, I32, 0x0020)       \
  X(i64, I64, 0x0040)       \
  X(u8, U8, 0x0108)         \
  X(u16, U16, 0x0110)       \
  X(u32, U32, 0x0120)       \
  X(u64, U64, 0x0140)       \
  X(f16, F16, 0x0210)       \
  X(f32, F32, 0x0220)       \
  X(f64, F64, 0x0240)       \
  X(bf16, BF16, 0x0410)     \
  X(boolean, BOOL, 0x0608)  \
  X(f8e4m3, F8E4M3, 0x0A08) \
  X(f8e5m2, F8E5M2, 0x0C08)

// X(name): floats narrower than f32, which are combined in f32; all floats; types of RMSNorm.
#define SYMM_SMALL_FLOATS(X) X(f16) X(bf16) X(f8e4m3) X(f8e5m2)
#define SYMM_FLOATS(X) SYMM_SMALL_FLOATS(X) X(f32) X(f64)
#define SYMM_NORM_TYPES(X) X(f32) X(f16) X(bf16)

#define SYMM_OPS(X) \
  X(sum, SUM, 0)    \
  X(avg, AVG, 1)    \
  X(min, MIN, 2)    \
  X(max, MAX, 3)    \
  X(prod, PROD, 4)  \
  X(band, BAND, 5)  \
  X(bor, BOR, 6)    \
  X(bxor, BXOR, 7)

#define SYMM_SCALE_POSITIONS(X) \
  X(none, NONE, 0)              \
  X(before, BEFORE, 1)          \
  X(after, AFTER, 2)

// The orders in which ranks are combined.
#define SYMM_ORDERS(X)  \
  X(of_group, GROUP, 0) \
  X(ranks, RANKS, 1)    \
  X(tree, TREE, 2)      \
  X(any, ANY, 3)

#define SYMM_COLLECTIVES(X)                       \
  X(allreduce, ALLREDUCE, 0)                      \
  X(reduce_scatter, REDUCE_SCATTER, 1)            \
  X(allgather, ALLGATHER, 2)                      \
  X(broadcast, BROADCAST, 3)                      \
  X(reduce, REDUCE, 4)                            \
  X(alltoall, ALLTOALL, 5)                        \
  X(allgatherv, ALLGATHERV, 6)                    \
  X(reduce_scatterv, REDUCE_SCATTERV, 7)          \
  X(alltoallv, ALLTOALLV, 8)                      \
  X(gather, GATHER, 9)                            \
  X(scatter, SCATTER, 10)                         \
  X(allgather_rows, ALLGATHER_ROWS, 11)           \
  X(allreduce_rmsnorm, ALLREDUCE_RMSNORM, 12)     \
  X(scan, SCAN, 13)                               \
  X(exscan, EXSCAN, 14)                           \
  X(reduce_scatter_rows, REDUCE_SCATTER_ROWS, 15) \
  X(gatherv, GATHERV, 16)                         \
  X(scatterv, SCATTERV, 17)                       \
  X(broadcast_bytes, BROADCAST_BYTES, 18)

#define SYMM_QUANT_SCALES(X) \
  X(tensor, TENSOR, 0)       \
  X(token, TOKEN, 1)         \
  X(group, GROUP, 2)

#define SYMM_ALGORITHMS(X)                   \
  X(automatic, AUTO, 0)                      \
  X(ll, LL, 1)                               \
  X(one_shot, ONE_SHOT, 2)                   \
  X(two_shot, TWO_SHOT, 3)                   \
  X(two_shot_staged, TWO_SHOT_STAGED, 4)     \
  X(hybrid_cube_mesh, HYBRID_CUBE_MESH, 5)   \
  X(multimem_one_shot, MULTIMEM_ONE_SHOT, 6) \
  X(multimem_two_shot, MULTIMEM_TWO_SHOT, 7) \
  X(marked, MARKED, 8)                       \
  X(chain, CHAIN, 9)                         \
  X(bruck, BRUCK, 10)                        \
  X(hierarchical, HIERARCHICAL, 11)          \
  X(copy_engine, COPY_ENGINE, 12)

namespace symm {
#define SYMM_ENUMERATOR(name, c_name, value) name = value,  // NOLINT(bugprone-macro-parentheses)
#define SYMM_COUNT(name, c_name, value) +1                  // NOLINT(bugprone-macro-parentheses)

enum class DType : int32_t { SYMM_DTYPES(SYMM_ENUMERATOR) };
enum class Op : int32_t { SYMM_OPS(SYMM_ENUMERATOR) };
enum class ScalePosition : int32_t { SYMM_SCALE_POSITIONS(SYMM_ENUMERATOR) };
enum class Order : uint8_t { SYMM_ORDERS(SYMM_ENUMERATOR) };
enum class QuantScale : int32_t { SYMM_QUANT_SCALES(SYMM_ENUMERATOR) };
enum class Collective : int32_t { SYMM_COLLECTIVES(SYMM_ENUMERATOR) };
enum class Algorithm : int32_t { SYMM_ALGORITHMS(SYMM_ENUMERATOR) };

inline constexpr size_t kCollectives = SYMM_COLLECTIVES(SYMM_COUNT);

#undef SYMM_ENUMERATOR
#undef SYMM_COUNT

// Ranks of a hybrid cube mesh, and of each of its quads.
inline constexpr int kCubeMeshRanks = 8;
inline constexpr int kQuadRanks = 4;

// The low byte of a DLPack-style code is the width in bits.
constexpr size_t size_of(DType dtype) noexcept {
  return (static_cast<uint32_t>(dtype) & 0xFFU) / 8;
}

#define SYMM_CASE(name) case DType::name:
#define SYMM_IS_ONE_OF(function, LIST)            \
  constexpr bool function(DType dtype) noexcept { \
    switch (dtype) {                              \
      LIST(SYMM_CASE) return true;                \
      default: return false;                      \
    }                                             \
  }
SYMM_IS_ONE_OF(is_small_float, SYMM_SMALL_FLOATS)
SYMM_IS_ONE_OF(is_float, SYMM_FLOATS)
SYMM_IS_ONE_OF(is_norm_type, SYMM_NORM_TYPES)
#undef SYMM_IS_ONE_OF
#undef SYMM_CASE

constexpr bool is_integer(DType dtype) noexcept {
  return !is_float(dtype) && dtype != DType::boolean;
}

// Whether an operator sees bits, and not elements. It is of integers only.
SYMM_HOST_DEVICE constexpr bool is_bitwise(Op op) noexcept {
  return op == Op::band || op == Op::bor || op == Op::bxor;
}

const char* dtype_name(DType dtype) noexcept;  // "f32"; "?" for an unknown value
const char* op_name(Op op) noexcept;           // "sum"
const char* scale_position_name(ScalePosition position) noexcept;
const char* algorithm_name(Algorithm algorithm) noexcept;  // "two_shot"; "auto" for automatic

// These questions are inline, since every call of a small collective asks them.
#define SYMM_KNOWN(name, c_name, value) case value:
#define SYMM_IS_VALID(Type, VALUES)            \
  constexpr bool is_valid(Type one) noexcept { \
    switch (static_cast<int32_t>(one)) {       \
      VALUES(SYMM_KNOWN) return true;          \
      default: return false;                   \
    }                                          \
  }
SYMM_IS_VALID(DType, SYMM_DTYPES)
SYMM_IS_VALID(Op, SYMM_OPS)
SYMM_IS_VALID(ScalePosition, SYMM_SCALE_POSITIONS)
SYMM_IS_VALID(Order, SYMM_ORDERS)
SYMM_IS_VALID(QuantScale, SYMM_QUANT_SCALES)
SYMM_IS_VALID(Collective, SYMM_COLLECTIVES)
SYMM_IS_VALID(Algorithm, SYMM_ALGORITHMS)
#undef SYMM_IS_VALID
#undef SYMM_KNOWN

#define SYMM_NAME(name, c_name, value) \
  case value: return #name;

inline const char* collective_name(Collective collective) noexcept {  // "allreduce"
  switch (static_cast<int32_t>(collective)) { SYMM_COLLECTIVES(SYMM_NAME) }
  return "?";
}
}  // namespace symm
