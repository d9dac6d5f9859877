#include "tools/bench/dtype.hpp"

namespace symm::tool {
const std::vector<Named<symm_dtype_t>>& dtypes() {
  static const std::vector<Named<symm_dtype_t>> list{
      {"i8", SYMM_DTYPE_I8},
      {"u8", SYMM_DTYPE_U8},
      {"i16", SYMM_DTYPE_I16},
      {"u16", SYMM_DTYPE_U16},
      {"bool", SYMM_DTYPE_BOOL},
      {"i32", SYMM_DTYPE_I32},
      {"u32", SYMM_DTYPE_U32},
      {"i64", SYMM_DTYPE_I64},
      {"u64", SYMM_DTYPE_U64},
      {"f16", SYMM_DTYPE_F16},
      {"bf16", SYMM_DTYPE_BF16},
      {"f32", SYMM_DTYPE_F32},
      {"f64", SYMM_DTYPE_F64},
      {"f8e4m3", SYMM_DTYPE_F8E4M3},
      {"f8e5m2", SYMM_DTYPE_F8E5M2},
  };
  return list;
}

const std::vector<Named<symm_op_t>>& ops() {
  static const std::vector<Named<symm_op_t>> list{
      {"sum", SYMM_OP_SUM}, {"avg", SYMM_OP_AVG}, {"min", SYMM_OP_MIN}, {"max", SYMM_OP_MAX}, {"prod", SYMM_OP_PROD}};
  return list;
}

const std::vector<Named<symm_algorithm_t>>& algorithms() {
  static const std::vector<Named<symm_algorithm_t>> list{{"auto", SYMM_ALGORITHM_AUTO}, {"ll", SYMM_ALGORITHM_LL},
      {"one-shot", SYMM_ALGORITHM_ONE_SHOT}, {"two-shot", SYMM_ALGORITHM_TWO_SHOT},
      {"two-shot-staged", SYMM_ALGORITHM_TWO_SHOT_STAGED}, {"multimem-one-shot", SYMM_ALGORITHM_MULTIMEM_ONE_SHOT},
      {"multimem-two-shot", SYMM_ALGORITHM_MULTIMEM_TWO_SHOT}, {"marked", SYMM_ALGORITHM_MARKED}, {"chain", SYMM_ALGORITHM_CHAIN},
      {"bruck", SYMM_ALGORITHM_BRUCK}, {"hierarchical", SYMM_ALGORITHM_HIERARCHICAL}};
  return list;
}
}  // namespace symm::tool
