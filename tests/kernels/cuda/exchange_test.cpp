// The kernel of exchanges of neighbours, compiled for the host: round after round each piece comes
// where it belongs, in whatever order ranks, blocks and threads take their steps, and no halo is
// written that may still be read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/exchange_plan.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/piece_lists.hpp"

extern "C" void symm_exchange_round(symm::cuda::ExchangeArgs args);

namespace symm::cuda::model {
namespace {
using support::copy_as_said;
using support::distinct_bytes;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kArea = 6000;

uint64_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// Ranks in a ring, each with both others next to it as neighbours, or with itself.
class Exchanging {
 public:
  Exchanging(const Ranks::Options& options, int ranks)
      : n_(ranks), random_(options.seed), ranks_([&] {
          Ranks::Options with = options;
          with.ranks = ranks;
          return with;
        }()) {
    support::PieceLists lists(options.seed + 1, kArea);
    members_.resize(static_cast<size_t>(ranks));
    for (Member& member : members_) {
      member.source = Bytes(kArea);
      member.block = Bytes(kArea * static_cast<size_t>(ranks));
      member.expected = member.block;
      member.words.resize(2 * static_cast<size_t>(ranks));
      member.pieces.resize(static_cast<size_t>(ranks));
      for (auto& pieces : member.pieces) {
        pieces = lists.draw();
        // Some have a long row, too, which several blocks share.
        if (random_() % 3 == 0) pieces = {{3, 0, kArea - 100, 1, 0, 0}};
        if (random_() % 5 == 0) pieces.clear();
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      plan(rank, 1 + static_cast<uint32_t>(random_()) % 4);
    }
  }

  Ranks& ranks() { return ranks_; }

  // Rounds of all ranks but `absent`, which has those before `from`.
  void launch_rounds(uint64_t rounds, int absent = -1, uint64_t from = 0) {
    for (int rank = 0; rank < n_; ++rank) {
      const uint64_t own = rank == absent ? from : rounds;
      for (uint64_t round = 1; round <= own; ++round) {
        launch(rank, round, false);
        launch(rank, round, true);
      }
    }
  }

  void launch(int rank, uint64_t round, bool finishes) {
    Member& member = at(rank);
    ExchangeArgs args = member.args;
    args.comm = ranks_.comm(rank);
    args.finishes = finishes ? 1 : 0;
    ranks_.launch(
        rank,
        [this, &member, args, round, rank](const CollectiveArgs&) mutable {
          if (args.finishes == 0) begin(member, rank, round);
          symm_exchange_round(args);
        },
        {}, args.blocks);
  }

  // What is wrong in the end, or was when a round began.
  std::string run() {
    if (!ranks_.run()) return "nothing goes on";
    for (int rank = 0; rank < n_; ++rank) {
      if (ranks_.record(rank).state != 0) return "trouble";
      look(rank);
    }
    return wrong_;
  }

 private:
  struct Member {
    Bytes source;
    Bytes block;
    Bytes expected;
    std::vector<uint32_t> words;
    // By rank, and neighbours in the order of the plan.
    std::vector<std::vector<symm_piece_t>> pieces;
    std::vector<ExchangeNeighbor> neighbors;
    std::vector<ListedPiece> listed;
    ExchangePlan plan;
    ExchangeWords own{};
    ExchangeArgs args{};
    uint64_t begun = 0;
  };

  Member& at(int rank) { return members_[static_cast<size_t>(rank)]; }
  static Bytes source_of(int rank, uint64_t round) {
    return distinct_bytes(kArea, static_cast<uint64_t>(rank) * 1000 + round);
  }
  std::vector<int> neighbors_of(int rank) const {
    std::vector<int> all{(rank + 1) % n_, (rank + n_ - 1) % n_};
    if (all[0] == all[1]) all.pop_back();
    return all;
  }

  void plan(int rank, uint32_t blocks) {
    Member& member = at(rank);
    std::vector<size_t> counts;
    for (const int peer : neighbors_of(rank)) {
      Member& other = at(peer);
      const auto me = static_cast<size_t>(rank);
      const auto words = static_cast<size_t>(n_);
      member.neighbors.push_back({address(&member.words[static_cast<size_t>(peer)]),
          address(&member.words[words + static_cast<size_t>(peer)]), address(&other.words[me]),
          address(&other.words[words + me]), peer, 0, 0});
      const size_t before = member.listed.size();
      for (const symm_piece_t& one : member.pieces[static_cast<size_t>(peer)]) {
        ListedPiece piece =
            joined({one.from, one.to, one.bytes, one.rows, one.from_stride, one.to_stride});
        if (cost_of(piece) == 0) continue;
        piece.from += address(member.source.data());
        piece.to += address(other.block.data()) + me * kArea;
        member.listed.push_back(piece);
      }
      counts.push_back(member.listed.size() - before);
    }

    member.plan = divide(member.listed, counts, blocks);
    for (const ExchangeSegment& segment : member.plan.segments) {
      ++member.neighbors[segment.neighbor].segments;
    }
    member.args.words = address(&member.own);
    member.args.neighbors = address(member.neighbors.data());
    member.args.segments = address(member.plan.segments.data());
    member.args.first_segment = address(member.plan.first_segment.data());
    member.args.pieces = address(member.listed.data());
    member.args.neighbor_count = static_cast<uint32_t>(member.neighbors.size());
    member.args.blocks = member.plan.blocks();
  }

  // What the program does before a start: it looks at what came, which must all be there, and
  // nothing of the next round; and it makes the next source.
  void begin(Member& member, int rank, uint64_t round) {
    if (member.begun >= round) return;  // another thread of the launch
    look(rank);
    member.begun = round;
    const Bytes next = source_of(rank, round);
    std::copy(next.begin(), next.end(), member.source.begin());
    for (const int peer : neighbors_of(rank)) {
      copy_as_said(member.expected.data() + static_cast<size_t>(peer) * kArea,
          source_of(peer, round).data(), at(peer).pieces[static_cast<size_t>(rank)]);
    }
  }

  void look(int rank) {
    const Member& member = at(rank);
    if (member.block == member.expected || !wrong_.empty()) return;
    const auto place =
        std::mismatch(member.block.begin(), member.block.end(), member.expected.begin()).first;
    wrong_ = "rank " + std::to_string(rank) + ", after round " + std::to_string(member.begun) +
             ", byte " + std::to_string(place - member.block.begin());
  }

  int n_;
  std::mt19937 random_;
  Ranks ranks_;
  std::vector<Member> members_;
  std::string wrong_;
};

Ranks::Options options_of(unsigned seed) { return {.seed = seed, .threads = kWarp}; }

TEST(ExchangeKernel, PutsAllPiecesInEachRound) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      Exchanging exchange(options_of(seed), ranks);
      if (seed % 3 == 0) exchange.ranks().hold(static_cast<int>(seed) % ranks, seed * 3, 30'000);
      exchange.launch_rounds(3);
      ASSERT_EQ(exchange.run(), "") << ranks << " ranks, seed " << seed;
    }
  }
}

// Blocks that have no room on the device come when others have ended: none waits for another one.
TEST(ExchangeKernel, NeedsRoomForOneBlock) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    Ranks::Options options = options_of(seed);
    options.room = 1;
    Exchanging exchange(options, 3);
    exchange.launch_rounds(3);
    ASSERT_EQ(exchange.run(), "") << "seed " << seed;
  }
}

