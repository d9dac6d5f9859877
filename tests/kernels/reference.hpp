// The reference that kernels are compared with. It takes one element at a time and has nothing
// in common with the code under test.
#pragma once

#include <functional>
#include <string>

#include "kernels/collective.hpp"
#include "tools/bench/reference.hpp"

namespace symm::reference {
using Bytes = std::vector<std::byte>;

inline constexpr DType kDTypes[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::boolean,
    DType::i32, DType::u32, DType::i64, DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16,
    DType::f8e4m3, DType::f8e5m2, DType::c64, DType::c128, DType::i32_i32, DType::i64_i64,
    DType::f32_i32, DType::f64_i64};
inline constexpr Op kOps[] = {Op::sum, Op::avg, Op::min, Op::max, Op::prod, Op::band, Op::bor,
    Op::bxor, Op::minloc, Op::maxloc};

// Whether kernels combine elements of the type by the operation. The average of bool, which the
// library refuses, is "or" to them.
inline bool are_combined(DType dtype, Op op) {
  return has_op(dtype, op) || (dtype == DType::boolean && op == Op::avg);
}

bool is_nan(DType dtype, uint64_t bits);

// True if the bits are equal, or both are NaN; of a complex number and of a pair each part.
bool same(DType dtype, Bits a, Bits b);

// "" if all elements are the same, else where the first difference is.
std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count);

// Combines `count` elements of the operands of all ranks, from byte `at` on, by `combine`,
// whose results have the type `result`.
Bytes combined(DType dtype, const std::vector<Bytes>& send, size_t at, size_t count, DType result,
    const std::function<Bits(const std::vector<Bits>& bits)>& combine);

// The result on `rank` of a collective whose blocks have `unit` bytes. It is empty where the
// rank's recv does not count. `reduced(at)` is a block of all operands combined, from byte
// `at` on.
Bytes result_of(Collective collective, const std::vector<Bytes>& send, size_t unit, int rank,
    int root, const std::function<Bytes(size_t at)>& reduced);
}  // namespace symm::reference
