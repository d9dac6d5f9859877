// RMSNorm of rows on the host, with every type, kind of scale and place of results, is compared
// with its definition.
#include "kernels/rmsnorm.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/rmsnorm_case.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"

namespace symm::host {
namespace {
using support::for_each_combination;
using testing::NormCase;
using testing::NormData;

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr QuantScale kKinds[] = {QuantScale::tensor, QuantScale::token, QuantScale::group};

void expect_bits_of_definition(const NormData& data, bool in_place, NormScratch& scratch) {
  const NormCase& c = data.given;
  const bool by_caller = c.kind == QuantScale::tensor;

  NormData::Bytes residuals = in_place ? data.residual : data.residual_out;
  NormData::Bytes norms = data.send[0];
  NormData::Bytes quants(data.quant_out.size());
  std::vector<float> scales = by_caller ? data.scales : std::vector<float>(data.scales.size());
  RmsNorm norm{.residual_out = residuals.data(),
      .norm_out = norms.data(),
      .weight = data.weight.data(),
      .weight_dtype = c.weight_dtype,
      .epsilon = c.epsilon,
      .weight_offset = c.weight_offset,
      .scale_kind = c.kind,
      .quant_out = quants.data(),
      .hidden = c.hidden};
  if (by_caller) {
    norm.scale_in = scales.data();
  } else {
    norm.scale_out = scales.data();
  }
  if (c.has_residual) norm.residual_in = in_place ? residuals.data() : data.residual.data();

  rmsnorm(norm, norms.data(), c.tokens, c.dtype, scratch);
  ASSERT_EQ(data.difference(residuals, norms, quants, scales), "")
      << dtype_name(c.dtype) << ", weights " << dtype_name(c.weight_dtype) << ", hidden "
      << c.hidden << ", scales " << static_cast<int>(c.kind);

  // Only one of the results is asked for.
  norms = data.send[0];
  norm.residual_out = nullptr;
  norm.quant_out = nullptr;
  norm.scale_in = nullptr;
  norm.scale_out = nullptr;
  if (c.has_residual) norm.residual_in = data.residual.data();
  rmsnorm(norm, norms.data(), c.tokens, c.dtype, scratch);
  ASSERT_EQ(
      reference::difference(c.dtype, norms.data(), data.norm_out.data(), c.tokens * c.hidden), "");
}

TEST(RmsNorm, HasTheBitsOfItsDefinition) {
  const auto scratch = std::make_unique<NormScratch>();
  unsigned seed = 0;

  for (const DType dtype : kTypes) {
    const std::array<size_t, 4> widths = {8, 72, 2048, kMostNormBytes / size_of(dtype)};
    for_each_combination(std::tuple(std::span(kTypes), std::span(kKinds), widths),
        [&](DType weight_dtype, QuantScale kind, size_t hidden) {
          if (kind == QuantScale::group && hidden % kNormGroup != 0) return;

          const NormCase c{dtype, weight_dtype, hidden, 6, kind, seed % 3 != 0, 1e-5F,
              seed % 2 == 0 ? 0.0F : 1.0F};
          const NormData data(c, ++seed);
          expect_bits_of_definition(data, seed % 2 == 0, *scratch);
        });
    if (HasFatalFailure()) return;
  }
}
}  // namespace
}  // namespace symm::host
