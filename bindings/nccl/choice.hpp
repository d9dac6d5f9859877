// Which calls go to symm: functions of what NCCL demands to be equal on all ranks, so that all
// ranks choose alike. Never of pointers, alignment, registration or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
// Most ranks of a communicator that symm can do collectives of.
inline constexpr int kMostRanks = 16;
// The largest number of ranks, and of bytes, for which symm's all-reduce was measured and was
// faster than NCCL's (docs/gpu-performance.md).
inline constexpr int kMeasuredRanks = 4;
inline constexpr uint64_t kMeasuredBytes = uint64_t{1} << 30;

// ncclDataType_t and ncclRedOp_t in symm's words; none for what symm has not, as operations of
// ncclRedOpCreatePreMulSum().
std::optional<symm_dtype_t> dtype_of(int type) noexcept;
std::optional<symm_op_t> op_of(int op) noexcept;

// Whether symm does an all-reduce of a communicator of `size` ranks.
bool takes_all_reduce(const Settings& settings, int size, size_t count, int type, int op) noexcept;
}  // namespace symm::nccl
