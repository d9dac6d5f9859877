// Messages between ranks of several machines: against a model, in every order, and when they cannot
// come. What they have in common with those of one machine is in message_cases.hpp.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/message_cases.hpp"
#include "tests/support/message_model.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
using symm::receiving;
using symm::sending;

#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
constexpr int kRounds = 12;
#else
constexpr int kRounds = 60;
#endif

using MultinodeMessages = Multinode;

// Two machines whose ranks are neighbours, and three whose ranks are not and are unequally many:
// batches have sides within machines and between them.
TEST_F(MultinodeMessages, OfEightRanksAreAsTheModelSays) {
  for (const std::string layout : {"aaaabbbb", "abcabcab"}) {
    SCOPED_TRACE(layout);
    expect_on_machines(
        layout, [](int rank, const Group& group) { follow_the_model(8, rank, group, kRounds, 4); });
  }
}

TEST_F(MultinodeMessages, GoRoundARingWhateverIsListedFirst) {
  for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
    expect_on_machines(
        "aab", [bytes](int rank, const Group& group) { go_round_a_ring(3, rank, group, bytes); });
  }
}

TEST_F(MultinodeMessages, OfOneChannelDoNotWaitForThoseOfAnother) {
  for (const bool symmetric : {false, true}) {
    expect_on_machines("ab", [symmetric](int rank, const Group& group) {
      take_channels_backwards(rank, group, symmetric);
    });
  }
}

TEST_F(MultinodeMessages, GoFromAllToAllInUnequalParts) {
  expect_on_machines(
      "abacbc", [](int rank, const Group& group) { go_from_all_to_all(6, rank, group); });
}

TEST_F(MultinodeMessages, OfSeveralThreadsKeepToTheirChannels) {
  SYMM_NOT_UNDER_TSAN("it does not follow the threads of a forked process");
  expect_on_machines("ab", keep_to_channels_of_threads);
}

// Far more than is under way at a time, from and to private and symmetric memory; short messages
// find their way between the parts.
TEST_F(MultinodeMessages, GoBothWaysAtOnceWhenTheyAreBig) {
  static constexpr size_t kBig = (size_t{40} << 20) + 13;
  static constexpr int kShort = 100;
  expect_on_machines("ab", [](int rank, const Group& group) {
    const int peer = 1 - rank;
    const Block block = allocate(group, 2 * kBig);
    Bytes own(2 * kBig);
    std::byte* const out = rank == 0 ? own.data() : block.at<std::byte>(rank);
    std::byte* const in = rank == 0 ? block.at<std::byte>(rank) : own.data() + kBig;
    write_pattern(out, kBig, static_cast<uint64_t>(rank));
    std::vector<int> told(kShort, rank);
    std::vector<int> heard(kShort, -1);

    std::vector<symm_message_t> sides{
        sending(peer, symm::Span(out, kBig), 1), receiving(peer, symm::Span(in, kBig), 1)};
    for (int i = 0; i < kShort; ++i) {
      const auto at = static_cast<size_t>(i);
      sides.push_back(receiving(peer, symm::Span(&heard[at], 1), 2));
      sides.push_back(sending(peer, symm::Span(&told[at], 1), 2));
    }
    const std::vector<size_t> lengths = group.messages(sides);

    EXPECT_EQ(lengths[1], kBig);
    EXPECT_TRUE(has_pattern(in, kBig, static_cast<uint64_t>(peer)));
    EXPECT_EQ(heard, std::vector<int>(kShort, peer));
    group.barrier();
  });
}

