// The host's steps of a quantised wire: the same bits with every instruction set, and those of a
// reference that takes one element at a time; and what a call says of its wire to other ranks.
#include "kernels/host/arithmetic/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/collective_call.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"
#include "kernels/wire_call.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/wire_reference.hpp"

namespace symm::host::wire_test {
namespace {
constexpr std::array kSimds = {Simd::scalar, Simd::sse4, Simd::avx2, Simd::avx512, Simd::neon};
constexpr std::array kTypes = {DType::f8e4m3, DType::f8e5m2, DType::i8};
constexpr std::array kGroups = {kSmallWireGroup, kLargeWireGroup};

class WireArithmetic : public ::testing::Test {
 protected:
  ~WireArithmetic() override { use_simd(best_); }
  const Simd best_ = current_simd();
};

// The last numbers that can be, ties, zeros of both signs, subnormal numbers, and others.
std::vector<float> numbers(size_t count, std::mt19937& random) {
  std::vector<float> all(count);
  for (float& x : all) {
    const auto drawn = static_cast<uint32_t>(random());
    switch (drawn % 8) {
      case 0: x = 0; break;
      case 1: x = -0.0F; break;
      case 2: x = std::bit_cast<float>(drawn >> 9); break;  // subnormal
      case 3: x = static_cast<float>(static_cast<int>(drawn >> 8 & 511) - 256) / 2; break;
      default: x = std::ldexp(static_cast<float>(static_cast<int>(drawn)), -30);
    }
  }
  return all;
}

std::vector<float> through_steps(const std::vector<float>& x, const WireFormat& format) {
  std::vector<std::byte> block(wire_block_bytes(x.size(), format.group));
  std::vector<float> left(x.size());
  WireSteps::encode({reinterpret_cast<const std::byte*>(x.data()), block.data(), DType::f32, format,
      x.size(), 1, 0, x.size()});
  WireSteps::decode({block.data(), reinterpret_cast<std::byte*>(left.data()), DType::f32, format,
      x.size(), x.size()});
  return left;
}

void expect_same_bits(const std::vector<float>& seen, const std::vector<float>& right) {
  for (size_t i = 0; i < right.size(); ++i) {
    if (std::isnan(right[i]) && std::isnan(seen[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(seen[i]), std::bit_cast<uint32_t>(right[i]))
        << "element " << i << " is " << seen[i] << ", not " << right[i];
  }
}

TEST_F(WireArithmetic, EncodesAndDecodesAsTheReference) {
  for (const Simd simd : kSimds) {
    if (!use_simd(simd)) continue;
    SCOPED_TRACE(simd_name(simd));
    std::mt19937 random(7);
    support::for_each_combination(std::tuple(kTypes, kGroups), [&](DType type, uint32_t group) {
      for (const size_t count : {1, 5, 31, 32, 33, 127, 128, 129, 1000}) {
        std::vector<float> x = numbers(count, random);
        if (count == 1000) {
          x[300] = std::numeric_limits<float>::infinity();
          x[800] = -std::numeric_limits<float>::quiet_NaN();
          x[10] = std::numeric_limits<float>::max() / 2;
        }
        expect_same_bits(through_steps(x, {type, group}),
            support::through_wire(x, static_cast<symm_dtype_t>(type), group));
      }
    });
  }
}

TEST_F(WireArithmetic, SumsAsTheReference) {
  for (const Simd simd : kSimds) {
    if (!use_simd(simd)) continue;
    SCOPED_TRACE(simd_name(simd));
    std::mt19937 random(8);
    support::for_each_combination(std::tuple(kTypes, kGroups, std::array{1, 2, 3, 5, 8, 13},
                                      std::array{false, true}, std::array{false, true}),
        [&](DType type, uint32_t group, int ranks, bool in_tree, bool averages) {
          constexpr size_t kCount = 200;
          const WireFormat format{type, group};
          const size_t block = wire_block_bytes(kCount, group);
          std::vector<std::byte> codes(block * static_cast<size_t>(ranks));
          std::vector<std::vector<float>> operands;
          for (int rank = 0; rank < ranks; ++rank) {
            operands.push_back(numbers(kCount, random));
            WireSteps::encode({reinterpret_cast<const std::byte*>(operands.back().data()),
                codes.data() + static_cast<size_t>(rank) * block, DType::f32, format, kCount, 1, 0,
                kCount});
          }

          std::vector<std::byte> sum(block);
          std::vector<float> seen(kCount);
          WireSteps::sum(
              {codes.data(), sum.data(), format, kCount, kCount, ranks, averages, in_tree});
          WireSteps::decode({sum.data(), reinterpret_cast<std::byte*>(seen.data()), DType::f32,
              format, kCount, kCount});
          const support::WireCase c{SYMM_DTYPE_F32, static_cast<symm_dtype_t>(type),
              static_cast<int32_t>(group), averages ? SYMM_OP_AVG : SYMM_OP_SUM, in_tree};
          expect_same_bits(seen, support::sums_by_wire(c, operands));
        });
  }
}

// ---- what ranks compare

CollectiveCall call_by_wire(DType type, uint32_t group, Collective what, DType dtype, Op op) {
  CollectiveCall call(
      what, nullptr, nullptr, 1000, static_cast<int32_t>(dtype), nullptr, static_cast<int32_t>(op));
  call.scaling.wire = Wire(WireFormat{type, group});
  return call;
}

TEST(WireCall, SaysWhatItIsInASignature) {
  std::vector<uint64_t> seen;
  support::for_each_combination(
      std::tuple(kTypes, kGroups,
          std::array{Collective::allreduce, Collective::reduce_scatter, Collective::reduce},
          std::array{DType::f32, DType::f16, DType::bf16}, std::array{Op::sum, Op::avg}),
      [&](DType type, uint32_t group, Collective what, DType dtype, Op op) {
        CollectiveCall call = call_by_wire(type, group, what, dtype, op);
        EXPECT_EQ(call.scaling.wire.format(), (WireFormat{type, group}));
        for (const Order order : {Order::ranks, Order::tree}) {
          call.order = order;
          std::byte scratch{};
          const WireCall parts(call, 1, 4, &scratch, 1 << 20);
          for (const CallSignature& one :
              {CallSignature(call), CallSignature(parts.plain_call())}) {
            const CallSignature back = CallSignature::unpacked(one.packed(), one.packed_count());
            EXPECT_EQ(back, one) << one.text() << " and " << back.text();
            EXPECT_NE(one.text().find(dtype_name(dtype)), std::string::npos) << one.text();
            EXPECT_EQ(std::count(seen.begin(), seen.end(), one.packed()), 0) << one.text();
            seen.push_back(one.packed());
          }
        }
      });
  EXPECT_EQ(seen.size(), 6U * 3 * 3 * 2 * 2 * 2);
}

// Counts the bytes that travel, and checks that no part divides a group.
TEST(WireCall, CarriesCodesOnly) {
  constexpr size_t kScratch = size_t{64} << 10;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{100'000}, size_t{1'000'003}}) {
    CollectiveCall call = call_by_wire(DType::i8, 128, Collective::allreduce, DType::f32, Op::sum);
    call.count = count;
    std::byte scratch{};
    const WireCall parts(call, 0, 2, &scratch, kScratch);
    ASSERT_TRUE(parts.fits());
    const CollectiveCall first = parts.plain_call();

    size_t bytes = 0;
    size_t decoded = 0;
    struct Steps {
      size_t* decoded;
      void encode(const WireEncoding& e) const {
        EXPECT_TRUE(e.blocks == 1 || e.count % 128 == 0) << e.count;
      }
      void sum(const WireSum&) const {}
      void decode(const WireDecoding& d) const { *decoded += d.total; }
    };
    parts.run(Steps{&decoded}, [&](const CollectiveCall& plain) {
      EXPECT_EQ(plain.dtype, DType::u8);
      EXPECT_LE(plain.count, first.count);
      bytes += plain.count;  // of the other rank
    });
    EXPECT_EQ(decoded, count);
    EXPECT_LE(bytes, count + count / 16 + 1024);
  }
}
}  // namespace
}  // namespace symm::host::wire_test
