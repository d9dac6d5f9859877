// Exchanges of neighbours between GPUs on the fake driver, which runs their kernel on threads of
// the host: as memcpy would be, on any streams, in graphs, and when neighbours do not come.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/exchange_mesh.hpp"
#include "tests/support/group.hpp"
#include "tests/support/message_model.hpp"

namespace support {
namespace {
using Bytes = std::vector<std::byte>;

const bool small_scratch =
    setenv("SYMM_CUDA_TUNE",
        "chunk=65536,one_shot=4096,ll=1024,two_shot=16384,tile=1024,work_groups=2", 1) == 0;

void* stream_of(int number) {
  return reinterpret_cast<void*>(uintptr_t{0x100000} + static_cast<uintptr_t>(number) * 64);
}

Group create_on_gpu(const std::string& bootstrap, int rank, int size, uint64_t timeout_ms) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_CUDA;
  // The fake driver has four devices.
  config.device = rank % 4;
  config.flags = SYMM_GROUP_ON_DEVICE | (size > 4 ? SYMM_GROUP_OVERLAPPING_DEVICES : 0);
  config.bootstrap = bootstrap.c_str();
  config.create_timeout_ms = 20'000;
  config.timeout_ms = timeout_ms;
  return Group::create(config);
}

void on_gpus(int size, const GroupBody& body, uint64_t timeout_ms = 20'000,
    const std::vector<int>& except = {}) {
  const Bootstrap meeting;
  const std::string where = meeting.processes().bootstrap;
  as_processes(
      size, [&](int rank) { body(rank, create_on_gpu(where, rank, size, timeout_ms)); }, except);
}

// ---- what comes

// Nothing else keeps the ranks in step. What came is looked at twice, the second time just before
// the next round.
void go_round(int rank, const Group& group, uint64_t seed, bool on_two_streams) {
  const ExchangeMesh mesh(group.size(), seed);
  const Block block = allocate(group, mesh.block_bytes(), seed);
  Bytes source(ExchangeMesh::kArea);
  const symm::NeighborExchange exchange =
      group.exchange(mesh.neighbors_of(rank, block.memory, source));
  Bytes expected(mesh.block_bytes());
  const auto* const begin = block.at<std::byte>(rank);

  for (uint64_t round = 1; round <= 12; ++round) {
    const Bytes next = ExchangeMesh::source_of(static_cast<size_t>(rank), round);
    std::copy(next.begin(), next.end(), source.begin());
    // The library orders the two calls.
    void* const last = stream_of(on_two_streams ? static_cast<int>(round % 3) : 1);
    exchange.start({}, stream_of(1));
    exchange.finish({}, last);
    group.synchronize(last);
    mesh.do_round(rank, round, expected);
    for (int look = 0; look < 2; ++look) {
      ASSERT_TRUE(Bytes(begin, begin + expected.size()) == expected)
          << "mesh " << seed << ", round " << round << ", look " << look;
      std::this_thread::yield();
    }
  }
  group.finalize();
}

TEST(CudaExchange, OfRandomMeshesIsAsMemcpyWouldBe) {
  for (const int size : {1, 2, 4, 6}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      on_gpus(size, [&](int rank, const Group& group) {
        go_round(rank, group, seed + static_cast<uint64_t>(size) * 1000, seed % 2 != 0);
      });
    }
  }
}

// The kernel of large groups does the same.
TEST(CudaExchange, OfLargeGroupsIsAsMemcpyWouldBe) {
  on_gpus(18, [](int rank, const Group& group) { go_round(rank, group, 5, false); });
}

