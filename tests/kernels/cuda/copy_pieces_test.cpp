// The kernel that copies lists of pieces, compiled for the host: as memcpy would, whoever has added
// up the costs, and however many blocks share them.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/piece_shares.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"
#include "tests/kernels/cuda/model/kernels/cuda/memory.cuh"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/piece_lists.hpp"

extern "C" void symm_copy_pieces(symm::cuda::CopyPiecesArgs args);

namespace symm::cuda::model {
namespace {
using support::copy_as_said;
using Bytes = std::vector<std::byte>;

constexpr size_t kBytes = 1 << 17;
constexpr uint64_t kBefore = 7;
// How many lists each test draws.
constexpr int kLists = 150;

uint64_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// What the kernel is told of a list: nothing, so that it adds up the costs; or where each block
// begins, or that all pieces cost alike.
enum class Known { nothing, starts };

// Both sides of copies by rank 0, and the word of their signal.
struct Copies {
  Bytes to = Bytes(kBytes + 64);
  Bytes from = support::distinct_bytes(kBytes + 64, 5);
  Bytes expected = Bytes(kBytes + 64);
  uint64_t word = kBefore;
  ErrorRecord record{};

  CopyPiecesArgs args_of(const PieceList& list) const {
    CopyPiecesArgs args{};
    args.to = address(to.data());
    args.from = address(from.data());
    args.to_bytes = kBytes;
    args.from_bytes = kBytes;
    args.count = list.count;
    args.page_bytes = list.page_bytes;
    args.pieces = address(list.pieces);
    args.from_table = address(list.from_table);
    args.to_table = address(list.to_table);
    args.peer = 1;
    return args;
  }

  // Runs the kernel in an order of steps drawn at random. Only one block may signal.
  void run(CopyPiecesArgs args, unsigned seed, unsigned blocks) {
    Ranks ranks({.ranks = 2, .seed = seed, .blocks = blocks, .threads = kWarp});
    args.comm = ranks.comm(0);
    if (blocks == 1) {
      args.signal = address(&word);
      args.value = 3;
      args.kind = WriteKind::add;
    }
    ranks.launch(0, [args](const CollectiveArgs&) { symm_copy_pieces(args); }, {});
    ASSERT_TRUE(ranks.run()) << "nothing goes on, seed " << seed;
    record = ranks.record(0);
  }

  void run(const std::vector<symm_piece_t>& pieces, Known known, unsigned seed, unsigned blocks) {
    const PieceList list{pieces.data(), pieces.size()};
    CopyPiecesArgs args = args_of(list);
    std::vector<PieceStart> starts(blocks + 1);
    if (known == Known::starts && !pieces.empty()) {
      const PieceCosts costs = costs_of(list);
      find_starts(starts, list, costs.total);
      args.cost = costs.each;
      args.total = costs.total;
      args.starts = address(starts.data());
    } else {
      args.checks = 1;
    }
    run(args, seed, blocks);
    copy_as_said(expected.data(), from.data(), pieces);
  }

  void expect_copied(uint64_t signals) const {
    EXPECT_EQ(record.state, 0U);
    EXPECT_EQ(word, kBefore + signals);
    ASSERT_TRUE(to == expected);
  }
};

// Draws lists of pieces of any length, which are apart where they go.
class LongLists {
 public:
  explicit LongLists(unsigned seed) : random_(seed) {}

