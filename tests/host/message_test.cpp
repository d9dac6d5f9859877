// Messages between ranks, against a model, in every order, and when they cannot come.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"
#include "tests/support/message_cases.hpp"
#include "tests/support/message_model.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
constexpr int kRounds = 30;
#else
constexpr int kRounds = 120;
#endif

TEST(Messages, OfProcessesAreAsTheModelSays) {
  as_processes(
      8, [](int rank, const Group& group) { follow_the_model(8, rank, group, kRounds, 1); });
}

TEST(Messages, OfThreadsAreAsTheModelSays) {
  as_threads(4, [](int rank, const Group& group) { follow_the_model(4, rank, group, kRounds, 2); });
}

TEST(Messages, OfARankToItselfAreAsTheModelSays) { follow_the_model(1, 0, alone(), kRounds, 3); }

// ---- order

TEST(Messages, GoRoundARingWhateverIsListedFirst) {
  for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
    as_processes(
        3, [bytes](int rank, const Group& group) { go_round_a_ring(3, rank, group, bytes); });
  }
}

TEST(Messages, OfOneChannelDoNotWaitForThoseOfAnother) {
  for (const bool symmetric : {false, true}) {
    as_processes(2, [symmetric](int rank, const Group& group) {
      take_channels_backwards(rank, group, symmetric);
    });
  }
}

TEST(Messages, GoFromAllToAllInUnequalParts) {
  as_processes(6, [](int rank, const Group& group) { go_from_all_to_all(6, rank, group); });
}

// A wait in which each look went through all sides would take longer than the deadline has.
TEST(Messages, AreAsManyAsACallMayHave) { as_processes(2, pass_as_many_as_a_call_may_have); }

TEST(Messages, OfSeveralThreadsKeepToTheirChannels) {
  SYMM_NOT_UNDER_TSAN("it does not follow the threads of a forked process");
  as_processes(2, keep_to_channels_of_threads);
}

// ---- what cannot be

TEST(Messages, LongerThanTheRoomAreAMismatchThatNamesBoth) {
  for (const size_t bytes : {size_t{40}, size_t{4000}, size_t{400'000}}) {
    as_processes(2, [bytes](int rank, const Group& group) {
      refuse_what_is_longer_than_the_room(rank, group, bytes);
    });
  }
}

TEST(Messages, ThatDoNotComeLeaveTheGroupUsable) { as_processes(2, wait_in_vain_and_go_on); }

TEST(Messages, OfAnyLengthAreReceivedByALook) { as_processes(2, receive_by_looks); }

TEST(Messages, ThatAreNotTakenRevokeTheGroup) { as_processes(2, send_what_is_not_taken); }

TEST(Messages, AreLeftUpToANumber) {
  const Shared<std::atomic<int>> sent;
  as_processes(2, [&](int rank, const Group& group) {
    leave_as_many_as_there_is_room_for(rank, group, *sent);
  });
}

// A rank that has sent and left has sent all the same.
TEST(Messages, OfARankThatHasLeftAreReceived) {
  const Bootstrap meeting;
  const Shared<std::atomic<int>> left;
  as_processes(2, [&](int rank) {
    Group group = create(meeting.processes(), rank, 2);
    uint64_t word = 99;
    if (rank == 0) {
      group.send(1, symm::Span(&word, 1), 0);
      group = Group();
      *left = 1;
      return;
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
    EXPECT_EQ(group.status().status, SYMM_OK);
  });
}

TEST(Messages, AreNotAwaitedInACircleWithOtherCalls) {
  as_processes(2, wait_in_a_circle_with_a_barrier);
}

// Ranks are killed at any moment of any kind of message; the other one is told which, and when.
TEST(Messages, OfARankThatDiesFailAndNameIt) {
  SYMM_NOT_UNDER_TSAN("it does not follow the threads of a forked process");
  for (int trial = 0; trial < 24; ++trial) {
    const Bootstrap meeting;
    const Shared<std::atomic<int>> pid;
    const int victim = trial % 2;
    as_processes(2,
        [&](int rank) {
          const Group group = create(meeting.processes(), rank, 2);
          constexpr size_t kAll[] = {8, 4000, 300'000};
          const size_t bytes = kAll[trial / 2 % 3];
          const Block block = allocate(group, bytes);
          Bytes own(bytes);
          std::byte* const data = trial / 6 % 2 == 0 ? own.data() : block.at<std::byte>(rank);
          group.barrier();
          if (rank == victim) {
            *pid = getpid();
            std::thread([trial] {
              std::this_thread::sleep_for(std::chrono::microseconds(500 + trial * 137));
              raise(SIGKILL);
            }).detach();
          }

          // Rank 0 only sends, and rank 1 only receives.
          Outcome end;
          const symm::Span part(data, bytes);
          while (end.status == SYMM_OK) {
            end = outcome_of([&] { rank == 0 ? group.send(1, part) : void(group.recv(0, part)); });
          }
          expect_ended(end, SYMM_ERR_PEER_FAILED, {"rank " + std::to_string(victim)});
          EXPECT_EQ(end.rank, victim) << end.message;
          EXPECT_EQ(end.pid, *pid) << end.message;
        },
        {victim});
  }
}
}  // namespace
}  // namespace support
