// Pieces of all lengths are copied as byte by byte, with the stores of short and of long copies.
#include "kernels/host/copy_pieces.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/piece_list.hpp"
#include "symm/symm.h"
#include "tests/support/piece_lists.hpp"

namespace symm {
namespace {
using support::copy_as_said;
using support::distinct_bytes;

void expect_copied(const std::vector<symm_piece_t>& pieces, size_t bytes, bool nontemporal) {
  const std::vector<std::byte> from = distinct_bytes(bytes, 7);
  std::vector<std::byte> to(bytes);
  std::vector<std::byte> expected(bytes);
  copy_as_said(expected.data(), from.data(), pieces);
  host::copy_pieces(to.data(), from.data(), {pieces.data(), pieces.size()}, nontemporal);
  EXPECT_TRUE(to == expected) << pieces.size() << " pieces of " << pieces.front().bytes << " bytes";
}

TEST(CopyPieces, OfEveryLengthAtOddPlaces) {
  for (uint64_t bytes = 1; bytes <= 300; ++bytes) {
    expect_copied({{3, 5, bytes, 4, bytes + 1, bytes + 3}, {1, 2000, bytes, 1, 0, 0}}, 4096, false);
  }
}

TEST(CopyPieces, InOneStretch) {
  for (const uint64_t bytes : {1, 8, 24, 100, 1000}) {
    expect_copied({{3, 5, bytes, 4, bytes, bytes}}, 4096, false);
    expect_copied({{3, 5, bytes, 4, bytes, bytes}}, 4096, true);
  }
}

// Lines are fetched ahead only for rows that the piece has.
TEST(CopyPieces, ShortRowsThatLieApart) {
  for (const uint64_t bytes : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64}) {
    for (uint64_t rows = 1; rows <= 30; ++rows) {
      expect_copied(
          {{3, 5, bytes, rows, bytes + 1, 67}, {1, 3000, bytes, rows, 0, 64}}, 8192, false);
    }
  }
}

// Long rows are stored past the caches, and the short ones between them are not.
TEST(CopyPieces, LongRowsWithNontemporalStores) {
  constexpr uint64_t kRow = 5000;
  expect_copied({{1, 70'000, kRow, 7, kRow + 9, kRow + 31}, {11, 3, 8, 20, 16, 8},
                    {40'000, 1000, 3 * kRow, 1, 0, 0}},
      200'000, true);
}

TEST(CopyPieces, PagesOfATable) {
  constexpr size_t kPage = 96;
  const std::vector<std::byte> from = distinct_bytes(8 * kPage, 8);
  std::vector<std::byte> to(8 * kPage);
  const std::vector<uint64_t> read = {7, 0, 3, 3};
  const std::vector<uint64_t> written = {1, 6, 0, 5};
  host::copy_pieces(
      to.data(), from.data(), {nullptr, read.size(), kPage, read.data(), written.data()}, false);

  std::vector<std::byte> expected(8 * kPage);
  for (size_t i = 0; i < read.size(); ++i) {
    copy_as_said(
        expected.data(), from.data(), {read[i] * kPage, written[i] * kPage, kPage, 1, 0, 0});
  }
  EXPECT_TRUE(to == expected);
}
}  // namespace
}  // namespace symm
