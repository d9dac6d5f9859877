// Lists of pieces as messages of rows: what is packed on one machine is the same on the other, and
// a message whose rows lie outside of the block is none.
#include "core/multinode/packed_pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/host/copy_pieces.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"
#include "tests/support/piece_lists.hpp"

namespace symm::multinode {
namespace {
using support::copy_as_said;
using support::distinct_bytes;
using Bytes = std::vector<std::byte>;
using Pieces = std::vector<symm_piece_t>;

constexpr size_t kOffset = 100;

std::span<const std::byte> as_bytes_of(const std::vector<RemoteRows>& rows) {
  return std::as_bytes(std::span(rows));
}

// A put as two machines do it. Returns the number of messages.
size_t put(const Pieces& pieces, const Bytes& source, Bytes& block) {
  size_t messages = 0;
  const auto send = [&](const PackedRows& rows) {
    ++messages;
    EXPECT_LE(rows.payload(), kPackedMessage);
    Bytes payload(rows.payload());
    const auto places = as_bytes_of(rows.there);
    std::copy(places.begin(), places.end(), payload.begin());
    host::copy_pieces(payload.data() + places.size(), source.data(), rows.list(), false);

    const auto bytes = std::span<const std::byte>(payload).subspan(places.size());
    const auto there =
        unpacked(payload, rows.there.size(), block.size(), bytes.size(), Direction::put);
    ASSERT_TRUE(there.has_value());
    host::copy_pieces(block.data(), bytes.data(), {there->data(), there->size()}, false);
  };
  const auto send_long = [&](uint64_t to, uint64_t from, uint64_t bytes) {
    ++messages;
    EXPECT_GE(bytes, kLongRow);
    std::memcpy(block.data() + kOffset + to, source.data() + from, bytes);
  };
  each_message({pieces.data(), pieces.size()}, kOffset, Direction::put, send, send_long);
  return messages;
}

// A get as two machines do it.
void get(const Pieces& pieces, const Bytes& block, Bytes& destination) {
  const auto fetch = [&](const PackedRows& rows) {
    const auto there = unpacked(
        as_bytes_of(rows.there), rows.there.size(), block.size(), rows.bytes, Direction::get);
    ASSERT_TRUE(there.has_value());
    Bytes reply(rows.bytes);
    host::copy_pieces(reply.data(), block.data(), {there->data(), there->size()}, false);
    host::copy_pieces(destination.data(), reply.data(), rows.list(), false);
  };
  const auto fetch_long = [&](uint64_t to, uint64_t from, uint64_t bytes) {
    std::memcpy(destination.data() + to, block.data() + kOffset + from, bytes);
  };
  each_message({pieces.data(), pieces.size()}, kOffset, Direction::get, fetch, fetch_long);
}

void expect_same(const Pieces& pieces, size_t bytes) {
  const Bytes source = distinct_bytes(bytes, 11);
  Bytes block(kOffset + bytes);
  Bytes expected(kOffset + bytes);
  put(pieces, source, block);
  copy_as_said(expected.data() + kOffset, source.data(), pieces);
  ASSERT_TRUE(block == expected) << pieces.size() << " pieces";

  const Bytes there = distinct_bytes(kOffset + bytes, 12);
  Bytes seen(bytes);
  Bytes right(bytes);
  get(pieces, there, seen);
  copy_as_said(right.data(), there.data() + kOffset, pieces);
  ASSERT_TRUE(seen == right) << pieces.size() << " pieces";
}

TEST(PackedPieces, AreThePiecesOfTheList) {
  support::PieceLists lists(10, 4096);
  for (int i = 0; i < 2000; ++i) {
    expect_same(lists.draw(), 4096);
  }
}

// Rows around the length from which they go by themselves; pieces of which a message holds a part.
TEST(PackedPieces, OfAnyLengthInAsManyMessagesAsTheyNeed) {
  constexpr size_t kBytes = size_t{4} << 20;
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{1000}, kLongRow - 1, kLongRow}) {
    const uint64_t rows = kBytes / 2 / (bytes + 8);
    expect_same({{3, 1, bytes, rows, bytes + 8, bytes}, {0, kBytes / 2, 8, 1000, 0, 16}}, kBytes);
  }
}

// Sixteen thousand pieces of 8 bytes, and a face of as many rows, are few messages.
TEST(PackedPieces, AreFewMessages) {
  constexpr size_t kPieces = 16'384;
  const Bytes source = distinct_bytes(16 * kPieces, 13);
  Bytes block(kOffset + 16 * kPieces);
  Pieces pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back({8 * i, 16 * i, 8, 1, 0, 0});
  }
  const size_t payload = kPieces * (sizeof(RemoteRows) + 8);
  EXPECT_EQ(put(pieces, source, block), payload / kPackedMessage + 1);
  EXPECT_EQ(put({{0, 0, 8, kPieces, 8, 16}}, source, block), 1U);
  EXPECT_EQ(put({{0, 0, 0, 1, 0, 0}}, source, block), 0U);
}

// A stranger to the protocol writes nowhere but in the block, and reads nothing beside it.
TEST(PackedPieces, RowsOutsideOfTheBlockAreRefused) {
  const auto refused = [](const RemoteRows& rows, size_t packed_bytes = 64) {
    const std::vector<RemoteRows> all = {{0, 8, 1, 0}, rows};
    const auto is = [&](Direction direction) {
      return unpacked(as_bytes_of(all), all.size(), 100, packed_bytes, direction).has_value();
    };
    EXPECT_EQ(is(Direction::put), is(Direction::get));
    return !is(Direction::put);
  };
  EXPECT_FALSE(refused({92, 8, 1, 0}));
  EXPECT_FALSE(refused({0, 8, 7, 15}));
  EXPECT_TRUE(refused({93, 8, 1, 0}));
  EXPECT_TRUE(refused({UINT64_MAX - 3, 8, 1, 0}));
  EXPECT_TRUE(refused({0, 8, 7, 16}));
  EXPECT_TRUE(refused({0, 8, UINT64_MAX, 0}));
  EXPECT_TRUE(refused({0, 8, UINT64_MAX / 8 + 2, UINT64_MAX / 2}));
  EXPECT_TRUE(refused({0, UINT64_MAX, 1, 0}));
  EXPECT_TRUE(refused({0, 8, 7, 8}, 63)) << "there are no bytes for the last row";

  const std::vector<RemoteRows> one = {{0, 8, 1, 0}};
  EXPECT_FALSE(unpacked(as_bytes_of(one), 2, 100, 64, Direction::put).has_value());
  EXPECT_FALSE(unpacked(as_bytes_of(one), UINT64_MAX, 100, 64, Direction::put).has_value());
}
}  // namespace
}  // namespace symm::multinode
