#include "kernels/types.hpp"

namespace symm {
namespace {
constexpr char kUnknown[] = "?";
}  // namespace

#define SYMM_NAME(name, c_name, value) \
  case value: return #name;

const char* name_of(DType dtype) noexcept {
  if (dtype == DType::boolean) return "bool";  // which is a keyword here
  switch (static_cast<int32_t>(dtype)) { SYMM_DTYPES(SYMM_NAME) }
  return kUnknown;
}

const char* name_of(Op op) noexcept {
  switch (static_cast<int32_t>(op)) { SYMM_OPS(SYMM_NAME) }
  return kUnknown;
}

const char* name_of(ScalePosition position) noexcept {
  switch (static_cast<int32_t>(position)) { SYMM_SCALE_POSITIONS(SYMM_NAME) }
  return kUnknown;
}

const char* name_of(Collective collective) noexcept {
  switch (static_cast<int32_t>(collective)) { SYMM_COLLECTIVES(SYMM_NAME) }
  return kUnknown;
}

const char* name_of(Algorithm algorithm) noexcept {
  if (algorithm == Algorithm::automatic) return "auto";  // which is a keyword here
  switch (static_cast<int32_t>(algorithm)) { SYMM_ALGORITHMS(SYMM_NAME) }
  return kUnknown;
}

bool is_valid(DType dtype) noexcept { return name_of(dtype) != kUnknown; }
bool is_valid(Op op) noexcept { return name_of(op) != kUnknown; }
bool is_valid(ScalePosition position) noexcept { return name_of(position) != kUnknown; }
bool is_valid(Collective collective) noexcept { return name_of(collective) != kUnknown; }
bool is_valid(Algorithm algorithm) noexcept { return name_of(algorithm) != kUnknown; }
}  // namespace symm
