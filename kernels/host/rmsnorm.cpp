// RMSNorm of rows on the host. Squares are summed in the chains of kernels/rmsnorm.hpp, which
// fix the order.
#include "kernels/rmsnorm.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/host/arithmetic/float_environment.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/number.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
void convert_row(const void* from, DType from_dtype, void* to, DType to_dtype, size_t count) {
  convert({static_cast<const std::byte*>(from), static_cast<std::byte*>(to), from_dtype, to_dtype,
              count},
      Number());
}

float sum_of_squares(const float* x, size_t hidden) {
  float chain[kNormChains] = {};
  for (size_t i = 0; i < hidden; ++i) {
    chain[i / kNormUnit % kNormChains] += x[i] * x[i];
  }
  for (size_t step = 1; step < kNormChains; step *= 2) {
    for (size_t i = 0; i < kNormChains; i += 2 * step) {
      chain[i] += chain[i + step];
    }
  }
  return chain[0];
}

float scale_for(const float* y, size_t count) {
  float most = 0;
  // std::max() keeps `most` where y is NaN.
  for (size_t i = 0; i < count; ++i) {
    most = std::max(most, std::fabs(y[i]));
  }
  return std::max(most / kMostF8, kLeastScale);
}

void quantise(const RmsNorm& norm, float* y, std::byte* to, float* scale_out) {
  const size_t length = norm.hidden / norm.scales();
  for (size_t at = 0; at < norm.hidden; at += length) {
    const bool given = norm.scale_kind == QuantScale::tensor;
    const float scale = given ? *norm.scale_in : scale_for(y + at, length);
    if (!given) scale_out[at / length] = scale;
    for (size_t i = at; i < at + length; ++i) {
      y[i] /= scale;
    }
  }
  convert_row(y, DType::f32, to, DType::f8e4m3, norm.hidden);
}

void normalise(const RmsNorm& norm, const std::byte* sums, DType dtype, NormScratch& row) {
  const size_t hidden = norm.hidden;
  const std::byte* h = sums;
  if (norm.residual_in != nullptr) {
    const std::byte* const sources[] = {sums, norm.residual_in};
    std::byte* const into = row.narrow;
    reduce({.dtype = dtype,
        .op = Op::sum,
        .count = hidden,
        .sources = sources,
        .source_count = 2,
        .destinations = &into,
        .destination_count = 1});
    h = row.narrow;
  }

  if (norm.residual_out != nullptr && norm.residual_out != h) {
    std::memcpy(norm.residual_out, h, hidden * size_of(dtype));
  }

  convert_row(h, dtype, row.x, DType::f32, hidden);
  const float mean = sum_of_squares(row.x, hidden) / static_cast<float>(hidden);
  const float inverse = 1 / std::sqrt(mean + norm.epsilon);
  for (size_t i = 0; i < hidden; ++i) {
    row.y[i] = row.x[i] * inverse * row.weight[i];
  }

  convert_row(row.y, DType::f32, row.narrow, dtype, hidden);
  if (norm.norm_out != nullptr) std::memcpy(norm.norm_out, row.narrow, hidden * size_of(dtype));
  if (norm.quant_out == nullptr) return;
  convert_row(row.narrow, dtype, row.y, DType::f32, hidden);
  quantise(norm, row.y, norm.quant_out, norm.scale_out);
}
}  // namespace

void rmsnorm(const RmsNorm& norm, const std::byte* sums, size_t rows, DType dtype,
    NormScratch& scratch) noexcept {
  const FloatEnvironment plain(true);
  convert_row(norm.weight, norm.weight_dtype, scratch.weight, DType::f32, norm.hidden);
  for (size_t i = 0; i < norm.hidden; ++i) {
    scratch.weight[i] += norm.weight_offset;
  }
  for (size_t r = 0; r < rows; ++r) {
    normalise(norm.from_row(r, dtype), sums + r * norm.hidden * size_of(dtype), dtype, scratch);
  }
}
}  // namespace symm::host