// A start ends though no neighbour has begun the round.
TEST(ExchangeKernel, AStartWaitsForNobody) {
  Exchanging exchange(options_of(1), 3);
  exchange.launch(0, 1, false);
  EXPECT_TRUE(exchange.ranks().run());
  EXPECT_EQ(exchange.ranks().record(0).state, 0U);
}

TEST(ExchangeKernel, NamesTheNeighbourThatDoesNotBegin) {
  for (unsigned seed = 0; seed < 2; ++seed) {
    Ranks::Options options = options_of(seed);
    options.timeout_ns = 300'000;
    // Nothing is copied, for which a block would need a warp.
    options.threads = 1;
    Exchanging exchange(options, 2);
    exchange.launch_rounds(1, 1, 0);
    ASSERT_TRUE(exchange.ranks().run());
    const ErrorRecord& record = exchange.ranks().record(0);
    EXPECT_EQ(record.trouble, static_cast<uint32_t>(WaitError::timeout));
    EXPECT_EQ(record.peer, 1);
    EXPECT_EQ(record.expected, 1U);
    EXPECT_EQ(record.channel, 0U);
  }
}

// Rank 1 begins the round before rank 0 does, and leaves what it puts to a finish that never is.
TEST(ExchangeKernel, NamesTheNeighbourThatDoesNotPut) {
  Ranks::Options options = options_of(1);
  options.timeout_ns = 300'000;
  Exchanging exchange(options, 2);
  exchange.launch(1, 1, false);
  ASSERT_TRUE(exchange.ranks().run());
  exchange.launch(0, 1, false);
  exchange.launch(0, 1, true);
  ASSERT_TRUE(exchange.ranks().run());
  const ErrorRecord& record = exchange.ranks().record(0);
  EXPECT_EQ(record.trouble, static_cast<uint32_t>(WaitError::timeout));
  EXPECT_EQ(record.peer, 1);
  EXPECT_EQ(record.channel, 1U);
}