// Long rows, long lists and single bytes, which many blocks share, to two neighbours.
TEST(CudaExchange, OfManyBlocksIsAsMemcpyWouldBe) {
  constexpr int kRanks = 3;
  constexpr size_t kArea = 3 << 20;
  on_gpus(kRanks, [](int rank, const Group& group) {
    const Block block = allocate(group, kRanks * kArea);
    Bytes source(kArea);
    std::vector<symm_piece_t> pieces{{5, 0, (2 << 20) + 3, 1, 0, 0},
        {0, (2 << 20) + 16, 24, 10'000, 100, 40}, {1, (2 << 20) + 500'000, 5000, 30, 6000, 5008}};
    for (uint64_t i = 0; i < 3000; ++i) {
      pieces.push_back({i * 3, (2 << 20) + 700'000 + i * 8, 1 + i % 8, 1, 0, 0});
    }
    size_t bytes = 0;
    for (const symm_piece_t& piece : pieces) {
      bytes += piece.bytes * piece.rows;
    }

    std::vector<symm_neighbor_t> neighbors;
    for (const int peer : {(rank + 1) % kRanks, (rank + 2) % kRanks}) {
      neighbors.push_back(symm::neighbor(
          peer, block.memory, static_cast<size_t>(rank) * kArea, source, pieces, bytes));
    }
    const symm::NeighborExchange exchange = group.exchange(neighbors);
    for (uint64_t round = 0; round < 3; ++round) {
      write_pattern(source.data(), source.size(), round * 3 + static_cast<uint64_t>(rank));
      fake_cuda::launches();
      exchange.start({}, stream_of(1));
      exchange.finish({}, stream_of(1));
      const auto launched = fake_cuda::launches();
      ASSERT_EQ(launched.size(), 2U) << "one kernel starts a round, and one finishes it";
      EXPECT_EQ(launched[0].kernel, "symm_exchange_round");
      EXPECT_GT(launched[0].blocks, 8U);
      group.synchronize(stream_of(1));

      for (const int peer : {(rank + 1) % kRanks, (rank + 2) % kRanks}) {
        Bytes theirs(kArea);
        write_pattern(theirs.data(), theirs.size(), round * 3 + static_cast<uint64_t>(peer));
        Bytes expected(kArea);
        copy_as_said(expected.data(), theirs.data(), pieces);
        const auto* const begin = block.at<std::byte>(rank) + static_cast<size_t>(peer) * kArea;
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), begin)) << "round " << round;
      }
    }
    group.finalize();
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
  void go_round(const Group& group, void* stream) const {
    exchange.start({}, stream);
    exchange.finish({}, stream);
    // Longer than kernels wait, so that they tell why.
    group.synchronize(stream, {20'000});
  }

  uint64_t word = 0;
  Block block;
  symm::NeighborExchange exchange;
};

// The device counts the rounds, of graphs and of calls that no graph has.
TEST(CudaExchange, IsReplayedByGraphsBetweenCalls) {
  on_gpus(2, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    Pair pair(group, 1 - rank);
    const fake_cuda::Graph graph = fake_cuda::graph_of(stream, [&] {
      pair.exchange.start({}, stream);
      pair.exchange.finish({}, stream);
    });
    ASSERT_EQ(graph.size(), 2U);

    for (uint64_t round = 1; round <= 40; ++round) {
      pair.word = round * 2 + static_cast<uint64_t>(rank);
      if (round % 4 == 3) {
        pair.go_round(group, stream);
      } else {
        fake_cuda::replay(graph, stream);
        group.synchronize(stream);
      }
      ASSERT_EQ(pair.here(rank), round * 2 + static_cast<uint64_t>(1 - rank));
    }
    EXPECT_TRUE(fake_cuda::violations().empty());
    group.finalize();
  });
}

// ---- what waits

// Rank 0 is a round ahead: its start ends, and its finish waits. It stores nothing into the block
// that rank 1 still reads.
TEST(CudaExchange, OfARankThatIsAheadWaits) {
  const Shared<std::atomic<int>> is_ahead;
  on_gpus(2, [&](int rank, const Group& group) {
    void* const stream = stream_of(1);
    Pair pair(group, 1 - rank);
    pair.word = 1;
    pair.go_round(group, stream);
    pair.word = 2;
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return *is_ahead == 1; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(pair.here(rank), 1U);
    }
    pair.exchange.start({}, stream);
    if (rank == 0) group.synchronize(stream);
    pair.exchange.finish({}, stream);
    *is_ahead = 1;
    group.synchronize(stream);
    EXPECT_EQ(pair.here(rank), 2U);
    group.finalize();
  });
}

// Ranks start two exchanges in other orders on one stream: a start waits for no rank.
TEST(CudaExchange, StartsInAnyOrder) {
  on_gpus(2, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    Pair pairs[] = {Pair(group, 1 - rank), Pair(group, 1 - rank)};
    for (uint64_t round = 1; round <= 10; ++round) {
      for (int i = 0; i < 2; ++i) {
        Pair& pair = pairs[rank == 0 ? i : 1 - i];
        pair.word = round * 10 + static_cast<uint64_t>(rank);
        pair.exchange.start({}, stream);
      }
      for (const Pair& pair : pairs) {
        pair.exchange.finish({}, stream);
      }
      group.synchronize(stream);
      for (const Pair& pair : pairs) {
        ASSERT_EQ(pair.here(rank), round * 10 + static_cast<uint64_t>(1 - rank));
      }
    }
    group.finalize();
  });
}

// ---- what fails

Outcome end_of(const Group& group, const Pair& pair) {
  return outcome_of([&] {
    for (;;) {
      pair.go_round(group, stream_of(1));
    }
  });
}

TEST(CudaExchange, NamesTheNeighbourThatHasNotStarted) {
  on_gpus(
      2,
      [](int rank, const Group& group) {
        const Pair pair(group, 1 - rank);
        pair.go_round(group, stream_of(1));
        Outcome end;
        if (rank == 0) {
          end = end_of(group, pair);
        } else {
          EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }));
          end = outcome_of([&] { pair.exchange.start({}, stream_of(1)); });
        }
        expect_ended(end, SYMM_ERR_TIMEOUT,
            {"exchange_finish on device", "round 2", "rank 1",
                "has not started it before the deadline"});
        EXPECT_EQ(end.rank, 1) << end.message;
      },
      500);
}

