// The arithmetic against which results are checked must itself be right.
#include "tests/support/test.hpp"
#include "tools/bench/reference.hpp"

namespace symm::reference { namespace {
class SmallFloats : public testing::TestWithParam<symm_dtype_t> {};

TEST_P(SmallFloats, EveryNumberComesBack) {
  const uint32_t codes = 1U << (8 * size_of(GetParam()));
  for (uint32_t code = 0; code < codes; ++code) {
    const float value = decode(GetParam(), code);
    if (std::isnan(value) || (std::isinf(value) && size_of(GetParam()) == 1)) continue;
    ASSERT_EQ(encode(GetParam(), value), code) << value;
  }
}

TEST_P(SmallFloats, MiddlesGoToTheEvenNeighbour) {
  for (uint32_t code = 1; code < 100; ++code) {
    const float low = decode(GetParam(), code);
    const float high = decode(GetParam(), code + 1);
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(encode(GetParam(), middle), code % 2 == 0 ? code : code + 1) << middle;
    ASSERT_EQ(encode(GetParam(), std::nextafter(middle, low)), code);
    ASSERT_EQ(encode(GetParam(), std::nextafter(middle, high)), code + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SmallFloats, testing::Values(SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2));

TEST(SmallFloat, KnownNumbers) {
  EXPECT_EQ(encode(SYMM_DTYPE_F16, 1.0F), 0x3C00U);
  EXPECT_EQ(encode(SYMM_DTYPE_F16, -2.0F), 0xC000U);
  EXPECT_EQ(encode(SYMM_DTYPE_F16, 65519.0F), 0x7BFFU);
  EXPECT_EQ(encode(SYMM_DTYPE_F16, 65520.0F), 0x7C00U);
  EXPECT_EQ(encode(SYMM_DTYPE_BF16, 1.0F), 0x3F80U);
  EXPECT_EQ(encode(SYMM_DTYPE_BF16, std::numeric_limits<float>::max()), 0x7F80U);
  EXPECT_EQ(encode(SYMM_DTYPE_F8E4M3, 448.0F), 0x7EU);
  EXPECT_EQ(encode(SYMM_DTYPE_F8E4M3, 1e9F), 0x7EU);
  EXPECT_EQ(encode(SYMM_DTYPE_F8E5M2, -1e9F), 0xFBU);
  EXPECT_EQ(decode(SYMM_DTYPE_F8E5M2, 0x7B), 57344.0F);
}

template <typename T> T reduced(symm_dtype_t dtype, symm_op_t op, const std::vector<T>& values) {
  std::vector<uint64_t> operands;
  for (const T value : values) operands.push_back(to_bits(value));
  return from_bits<T>(reference::reduce(dtype, op, operands));
}

TEST(Reduce, InTheOrderOfTheRanks) {
  EXPECT_EQ(reduced<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, 1.0F, -1e8F}), 0.0F);
  EXPECT_EQ(reduced<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, -1e8F, 1.0F}), 1.0F);
}

TEST(Reduce, Integers) {
  EXPECT_EQ(reduced<int8_t>(SYMM_DTYPE_I8, SYMM_OP_SUM, {100, 100}), -56);
  EXPECT_EQ(reduced<int8_t>(SYMM_DTYPE_I8, SYMM_OP_AVG, {-5, 2}), -1);
  EXPECT_EQ(reduced<int64_t>(SYMM_DTYPE_I64, SYMM_OP_MIN, {3, -9, 4}), -9);
  EXPECT_EQ(reduced<uint32_t>(SYMM_DTYPE_U32, SYMM_OP_PROD, {0x10001, 0x10001}), 0x20001U);
  EXPECT_EQ(reduced<uint8_t>(SYMM_DTYPE_U8, SYMM_OP_MAX, {3, 200}), 200);
}

TEST(Reduce, SmallFloatsRoundOnce) {
  // 1 + 2^-11 + 2^-11 is 1 + 2^-10 in f32; rounding after each addition would lose both.
  const auto half = [](float value) { return static_cast<uint16_t>(encode(SYMM_DTYPE_F16, value)); };
  EXPECT_EQ(reduced<uint16_t>(SYMM_DTYPE_F16, SYMM_OP_SUM, {half(1), half(0x1p-11F), half(0x1p-11F)}), half(1 + 0x1p-10F));
}
}}  // namespace symm::reference
