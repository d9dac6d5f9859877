// Which pieces of an exchange go packed, and that they arrive where they would without.
#include "core/group/staged_pieces.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/host/copy_pieces.hpp"
#include "symm/symm.h"
#include "tests/support/piece_lists.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;
using support::PieceLists;

using Bytes = std::vector<std::byte>;
using Pieces = std::vector<symm_piece_t>;

// The pieces of a list of two, far from each other, of which the first is given.
bool is_taken(const symm_piece_t& piece) {
  Pieces pieces = {piece, {0, 1 << 20, 4096, 1, 0, 0}};
  return take_small(pieces).size() == 1;
}

TEST(StagedPieces, AreShortRowsThatLieAlone) {
  EXPECT_TRUE(is_taken({0, 0, 8, 128, 1040, 1040}));
  EXPECT_TRUE(is_taken({0, 0, 1, 2, 0, 64}));
  EXPECT_TRUE(is_taken({0, 0, 32, 128, 32, 64}));
  EXPECT_TRUE(is_taken({0, 0, 8, 1, 0, 0}));
  EXPECT_FALSE(is_taken({0, 0, 33, 128, 1040, 1040}));
  EXPECT_FALSE(is_taken({0, 0, 8, 128, 1040, 63}));
  EXPECT_FALSE(is_taken({0, 0, 0, 128, 1040, 1040}));
}

// Single rows that share lines with their neighbours in the list fill these lines by themselves.
TEST(StagedPieces, AreNoRowsBesideEachOther) {
  Pieces beside;
  Pieces apart;
  for (uint64_t i = 0; i < 20; ++i) {
    beside.push_back({i * 1000, i * 8, 8, 1, 0, 0});
    apart.push_back({i * 8, i * 1000, 8, 1, 0, 0});
  }
  EXPECT_TRUE(take_small(beside).empty());
  EXPECT_EQ(beside.size(), 20U);
  EXPECT_EQ(take_small(apart).size(), 20U);
  EXPECT_TRUE(apart.empty());
}

// Two sources lie in one vector, and the second one is added before the first.
void expect_as_straight(uint64_t seed) {
  constexpr size_t kBytes = 4096;
  PieceLists lists(seed, kBytes);
  const Bytes source = support::distinct_bytes(2 * kBytes, seed);
  Bytes straight(2 * kBytes);
  Bytes block(2 * kBytes);
  StagedPieces staged;
  size_t bytes = 0;
  size_t rows = 0;

  for (const size_t part : {size_t{1}, size_t{0}}) {
    const std::byte* const from = source.data() + part * kBytes;
    Pieces pieces = lists.draw_apart();
    support::copy_as_said(straight.data() + part * kBytes, from, pieces);
    const Pieces small = take_small(pieces);
    ASSERT_FALSE(small.empty());
    support::copy_as_said(block.data() + part * kBytes, from, pieces);
    staged.add(from, part * kBytes, small);
    bytes += bytes_in(small);
    rows += rows_in(small);
  }
  EXPECT_NE(block, straight);
  staged.lay_out();

  EXPECT_EQ(staged.bytes(), bytes);
  EXPECT_EQ(rows_in(staged.packing()), rows);
  Bytes stage(bytes);
  const auto copy = [](Bytes& to, const void* from, const Pieces& pieces) {
    host::copy_pieces(
        to.data(), static_cast<const std::byte*>(from), {pieces.data(), pieces.size()}, false);
  };
  copy(stage, staged.source(), staged.packing());
  copy(block, stage.data(), staged.unpacking());
  EXPECT_TRUE(block == straight) << seed;
}

TEST(StagedPieces, ArriveAsWithoutAStage) {
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    expect_as_straight(seed);
  }
}

// Elements of two faces that share lines are next to each other in the stage.
TEST(StagedPieces, OfTwoFacesAreLaidOutInOnePass) {
  StagedPieces staged;
  const std::byte source[4096] = {};
  staged.add(source, 0, {{8, 0, 8, 4, 64, 64}, {1032, 1024, 8, 4, 64, 64}});
  staged.add(source, 2048, {{56, 0, 8, 4, 64, 64}, {1080, 1024, 8, 4, 64, 64}});
  staged.lay_out();

  ASSERT_EQ(staged.packing().size(), 4U);
  const uint64_t from[] = {8, 56, 1032, 1080};
  const uint64_t to[] = {0, 2048, 1024, 3072};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(staged.packing()[i].from, from[i]);
    EXPECT_EQ(staged.packing()[i].to, 32 * i);
    EXPECT_EQ(staged.unpacking()[i].from, 32 * i);
    EXPECT_EQ(staged.unpacking()[i].to, to[i]);
    EXPECT_EQ(staged.unpacking()[i].to_stride, 64U);
  }
}
}  // namespace
