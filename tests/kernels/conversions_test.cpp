// Small floats: every code, and every place where rounding changes its mind.
#include "tests/kernels/reference.hpp"
#include "tests/kernels/simds.hpp"

namespace symm::host { namespace {
class Conversions : public SimdTest, public ::testing::WithParamInterface<std::tuple<Simd, DType>> {
 protected:
  void SetUp() override { require(std::get<0>(GetParam())); }
  DType dtype() const { return std::get<1>(GetParam()); }
  size_t codes() const { return size_t{1} << (8 * size_of(dtype())); }

  std::vector<uint64_t> round(const std::vector<float>& values) const {
    std::vector<std::byte> out(values.size() * size_of(dtype()));
    std::byte* to = out.data();
    Reduction r = reduction(dtype(), Op::sum, values.size(), {}, &to);
    r.partial_in = reinterpret_cast<const std::byte*>(values.data());
    reduce(r);
    std::vector<uint64_t> codes;
    for (size_t i = 0; i < values.size(); ++i) codes.push_back(reference::load_bits(dtype(), &out[i * size_of(dtype())]));
    return codes;
  }
  void expect_rounded(const std::vector<float>& values) const {
    const auto got = round(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t right = reference::encode(dtype(), values[i]);
      ASSERT_TRUE(reference::same(dtype(), got[i], right))
          << std::hexfloat << values[i] << " gave " << got[i] << ", expected " << right;
    }
  }
};

TEST_P(Conversions, EveryCodeHasItsExactValue) {
  std::vector<std::byte> in(codes() * size_of(dtype()));
  for (size_t code = 0; code < codes(); ++code) reference::store_bits(dtype(), code, &in[code * size_of(dtype())]);
  std::vector<float> values(codes());
  const std::vector<const std::byte*> from{in.data()};
  Reduction r = reduction(dtype(), Op::sum, codes(), from, nullptr);
  r.partial_out = reinterpret_cast<std::byte*>(values.data());
  reduce(r);
  for (size_t code = 0; code < codes(); ++code) {
    const float right = reference::decode(dtype(), code);
    ASSERT_TRUE(reference::same(DType::f32, std::bit_cast<uint32_t>(values[code]), std::bit_cast<uint32_t>(right)))
        << "code " << code;
  }
}

TEST_P(Conversions, RoundsToNearestEven) {
  std::vector<float> values = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(), 3e38F,
      std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(), std::numeric_limits<float>::quiet_NaN(), 0.0F};
  // Each value, the middle between it and the next, and the floats around both. Beyond the last, what would come next.
  for (size_t code = 0; code < codes() / 2; ++code) {
    const float value = reference::decode(dtype(), code);
    if (!std::isfinite(value)) continue;
    float next = code + 1 < codes() ? reference::decode(dtype(), code + 1) : value;
    if (!std::isfinite(next)) next = value + (value - reference::decode(dtype(), code - 1));
    if (!std::isfinite(next)) continue;
    const float middle = value + (next - value) / 2;
    for (const float x : {value, middle, next}) {
      values.push_back(x);
      values.push_back(std::nextafter(x, std::numeric_limits<float>::infinity()));
      values.push_back(std::nextafter(x, -std::numeric_limits<float>::infinity()));
    }
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  expect_rounded(values);
}

// A stride through all floats, odd so that no bit stays the same.
TEST_P(Conversions, RoundsAnyFloat) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65537 / 4 * 3 + 2)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  expect_rounded(values);
}

INSTANTIATE_TEST_SUITE_P(Types, Conversions,
    ::testing::Combine(::testing::ValuesIn(kSimds), ::testing::Values(DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2)),
    [](const auto& test) { return std::string(name_of(std::get<0>(test.param))) + "_" + name_of(std::get<1>(test.param)); });
}}  // namespace symm::host
