// The names of types, operators, collectives and algorithms, made of the lists in types.hpp.
#include "kernels/types.hpp"

#include <cstdint>

namespace symm {
const char* dtype_name(DType dtype) noexcept {
  if (dtype == DType::boolean) return "bool";  // a keyword, which no enumerator can be called
  switch (static_cast<int32_t>(dtype)) { SYMM_DTYPES(SYMM_NAME) }
  return "?";
}

const char* op_name(Op op) noexcept {
  switch (static_cast<int32_t>(op)) { SYMM_OPS(SYMM_NAME) }
  return "?";
}

const char* scale_position_name(ScalePosition position) noexcept {
  switch (static_cast<int32_t>(position)) { SYMM_SCALE_POSITIONS(SYMM_NAME) }
  return "?";
}

const char* algorithm_name(Algorithm algorithm) noexcept {
  if (algorithm == Algorithm::automatic) return "auto";  // a keyword, as `bool` is
  switch (static_cast<int32_t>(algorithm)) { SYMM_ALGORITHMS(SYMM_NAME) }
  return "?";
}
}  // namespace symm
