// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic against which results are checked must itself be right.
#include "tools/bench/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace symm::tool {
namespace {

class SmallFloats : public testing::TestWithParam<symm_dtype_t> {};

TEST_P(SmallFloats, EveryNumberComesBack) {
  const SmallFloat format = small_float(GetParam());
  const uint32_t codes = 1U << (8 * size_of(GetParam()));
  for (uint32_t code = 0; code < codes; ++code) {
    const float value = decode(format, code);
    if (std::isnan(value) || (std::isinf(value) && format.saturates)) continue;
    ASSERT_EQ(encode(format, value), code) << value;
  }
}

TEST_P(SmallFloats, MiddlesGoToTheEvenNeighbour) {
  const SmallFloat format = small_float(GetParam());
  for (uint32_t code = 1; code < 100; ++code) {
    const float low = decode(format, code);
    const float high = decode(format, code + 1);
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(encode(format, middle), code % 2 == 0 ? code : code + 1) << middle;
    ASSERT_EQ(encode(format, std::nextafter(middle, low)), code);
    ASSERT_EQ(encode(format, std::nextafter(middle, high)), code + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloats,
                         testing::Values(SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2));

TEST(SmallFloat, KnownNumbers) {
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F16), 1.0F), 0x3C00U);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F16), -2.0F), 0xC000U);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F16), 65519.0F), 0x7BFFU);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F16), 65520.0F), 0x7C00U);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_BF16), 1.0F), 0x3F80U);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_BF16), std::numeric_limits<float>::max()), 0x7F80U);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F8E4M3), 448.0F), 0x7EU);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F8E4M3), 1e9F), 0x7EU);
  EXPECT_EQ(encode(small_float(SYMM_DTYPE_F8E5M2), -1e9F), 0xFBU);
  EXPECT_EQ(decode(small_float(SYMM_DTYPE_F8E5M2), 0x7B), 57344.0F);
}

template <typename T>
T combine_values(symm_dtype_t dtype, symm_op_t op, std::vector<T> values) {
  std::vector<const std::byte*> inputs;
  for (const T& value : values) inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  T out{};
  combine(dtype, op, inputs, reinterpret_cast<std::byte*>(&out));
  return out;
}

TEST(Combine, InTheOrderOfTheRanks) {
  EXPECT_EQ(combine_values<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, 1.0F, -1e8F}), 0.0F);
  EXPECT_EQ(combine_values<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, -1e8F, 1.0F}), 1.0F);
}

TEST(Combine, Integers) {
  EXPECT_EQ(combine_values<int8_t>(SYMM_DTYPE_I8, SYMM_OP_SUM, {100, 100}), -56);
  EXPECT_EQ(combine_values<int8_t>(SYMM_DTYPE_I8, SYMM_OP_AVG, {-5, 2}), -1);
  EXPECT_EQ(combine_values<int64_t>(SYMM_DTYPE_I64, SYMM_OP_MIN, {3, -9, 4}), -9);
  EXPECT_EQ(combine_values<uint32_t>(SYMM_DTYPE_U32, SYMM_OP_PROD, {0x10001, 0x10001}), 0x20001U);
  EXPECT_EQ(combine_values<uint8_t>(SYMM_DTYPE_U8, SYMM_OP_MAX, {3, 200}), 200);
}

TEST(Combine, SmallFloatsRoundOnce) {
  // 1 + 2^-11 + 2^-11 is 1 + 2^-10 in f32; rounding after each addition would lose both.
  const auto half = [](float value) { return static_cast<uint16_t>(encode(small_float(SYMM_DTYPE_F16), value)); };
  EXPECT_EQ(combine_values<uint16_t>(SYMM_DTYPE_F16, SYMM_OP_SUM, {half(1), half(0x1p-11F), half(0x1p-11F)}), half(1 + 0x1p-10F));
}

}  // namespace
}  // namespace symm::tool
