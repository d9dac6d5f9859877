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
#define SYMM_DTYPES(X)        \
  X(i8, I8, 0x0008)           \
  X(i16, I16, 0x0010)         \
  X(i32, I32, 0x0020)         \
  X(i64, I64, 0x0040)         \
  X(u8, U8, 0x0108)           \
  X(u16, U16, 0x0110)         \
  X(u32, U32, 0x0120)         \
  X(u64, U64, 0x0140)         \
  X(f16, F16, 0x0210)         \
  X(f32, F32, 0x0220)         \
  X(f64, F64, 0x0240)         \
  X(bf16, BF16, 0x0410)       \
  X(boolean, BOOL, 0x0608)    \
  X(f8e4m3, F8E4M3, 0x0A08)   \
  X(f8e5m2, F8E5M2, 0x0C08)   \
  X(c64, C64, 0x0540)         \
  X(c128, C128, 0x0580)       \
  X(i32_i32, I32_I32, 0x8040) \
  X(i64_i64, I64_I64, 0x8080) \
  X(f32_i32, F32_I32, 0x8240) \
  X(f64_i64, F64_I64, 0x8280)

// X(name): floats narrower than f32, which are combined in f32; all floats; types of RMSNorm.
#define SYMM_SMALL_FLOATS(X) X(f16) X(bf16) X(f8e4m3) X(f8e5m2)
#define SYMM_FLOATS(X) SYMM_SMALL_FLOATS(X) X(f32) X(f64)
#define SYMM_NORM_TYPES(X) X(f32) X(f16) X(bf16)
// X(name): types of two parts of one width. A complex number has a real and an imaginary part, a
// pair a value and a signed index.
#define SYMM_COMPLEX_TYPES(X) X(c64) X(c128)
#define SYMM_PAIRS(X) X(i32_i32) X(i64_i64) X(f32_i32) X(f64_i64)

#define SYMM_OPS(X)    \
  X(sum, SUM, 0)       \
  X(avg, AVG, 1)       \
  X(min, MIN, 2)       \
  X(max, MAX, 3)       \
  X(prod, PROD, 4)     \
  X(band, BAND, 5)     \
  X(bor, BOR, 6)       \
  X(bxor, BXOR, 7)     \
  X(minloc, MINLOC, 8) \
  X(maxloc, MAXLOC, 9)

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
SYMM_IS_ONE_OF(is_complex, SYMM_COMPLEX_TYPES)
SYMM_IS_ONE_OF(is_pair, SYMM_PAIRS)
#undef SYMM_IS_ONE_OF
#undef SYMM_CASE

constexpr bool has_two_parts(DType dtype) noexcept { return is_complex(dtype) || is_pair(dtype); }

constexpr bool is_integer(DType dtype) noexcept {
  return !is_float(dtype) && dtype != DType::boolean && !has_two_parts(dtype);
}

// The type of the first part, which is the value of a pair; of a type of one part that type.
constexpr DType part_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::c64:
    case DType::f32_i32: return DType::f32;
    case DType::c128:
    case DType::f64_i64: return DType::f64;
    case DType::i32_i32: return DType::i32;
    case DType::i64_i64: return DType::i64;
    default: return dtype;
  }
}

// Whether an operator sees bits, and not elements. It is of integers only.
SYMM_HOST_DEVICE constexpr bool is_bitwise(Op op) noexcept {
  return op == Op::band || op == Op::bor || op == Op::bxor;
}

// Whether an operator finds an extreme value and its place. It is of pairs only, and they have no
// other.
SYMM_HOST_DEVICE constexpr bool is_located(Op op) noexcept {
  return op == Op::minloc || op == Op::maxloc;
}

// The type as which elements are combined. But for products, a complex number is two real ones.
constexpr DType combined_as(DType dtype, Op op) noexcept {
  return is_complex(dtype) && op != Op::prod ? part_of(dtype) : dtype;
}

// Whether the order in which operands are combined changes the bits of a result: steps round.
constexpr bool depends_on_order(DType dtype, Op op) noexcept {
  const bool adds = op == Op::sum || op == Op::avg || op == Op::prod;
  return adds && (is_float(dtype) || is_complex(dtype));
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
