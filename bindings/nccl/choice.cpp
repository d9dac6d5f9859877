#include "bindings/nccl/choice.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "bindings/nccl/call.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// In the order of ncclDataType_t and of ncclRedOp_t.
constexpr symm_dtype_t kTypes[] = {SYMM_DTYPE_I8, SYMM_DTYPE_U8, SYMM_DTYPE_I32, SYMM_DTYPE_U32,
    SYMM_DTYPE_I64, SYMM_DTYPE_U64, SYMM_DTYPE_F16, SYMM_DTYPE_F32, SYMM_DTYPE_F64, SYMM_DTYPE_BF16,
    SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2};
constexpr symm_op_t kOps[] = {SYMM_OP_SUM, SYMM_OP_PROD, SYMM_OP_MAX, SYMM_OP_MIN, SYMM_OP_AVG};

bool has_root(const Call& call) {
  return call.collective == SYMM_COLLECTIVE_BROADCAST ||
         call.collective == SYMM_COLLECTIVE_REDUCE || call.collective == SYMM_COLLECTIVE_GATHER ||
         call.collective == SYMM_COLLECTIVE_SCATTER;
}

// Whether an operand has a block of `count` elements for each rank.
bool has_blocks(const Call& call) {
  return call.collective != SYMM_COLLECTIVE_ALLREDUCE &&
         call.collective != SYMM_COLLECTIVE_BROADCAST && call.collective != SYMM_COLLECTIVE_REDUCE;
}

struct Measured {
  symm_collective_t collective;
  uint64_t with_two;
  uint64_t with_four;
};
constexpr uint64_t kMega = uint64_t{1} << 20;
// If larger calls were faster with symmetric memory only, the limit is below them. Gathers and
// scatters were not measured beside NCCL's.
constexpr Measured kMeasured[] = {{SYMM_COLLECTIVE_ALLREDUCE, 1024 * kMega, 1024 * kMega},
    {SYMM_COLLECTIVE_ALLGATHER, 16 * kMega, 4 * kMega},
    {SYMM_COLLECTIVE_ALLTOALL, 64 * kMega, 64 * kMega},
    {SYMM_COLLECTIVE_BROADCAST, 16 * kMega, 16 * kMega},
    {SYMM_COLLECTIVE_REDUCE, 64 * kMega, 4 * kMega},
    {SYMM_COLLECTIVE_REDUCE_SCATTER, 1024 * kMega, 16 * kMega}};
}  // namespace

std::optional<symm_dtype_t> dtype_of(int type) noexcept {
  if (type < 0 || static_cast<size_t>(type) >= std::size(kTypes)) return std::nullopt;
  return kTypes[type];
}

std::optional<symm_op_t> op_of(int op) noexcept {
  if (op < 0 || static_cast<size_t>(op) >= std::size(kOps)) return std::nullopt;
  return kOps[op];
}

// The low byte of a data type is its number of bits.
uint64_t bytes_of(symm_dtype_t dtype) noexcept { return static_cast<uint64_t>(dtype & 0xff) / 8; }

bool has_factors(int type) noexcept {
  return type == kFloat16 || type == kFloat32 || type == kBfloat16 || type == kFloat8e4m3 ||
         type == kFloat8e5m2;
}

uint64_t measured_bytes(symm_collective_t collective, int size) noexcept {
  if (size > kMeasuredRanks) return 0;
  for (const Measured& one : kMeasured) {
    if (one.collective == collective) return size == 2 ? one.with_two : one.with_four;
  }
  return 0;
}

bool takes(const Settings& settings, int size, const MessageCall& call, bool is_alone) noexcept {
  const bool is_chosen = is_alone || (settings.collectives & kSendRecv) != 0;
  const int least = is_alone ? 1 : 2;
  if (!is_chosen || size < least || size > kMostRanks) return false;
  const std::optional<symm_dtype_t> dtype = dtype_of(call.type);
  const bool is_rank = call.peer >= 0 && call.peer < size;
  return dtype && is_rank && call.count <= uint64_t{INT64_MAX} / bytes_of(*dtype);
}

bool takes(const Settings& settings, int size, const Call& call, bool is_alone) noexcept {
  const bool is_chosen = (settings.collectives & 1U << call.collective) != 0;
  // NCCL copies what one rank has faster than a kernel is launched.
  const int least = is_alone ? 1 : 2;
  if (!is_chosen || size < least || size > kMostRanks || call.count == 0) return false;
  const std::optional<symm_dtype_t> dtype = dtype_of(call.type);
  if (!dtype || (has_root(call) && (call.root < 0 || call.root >= size))) return false;
  if (is_scaled(call) ? !has_factors(call.type) : is_reduction(call) && !op_of(call.op)) {
    return false;
  }

  const auto blocks = has_blocks(call) ? static_cast<uint64_t>(size) : uint64_t{1};
  const uint64_t unit = bytes_of(*dtype) * blocks;
  if (settings.is_deterministic || is_alone) return call.count <= uint64_t{INT64_MAX} / unit;
  // A factor costs a pass over the operands, which was not measured beside NCCL.
  if (is_scaled(call)) return false;
  return call.count <= measured_bytes(call.collective, size) / unit;
}
}  // namespace symm::nccl
