// Puts and gets of many pieces on one machine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"
#include "tests/support/piece_lists.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
using symm::Pieces;

constexpr size_t kBytes = 4096;
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
constexpr int kLists = 5'000;
#else
constexpr int kLists = 100'000;
#endif

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Block& block, int rank) {
  const std::byte* const at = block.at<std::byte>(rank);
  return {at, at + kBytes};
}

TEST(Pieces, PutAsMemcpyWouldFor100000Lists) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, kBytes);
    // One rank writes, and the other one's block stays as it is but for that.
    if (rank == 0) {
      const Bytes source = distinct_bytes(kBytes, 1);
      Bytes expected(kBytes);
      PieceLists lists(1, kBytes);
      for (int i = 0; i < kLists; ++i) {
        const std::vector<symm_piece_t> pieces = lists.draw();
        block.memory.put_pieces(1, 0, source, pieces);
        copy_as_said(expected.data(), source.data(), pieces);
        ASSERT_TRUE(bytes_of(block, 1) == expected) << "list " << i;
      }
    }
    group.barrier();
    EXPECT_TRUE(bytes_of(block, 0) == Bytes(kBytes));
    group.barrier();
  });
}

TEST(Pieces, GetAsMemcpyWouldFor100000Lists) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, kBytes);
    const Bytes there = distinct_bytes(kBytes, 2);
    if (rank == 1) std::copy(there.begin(), there.end(), block.at<std::byte>(1));
    group.barrier();
    if (rank == 0) {
      Bytes seen(kBytes);
      Bytes expected(kBytes);
      PieceLists lists(2, kBytes);
      for (int i = 0; i < kLists; ++i) {
        const std::vector<symm_piece_t> pieces = lists.draw();
        block.memory.get_pieces(1, 0, seen, pieces);
        copy_as_said(expected.data(), there.data(), pieces);
        ASSERT_TRUE(seen == expected) << "list " << i;
      }
    }
    group.barrier();
    EXPECT_TRUE(bytes_of(block, 1) == there);
    group.barrier();
  });
}

// Pages of any size: by two tables, by one of them, and in their order.
TEST(Pieces, PagesGoFromTableToTable) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(kBytes, 3);
  PieceLists lists(3, kBytes);

  for (int i = 0; i < kLists / 10; ++i) {
    const size_t page = 1 + lists.below(700);
    const size_t all = kBytes / page;
    const size_t count = 1 + lists.below(all);
    const std::vector<uint64_t> from = lists.pages(count, all);
    const std::vector<uint64_t> to = lists.pages(count, all);
    const bool reads_by_table = i % 3 != 1;
    const bool writes_by_table = i % 3 != 2;

    Bytes expected(kBytes);
    for (size_t n = 0; n < count; ++n) {
      const size_t read = page * (reads_by_table ? from[n] : n);
      const size_t written = page * (writes_by_table ? to[n] : n);
      copy_as_said(expected.data(), source.data(), {read, written, page, 1, 0, 0});
    }
    block.memory.fill8(0, 0, 0, kBytes);
    using Table = symm::Span<const uint64_t>;
    block.memory.put_pieces(0, 0, source,
        Pieces::pages(
            page, reads_by_table ? Table(from) : Table(), writes_by_table ? Table(to) : Table()));
    ASSERT_TRUE(bytes_of(block, 0) == expected) << "list " << i << " of pages of " << page;
  }
}

// A page table of which both are left out is a copy of the first pages.
TEST(Pieces, PagesWithoutTablesAreTheFirstOnes) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(kBytes, 4);
  symm_pieces_call_t call = SYMM_PIECES_CALL_INIT;
  call.page_bytes = 100;
  call.count = 3;
  check(symm_put_pieces(block.memory.get(), 0, 0, source.data(), 300, &call, nullptr, nullptr));
  Bytes expected(kBytes);
  std::copy(source.begin(), source.begin() + 300, expected.begin());
  EXPECT_TRUE(bytes_of(block, 0) == expected);

  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"the tables differ in length"},
      [&] { Pieces::pages(8, std::vector<uint64_t>(2), std::vector<uint64_t>(3)); });
}

// A page of an array of rows, as a face of a grid has them, is there with its signal.
TEST(Pieces, AreThereWhenTheirSignalIs) {
  as_processes(2, [](int rank, const Group& group) {
    constexpr uint64_t kPieces = 100;
    const Block block = allocate(group, 3 * kPieces * sizeof(uint64_t));
    std::vector<symm_piece_t> pieces;
    for (uint64_t i = 0; i < kPieces; ++i) {
      pieces.push_back({i * 8, i * 24, 8, 2, 0, 16});
    }

    for (uint64_t round = 1; round <= 2000; ++round) {
      const std::vector<uint64_t> mine(kPieces, round << 32);
      block.memory.put_pieces(
          1 - rank, 0, mine, Pieces(pieces).with_signal(2, SYMM_SIGNAL_SET, round << 32));
      block.memory.wait_signal_value(1 - rank, 2, SYMM_COMPARE_EQ, round << 32);
      const uint64_t* const words = block.at<uint64_t>(rank);
      for (uint64_t i = 0; i < 3 * kPieces; ++i) {
        ASSERT_EQ(words[i], i % 3 == 1 ? 0 : round << 32) << "word " << i;
      }
      // A get signals that its rank may write again.
      std::vector<uint64_t> theirs(kPieces);
      const symm_piece_t every = {0, 0, 8, kPieces, 24, 8};
      block.memory.get_pieces(1 - rank, 0, theirs, Pieces(symm::Span(&every, 1)).with_signal(3));
      EXPECT_EQ(theirs.back(), round << 32);
      block.memory.wait_signal(1 - rank, 3);
    }
  });
}

