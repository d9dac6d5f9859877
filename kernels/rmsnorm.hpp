// The arithmetic behind the all-reduce in symm_allreduce_rmsnorm(). The comment of that
// call in symm.h defines every bit of it.
#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>

#include "kernels/types.hpp"

namespace symm {
// Squares are summed in kNormChains chains, each of which takes kNormUnit elements at a time.
inline constexpr size_t kNormChains = 1024;
inline constexpr size_t kNormUnit = 8;
// Elements that have a scale together.
inline constexpr size_t kNormGroup = 128;
// Bytes of the longest row.
inline constexpr size_t kMostNormBytes = size_t{32} << 10;
inline constexpr float kMostF8 = 448;
inline constexpr float kLeastScale = 1 / (kMostF8 * 512);

// The operands of symm_rmsnorm_call_t, checked.
struct RmsNorm {
  const std::byte* residual_in = nullptr;
  std::byte* residual_out = nullptr;
  std::byte* norm_out = nullptr;
  const std::byte* weight = nullptr;
  DType weight_dtype{};
  float epsilon = 0;
  float weight_offset = 0;
  QuantScale scale_kind{};
  std::byte* quant_out = nullptr;
  const float* scale_in = nullptr;
  float* scale_out = nullptr;
  size_t hidden = 0;

  // Scales of a row.
  size_t scales() const noexcept {
    return scale_kind == QuantScale::group ? hidden / kNormGroup : 1;
  }

  // Returns these operands from row `first` on.
  RmsNorm from_row(size_t first, DType dtype) const noexcept {
    RmsNorm rest = *this;
    const size_t elements = first * hidden;

    for (std::byte** matrix : {&rest.residual_out, &rest.norm_out}) {
      if (*matrix != nullptr) *matrix += elements * size_of(dtype);
    }
    if (residual_in != nullptr) rest.residual_in += elements * size_of(dtype);
    if (quant_out != nullptr) rest.quant_out += elements;
    if (scale_out != nullptr) rest.scale_out += first * scales();
    return rest;
  }
};

namespace host {
// Room for one row at a time.
struct NormScratch {
  static constexpr size_t kMostHidden = kMostNormBytes / 2;
  float weight[kMostHidden];
  float x[kMostHidden];
  float y[kMostHidden];
  alignas(64) std::byte narrow[kMostNormBytes];
};

// Normalises rows of `dtype` that are summed already. An output may be `sums`.
void rmsnorm(const RmsNorm& norm, const std::byte* sums, size_t rows, DType dtype,
    NormScratch& scratch) noexcept;
}  // namespace host
}  // namespace symm
