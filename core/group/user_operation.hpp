// Reductions by a function of the caller's, which the library knows nothing of but the size of its
// elements. They are made of collectives that move bytes, so they run wherever those do, and fail
// as those do.
//
// All results but those of scans: each rank combines a slice of every rank's operand, which an
// all-to-all brings, and hands out what it has. Elements that are no whole slices, and few ones, go
// to all ranks, each of which combines them. Scratch is bounded: operands go in parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
class Group;

// The callback of symm.h, which says what it must do.
using CombineCallback = int32_t (*)(void* user, void* into, const void* other, size_t count);

struct UserReduction {
  static constexpr size_t kMostElement = size_t{1} << 20;

  Collective collective{};
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  size_t element_bytes = 0;
  CombineCallback combine = nullptr;
  void* user = nullptr;
  int32_t root = 0;
};

void reduce_by(Group& group, const UserReduction& reduction, uint64_t timeout_ms);
}  // namespace symm
