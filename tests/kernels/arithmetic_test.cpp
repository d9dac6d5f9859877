// The arithmetic on every instruction set that this processor has. Small floats are converted
// from every code, and at every value where rounding begins to give another code.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ios>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/number.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"
#include "tools/bench/reference.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace symm::host {
namespace {
using support::for_each_combination;
using testing::Values;

#if defined(__aarch64__)
constexpr Simd kSimds[] = {Simd::scalar, Simd::neon};
#else
constexpr Simd kSimds[] = {Simd::scalar, Simd::sse4, Simd::avx2, Simd::avx512};
#endif

// A test that works with one instruction set, and afterwards restores the one before.
class SimdTest : public ::testing::Test {
 protected:
  ~SimdTest() override { use_simd(before_); }

  static void require(Simd simd) {
    if (!use_simd(simd)) GTEST_SKIP() << "this processor has no " << simd_name(simd);
  }

 private:
  const Simd before_ = current_simd();
};

// A reduction of one source of each rank, to one destination if `to` is not null.
Reduction reduction(
    DType dtype, Op op, size_t count, const std::vector<const std::byte*>& from, std::byte** to) {
  Reduction r{.dtype = dtype,
      .op = op,
      .count = count,
      .sources = from.data(),
      .source_count = static_cast<int>(from.size())};
  r.ranks = from.empty() ? 1 : r.source_count;
  r.destinations = to;
  r.destination_count = to == nullptr ? 0 : 1;
  return r;
}

class Arithmetic : public SimdTest, public ::testing::WithParamInterface<Simd> {
  void SetUp() override { require(GetParam()); }
};

// The operands of some ranks.
struct Inputs {
  Inputs(DType type, Op operation, unsigned seed, size_t sources, size_t elements)
      : dtype(type), op(operation), count(elements) {
    Values values(dtype, op, seed);
    for (size_t s = 0; s < sources; ++s) {
      data.push_back(values.make(count));
    }
  }

  std::vector<const std::byte*> pointers() const {
    std::vector<const std::byte*> from;
    for (const auto& input : data) {
      from.push_back(input.data());
    }
    return from;
  }

  std::vector<std::byte> expected(symm_order_t order = SYMM_ORDER_RANKS) const {
    return reference::combined(dtype, data, 0, count, dtype,
        [&](const auto& bits) { return reference::reduce(dtype, op, bits, order); });
  }

  // The combination of the first sources, of which there may be none.
  std::vector<std::byte> expected_of(size_t sources) const {
    Inputs first = *this;
    first.data.resize(sources);
    return first.expected();
  }

  DType dtype;
  Op op;
  size_t count;
  std::vector<std::vector<std::byte>> data;
};

// Reduces from sources at odd addresses into one to three destinations, one of which may be a
// source.
void compare(DType dtype, Op op, size_t sources, size_t count, unsigned turn) {
  const size_t element = size_of(dtype);
  const size_t bytes = count * element;
  const Inputs inputs(dtype, op, turn, sources, count);
  const auto right = inputs.expected();

  const size_t offset = turn % 5 == 0 ? 8 : 0;
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> from;

  for (size_t s = 0; s < sources; ++s) {
    const size_t shift = turn % 2 == 0 ? 0 : s + turn % 7;
    memory.emplace_back(bytes + shift + offset);
    std::memcpy(memory.back().data() + shift + offset, inputs.data[s].data(), bytes);
    from.push_back(memory.back().data() + shift);
  }

  constexpr std::byte kGuard{0xEE};
  const size_t destinations = 1 + turn % 3;
  std::vector<std::vector<std::byte>> results(
      destinations, std::vector<std::byte>(bytes + 128, kGuard));
  std::vector<std::byte*> to;

  for (size_t d = 0; d < destinations; ++d) {
    to.push_back(results[d].data() + 64 - (turn + d) % 9);
  }

  if (turn % 4 == 0) {
    to.back() = memory[turn % sources].data() +
                (from[turn % sources] - memory[turn % sources].data()) + offset;
  }

  Reduction r = reduction(dtype, op, count, from, to.data());
  r.source_offset = offset;
  r.destination_count = static_cast<int>(destinations);
  r.nontemporal = turn % 3 == 0;
  reduce(r);

  for (size_t d = 0; d < destinations; ++d) {
    ASSERT_EQ(reference::difference(dtype, to[d], right.data(), count), "")
        << dtype_name(dtype) << ' ' << op_name(op) << " of " << sources << " x " << count;
    const size_t begin = 64 - (turn + d) % 9;
    if (to[d] != results[d].data() + begin) continue;
    for (size_t i = 0; i < results[d].size(); ++i) {
      if (i < begin || i >= begin + bytes) {
        ASSERT_EQ(results[d][i], kGuard) << "wrote beside a destination";
      }
    }
  }
}

TEST_P(Arithmetic, EveryTypeOperationAndCount) {
  unsigned turn = 0;
  for_each_combination(
      std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
          std::array<size_t, 6>{1, 2, 3, 4, 8, 11},
          std::array<size_t, 16>{1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 257, 5003}),
      [&](DType dtype, Op op, size_t sources, size_t count) {
        if (!reference::are_combined(dtype, op)) return;
        if (count > 1000 && sources > 3) return;  // the reference would take too long
        compare(dtype, op, sources, count, turn++);
      });
}