  std::vector<symm_piece_t> draw() {
    std::vector<symm_piece_t> pieces;
    const uint64_t step = uint64_t{1} << below(5);
    uint64_t free = below(16) * step;
    while (true) {
      symm_piece_t piece{0, free, length(step), below(4) == 0 ? below(70) : below(3), 0, 0};
      piece.to_stride = piece.bytes + below(3) * step;
      const uint64_t reach = reach_of(piece, written_of(piece));
      if (free + reach > kBytes) break;

      piece.from_stride = below(3) == 0 ? 0 : piece.to_stride;
      piece.from = below((kBytes - reach) / step + 1) * step;
      free += std::max<uint64_t>(parts_of(reach, step) + below(3), 1) * step;
      pieces.push_back(piece);
      if (below(40) == 0) break;
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    return pieces;
  }

  uint64_t below(uint64_t limit) { return random_() % limit; }

 private:
  // Most are short, and some as long as several units.
  uint64_t length(uint64_t step) {
    if (below(8) == 0) return below(5 * kUnitBytes / step) * step;
    return below(4) == 0 ? below(700) : below(64 / step + 1) * step;
  }

  std::mt19937_64 random_;
};

TEST(CopyPiecesKernel, CopiesListsAsMemcpyWould) {
  LongLists lists(1);
  for (unsigned i = 0; i < kLists; ++i) {
    Copies copies;
    const std::vector<symm_piece_t> pieces = lists.draw();
    const auto blocks = static_cast<unsigned>(1 + lists.below(4));
    copies.run(pieces, i % 2 == 0 ? Known::nothing : Known::starts, i, blocks);
    SCOPED_TRACE("list " + std::to_string(i));
    copies.expect_copied(blocks == 1 ? 3 : 0);
  }
}

TEST(CopyPiecesKernel, CopiesShortListsAsMemcpyWould) {
  support::PieceLists lists(2, 4096);
  for (unsigned i = 0; i < kLists; ++i) {
    Copies copies;
    copies.run(lists.draw(), i % 2 == 0 ? Known::nothing : Known::starts, i, 1 + i % 3);
    SCOPED_TRACE("list " + std::to_string(i));
    copies.expect_copied(i % 3 == 0 ? 3 : 0);
  }
}

// One long piece beside many of a few bytes is the work of many blocks: none of them copies more
// than its share of units.
TEST(CopyPiecesKernel, BlocksShareCostsAndNotPieces) {
  std::vector<symm_piece_t> pieces(1000, {0, 0, 8, 1, 0, 0});
  pieces[600] = {0, 0, 64 * kUnitBytes, 1, 0, 0};
  const PieceList list{pieces.data(), pieces.size()};
  constexpr uint32_t kBlocks = 10;
  const PieceCosts costs = costs_of(list);
  EXPECT_EQ(costs.total, 999 + 64 * kUnitCost);
  EXPECT_EQ(costs.each, 0U);

  std::vector<PieceStart> starts(kBlocks + 1);
  find_starts(starts, list, costs.total);
  uint32_t inside = 0;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const CostShare share = share_of(costs.total, kBlocks, block);
    EXPECT_LE(share.end - share.begin, parts_of(costs.total, kBlocks) + kUnitCost);
    EXPECT_LE(starts[block].ahead, share.begin);
    inside += starts[block].piece == 600 ? 1 : 0;
  }
  EXPECT_EQ(inside, 4U) << "blocks that begin within the long piece";
  EXPECT_EQ(starts[kBlocks].piece, 999U);
}

// Tables among the arguments or elsewhere, of which one may be missing.
TEST(CopyPiecesKernel, CopiesPages) {
  support::PieceLists lists(3, kBytes);
  for (unsigned i = 0; i < kLists; ++i) {
    Copies copies;
    const size_t page = 1 + lists.below(i % 4 == 0 ? 20'000 : 900);
    const size_t all = kBytes / page;
    const size_t count = 1 + lists.below(std::min<size_t>(all, 140));
    const std::vector<uint64_t> from = lists.pages(count, all);
    const std::vector<uint64_t> to = lists.pages(count, all);
    const bool reads_by_table = i % 3 != 1;
    const bool writes_by_table = i % 3 != 2;

    PieceList list{nullptr, count, page, reads_by_table ? from.data() : nullptr,
        writes_by_table ? to.data() : nullptr};
    CopyPiecesArgs args = copies.args_of(list);
    args.cost = costs_of(list).each;
    args.checks = i % 2;
    if (i % 5 == 0) {
      std::copy(from.begin(), from.end(), args.listed);
      std::copy(to.begin(), to.end(), args.listed + count);
      args.from_table = 0;
      args.to_table = count;
      args.travels =
          (reads_by_table ? kFromTableTravels : 0) | (writes_by_table ? kToTableTravels : 0);
      if (!writes_by_table) args.to_table = 0;
    }

    copies.run(args, i, 1 + i % 3);
    for (size_t n = 0; n < count; ++n) {
      copy_as_said(copies.expected.data(), copies.from.data(), list[n]);
    }
    SCOPED_TRACE("pages " + std::to_string(i) + " of " + std::to_string(page));
    copies.expect_copied(i % 3 == 0 ? 3 : 0);
  }
}

// The number that the kernel reads says how many pieces there are; one that is too large is
// reported, and nothing is copied.
TEST(CopyPiecesKernel, ReadsTheNumberOfPieces) {
  for (unsigned i = 0; i < 30; ++i) {
    Copies copies;
    const std::vector<symm_piece_t> pieces = support::PieceLists(i, 4096).draw();
    const uint64_t count = i % 5 == 4 ? pieces.size() + 1 : pieces.size() / 2;
    CopyPiecesArgs args = copies.args_of({pieces.data(), pieces.size()});
    args.count_at = address(&count);
    args.checks = 1;
    copies.run(args, i, 1);
    if (count > pieces.size()) {
      EXPECT_EQ(copies.record.trouble, static_cast<uint32_t>(WaitError::bad_piece));
      EXPECT_EQ(copies.record.expected, static_cast<uint32_t>(PieceRule::count));
      EXPECT_EQ(copies.record.my_detail, count);
      EXPECT_EQ(copies.record.peer_detail, pieces.size());
      EXPECT_EQ(copies.word, kBefore);
      EXPECT_TRUE(copies.to == copies.expected);
      continue;
    }
    const auto half = static_cast<std::ptrdiff_t>(count);
    copy_as_said(
        copies.expected.data(), copies.from.data(), {pieces.begin(), pieces.begin() + half});
    copies.expect_copied(3);
  }
}

// What breaks a rule is named and left out, the others are copied, and no signal follows.
struct Broken {
  symm_piece_t piece;
  PieceRule rule;
  uint64_t at;
  uint64_t reach;
};

TEST(CopyPiecesKernel, NamesThePieceThatBreaksARule) {
  const Broken cases[] = {
      {{kBytes - 7, 0, 8, 1, 0, 0}, PieceRule::from, kBytes - 7, 8},
      {{0, kBytes - 20, 8, 3, 8, 8}, PieceRule::to, kBytes - 20, 24},
      {{0, 0, 8, 2, 8, 7}, PieceRule::to_stride, 7, 8},
      {{0, ~uint64_t{0} - 3, 8, 1, 0, 0}, PieceRule::to, ~uint64_t{0} - 3, 8},
      {{8, 0, 16, uint64_t{1} << 40, uint64_t{1} << 40, 16}, PieceRule::from, 8, ~uint64_t{0}},
  };
  for (const Broken& broken : cases) {
    for (const size_t place : {0UL, 31UL, 70UL}) {
      Copies copies;
      std::vector<symm_piece_t> pieces;
      for (uint64_t i = 0; i < 71; ++i) {
        pieces.push_back({i * 16, 1024 + i * 32, 24, 1, 0, 0});
      }
      pieces[place] = broken.piece;
      CopyPiecesArgs args = copies.args_of({pieces.data(), pieces.size()});
      args.checks = 1;
      copies.run(args, static_cast<unsigned>(place), 1);
      pieces[place] = {};
      copy_as_said(copies.expected.data(), copies.from.data(), pieces);

      EXPECT_TRUE(copies.to == copies.expected);
      EXPECT_EQ(copies.word, kBefore);
      EXPECT_EQ(copies.record.trouble, static_cast<uint32_t>(WaitError::bad_piece));
      EXPECT_EQ(copies.record.peer, 1);
      EXPECT_EQ(copies.record.expected, static_cast<uint32_t>(broken.rule));
      EXPECT_EQ(copies.record.my_detail, place);
      EXPECT_EQ(copies.record.my_count, broken.at);
      EXPECT_EQ(copies.record.peer_detail, broken.reach);
    }
  }
}

TEST(CopyPiecesKernel, NamesThePageThatIsNotThere) {
  Copies copies;
  const std::vector<uint64_t> table = {3, 1, kBytes / 512, 0};
  PieceList list{nullptr, table.size(), 512, nullptr, table.data()};
  CopyPiecesArgs args = copies.args_of(list);
  args.cost = costs_of(list).each;
  args.checks = 1;
  copies.run(args, 1, 1);
  for (const size_t n : {0UL, 1UL, 3UL}) {
    copy_as_said(copies.expected.data(), copies.from.data(), list[n]);
  }
  EXPECT_TRUE(copies.to == copies.expected);
  EXPECT_EQ(copies.word, kBefore);
  EXPECT_EQ(copies.record.seen, 2U);
  EXPECT_EQ(copies.record.my_detail, 2U);
  EXPECT_EQ(copies.record.my_count, kBytes);
}
}  // namespace
}  // namespace symm::cuda::model