TEST(ExchangeKernel, ReportsCallsThatAreOutOfTurn) {
  for (const bool finishes : {false, true}) {
    Exchanging exchange(options_of(1), 1);
    exchange.launch(0, 1, false);
    if (finishes) exchange.launch(0, 1, true);
    exchange.launch(0, 2, finishes);
    ASSERT_TRUE(exchange.ranks().run());
    EXPECT_EQ(exchange.ranks().record(0).trouble, static_cast<uint32_t>(WaitError::out_of_turn));
  }
}

// Blocks share what the pieces cost: none has more than its part, and each unit belongs to one.
TEST(ExchangePlan, DividesUnitsAmongBlocks) {
  std::mt19937_64 random(1);
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<ListedPiece> pieces;
    std::vector<size_t> counts;
    std::vector<uint64_t> costs;
    for (uint64_t neighbor = random() % 6; neighbor > 0; --neighbor) {
      counts.push_back(random() % 40);
      costs.push_back(0);
      for (size_t i = 0; i < counts.back(); ++i) {
        const uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 9 * kUnitBytes : 600);
        pieces.push_back(joined({0, 0, bytes, random() % 3, 2 * bytes, 2 * bytes}));
        costs.back() += cost_of(pieces.back());
      }
    }

    const auto blocks = static_cast<uint32_t>(1 + random() % 20);
    const ExchangePlan plan = divide(pieces, counts, blocks);
    ASSERT_LE(plan.blocks(), blocks);
    const uint64_t each = parts_of(units_of(pieces, counts), blocks);
    std::vector<uint64_t> dealt(counts.size());
    for (uint32_t block = 0; block < plan.blocks(); ++block) {
      uint64_t units = 0;
      for (uint32_t i = plan.first_segment[block]; i < plan.first_segment[block + 1]; ++i) {
        const ExchangeSegment& segment = plan.segments[i];
        EXPECT_EQ(segment.begin, dealt[segment.neighbor]);
        EXPECT_LE(segment.ahead, segment.begin);
        dealt[segment.neighbor] = segment.end;
        units += parts_of(segment.end - segment.begin, kUnitCost);
      }
      EXPECT_LE(units, std::max<uint64_t>(each, 1));
    }
    EXPECT_EQ(plan.first_segment.back(), plan.segments.size());
    EXPECT_EQ(dealt, costs);
  }
}
}  // namespace
}  // namespace symm::cuda::model