// Partial results go from rank to rank, as between machines: the first rank begins, others
// continue, and the last one rounds.
TEST_P(Arithmetic, ChainOfPartialResults) {
  for (const DType dtype : reference::kDTypes) {
    for (const Op op : reference::kOps) {
      if (!reference::are_combined(dtype, op)) continue;
      for (const size_t count : {1U, 9U, 64U, 77U}) {
        const Inputs inputs(dtype, op, static_cast<unsigned>(count), 7, count);
        const auto from = inputs.pointers();
        std::vector<std::byte> first(count * size_of_partial(dtype));
        std::vector<std::byte> second(first.size());
        std::vector<std::byte> result(count * size_of(dtype));
        std::byte* to = result.data();

        Reduction r = reduction(dtype, op, count, from, nullptr);
        r.source_count = 3;
        r.partial_out = first.data();
        reduce(r);

        r.sources = from.data() + 3;
        r.source_count = 2;
        r.partial_in = first.data();
        r.partial_out = second.data();
        reduce(r);

        r.sources = from.data() + 5;
        r.partial_in = second.data();
        r.partial_out = nullptr;
        r.destinations = &to;
        r.destination_count = 1;
        reduce(r);

        ASSERT_EQ(reference::difference(dtype, to, inputs.expected().data(), count), "")
            << dtype_name(dtype) << ' ' << op_name(op);
      }
    }
  }
}

// Destinations are sources on some turns, as in a scan in place.
TEST_P(Arithmetic, PrefixesHaveTheBitsOfTheReference) {
  unsigned turn = 0;
  for_each_combination(std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
                           std::array<size_t, 4>{1, 2, 5, 8}, std::array<size_t, 3>{1, 77, 5003}),
      [&](DType dtype, Op op, size_t ranks, size_t count) {
        if (!reference::are_combined(dtype, op) || op == Op::avg) return;
        if (count > 1000 && ranks != 5) return;  // the reference would take too long
        const Inputs inputs(dtype, op, ++turn, ranks, count);
        for (const bool exclusive : {false, true}) {
          std::vector<std::vector<std::byte>> memory = inputs.data;
          std::vector<const std::byte*> from;
          std::vector<std::byte*> to;
          for (size_t rank = 0; rank < ranks; ++rank) {
            from.push_back(inputs.data[rank].data());
            to.push_back(memory[rank].data());
            if (turn % 2 == 0) from.back() = to.back();
          }

          Reduction r = reduction(dtype, op, count, from, to.data());
          r.destination_count = static_cast<int>(ranks);
          reduce_prefixes(r, exclusive);
          for (size_t rank = 0; rank < ranks; ++rank) {
            const auto right = inputs.expected_of(rank + (exclusive ? 0 : 1));
            ASSERT_EQ(reference::difference(dtype, to[rank], right.data(), count), "")
                << dtype_name(dtype) << ' ' << op_name(op) << " of rank " << rank;
          }
        }
      });
}

