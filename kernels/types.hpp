// SPDX-License-Identifier: Apache-2.0
//
// The words that both halves of the library share: data types, reductions, collectives, algorithms. The values are those of
// symm.h; capi/library.cpp asserts that they stay equal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace symm {

enum class DType : int32_t {
  i8 = 0x0008,
  i32 = 0x0020,
  i64 = 0x0040,
  u8 = 0x0108,
  u32 = 0x0120,
  u64 = 0x0140,
  f16 = 0x0210,
  f32 = 0x0220,
  f64 = 0x0240,
  bf16 = 0x0410,
  f8e4m3 = 0x0A08,
  f8e5m2 = 0x0C08,
};

enum class Op : int32_t {
  sum = 0,
  avg = 1,
  min = 2,
  max = 3,
  prod = 4
};

enum class Collective : int32_t {
  allreduce = 0,
  reduce_scatter = 1,
  allgather = 2,
  broadcast = 3,
  reduce = 4,
  alltoall = 5,
};

enum class Algorithm : int32_t {
  automatic = 0,
  ll = 1,
  one_shot = 2,
  two_shot = 3,
  two_shot_staged = 4,
  hybrid_cube_mesh = 5,
  multimem_one_shot = 6,
  multimem_two_shot = 7,
};

// The low byte of a DLPack-style code is the width in bits.
constexpr size_t size_of(DType dtype) noexcept { return (static_cast<uint32_t>(dtype) & 0xFFU) / 8; }

const char* name_of(DType dtype) noexcept;            // "f32"; "?" for an unknown value
const char* name_of(Op op) noexcept;                  // "sum"
const char* name_of(Collective collective) noexcept;  // "allreduce"
const char* name_of(Algorithm algorithm) noexcept;    // "two_shot"

bool is_valid(DType dtype) noexcept;
bool is_valid(Op op) noexcept;
bool is_valid(Collective collective) noexcept;
bool is_valid(Algorithm algorithm) noexcept;

}  // namespace symm
