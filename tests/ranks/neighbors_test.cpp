// Exchanges of neighbours, on one machine and between machines: what comes when, and what is told
// when ranks disagree, are late, leave or die.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/exchange_mesh.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/options.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
constexpr uint64_t kMeshes = 4;
#else
constexpr uint64_t kMeshes = 20;
#endif
constexpr uint64_t kRounds = 25;

using Bytes = std::vector<std::byte>;

void rest(std::mt19937_64& random) {
  if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

// Ranks go through the rounds with nothing between them that would keep them in step. What came is
// looked at twice, the second time just before the next round.
void go_round(int rank, const Group& group, uint64_t seed) {
  const ExchangeMesh mesh(group.size(), seed);
  const Block block = allocate(group, mesh.block_bytes(), seed);
  Bytes source(ExchangeMesh::kArea);
  const symm::NeighborExchange exchange =
      group.exchange(mesh.neighbors_of(rank, block.memory, source));
  std::mt19937_64 random(seed * 100 + static_cast<uint64_t>(rank));
  Bytes expected(mesh.block_bytes());
  const auto* const begin = block.at<std::byte>(rank);

  for (uint64_t round = 1; round <= kRounds; ++round) {
    // The exchange reads the source where it is, so the vector stays.
    const Bytes next = ExchangeMesh::source_of(static_cast<size_t>(rank), round);
    std::copy(next.begin(), next.end(), source.begin());
    exchange.start();
    rest(random);
    exchange.finish();
    mesh.do_round(rank, round, expected);
    for (int look = 0; look < 2; ++look) {
      ASSERT_TRUE(Bytes(begin, begin + expected.size()) == expected)
          << "mesh " << seed << ", round " << round << ", look " << look;
      rest(random);
    }
  }
  group.barrier();
}

TEST(Exchange, OfRandomMeshesIsAsMemcpyWouldBe) {
  for (const int size : {1, 2, 4, 6, 8}) {
    as_processes(size, [&](int rank, const Group& group) {
      for (uint64_t seed = 0; seed < kMeshes && !testing::Test::HasFailure(); ++seed) {
        go_round(rank, group, seed + static_cast<uint64_t>(size) * 1000);
      }
    });
  }
}

TEST(Exchange, OfThreads) {
  as_threads(4, [](int rank, const Group& group) {
    for (uint64_t seed = 0; seed < kMeshes; ++seed) {
      go_round(rank, group, seed);
    }
  });
}

TEST_F(Multinode, ExchangesOfRandomMeshes) {
  expect_on_all_layouts([](int rank, const Group& group) {
    for (uint64_t seed = 0; seed < 5 && !testing::Test::HasFailure(); ++seed) {
      go_round(rank, group, seed + 50);
    }
  });
}

// A put between machines that has begun goes on, however short the deadline of the call is: half of
// it, left behind, would end the group.
TEST_F(Multinode, LooksAtAnExchangeOfLargePieces) {
  constexpr size_t kBytes = 8 << 20;
  const Shared<std::atomic<int>> looked;
  expect_on_machines("ab", [&](int rank, const Group& group) {
    const Block block = allocate(group, kBytes);
    const Bytes source(kBytes, std::byte(rank + 1));
    const symm_piece_t all{0, 0, kBytes, 1, 0, 0};
    const symm::NeighborExchange exchange = group.exchange(std::vector{
        symm::neighbor(1 - rank, block.memory, 0, symm::Span(source), {&all, 1}, kBytes)});

    for (int round = 1; round <= 3; ++round) {
      const auto rank_0_has_looked = [&] { return rank == 0 || *looked == round; };
      EXPECT_TRUE(eventually(rank_0_has_looked));
      exchange.start();
      if (rank == 0) {
        expect_failure(SYMM_ERR_TIMEOUT, {"rank 1", "has not started it within 0 ms"},
            [&] { exchange.finish({SYMM_TIMEOUT_NOW}); });
        *looked = round;
      }
      EXPECT_TRUE(eventually([&] {
        try {
          exchange.finish({SYMM_TIMEOUT_NOW});
        } catch (const symm::Error& error) {
          if (error.status() != SYMM_ERR_TIMEOUT) throw;
          return false;
        }
        return true;
      }));
      EXPECT_EQ(block.at<std::byte>(rank)[kBytes - 1], std::byte(2 - rank));
      group.barrier();
    }
    EXPECT_EQ(group.status().status, SYMM_OK);
  });
}

constexpr symm_piece_t kWord = {0, 0, 8, 1, 0, 0};

// A word that each rank of a pair puts to the other one.
struct Pair {
  Pair(const Group& group, int32_t peer)
      : block(allocate(group, 8)),
        exchange(group.exchange(std::vector{
            symm::neighbor(peer, block.memory, 0, symm::Span(&word, 1), {&kWord, 1}, 8)})) {}
  uint64_t here(int rank) const { return *block.at<uint64_t>(rank); }

  uint64_t word = 0;
  Block block;
  symm::NeighborExchange exchange;
};

// A rank that is ahead cannot write into what its neighbour still reads, however often it looks.
TEST(Exchange, WaitsForTheNeighbourThatStillReads) {
  as_processes(2, [](int rank, const Group& group) {
    Pair pair(group, 1 - rank);
    pair.word = 1;
    pair.exchange.start();
    pair.exchange.finish();
    if (rank == 0) {
      pair.word = 2;
      pair.exchange.start();
      for (int look = 0; look < 3; ++look) {
        expect_failure(SYMM_ERR_TIMEOUT, {"round 2", "rank 1", "has not started it within 20 ms"},
            [&] { pair.exchange.finish({20}); });
        EXPECT_EQ(last_failure().rank, 1);
      }
      expect_failure(
          SYMM_ERR_TIMEOUT, {"within 0 ms"}, [&] { pair.exchange.finish({SYMM_TIMEOUT_NOW}); });
    }
    group.barrier();
    EXPECT_EQ(pair.here(rank), 1U);
    group.barrier();

    if (rank == 1) pair.word = 2;
    if (rank == 1) pair.exchange.start();
    pair.exchange.finish();
    EXPECT_EQ(pair.here(rank), 2U);
    group.barrier();
  });
}

// A neighbour that has begun the round, but has gone no further, is told of in other words.
TEST(Exchange, NamesTheNeighbourThatHasNotPut) {
  as_processes(2, [](int rank, const Group& group) {
    Pair pair(group, 1 - rank);
    if (rank == 0) pair.exchange.start();
    group.barrier();
    // Rank 1 finds rank 0 ready and puts. What it puts itself, rank 0 has left to finish().
    if (rank == 1) {
      pair.exchange.start();
      expect_failure(SYMM_ERR_TIMEOUT, {"round 1", "rank 0", "has not put its pieces"},
          [&] { pair.exchange.finish({20}); });
    }
    group.barrier();
    pair.exchange.finish();
    group.barrier();
  });
}

TEST(Exchange, RoundsAreStartedAndFinishedInTurn) {
  const Group group = alone();
  Pair pair(group, 0);
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"exchange: no round was started"},
      [&] { pair.exchange.finish(); });
  pair.word = 7;
  pair.exchange.start();
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"exchange: round 1 was started, and not finished"},
      [&] { pair.exchange.start(); });
  pair.exchange.finish();
  EXPECT_EQ(pair.here(0), 7U);

  // Without neighbours there is nothing to wait for.
  const symm::NeighborExchange none = group.exchange({});
  none.start();
  none.finish();
}