// The numbers of sources are all up to 16, and some around larger powers of two.
TEST_P(Arithmetic, TreesHaveTheBitsOfTheReference) {
  std::vector<size_t> sources(16);
  std::iota(sources.begin(), sources.end(), size_t{1});
  sources.insert(sources.end(), {31, 32, 33, 100});
  size_t differing = 0;

  for_each_combination(std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
                           sources, std::array<size_t, 5>{1, 5, 16, 67, 257}),
      [&](DType dtype, Op op, size_t ranks, size_t count) {
        if (!reference::are_combined(dtype, op)) return;
        if (ranks > 16 && count > 67) return;  // the reference would take too long
        const Inputs inputs(dtype, op, static_cast<unsigned>(ranks), ranks, count);
        const auto from = inputs.pointers();
        const auto right = inputs.expected(SYMM_ORDER_TREE);
        std::vector<std::byte> result(count * size_of(dtype));
        std::byte* to = result.data();
        Reduction r = reduction(dtype, op, count, from, &to);
        r.in_tree = true;
        reduce(r);
        ASSERT_EQ(reference::difference(dtype, to, right.data(), count), "")
            << dtype_name(dtype) << ' ' << op_name(op) << " of " << ranks;

        const auto in_rank_order = inputs.expected();
        if (!reference::difference(dtype, to, in_rank_order.data(), count).empty()) ++differing;
      });
  EXPECT_GT(differing, 300U) << "the operands do not tell the orders apart";
}

// One rank has the left part of a tree, which it does not round, and another one goes on.
TEST_P(Arithmetic, TreesOfTwoParts) {
  for_each_combination(std::tuple(std::span(reference::kDTypes), std::span(reference::kOps),
                           std::array<int, 4>{1, 2, 4, 8}, std::array<size_t, 3>{1, 16, 77}),
      [&](DType dtype, Op op, int left, size_t count) {
        if (!reference::are_combined(dtype, op)) return;
        for (int right = 1; right <= left; ++right) {
          const Inputs inputs(dtype, op, 3, static_cast<size_t>(left + right), count);
          const auto from = inputs.pointers();
          std::vector<std::byte> partial(count * size_of_partial(dtype));
          std::vector<std::byte> result(count * size_of(dtype));
          std::byte* to = result.data();

          Reduction r = reduction(dtype, op, count, from, nullptr);
          r.in_tree = true;
          r.source_count = left;
          r.partial_out = partial.data();
          reduce(r);

          r.sources = from.data() + left;
          r.source_count = right;
          r.partial_in = std::exchange(r.partial_out, nullptr);
          r.destinations = &to;
          r.destination_count = 1;
          reduce(r);
          const auto expected = inputs.expected(SYMM_ORDER_TREE);
          ASSERT_EQ(reference::difference(dtype, to, expected.data(), count), "")
              << dtype_name(dtype) << ' ' << op_name(op) << " of " << left << " and " << right;
        }
      });
}

// The average of more ranks than the type can count.
TEST_P(Arithmetic, AverageOverManyRanks) {
  for (const DType dtype : reference::kDTypes) {
    if (!reference::are_combined(dtype, Op::avg)) continue;
    const size_t count = 21;
    const Inputs inputs(dtype, Op::avg, 5, 300, count);
    const auto from = inputs.pointers();
    std::vector<std::byte> result(count * size_of(dtype));
    std::byte* to = result.data();
    reduce(reduction(dtype, Op::avg, count, from, &to));
    EXPECT_EQ(reference::difference(dtype, to, inputs.expected().data(), count), "")
        << dtype_name(dtype);
  }
}

