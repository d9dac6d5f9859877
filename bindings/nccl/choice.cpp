#include "bindings/nccl/choice.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// In the order of ncclDataType_t and of ncclRedOp_t.
constexpr symm_dtype_t kTypes[] = {SYMM_DTYPE_I8, SYMM_DTYPE_U8, SYMM_DTYPE_I32, SYMM_DTYPE_U32,
    SYMM_DTYPE_I64, SYMM_DTYPE_U64, SYMM_DTYPE_F16, SYMM_DTYPE_F32, SYMM_DTYPE_F64, SYMM_DTYPE_BF16,
    SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2};
constexpr symm_op_t kOps[] = {SYMM_OP_SUM, SYMM_OP_PROD, SYMM_OP_MAX, SYMM_OP_MIN, SYMM_OP_AVG};

// The low byte of a data type is its number of bits.
uint64_t bytes_of(symm_dtype_t dtype) { return static_cast<uint64_t>(dtype & 0xff) / 8; }
}  // namespace

std::optional<symm_dtype_t> dtype_of(int type) noexcept {
  if (type < 0 || static_cast<size_t>(type) >= std::size(kTypes)) return std::nullopt;
  return kTypes[type];
}

std::optional<symm_op_t> op_of(int op) noexcept {
  if (op < 0 || static_cast<size_t>(op) >= std::size(kOps)) return std::nullopt;
  return kOps[op];
}

bool takes_all_reduce(const Settings& settings, int size, size_t count, int type, int op) noexcept {
  const std::optional<symm_dtype_t> dtype = dtype_of(type);
  const bool is_known = dtype && op_of(op) && size >= 2 && size <= kMostRanks;
  const bool is_chosen = (settings.collectives & 1U << SYMM_COLLECTIVE_ALLREDUCE) != 0;
  if (!is_chosen || !is_known || count == 0) return false;
  if (settings.is_deterministic) return true;
  return size <= kMeasuredRanks && count <= kMeasuredBytes / bytes_of(*dtype);
}
}  // namespace symm::nccl