// The pair of whom one is wrong is named on all ranks, and the group goes on.
TEST(Exchange, ComparesWhatPairsSay) {
  as_processes(4, [](int rank, const Group& group) {
    const auto expect_mismatch = [&](const std::string& words, const auto& make) {
      expect_failure(SYMM_ERR_MISMATCH, {"neighbors: " + words}, make);
      EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
    };
    const Block block = allocate(group, 8);
    const uint64_t word = 0;
    const auto putting = [&](int32_t peer, size_t expected) {
      return symm::neighbor(peer, block.memory, 0, symm::Span(&word, 1), {&kWord, 1}, expected);
    };

    expect_mismatch("rank 2 puts 8 bytes to rank 3, which expects 9",
        [&] { group.exchange(std::vector{putting(rank ^ 1, rank == 3 ? 9 : 8)}); });
    expect_mismatch("rank 1 names rank 2, which does not name rank 1", [&] {
      std::vector<symm_neighbor_t> neighbors;
      if (rank == 1) neighbors.push_back(putting(2, 0));
      group.exchange(neighbors);
    });
    // A piece that is wrong on one rank is refused on all.
    expect_failure(SYMM_ERR_INVALID_ARGUMENT,
        {"rank 3: neighbors[0].pieces[0].to: 8 bytes from byte 8 on go beyond"}, [&] {
          symm_neighbor_t one = putting(rank ^ 1, 8);
          const symm_piece_t beyond = {0, rank == 3 ? size_t{8} : size_t{0}, 8, 1, 0, 0};
          one.pieces = &beyond;
          group.exchange(std::vector{one});
        });
    const symm::NeighborExchange right = group.exchange(std::vector{putting(rank ^ 1, 8)});
    right.start();
    right.finish();
    group.barrier();
  });
}