// Rank 0 has begun the round, and leaves what it puts to a finish that never comes.
TEST(CudaExchange, NamesTheNeighbourThatHasNotPut) {
  const Shared<std::atomic<int>> has_started;
  on_gpus(
      2,
      [&](int rank, const Group& group) {
        void* const stream = stream_of(1);
        const Pair pair(group, 1 - rank);
        if (rank == 0) {
          pair.exchange.start({}, stream);
          group.synchronize(stream);
          *has_started = 1;
        }
        EXPECT_TRUE(eventually([&] { return *has_started == 1; }));
        Outcome end;
        if (rank == 1) {
          end = outcome_of([&] { pair.go_round(group, stream); });
        } else {
          EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }));
          end = outcome_of([&] { pair.exchange.finish({}, stream); });
        }
        expect_ended(end, SYMM_ERR_TIMEOUT,
            {"exchange_finish on device", "round 1", "rank 0", "has not put its pieces"});
        EXPECT_EQ(end.rank, 0) << end.message;
      },
      500);
}

// A rank that has finished its last round may go at once.
TEST(CudaExchange, NamesANeighbourThatHasLeft) {
  on_gpus(2, [](int rank, const Group& group) {
    const Pair pair(group, 1 - rank);
    pair.go_round(group, stream_of(1));
    if (rank == 1) return;
    const Outcome end = end_of(group, pair);
    expect_ended(end, SYMM_ERR_PEER_FAILED, {"exchange_finish", "rank 1", "has left the group"});
  });
}

// Ranks are killed at any moment of a round, and the other one is told which.
TEST(CudaExchange, NamesANeighbourThatWasKilled) {
  for (int trial = 0; trial < 10; ++trial) {
    const Shared<std::atomic<int>> pid;
    on_gpus(2,
        [&](int rank, const Group& group) {
          const Pair pair(group, 1 - rank);
          if (rank == 1) {
            *pid = getpid();
            std::thread([trial] {
              std::this_thread::sleep_for(std::chrono::microseconds(500 + trial * 737));
              raise(SIGKILL);
            }).detach();
          }
          const Outcome end = end_of(group, pair);
          expect_ended(end, SYMM_ERR_PEER_FAILED, {"rank 1"});
          EXPECT_EQ(end.rank, 1) << end.message;
          EXPECT_EQ(end.pid, *pid) << end.message;
        },
        20'000, {1});
  }
}

TEST(CudaExchange, RoundsAreStartedAndFinishedInTurn) {
  on_gpus(1, [](int, const Group& group) {
    void* const stream = stream_of(1);
    Pair pair(group, 0);
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"exchange: no round was started"},
        [&] { pair.exchange.finish({}, stream); });
    pair.word = 7;
    pair.exchange.start({}, stream);
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"exchange: round 1 was started, and not finished"},
        [&] { pair.exchange.start({}, stream); });
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"SYMM_TIMEOUT_NOW"},
        [&] { pair.exchange.finish({SYMM_TIMEOUT_NOW}, stream); });
    pair.exchange.finish({}, stream);
    group.synchronize(stream);
    EXPECT_EQ(pair.here(0), 7U);

    // Without neighbours there is nothing to wait for, and nothing to launch.
    const symm::NeighborExchange none = group.exchange({});
    fake_cuda::launches();
    none.start({}, stream);
    none.finish({}, stream);
    EXPECT_TRUE(fake_cuda::launches().empty());
    group.finalize();
  });
}

// Graphs that have one of the two calls, and are replayed so that a round is begun twice.
TEST(CudaExchange, FindsAGraphThatIsOutOfTurn) {
  on_gpus(1, [](int, const Group& group) {
    void* const stream = stream_of(1);
    const Pair pair(group, 0);
    const fake_cuda::Graph starts =
        fake_cuda::graph_of(stream, [&] { pair.exchange.start({}, stream); });
    const fake_cuda::Graph finishes =
        fake_cuda::graph_of(stream, [&] { pair.exchange.finish({}, stream); });
    for (int round = 0; round < 3; ++round) {
      fake_cuda::replay(starts, stream);
      fake_cuda::replay(finishes, stream);
    }
    group.synchronize(stream);
    fake_cuda::replay(starts, stream);
    fake_cuda::replay(starts, stream);
    const Outcome end = outcome_of([&] { group.synchronize(stream); });
    expect_ended(end, SYMM_ERR_INVALID_ARGUMENT,
        {"exchange_start on device 0, round 5", "the last round is not finished"});
  });
}

TEST(CudaExchange, ComparesWhatPairsSay) {
  on_gpus(4, [](int rank, const Group& group) {
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
    right.start({}, stream_of(1));
    right.finish({}, stream_of(1));
    group.synchronize(stream_of(1));
    group.finalize();
  });
}
}  // namespace
}  // namespace support
