// What the kernels are compared with: one element at a
// time, with nothing in common with the code under test.
#pragma once

#include <functional>
#include <string>

#include "kernels/collective.hpp"
#include "tools/bench/reference.hpp"

namespace symm::reference {
using Bytes = std::vector<std::byte>;

inline constexpr DType kDTypes[] = {DType::i8, DType::u8, DType::i16, DType::u16, DType::boolean,
    DType::i32, DType::u32, DType::i64, DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16,
    DType::f8e4m3, DType::f8e5m2};
inline constexpr Op kOps[] = {Op::sum, Op::avg, Op::min, Op::max, Op::prod};

bool is_nan(DType dtype, uint64_t bits);

// Same bits, or both NaN.
bool same(DType dtype, uint64_t a, uint64_t b);
// "", or where they differ first.
std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count);

// `count` elements of the operands from byte `at` on, each of all ranks by `combine`,
// whose results are of type `result`.
Bytes combined(DType dtype, const std::vector<Bytes>& send, size_t at, size_t count, DType result,
    const std::function<uint64_t(const std::vector<uint64_t>& bits)>& combine);

// What `rank` gets of a collective whose blocks have `unit`
// bytes; nothing where its recv does not count. `reduced(at)`
// is a block of all operands combined, from byte `at` on.
Bytes result_of(Collective collective, const std::vector<Bytes>& send, size_t unit, int rank,
    int root, const std::function<Bytes(size_t at)>& reduced);
}  // namespace symm::reference