TEST(Exchange, MemoryIsOfTheGroup) {
  const Group group = alone();
  const Group other = alone("other");
  const Block block = allocate(other, 8);
  const uint64_t word = 0;
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"neighbors[0].memory: is one of another group"}, [&] {
    group.exchange(
        std::vector{symm::neighbor(0, block.memory, 0, symm::Span(&word, 1), {&kWord, 1}, 8)});
  });
}

// Each of three ranks puts a word of its own to both others.
std::vector<symm_neighbor_t> all_others(int rank, const Block& block, const uint64_t& word) {
  std::vector<symm_neighbor_t> neighbors;
  const size_t own = static_cast<size_t>(rank) * sizeof word;
  for (int peer = 0; peer < 3; ++peer) {
    if (peer == rank) continue;
    neighbors.push_back(
        symm::neighbor(peer, block.memory, own, symm::Span(&word, 1), {&kWord, 1}, 8));
  }
  return neighbors;
}

// A rank that has finished its last round may go at once. One that its neighbour waits for is
// named, and the group of those that are left can be used.
TEST(Exchange, NamesANeighbourThatHasLeft) {
  as_threads(3, [](int rank, const Group& group) {
    const Block block = allocate(group, 24);
    const uint64_t word = 0;
    const symm::NeighborExchange exchange = group.exchange(all_others(rank, block, word));
    exchange.start();
    exchange.finish();
    if (rank == 2) return;
    exchange.start();
    expect_failure(SYMM_ERR_PEER_FAILED, {"exchange: round 2: rank 2", "has left the group"},
        [&] { exchange.finish(); });
    EXPECT_EQ(group.status().status, SYMM_OK);
  });
}

// In a ring of four, rank 3 is no neighbour of rank 1, and waits for ranks that wait for it.
void release_in_a_round(int rank, const Group& group) {
  const Block block = allocate(group, 16);
  const uint64_t word = 0;
  const auto right = static_cast<int32_t>((rank + 1) % group.size());
  const auto left = static_cast<int32_t>((rank + group.size() - 1) % group.size());
  const symm::Span<const uint64_t> source(&word, 1);
  const std::vector<symm_neighbor_t> sides = {
      symm::neighbor(right, block.memory, 0, source, {&kWord, 1}, 8),
      symm::neighbor(left, block.memory, 8, source, {&kWord, 1}, 8)};
  symm::NeighborExchange exchange = group.exchange(sides);
  for (int round = 0; round < 2; ++round) {
    exchange.start();
    exchange.finish();
  }

  if (rank == 1) {
    exchange.start();
    exchange.reset();
  } else {
    const Outcome outcome = outcome_of([&] {
      for (int round = 0; round < 4; ++round) {
        exchange.start();
        exchange.finish({10'000});
      }
    });
    expect_ended(outcome, SYMM_ERR_PEER_FAILED, {"exchange: round ", "rank 1 ", "has released it"});
    EXPECT_EQ(outcome.rank, 1);
    expect_failure(SYMM_ERR_PEER_FAILED, {"rank 1 "}, [&] { exchange.finish(); });
  }
  EXPECT_EQ(group.status().status, SYMM_OK);
  group.barrier();
}

TEST(Exchange, NamesTheRankThatReleasedItInARound) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    as_processes(4, release_in_a_round);
    as_threads(4, release_in_a_round);
  }
}

