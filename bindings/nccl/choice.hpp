// The choice of the calls that go to symm. It depends on values that NCCL demands to
// be equal on all ranks, so that all ranks choose alike, and never on pointers,
// alignment, registration or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bindings/nccl/call.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
// Most ranks of a communicator that symm can do collectives of.
inline constexpr int kMostRanks = 16;
// Most ranks with which symm's collectives were measured.
inline constexpr int kMeasuredRanks = 4;

// The largest operand, of all ranks together where it has a block for each, up to which a
// collective of `size` ranks was measured to be faster than NCCL's
// (docs/gpu-performance.md). 0: it was not measured.
uint64_t measured_bytes(symm_collective_t collective, int size) noexcept;

// The symm value for an ncclDataType_t or ncclRedOp_t; none if symm has no such value, such as
// for operations of ncclRedOpCreatePreMulSum().
std::optional<symm_dtype_t> dtype_of(int type) noexcept;
std::optional<symm_op_t> op_of(int op) noexcept;
// The bytes of an element.
uint64_t bytes_of(symm_dtype_t dtype) noexcept;

// Whether symm can multiply operands of this type by a factor of each rank's own.
bool has_factors(int type) noexcept;

// Whether symm does sends and receives on a communicator of `size` ranks that has a group. That
// depends on no length: calls that a program groups progress together, and so by one library.
// False also for a call that NCCL refuses.
bool takes(
    const Settings& settings, int size, const MessageCall& call, bool is_alone = false) noexcept;

// Whether symm does a call on a communicator of `size` ranks, beside NCCL or by itself.
bool takes(const Settings& settings, int size, const Call& call, bool is_alone = false) noexcept;
}  // namespace symm::nccl