#if defined(__x86_64__)
TEST_P(Arithmetic, CallersFloatingPointEnvironmentDoesNotMatter) {
  const unsigned before = _mm_getcsr();
  const float tiny = 1e-40F;
  const float odd = 1.0F;
  const float little = 1e-10F;
  const float a[] = {tiny, odd};
  const float b[] = {tiny, little};
  float with[2] = {};
  float without[2] = {};
  const std::vector<const std::byte*> from{
      reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  std::byte* to = reinterpret_cast<std::byte*>(without);
  const Reduction r = reduction(DType::f32, Op::sum, 2, from, &to);
  reduce(r);

  // Results flush to zero, denormal operands count as zero, and rounding goes up.
  _mm_setcsr((before & ~0x6000U) | 0x8040U | 0x4000U);
  const unsigned strange = _mm_getcsr();
  to = reinterpret_cast<std::byte*>(with);
  reduce(r);

  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, strange);
  EXPECT_EQ(std::memcmp(with, without, sizeof with), 0);
  EXPECT_NE(without[0], 0.0F);
}
#endif

// Codes of one operand of each rank, and the code of their reduction.
struct Reduced {
  DType dtype;
  Op op;
  std::vector<uint8_t> operands;
  uint8_t result;
};

// Expects the result at each of `count` places, where one call reduces all ranks, and where one
// call begins with the first rank and another goes on with the others.
void expect_reduced(const Reduced& row, size_t count) {
  std::vector<std::vector<std::byte>> operands;
  for (const uint8_t code : row.operands) {
    operands.emplace_back(count, std::byte{code});
  }
  std::vector<const std::byte*> from;
  for (const auto& operand : operands) {
    from.push_back(operand.data());
  }

  std::vector<std::byte> result(count);
  const std::vector<std::byte> right(count, std::byte{row.result});
  std::byte* to = result.data();
  Reduction r = reduction(row.dtype, row.op, count, from, &to);
  reduce(r);
  EXPECT_EQ(reference::difference(row.dtype, to, right.data(), count), "")
      << op_name(row.op) << " of " << from.size() << ", expected " << int{row.result};

  std::vector<std::byte> partial(count * size_of_partial(row.dtype));
  r.source_count = 1;
  r.partial_out = partial.data();
  reduce(r);
  r.sources = from.data() + 1;
  r.source_count = static_cast<int>(from.size()) - 1;
  r.partial_in = std::exchange(r.partial_out, nullptr);
  std::fill(result.begin(), result.end(), std::byte{0x55});
  reduce(r);
  EXPECT_EQ(reference::difference(row.dtype, to, right.data(), count), "")
      << op_name(row.op) << " of " << from.size() << " in two steps";
}

// Only what is finite saturates; an infinity stays one. So it is at each place of a vector, and
// where one rank begins and another ends.
TEST_P(Arithmetic, InfinityStaysAndFiniteF8Saturates) {
  constexpr uint8_t kInfinite = 0x7C;
  constexpr uint8_t kMinus = 0x80;
  constexpr uint8_t kMost = 0x7B;
  constexpr uint8_t kMostE4m3 = 0x7E;
  constexpr uint8_t kOne = 0x3C;
  constexpr uint8_t kNan = 0x7E;
  const auto times = [](size_t ranks, uint8_t code, std::vector<uint8_t> then = {}) {
    std::vector<uint8_t> all(ranks, code);
    all.insert(all.end(), then.begin(), then.end());
    return all;
  };

  const std::vector<Reduced> rows = {
      {DType::f8e5m2, Op::sum, {kInfinite}, kInfinite},
      {DType::f8e5m2, Op::sum, {kOne, kInfinite | kMinus, kOne}, kInfinite | kMinus},
      {DType::f8e5m2, Op::sum, {kInfinite, kInfinite | kMinus}, kNan},
      {DType::f8e5m2, Op::sum, {kMost, kMost}, kMost},
      {DType::f8e5m2, Op::sum, {kMost | kMinus, kMost | kMinus}, kMost | kMinus},
      {DType::f8e5m2, Op::avg, {kMost, kInfinite}, kInfinite},
      {DType::f8e5m2, Op::avg, {kMost, kMost}, kMost},
      {DType::f8e5m2, Op::min, {kInfinite, kInfinite}, kInfinite},
      {DType::f8e5m2, Op::min, {kInfinite, kOne, kInfinite | kMinus}, kInfinite | kMinus},
      {DType::f8e5m2, Op::max, {kOne, kInfinite}, kInfinite},
      {DType::f8e5m2, Op::max, {kInfinite | kMinus, kInfinite | kMinus}, kInfinite | kMinus},
      {DType::f8e5m2, Op::prod, {kInfinite, kOne | kMinus}, kInfinite | kMinus},
      {DType::f8e5m2, Op::prod, {kInfinite, 0}, kNan},
      {DType::f8e5m2, Op::prod, times(12, kMost), kMost},
      {DType::f8e5m2, Op::prod, times(11, kMost | kMinus), kMost | kMinus},
      {DType::f8e5m2, Op::prod, times(12, kMost, {0}), 0},
      {DType::f8e5m2, Op::prod, times(12, kMost, {kInfinite}), kInfinite},
      {DType::f8e4m3, Op::sum, {kMostE4m3, kMostE4m3}, kMostE4m3},
      {DType::f8e4m3, Op::prod, times(20, kMostE4m3), kMostE4m3},
      {DType::f8e4m3, Op::prod, times(20, kMostE4m3, {0}), 0},
  };

  for_each_combination(std::tuple(rows, std::array<size_t, 4>{1, 7, 64, 67}), expect_reduced);
}

