// The kernels of a quantised wire, compiled for the host: their codes, sums and results have the
// bits of the host's, at any alignment of operands, for blocks that are full, short or empty.
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

#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"
#include "kernels/wire_call.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/combinations.hpp"

extern "C" void symm_wire_encode(symm::cuda::WireEncodeArgs args);
extern "C" void symm_wire_sum(symm::cuda::WireSumArgs args);
extern "C" void symm_wire_decode(symm::cuda::WireDecodeArgs args);

namespace symm::cuda::model {
namespace {
using Bytes = std::vector<std::byte>;
constexpr std::array kOperands = {DType::f32, DType::f16, DType::bf16};
constexpr std::array kTypes = {DType::f8e4m3, DType::f8e5m2, DType::i8};
constexpr std::byte kUntouched{0x5A};

uint64_t address(const void* of) { return reinterpret_cast<uintptr_t>(of); }

// Runs a kernel of blocks of one warp.
template <class Launch>
void run_kernel(const Launch& launch) {
  Ranks ranks({.ranks = 1, .threads = 32});
  ranks.launch(0, [launch](const CollectiveArgs&) { launch(); }, {}, 3);
  ASSERT_TRUE(ranks.run());
}

// Operands of any bits, among them infinities and NaNs, but mostly numbers of a few magnitudes.
Bytes draw_operand(DType dtype, size_t count, std::mt19937& random) {
  Bytes bytes(count * size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    const uint32_t drawn = static_cast<uint32_t>(random());
    const bool is_any = random() % 400 == 0;
    if (dtype == DType::f32) {
      const float x = std::ldexp(static_cast<float>(drawn % 4001) - 2000, static_cast<int>(i % 9));
      const uint32_t bits = is_any ? drawn : std::bit_cast<uint32_t>(x);
      std::memcpy(&bytes[4 * i], &bits, 4);
    } else {
      const auto bits = static_cast<uint16_t>(is_any ? drawn : (drawn & 0x87FFU) | 0x3800U);
      std::memcpy(&bytes[2 * i], &bits, 2);
    }
  }
  return bytes;
}

// Makes the codes and scales of a block equal where nothing is defined: behind the last code, and
// behind the last scale.
void forget_rest(Bytes& blocks, size_t count, size_t here, size_t at, uint32_t group) {
  std::byte* const block = blocks.data() + at;
  const size_t scales = wire_scales_at(count);
  const size_t end = wire_block_bytes(count, group);
  std::memset(block + here, 0, scales - here);
  const size_t last = scales + wire_groups(here, group) * sizeof(float);
  std::memset(block + last, 0, end - last);
}

void expect_encoding(DType dtype, const WireFormat& format, size_t count, size_t blocks,
    size_t total, std::mt19937& random) {
  const size_t shift = random() % 8;
  const size_t stride = (count + random() % 3) * size_of(dtype);
  Bytes memory(stride * blocks + 32);
  const Bytes operand = draw_operand(dtype, stride * blocks / size_of(dtype), random);
  std::memcpy(memory.data() + shift, operand.data(), operand.size());
  const size_t block_bytes = wire_block_bytes(count, format.group);
  Bytes expected(block_bytes * blocks, kUntouched);
  Bytes seen = expected;

  const WireEncoding encoding{
      memory.data() + shift, expected.data(), dtype, format, count, blocks, stride, total};
  host::WireSteps::encode(encoding);
  const WireEncodeArgs args{address(encoding.from), address(seen.data()), count, blocks, stride,
      total, format.group, static_cast<int32_t>(dtype), static_cast<int32_t>(format.dtype)};
  run_kernel([args] { symm_wire_encode(args); });

  for (size_t block = 0; block < blocks; ++block) {
    const size_t before = std::min(total, block * count);
    const size_t here = std::min(count, total - before);
    forget_rest(expected, count, here, block * block_bytes, format.group);
    forget_rest(seen, count, here, block * block_bytes, format.group);
  }
  EXPECT_EQ(seen, expected) << dtype_name(dtype) << " to " << dtype_name(format.dtype) << " by "
                            << format.group << ", " << blocks << " blocks of " << count << ", "
                            << total << " in all";
}

TEST(Wire, IsEncodedAsOnTheHost) {
  std::mt19937 random(1);
  support::for_each_combination(
      std::tuple(kOperands, kTypes, std::array{kSmallWireGroup, kLargeWireGroup}),
      [&](DType dtype, DType type, uint32_t group) {
        expect_encoding(dtype, {type, group}, 1, 1, 1, random);
        expect_encoding(dtype, {type, group}, 299, 1, 299, random);
        // One of four blocks is short, and one empty.
        expect_encoding(dtype, {type, group}, 256, 4, 600, random);
        expect_encoding(dtype, {type, group}, 131, 2, 262, random);
      });
}

// Blocks of several sources, encoded on the host.
Bytes draw_blocks(const WireFormat& format, size_t count, size_t sources, std::mt19937& random) {
  const Bytes operand = draw_operand(DType::f32, count * sources, random);
  Bytes blocks(wire_block_bytes(count, format.group) * sources);
  host::WireSteps::encode({operand.data(), blocks.data(), DType::f32, format, count, sources,
      count * sizeof(float), count * sources});
  return blocks;
}

void expect_sum(const WireFormat& format, size_t of, size_t count, int sources, bool in_tree,
    std::mt19937& random) {
  const Bytes blocks = draw_blocks(format, of, static_cast<size_t>(sources), random);
  Bytes expected(wire_block_bytes(of, format.group), kUntouched);
  Bytes seen = expected;
  const bool averages = random() % 2 == 0;
  const WireSum sum{blocks.data(), expected.data(), format, of, count, sources, averages, in_tree};
  host::WireSteps::sum(sum);
  const WireSumArgs args{address(sum.from), address(seen.data()), of, count, format.group,
      static_cast<int32_t>(format.dtype), sources, averages ? 1U : 0U, in_tree ? 1U : 0U};
  run_kernel([args] { symm_wire_sum(args); });

  forget_rest(expected, of, count, 0, format.group);
  forget_rest(seen, of, count, 0, format.group);
  EXPECT_EQ(seen, expected) << dtype_name(format.dtype) << " by " << format.group << ", " << count
                            << " of " << of << ", " << sources << " sources, tree " << in_tree;
}

TEST(Wire, IsSummedAsOnTheHost) {
  std::mt19937 random(2);
  support::for_each_combination(std::tuple(kTypes, std::array{kSmallWireGroup, kLargeWireGroup},
                                    std::array{false, true}, std::array{1, 2, 3, 4, 7, 8, 13}),
      [&](DType type, uint32_t group, bool in_tree, int sources) {
        expect_sum({type, group}, 300, 300, sources, in_tree, random);
        expect_sum({type, group}, 384, 150, sources, in_tree, random);
      });
}

void expect_decoding(
    DType dtype, const WireFormat& format, size_t count, size_t total, std::mt19937& random) {
  const Bytes blocks = draw_blocks(format, count, (total + count - 1) / count, random);
  const size_t shift = random() % 8;
  Bytes expected(total * size_of(dtype) + 16, kUntouched);
  Bytes seen = expected;
  const WireDecoding decoding{blocks.data(), expected.data() + shift, dtype, format, count, total};
  host::WireSteps::decode(decoding);
  const WireDecodeArgs args{address(decoding.from), address(seen.data() + shift), count, total,
      format.group, static_cast<int32_t>(dtype), static_cast<int32_t>(format.dtype)};
  run_kernel([args] { symm_wire_decode(args); });
  EXPECT_EQ(seen, expected) << dtype_name(format.dtype) << " by " << format.group << " to "
                            << dtype_name(dtype) << ", " << total << " in blocks of " << count;
}

TEST(Wire, IsDecodedAsOnTheHost) {
  std::mt19937 random(3);
  support::for_each_combination(
      std::tuple(kOperands, kTypes, std::array{kSmallWireGroup, kLargeWireGroup}),
      [&](DType dtype, DType type, uint32_t group) {
        expect_decoding(dtype, {type, group}, 1, 1, random);
        expect_decoding(dtype, {type, group}, 299, 299, random);
        expect_decoding(dtype, {type, group}, 256, 600, random);
      });
}
}  // namespace
}  // namespace symm::cuda::model