// The caller may change what it has sent as soon as the call returns, and what it has received is
// not written any more.
TEST_F(MultinodeMessages, AreNotTouchedAfterTheirCalls) {
  expect_on_machines("ab", [](int rank, const Group& group) {
    for (const size_t bytes : {size_t{40}, size_t{5000}, size_t{3} << 20}) {
      Bytes data(bytes);
      for (uint64_t round = 0; round < 20; ++round) {
        if (rank == 0) {
          write_pattern(data.data(), bytes, round);
          group.send(1, data);
          std::fill(data.begin(), data.end(), std::byte{0xEE});
        } else {
          ASSERT_EQ(group.recv(0, data), bytes);
          ASSERT_TRUE(has_pattern(data.data(), bytes, round)) << bytes << ", round " << round;
          std::fill(data.begin(), data.end(), std::byte{0xEE});
        }
      }
    }
    group.barrier();
  });
}

// ---- what cannot be

TEST_F(MultinodeMessages, LongerThanTheRoomAreAMismatchThatNamesBoth) {
  for (const size_t bytes : {size_t{40}, size_t{4000}, size_t{400'000}}) {
    expect_on_machines("ab", [bytes](int rank, const Group& group) {
      refuse_what_is_longer_than_the_room(rank, group, bytes);
    });
  }
}

TEST_F(MultinodeMessages, ThatDoNotComeLeaveTheGroupUsable) {
  expect_on_machines("ab", wait_in_vain_and_go_on);
}

TEST_F(MultinodeMessages, OfAnyLengthAreReceivedByALook) {
  expect_on_machines("ab", receive_by_looks);
}

TEST_F(MultinodeMessages, ThatAreNotTakenRevokeTheGroup) {
  expect_on_machines("ab", send_what_is_not_taken);
}

TEST_F(MultinodeMessages, AreLeftUpToANumber) {
  const Shared<std::atomic<int>> sent;
  expect_on_machines("ab", [&](int rank, const Group& group) {
    leave_as_many_as_there_is_room_for(rank, group, *sent);
  });
}

TEST_F(MultinodeMessages, AreNotAwaitedInACircleWithOtherCalls) {
  expect_on_machines("ab", wait_in_a_circle_with_a_barrier);
}

// What was left before a barrier has come when the barrier is over, though it was left by another
// way than those of the barrier.
TEST_F(MultinodeMessages, ThatWereLeftHaveComeAfterABarrier) {
  expect_on_machines("abcd", [](int rank, const Group& group) {
    for (uint64_t round = 0; round < 50; ++round) {
      Bytes data(round % 2 == 0 ? 16 : 2000);
      const auto peer = static_cast<int>((static_cast<uint64_t>(rank) + 1 + round % 3) % 4);
      const auto source = static_cast<int>((static_cast<uint64_t>(rank) + 3 - round % 3) % 4);
      write_pattern(data.data(), data.size(), round);
      group.send(peer, data);
      group.barrier();
      Bytes got(data.size());
      ASSERT_EQ(group.recv(source, got, 0, SYMM_TIMEOUT_NOW), data.size()) << round;
      ASSERT_EQ(got, data) << round;
    }
  });
}

// A rank that has sent and left has sent all the same, as long as its process lives.
TEST_F(MultinodeMessages, OfARankThatHasLeftAreReceived) {
  const Bootstrap meeting;
  const Config config = meeting.processes();
  const Shared<std::atomic<int>> left;
  const Shared<std::atomic<int>> heard;
  const auto body = [&](int rank) -> std::string {
    setenv("SYMM_MACHINE", rank == 0 ? "a" : "b", 1);
    Group group = create(config, rank, 2);
    uint64_t word = 99;
    if (rank == 0) {
      group.send(1, symm::Span(&word, 1), 0);
      group = Group();
      *left = 1;
      EXPECT_TRUE(eventually([&] { return *heard == 1; }));
      return "done";
    }

    EXPECT_TRUE(eventually([&] { return *left == 1; }));
    word = 0;
    EXPECT_EQ(group.recv(0, symm::Span(&word, 1), 0), sizeof word);
    EXPECT_EQ(word, 99U);
    expect_failure(SYMM_ERR_PEER_FAILED, {"recv: rank 0", "has left the group"},
        [&] { group.recv(0, symm::Span(&word, 1), 0); });
    // A short message would be left for nobody.
    expect_failure(SYMM_ERR_PEER_FAILED, {"send: rank 0", "has left the group"},
        [&] { group.send(0, symm::Span(&word, 1), 0); });
    symm::Request request;
    expect_failure(SYMM_ERR_PEER_FAILED, {"send: rank 0", "has left the group"},
        [&] { group.send(0, symm::Span(&word, 1), 0, request); });
    *heard = 1;
    return "done";
  };
  Processes ranks(2, body);
  for (Process& rank : ranks) {
    EXPECT_EQ(rank.result(kAlso), "done");
  }
}

// The mesh is silent, so a loss by the engine alone is told by the next call that needs the rank,
// though a short message would not have to wait for it.
TEST_F(MultinodeMessages, AreNotLeftForARankThatTheEngineHasLost) {
  const TemporaryDirectory script;
  std::ofstream(script.path() + "/script") << "breaks";
  const auto before = [&](int) {
    setenv("SYMM_ENGINE", "ucx", 1);
    setenv("SYMM_UCX", FAKE_UCX, 1);
    setenv("FAKE_UCX", (script.path() + "/script").c_str(), 1);
  };
  const Shared<std::atomic<int>> done;
  const auto body = [&](int rank, const Group& group) -> std::string {
    Outcome end;
    if (rank == 0) {
      for (int number = 0; end.status == SYMM_OK && number < 5; ++number) {
        end = outcome_of([&] { group.send(1, symm::Span(&number, 1)); });
        usleep(200'000);
      }
      *done = 1;
    }
    eventually([&] { return *done == 1; });
    return end.message;
  };
  const std::string said = on_machines("ab", body, before)[0];
  EXPECT_NE(said.find("peer failed: ucx 1.13.9 lost rank 1: Connection reset"), std::string::npos)
      << said;
}

// A call that fails while its thread looks for messages leaves the engine to the engine's own
// thread, which also serves other groups of the process when no rank here is in a call.
TEST_F(MultinodeMessages, ThatFailLeaveTheProcessReachable) {
  const Shared<std::atomic<int>> got;
  expect_on_machines("ab", [&](int rank, const Group& group) {
    const Group other = group.split(0, 0);
    const Block block = allocate(other, 4096);
    Bytes data(100);
    for (int round = 0; round < 20; ++round) {
      const Group one = group.split(0, 0);
      const Outcome end = outcome_of([&] {
        if (rank == 0) one.send(1, data);
        if (rank == 1) one.recv(0, symm::Span(data.data(), 99));
      });
      EXPECT_EQ(end.status, rank == 1 ? SYMM_ERR_MISMATCH : SYMM_OK);
    }

    // Rank 1 makes no call until rank 0 has what it gets.
    other.barrier();
    if (rank == 0) {
      for (int k = 0; k < 20; ++k) {
        block.memory.get(1, 0, symm::Span(data.data(), 8), 5'000);
      }
      *got = 1;
    }
    EXPECT_TRUE(eventually([&] { return *got == 1; }));
  });
}

// The rank of another machine is stopped at any moment of a message, or before it. Each call waits
// for as long as its options say, not for as long as the group would, and names the rank.
TEST_F(MultinodeMessages, WaitForASilentRankNoLongerThanTheCallSays) {
  SYMM_NOT_UNDER_TSAN("a rank that is stopped is not looked at");
  constexpr size_t kBytes = size_t{64} << 20;
  for (int which = 0; which < 6; ++which) {
    const std::vector<std::string> said = on_machines("ab", [&](int rank, const Group& group) {
      Bytes data(kBytes);
      Bytes room(kBytes);
      const symm_message_t sides[] = {receiving(1 - rank, room, 1), sending(1 - rank, data, 1)};
      group.barrier();
      if (rank == 1) {
        const auto stop = [which] {
          usleep(which < 3 ? 0 : 20'000);
          kill(getpid(), SIGSTOP);
        };
        std::thread(stop).detach();
        outcome_of([&] {
          if (which == 3) group.recv(0, data);
          if (which == 4) group.send(0, data);
          if (which == 5) group.messages(sides);
        });
        sleep_for_ever();
      }

      const auto start = std::chrono::steady_clock::now();
      const Outcome end = outcome_of([&] {
        constexpr uint64_t kTimeoutMs = 400;
        if (which == 0) group.recv(1, data, 0, kTimeoutMs);
        if (which == 1 || which == 3) group.send(1, data, 0, kTimeoutMs);
        for (int number = 0; which == 2; ++number) {
          group.send(1, symm::Span(&number, 1), 0, kTimeoutMs);
        }
        if (which == 4) group.recv(1, data, 0, kTimeoutMs);
        if (which == 5) group.messages(sides, kTimeoutMs);
      });
      const auto took = std::chrono::steady_clock::now() - start;
      kill(static_cast<pid_t>(group.peer_info(1).pid), SIGKILL);
      // Else it would be found in the middle of the group's end.
      EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }));
      if (took > std::chrono::seconds(10)) return std::string("took too long");
      return std::to_string(end.status) + " " + std::to_string(end.rank);
    });
    const std::string late = std::to_string(SYMM_ERR_TIMEOUT) + " 1";
    EXPECT_EQ(said, (std::vector<std::string>{late, ""})) << "call " << which;
  }
}

// Ranks are killed at any moment of any kind of message to or from another machine. The others are
// told which, and when: the one on its machine passes messages with both.
TEST_F(MultinodeMessages, OfARankThatDiesFailAndNameIt) {
  SYMM_NOT_UNDER_TSAN("it does not follow the threads of a forked process");
  constexpr size_t kAll[] = {8, 4000, 300'000, size_t{8} << 20};
  for (int trial = 0; trial < 24; ++trial) {
    const Shared<std::atomic<int>> pid;
    const Shared<std::atomic<int>> passed;
    const Shared<std::atomic<int>> heard;
    const int victim = trial % 3;
    const size_t bytes = kAll[trial / 3 % 4];
    const std::vector<std::string> said = on_machines("abb", [&](int rank, const Group& group) {
      const Block block = allocate(group, 4 * bytes);
      Bytes own(4 * bytes);
      std::byte* const data = trial < 12 ? own.data() : block.at<std::byte>(rank);
      group.barrier();
      ++*passed;
      if (rank == victim) {
        *pid = getpid();
        std::thread([trial, &passed] {
          // A rank that is still in the barrier would find the death there.
          eventually([&] { return *passed == 3; });
          std::this_thread::sleep_for(std::chrono::microseconds(trial * 137));
          raise(SIGKILL);
        }).detach();
      }

      std::vector<symm_message_t> sides;
      for (const int way : {1, 2}) {
        const auto part = [&](int number) {
          return symm::Span(data + static_cast<size_t>(number) * bytes, bytes);
        };
        sides.push_back(sending((rank + way) % 3, part(way - 1)));
        sides.push_back(receiving((rank + way) % 3, part(way + 1)));
      }
      Outcome end;
      while (end.status == SYMM_OK) {
        end = outcome_of([&] { group.messages(sides); });
      }

      // A rank that leaves sooner would be one that has left, to the other.
      ++*heard;
      eventually([&] { return *heard == 2; });
      const bool is_named = end.rank == victim && end.pid == *pid;
      if (end.status != SYMM_ERR_PEER_FAILED || !is_named) return end.message;

      // An engine may have had to end a connection to end what was under way on it, and the new
      // group would lose the rank by that. What was left in the old group is nobody's in the new.
      if (bytes > 8192) return std::string("named");
      const Group rest = group.shrink();
      go_round_a_ring(2, rest.rank(), rest, 20'000);
      return std::string(testing::Test::HasFailure() ? "not as before" : "named");
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(said[static_cast<size_t>(rank)], rank == victim ? "" : "named")
          << "trial " << trial;
    }
  }
}
}  // namespace
}  // namespace support