TEST_P(Arithmetic, CopiesAnySizeAndAlignment) {
  std::vector<std::byte> from(9000);
  std::vector<std::byte> to(9200);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 131 + i / 256);
  }
  const auto expect_copy = [&](bool to_peer, bool nontemporal, size_t bytes, size_t shift) {
    std::fill(to.begin(), to.end(), std::byte{0});
    (to_peer ? copy_to_peer : copy)(to.data() + shift, from.data() + shift / 2, bytes, nontemporal);
    ASSERT_EQ(std::memcmp(to.data() + shift, from.data() + shift / 2, bytes), 0)
        << bytes << " bytes, shift " << shift;
    for (size_t i = 0; i < to.size(); ++i) {
      if (i < shift || i >= shift + bytes) {
        ASSERT_EQ(to[i], std::byte{0}) << bytes << " bytes, shift " << shift;
      }
    }
  };
  for_each_combination(
      std::tuple(std::array{false, true}, std::array{false, true},
          std::array<size_t, 12>{0, 1, 63, 64, 65, 1023, 1024, 1025, 4096, 8191, 8192, 8900},
          std::array<size_t, 4>{0, 1, 31, 64}),
      expect_copy);
}

INSTANTIATE_TEST_SUITE_P(Simd, Arithmetic, ::testing::ValuesIn(kSimds),
    [](const auto& test) { return simd_name(test.param); });

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
    for (size_t i = 0; i < values.size(); ++i) {
      codes.push_back(
          static_cast<uint64_t>(reference::load_bits(dtype(), &out[i * size_of(dtype())])));
    }
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
  for (size_t code = 0; code < codes(); ++code) {
    reference::store_bits(dtype(), code, &in[code * size_of(dtype())]);
  }

  std::vector<float> values(codes());
  const std::vector<const std::byte*> from{in.data()};
  Reduction r = reduction(dtype(), Op::sum, codes(), from, nullptr);
  r.partial_out = reinterpret_cast<std::byte*>(values.data());
  reduce(r);

  for (size_t code = 0; code < codes(); ++code) {
    const float right = reference::decode(dtype(), code);
    ASSERT_TRUE(reference::same(
        DType::f32, std::bit_cast<uint32_t>(values[code]), std::bit_cast<uint32_t>(right)))
        << "code " << code;
  }
}

TEST_P(Conversions, RoundsToNearestEven) {
  std::vector<float> values = {std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::max(), 3e38F, std::numeric_limits<float>::denorm_min(),
      std::numeric_limits<float>::min(), std::numeric_limits<float>::quiet_NaN(), 0.0F};

  // Each value, the middle between the value and the next one, and the floats beside both.
  // After the largest finite value stands the value that would come next.
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
  for (size_t i = 0; i < positive; ++i) {
    values.push_back(-values[i]);
  }
  expect_rounded(values);
}

// A stride through all floats, whose step is odd so that the lowest bits change too.
TEST_P(Conversions, RoundsAnyFloat) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 49'153) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  expect_rounded(values);
}

