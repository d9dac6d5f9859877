// SPDX-License-Identifier: Apache-2.0
//
// What must agree on all ranks, packed into two words that kernels compare.
#pragma once

#include <string>

#include "core/backend/backend.hpp"

namespace symm::cuda {

struct Detail {
  uint64_t what;
  uint64_t count;
};

Detail detail_of(const CollectiveCall& call) noexcept;
std::string describe(const Detail& detail);  // "allreduce(f32, sum, count 8)"

}  // namespace symm::cuda