TEST_F(Multinode, NamesTheRankThatReleasedAnExchange) {
  for (const char* const layout : {"aabb", "abcd"}) {
    expect_on_machines(layout, release_in_a_round);
  }
}

// The 8 bytes of each of 64 lines of a block.
constexpr symm_piece_t kColumn = {0, 0, 8, 64, 8, 64};

// What goes packed is unpacked by the receiver, which is ahead here, or looks often, or finds
// several rounds of others between.
TEST(Exchange, UnpacksWhatWasPackedOnceARound) {
  as_processes(3, [](int rank, const Group& group) {
    const Block block = allocate(group, size_t{3} * 64 * 64);
    std::vector<uint64_t> words(64);
    std::vector<symm_neighbor_t> neighbors;
    for (int peer = 0; peer < 3; ++peer) {
      const size_t own = static_cast<size_t>(rank) * 64 * 64;
      neighbors.push_back(symm::neighbor(
          peer, block.memory, own, symm::Span(words), {&kColumn, 1}, kColumn.rows * 8));
    }
    const symm::NeighborExchange exchange = group.exchange(neighbors);

    for (uint64_t round = 1; round <= 200; ++round) {
      for (size_t i = 0; i < words.size(); ++i) {
        words[i] = static_cast<uint64_t>(rank) * 1'000'000 + round * 100 + i;
      }
      exchange.start();
      EXPECT_TRUE(eventually([&] {
        try {
          exchange.finish({round % 2 == 0 ? SYMM_TIMEOUT_NOW : 1});
        } catch (const symm::Error& error) {
          if (error.status() != SYMM_ERR_TIMEOUT) throw;
          return false;
        }
        return true;
      }));
      for (uint64_t from = 0; from < 3; ++from) {
        const uint64_t* const column = block.at<uint64_t>(rank) + from * 64 * 8;
        for (uint64_t i = 0; i < 64; ++i) {
          ASSERT_EQ(column[i * 8], from * 1'000'000 + round * 100 + i) << "round " << round;
          ASSERT_EQ(column[i * 8 + 1], 0U);
        }
      }
    }
    group.barrier();
  });
}

// A rank that has released a memory cannot unpack anything there: its neighbour puts straight into
// the block, which it has mapped still.
TEST(Exchange, PutsStraightIntoABlockThatItsOwnerHasReleased) {
  as_processes(2, [](int rank, const Group& group) {
    Block block = allocate(group, size_t{64} * 64);
    std::vector<uint64_t> words(64, 7);
    std::vector<symm_neighbor_t> neighbors(1, SYMM_NEIGHBOR_INIT);
    if (rank == 0) {
      neighbors[0] = symm::neighbor(1, block.memory, 0, symm::Span(words), {&kColumn, 1}, 0);
    } else {
      block = {};
      neighbors[0].expected_bytes = kColumn.rows * 8;
    }
    const symm::NeighborExchange exchange = group.exchange(neighbors);
    exchange.start();
    exchange.finish();
    group.barrier();
    if (rank == 0) {
      EXPECT_EQ(block.at<uint64_t>(1)[63 * 8], 7U);
    }
    group.barrier();
  });
}