// All places in the block count from the offset, which the pieces do not reach below.
TEST(Pieces, CountInTheBlockFromTheOffset) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(64, 8);
  const std::vector<symm_piece_t> pieces = {{16, 8, 8, 2, 24, 16}};
  block.memory.put_pieces(0, 4000, source, pieces);
  Bytes expected(kBytes);
  std::copy(&source[16], &source[24], &expected[4008]);
  std::copy(&source[40], &source[48], &expected[4024]);
  EXPECT_TRUE(bytes_of(block, 0) == expected);

  Bytes seen(64);
  const std::vector<uint64_t> third = {2};
  block.memory.get_pieces(0, 3992, seen, Pieces::pages(16, third, {}));
  EXPECT_TRUE(std::equal(&seen[0], &seen[8], &source[40]));
  expect_failure(SYMM_ERR_INVALID_ARGUMENT,
      {"call.pieces[0].to: 2 rows of 8 bytes, one every 16 from byte 8 on, go beyond the 31 bytes "
       "of the block from offset on"},
      [&] { block.memory.put_pieces(0, kBytes - 31, source, pieces); });
}

// A refusal names the piece, and has neither written nor signalled.
TEST(Pieces, RefusedListsHaveDoneNothing) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(64, 5);
  std::vector<symm_piece_t> pieces(1000, {0, 0, 8, 1, 0, 0});
  pieces[777] = {57, 16, 8, 1, 0, 0};
  expect_failure(SYMM_ERR_INVALID_ARGUMENT,
      {"call.pieces[777].from: 8 bytes from byte 57 on go beyond the 64 bytes of source"},
      [&] { block.memory.put_pieces(0, 0, source, Pieces(pieces).with_signal(0)); });
  pieces[777] = {0, kBytes - 20, 8, 3, 8, 8};
  expect_failure(SYMM_ERR_INVALID_ARGUMENT,
      {"call.pieces[777].to: 3 rows of 8 bytes, one every 8 from byte 4076 on, go beyond the 4096 "
       "bytes of the block"},
      [&] { block.memory.put_pieces(0, 0, source, Pieces(pieces).with_signal(0)); });

  EXPECT_TRUE(bytes_of(block, 0) == Bytes(kBytes));
  EXPECT_EQ(block.memory.test_signal(0), 0U);
}

// What is nothing may lie anywhere, and signals all the same.
TEST(Pieces, NothingIsCopiedOfPiecesWithoutBytes) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const std::vector<symm_piece_t> pieces = {{SIZE_MAX, SIZE_MAX, 0, SIZE_MAX, SIZE_MAX, 0}};
  Bytes empty;
  block.memory.put_pieces(0, 0, empty, Pieces(pieces).with_signal(0));
  block.memory.get_pieces(0, 0, empty, std::vector<symm_piece_t>());
  block.memory.wait_signal(0);
  EXPECT_TRUE(bytes_of(block, 0) == Bytes(kBytes));
}

// The device of the host back end is the host, which reads the number of pieces in the call.
TEST(Pieces, OnTheDeviceAreReadByTheHost) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(64, 7);
  const std::vector<symm_piece_t> pieces = {{0, 8, 4, 1, 0, 0}, {4, 100, 4, 1, 0, 0}};
  uint64_t count = 1;
  block.memory.put_pieces(0, 0, source, Pieces(pieces).on_device(&count));
  Bytes expected(kBytes);
  std::copy(&source[0], &source[4], &expected[8]);
  EXPECT_TRUE(bytes_of(block, 0) == expected);

  block.memory.put_pieces(0, 0, source, Pieces(pieces).on_device());
  std::copy(&source[4], &source[8], &expected[100]);
  EXPECT_TRUE(bytes_of(block, 0) == expected);

  count = 3;
  expect_failure(SYMM_ERR_INVALID_ARGUMENT,
      {"call.device_count: there are 3 pieces, more than the 2 of call.count"},
      [&] { block.memory.put_pieces(0, 0, source, Pieces(pieces).on_device(&count)); });
}

// The size of memory of one's own need not be known, but no piece wraps around.
TEST(Pieces, ReadMemoryOfUnknownSize) {
  const Group group = alone();
  const Block block = allocate(group, kBytes);
  const Bytes source = distinct_bytes(64, 6);
  symm_piece_t piece = {0, 0, 16, 4, 16, 100};
  symm_pieces_call_t call = SYMM_PIECES_CALL_INIT;
  call.pieces = &piece;
  call.count = 1;
  const auto put = [&] {
    return symm_put_pieces(
        block.memory.get(), 0, 0, source.data(), SIZE_MAX, &call, nullptr, nullptr);
  };
  check(put());
  EXPECT_EQ(block.at<std::byte>(0)[300], source[48]);

  piece.from = SIZE_MAX - 15;
  expect_failed(put(), SYMM_ERR_INVALID_ARGUMENT, {"call.pieces[0].from", "beyond any memory"});
}
}  // namespace
}  // namespace support