INSTANTIATE_TEST_SUITE_P(Types, Conversions,
    ::testing::Combine(::testing::ValuesIn(kSimds),
        ::testing::Values(DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2)),
    [](const auto& test) {
      return std::string(simd_name(std::get<0>(test.param))) + "_" +
             dtype_name(std::get<1>(test.param));
    });

// The conversions of a compiler, which are those of the processor in its default mode.
static_assert(Number(0.1).f32() == 0.1F && Number(-1e-40).f32() == -1e-40F);
static_assert(Number(1e-40F).f64() == double{1e-40F} && Number(0x1p-149F).f64() == 0x1p-149);

// The bits of floats as numbers and back, and of doubles to the nearest float: around every power
// of two, where the cut bits are just below, on and above the middle of two floats, and at random.
TEST(NumberBits, AreConvertedAsByTheProcessor) {
  for (uint64_t word = 0; word < uint64_t{1} << 32; word += 4093) {
    const auto bits = static_cast<uint32_t>(word);
    const Number number = Number::of_f32(bits);
    ASSERT_TRUE(reference::same(
        DType::f64, number.bits(), std::bit_cast<uint64_t>(double{std::bit_cast<float>(bits)})))
        << bits;
    ASSERT_TRUE(reference::same(DType::f32, number.f32_bits(), bits)) << bits;
  }

  std::mt19937_64 random(1);
  std::vector<uint64_t> words = {0, 1, uint64_t{0x7FF} << 52, (uint64_t{0x7FF} << 52) + 1};
  for (uint64_t exponent = 1023 - 155; exponent <= 1023 + 129; ++exponent) {
    for (unsigned cut = 27; cut <= 52; ++cut) {
      const uint64_t half = uint64_t{1} << cut;
      const uint64_t fraction = random() % (uint64_t{1} << 52) & ~(2 * half - 1);
      for (const uint64_t rest : {half - 1, half, half + 1, 2 * half - 1, 3 * half}) {
        words.push_back(exponent << 52 | ((fraction + rest) & ((uint64_t{1} << 52) - 1)));
      }
    }
  }
  for (int i = 0; i < 100'000; ++i) {
    words.push_back(random());
  }

  for (const uint64_t word : words) {
    for (const uint64_t bits : {word, word ^ uint64_t{1} << 63}) {
      const auto value = std::bit_cast<double>(bits);
      const Number number(value);
      const uint32_t right = std::bit_cast<uint32_t>(static_cast<float>(value));
      ASSERT_TRUE(reference::same(DType::f32, number.f32_bits(), right)) << std::hexfloat << value;
      ASSERT_EQ(number.is_zero(), value == 0) << value;
      ASSERT_EQ(number.is_nan(), std::isnan(value)) << value;
      ASSERT_EQ(number.is_finite(), std::isfinite(value)) << value;
      ASSERT_EQ(number.is_negative(), value < 0) << value;
    }
  }
}

TEST(Types, EveryTypeHasANameOfItsOwnAndASize) {
  std::set<std::string> names;
  for (const DType dtype : reference::kDTypes) {
    EXPECT_TRUE(is_valid(dtype));
    EXPECT_TRUE(names.insert(dtype_name(dtype)).second) << dtype_name(dtype);

    const std::string name = dtype_name(dtype);
    if (dtype == DType::boolean) {
      EXPECT_EQ(name, "bool");
      continue;
    }
    // A pair is named by both of its parts.
    const size_t named = is_pair(dtype) ? size_of(dtype) / 2 : size_of(dtype);
    EXPECT_NE(name.find(named == 1 ? "8" : std::to_string(8 * named)), std::string::npos) << name;
  }
}

TEST(Simd, TheBestIsUsedAndTheScalarAlwaysThere) {
  EXPECT_TRUE(is_supported(Simd::scalar));
  EXPECT_TRUE(is_supported(current_simd()));
#if defined(__x86_64__)
  EXPECT_FALSE(use_simd(Simd::neon));
  if (is_supported(Simd::avx2)) {
    EXPECT_GE(current_simd(), Simd::avx2);
  }
#endif
}
}  // namespace
}  // namespace symm::host
