// Messages between GPUs on the fake driver, which runs their kernels on threads of the host:
// against a model, in every order, in graphs, and when they cannot come. Private memory of a GPU is
// memory of the process here, which no other rank maps.
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
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/group.hpp"
#include "tests/support/message_model.hpp"

namespace support {
namespace {
using symm::receiving;
using symm::sending;

// Messages of any length pass through few slots of few bytes.
const bool small_scratch =
    setenv("SYMM_CUDA_TUNE",
        "chunk=65536,one_shot=4096,ll=1024,two_shot=16384,tile=1024,work_groups=2", 1) == 0;

void* stream_of(int number) {
  return reinterpret_cast<void*>(uintptr_t{0x100000} + static_cast<uintptr_t>(number) * 64);
}

Group create_on_gpu(const std::string& bootstrap, int rank, int size, uint64_t timeout_ms = 20'000,
    uint64_t flags = 0) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_CUDA;
  // The fake driver has four devices.
  config.device = rank % 4;
  config.flags = flags | SYMM_GROUP_ON_DEVICE | (size > 4 ? SYMM_GROUP_OVERLAPPING_DEVICES : 0);
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

constexpr int kRounds = 25;

TEST(CudaMessages, OfEightRanksAreAsTheModelSays) {
  on_gpus(8, [](int rank, const Group& group) {
    follow_the_model(8, rank, group, kRounds, 1, {true, stream_of(1)});
  });
}

TEST(CudaMessages, OfTwoRanksAreAsTheModelSays) {
  on_gpus(2, [](int rank, const Group& group) {
    follow_the_model(2, rank, group, kRounds, 2, {true, stream_of(1)});
  });
}

TEST(CudaMessages, OfARankToItselfAreAsTheModelSays) {
  on_gpus(1, [](int rank, const Group& group) {
    follow_the_model(1, rank, group, kRounds, 3, {true, stream_of(1)});
  });
}

// The kernels of large groups do the same.
TEST(CudaMessages, OfLargeGroupsAreAsTheModelSays) {
  on_gpus(18, [](int rank, const Group& group) {
    follow_the_model(18, rank, group, 6, 4, {true, stream_of(1)});
  });
}

// ---- order

TEST(CudaMessages, GoRoundARingWhateverIsListedFirst) {
  on_gpus(3, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    Bytes in(100'000);
    Bytes out(in.size());
    for (int round = 0; round < 20; ++round) {
      const auto seed = [&](int of) { return static_cast<uint64_t>(round * 3 + of); };
      write_pattern(out.data(), out.size(), seed(rank));
      std::vector<symm_message_t> sides{
          sending((rank + 1) % 3, out), receiving((rank + 2) % 3, in)};
      if ((round + rank) % 2 == 0) std::swap(sides[0], sides[1]);
      group.messages(sides, {}, stream);
      group.synchronize(stream);
      ASSERT_TRUE(has_pattern(in.data(), in.size(), seed((rank + 2) % 3))) << round;
    }
  });
}

// Each rank has its left and its right neighbour, and sends more to the right one.
TEST(CudaMessages, AreTheBlocksOfNeighbours) {
  constexpr int kRanks = 3;
  on_gpus(kRanks, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    const std::vector<int32_t> sides{(rank + kRanks - 1) % kRanks, (rank + 1) % kRanks};
    const std::vector<size_t> sent{100, 90'000};
    const std::vector<size_t> received{90'000, 100};
    Bytes out(90'100);
    Bytes in(90'100);
    write_pattern(out.data(), out.size(), static_cast<uint64_t>(rank));

    group.neighbor_alltoallv(sides, out, {sent}, sides, in, {received}, 2, {}, stream);
    group.synchronize(stream);
    const auto sent_by = [](int of) {
      Bytes theirs(90'100);
      write_pattern(theirs.data(), theirs.size(), static_cast<uint64_t>(of));
      return theirs;
    };
    const Bytes left = sent_by(sides[0]);
    const Bytes right = sent_by(sides[1]);
    EXPECT_TRUE(std::equal(in.begin(), in.begin() + 90'000, left.begin() + 100));
    EXPECT_TRUE(std::equal(in.begin() + 90'000, in.end(), right.begin()));
  });
}

// Stages of a pipeline hand on what they have received, in single calls on one stream.
TEST(CudaMessages, GoThroughAPipeline) {
  constexpr int kStages = 4;
  constexpr int kBatches = 12;
  on_gpus(kStages, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    const Block block = allocate(group, 1 << 16);
    Bytes own(1 << 16);
    // Stages 1 and 3 receive into symmetric memory.
    std::byte* const data = rank % 2 == 0 ? own.data() : block.at<std::byte>(rank);
    for (int batch = 0; batch < kBatches; ++batch) {
      const size_t bytes = static_cast<size_t>(batch) * 5000 + 1;
      const symm::Span part(data, bytes);
      if (rank == 0) write_pattern(data, bytes, static_cast<uint64_t>(batch));
      if (rank != 0) group.recv(rank - 1, part, 2, {}, stream);
      if (rank + 1 != kStages) group.send(rank + 1, part, 2, {}, stream);
      group.synchronize(stream);
      ASSERT_TRUE(has_pattern(data, bytes, static_cast<uint64_t>(batch))) << batch;
    }
    group.finalize();
  });
}

TEST(CudaMessages, GoFromAllToAllInUnequalParts) {
  constexpr int kRanks = 6;
  on_gpus(kRanks, [](int rank, const Group& group) {
    const auto length = [](int from, int to) {
      return static_cast<size_t>((from * 7 + to * 3) % 5) * 15'001;
    };
    std::vector<Bytes> out;
    std::vector<Bytes> in;
    for (int peer = 0; peer < kRanks; ++peer) {
      out.emplace_back(length(rank, peer));
      in.emplace_back(length(peer, rank));
      write_pattern(out.back().data(), out.back().size(), static_cast<uint64_t>(rank * 10 + peer));
    }
    std::vector<symm_message_t> sides;
    for (int peer = 0; peer < kRanks; ++peer) {
      sides.push_back(sending(peer, out[static_cast<size_t>(peer)]));
      sides.push_back(receiving(kRanks - 1 - peer, in[static_cast<size_t>(kRanks - 1 - peer)]));
    }
    group.messages(sides, {}, stream_of(1));
    group.synchronize(stream_of(1));
    for (int peer = 0; peer < kRanks; ++peer) {
      const Bytes& part = in[static_cast<size_t>(peer)];
      ASSERT_TRUE(has_pattern(part.data(), part.size(), static_cast<uint64_t>(peer * 10 + rank)));
    }
    group.finalize();
  });
}

// More sides than the arguments of a kernel hold, on channels that the receiver lists the other way
// round, between calls of other streams.
TEST(CudaMessages, MayBeManyOnManyStreams) {
  on_gpus(2, [](int rank, const Group& group) {
    constexpr int kEach = 400;
    std::vector<uint64_t> values(kEach);
    for (int round = 0; round < 3; ++round) {
      void* const stream = stream_of(round);
      std::vector<symm_message_t> sides;
      for (int i = 0; i < kEach; ++i) {
        const int channel = rank == 0 ? i % 8 : 7 - i % 8;
        uint64_t& value = values[static_cast<size_t>(i / 8 * 8 + channel)];
        if (rank == 0) value = static_cast<uint64_t>(round * 1000 + i / 8 * 8 + channel);
        const symm::Span one(&value, 1);
        sides.push_back(rank == 0 ? sending(1, one, channel) : receiving(0, one, channel));
      }
      group.messages(sides, {}, stream);
    }
    for (int round = 0; round < 3; ++round) {
      group.synchronize(stream_of(round));
    }
    // The last round stays, since the calls run in their order on all streams.
    for (int i = 0; rank == 1 && i < kEach; ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<uint64_t>(2000 + i));
    }
    group.finalize();
  });
}

// A graph passes other bytes each time, between calls that no graph has. The counts are the
// device's.
TEST(CudaMessages, ArePassedByGraphsAgainAndAgain) {
  on_gpus(2, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    const Block block = allocate(group, 1 << 16);
    Bytes out(50'000);
    Bytes in(50'000);
    std::byte* const direct = block.at<std::byte>(rank);
    const std::vector<symm_message_t> sides{sending(1 - rank, out), receiving(1 - rank, in),
        sending(1 - rank, out, 5), receiving(1 - rank, symm::Span(direct, in.size()), 5)};
    const fake_cuda::Graph graph =
        fake_cuda::graph_of(stream, [&] { group.messages(sides, {}, stream); });
    ASSERT_FALSE(graph.empty());

    for (uint64_t round = 0; round < 40; ++round) {
      write_pattern(out.data(), out.size(), round * 2 + static_cast<uint64_t>(rank));
      std::fill(in.begin(), in.end(), std::byte{});
      std::fill_n(direct, in.size(), std::byte{});
      if (round % 4 == 3) {
        group.messages(sides, {}, stream);
      } else {
        fake_cuda::replay(graph, stream);
      }
      group.synchronize(stream);
      const uint64_t theirs = round * 2 + static_cast<uint64_t>(1 - rank);
      ASSERT_TRUE(has_pattern(in.data(), in.size(), theirs)) << round;
      ASSERT_TRUE(has_pattern(direct, in.size(), theirs)) << round;
    }
    EXPECT_TRUE(fake_cuda::violations().empty());
    group.finalize();
  });
}

// ---- what cannot be

TEST(CudaMessages, OfOtherLengthsAreAMismatchThatNamesBoth) {
  for (const size_t room : {size_t{39}, size_t{41}, size_t{400'000}}) {
    on_gpus(2, [room](int rank, const Group& group) {
      Bytes data(400'000);
      void* const stream = stream_of(1);
      const Outcome end = outcome_of([&] {
        if (rank == 0) group.send(1, symm::Span(data.data(), 40), 3, {}, stream);
        if (rank == 1) group.recv(0, symm::Span(data.data(), room), 3, {}, stream);
        group.synchronize(stream);
      });
      expect_ended(end, SYMM_ERR_MISMATCH,
          {"rank 0 sends 40 bytes on channel 3 to rank 1", "room for " + std::to_string(room)});
      EXPECT_EQ(end.rank, 1) << end.message;
    });
  }
}

TEST(CudaMessages, ThatDoNotComeAreNamedWithTheirSide) {
  on_gpus(
      2,
      [](int rank, const Group& group) {
        uint64_t words[2] = {};
        void* const stream = stream_of(1);
        const Outcome end = outcome_of([&] {
          if (rank == 0) {
            const std::vector<symm_message_t> sides{
                sending(1, symm::Span(&words[0], 1), 1), receiving(1, symm::Span(&words[1], 1), 2)};
            group.messages(sides, {}, stream);
          } else {
            group.recv(0, symm::Span(&words[0], 1), 1, {}, stream);
          }
          group.synchronize(stream);
          EXPECT_EQ(rank, 1) << "rank 1 never sends";
          // The other rank tells of its failure.
          EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }));
          group.synchronize(stream);
        });
        expect_ended(end, SYMM_ERR_TIMEOUT,
            {"messages[1]: recv", "channel 2", "rank 1", "has sent nothing before the deadline"});
        EXPECT_EQ(end.rank, 1) << end.message;
      },
      500);
}

TEST(CudaMessages, OfARankThatHasLeftAreReceivedAndNoMore) {
  const Bootstrap meeting;
  const Shared<std::atomic<int>> left;
  as_processes(2, [&](int rank) {
    Group group = create_on_gpu(meeting.processes().bootstrap, rank, 2);
    void* const stream = stream_of(1);
    uint64_t word = 99;
    if (rank == 0) {
      group.send(1, symm::Span(&word, 1), 0, {}, stream);
      group.synchronize(stream);
      group = Group();
      *left = 1;
      return;
    }
    word = 0;
    group.recv(0, symm::Span(&word, 1), 0, {}, stream);
    group.synchronize(stream);
    EXPECT_EQ(word, 99U);
    EXPECT_TRUE(eventually([&] { return *left == 1; }));
    expect_failure(SYMM_ERR_PEER_FAILED, {"recv", "rank 0", "has left the group"}, [&] {
      group.recv(0, symm::Span(&word, 1), 0, {}, stream);
      group.synchronize(stream);
    });
  });
}

TEST(CudaMessages, ThatAreRefusedHaveDoneNothing) {
  on_gpus(2, [](int rank, const Group& group) {
    void* const stream = stream_of(1);
    uint64_t words[2] = {};
    const symm::Span one(&words[0], 1);
    const symm::Span other(&words[1], 1);
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"send: rank", "is this rank", "channel 4"},
        [&] { group.send(rank, one, 4, {}, stream); });
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"messages[1]: recv", "is this rank"}, [&] {
      const std::vector<symm_message_t> sides{sending(1 - rank, one), receiving(rank, other)};
      group.messages(sides, {}, stream);
    });
    expect_failure(SYMM_ERR_MISMATCH, {"sends 8 bytes on channel 0 to itself", "room for 4"}, [&] {
      const std::vector<symm_message_t> sides{
          sending(rank, one), receiving(rank, symm::Span(reinterpret_cast<char*>(&words[1]), 4))};
      group.messages(sides, {}, stream);
    });
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"SYMM_TIMEOUT_NOW", "a call on a stream"},
        [&] { group.recv(1 - rank, one, 0, SYMM_TIMEOUT_NOW, stream); });
    expect_failure(SYMM_ERR_UNSUPPORTED, {"count", "at most 1024"}, [&] {
      const std::vector<symm_message_t> sides(1025, sending(1 - rank, one));
      group.messages(sides, {}, stream);
    });

    // Nothing of all that is in the way of what comes.
    words[0] = 70 + static_cast<uint64_t>(rank);
    const std::vector<symm_message_t> sides{sending(1 - rank, one), receiving(1 - rank, other)};
    group.messages(sides, {}, stream);
    group.synchronize(stream);
    EXPECT_EQ(words[1], 71U - static_cast<uint64_t>(rank));
    group.finalize();
  });
}

// Ranks are killed at any moment of any kind of message; the other one is told which.
TEST(CudaMessages, OfARankThatDiesFailAndNameIt) {
  for (int trial = 0; trial < 16; ++trial) {
    const Shared<std::atomic<int>> pid;
    const int victim = trial % 2;
    on_gpus(2,
        [&](int rank, const Group& group) {
          constexpr size_t kAll[] = {8, 4000, 300'000};
          const size_t bytes = kAll[trial / 2 % 3];
          const Block block = allocate(group, bytes);
          Bytes own(bytes);
          std::byte* const data = trial / 6 % 2 == 0 ? own.data() : block.at<std::byte>(rank);
          if (rank == victim) {
            *pid = getpid();
            std::thread([trial] {
              std::this_thread::sleep_for(std::chrono::microseconds(500 + trial * 737));
              raise(SIGKILL);
            }).detach();
          }

          // Rank 0 only sends, and rank 1 only receives.
          Outcome end;
          const symm::Span part(data, bytes);
          while (end.status == SYMM_OK) {
            end = outcome_of([&] {
              if (rank == 0) group.send(1, part, 0, {}, stream_of(1));
              if (rank == 1) group.recv(0, part, 0, {}, stream_of(1));
              group.synchronize(stream_of(1));
            });
          }
          expect_ended(end, SYMM_ERR_PEER_FAILED, {"rank " + std::to_string(victim)});
          EXPECT_EQ(end.rank, victim) << end.message;
          EXPECT_EQ(end.pid, *pid) << end.message;
        },
        20'000, {victim});
  }
}
}  // namespace
}  // namespace support