// A rank is killed at any place of a round, or before its neighbours know that they have an
// exchange. Each of them hears who it was.
std::string go_until_a_rank_dies(int rank, const Group& group, std::chrono::microseconds delay) {
  const Block block = allocate(group, 24);
  const uint64_t word = 0;

  try {
    const symm::NeighborExchange exchange = group.exchange(all_others(rank, block, word));
    if (rank == 2) {
      std::thread([delay] {
        std::this_thread::sleep_for(delay);
        raise(SIGKILL);
      }).detach();
    }
    for (;;) {
      exchange.start();
      exchange.finish();
    }
  } catch (const Error& error) {
    return std::to_string(error.status()) + ", rank " + std::to_string(error.rank());
  }
}

TEST(Exchange, NamesANeighbourThatWasKilled) {
  for (int repeat = 0; repeat < 8; ++repeat) {
    const Bootstrap meeting;
    Processes ranks(3, [&](int rank) {
      const Group group = create(meeting.processes(), rank, 3);
      return go_until_a_rank_dies(rank, group, std::chrono::microseconds(500 * repeat));
    });
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ranks[rank].result(), std::to_string(SYMM_ERR_PEER_FAILED) + ", rank 2");
    }
    ranks[2].wait();
  }
}

// ---- blocks as messages

// The ranks of a ring, and twice the same one where there are two.
TEST(NeighborAlltoallv, PassesBlocksOfAnyLength) {
  for (const int size : {1, 2, 5}) {
    as_processes(size, [&](int rank, const Group& group) {
      const int32_t left = (rank + size - 1) % size;
      const int32_t right = (rank + 1) % size;
      for (size_t length : {size_t{0}, size_t{1}, size_t{300}, size_t{70'000}}) {
        const std::vector<int32_t> to = {left, right};
        const std::vector<int32_t> from = {right, left};
        const std::vector<size_t> counts = {length, length + 1};
        const std::vector<size_t> places = {length + 3, 1};
        std::vector<int32_t> send(2 * length + 4, -1);
        std::vector<int32_t> recv(2 * length + 4, -2);
        std::fill_n(send.begin(), length, 2 * rank);
        std::fill_n(send.begin() + static_cast<std::ptrdiff_t>(length), length + 1, 2 * rank + 1);
        group.neighbor_alltoallv(to, send, {counts}, from, recv, {counts, places}, 1);

        EXPECT_EQ(recv[0], -2);
        EXPECT_EQ(recv[1], 2 * left + 1);
        EXPECT_EQ(recv[length + 1], 2 * left + 1);
        EXPECT_EQ(recv[length + 2], -2);
        EXPECT_EQ(recv[2 * length + 3], -2);
        for (size_t at = length + 3; at < 2 * length + 3; ++at) {
          ASSERT_EQ(recv[at], 2 * right) << at;
        }
      }
      group.barrier();
    });
  }
}

TEST(NeighborAlltoallv, ComparesLengths) {
  as_threads(2, [](int rank, const Group& group) {
    const std::vector<int32_t> peer = {1 - rank};
    const std::vector<size_t> sent = {4};
    const std::vector<size_t> expected = {rank == 0 ? size_t{5} : size_t{4}};
    std::vector<int32_t> data(16);
    const auto call = [&] {
      group.neighbor_alltoallv(peer, symm::Span(data.data(), 8), {sent}, peer,
          symm::Span(data.data() + 8, 8), {expected});
      group.barrier();
    };
    expect_failure(SYMM_ERR_MISMATCH, {"rank 1 sends 4 elements to rank 0, which expects 5"}, call);
  });
}

TEST(NeighborAlltoallv, BlocksAreAsManyAsNeighbours) {
  const Group group = alone();
  std::vector<int32_t> data(8);
  const std::vector<int32_t> self = {0};
  const std::vector<size_t> two = {1, 1};
  const std::vector<size_t> one = {1};
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"send: has not as many blocks as neighbours"},
      [&] { group.neighbor_alltoallv(self, data, {two}, self, data, {one}); });
  const std::vector<size_t> many = {9};
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"recv"},
      [&] { group.neighbor_alltoallv(self, data, {one}, self, data, {many}); });
}
}  // namespace
}  // namespace support
