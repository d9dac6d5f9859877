// Spares: newcomers that a group has met before anybody dies, and takes first.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"
#include "tests/ranks/growth.hpp"

namespace support {
namespace {
bool is_killed(const Group& group) {
  return eventually([&] { return group.status().status == SYMM_ERR_PEER_FAILED; });
}

TEST(Spares, TakeTheNumbersOfTheDeadOneAfterTheOther) {
  const Scene scene;
  constexpr int kSize = 4;
  Processes ranks(kSize + 2, [&](int who) {
    const bool is_spare = who >= kSize;
    Group group = is_spare ? Group::join(scene.ticket->await(), newcomer())
                           : with_spares(scene, who, kSize, 2);
    if (is_spare) expect_sum(group);
    // The spare that comes first sees the second death.
    const std::vector<int> victims{1, 3};
    for (size_t death = is_spare ? 2U - static_cast<size_t>(group.info().spares) : 0U;
        death < victims.size(); ++death) {
      const int victim = victims[death];
      all_there(*scene.facts, kSize);
      if (group.rank() == victim) raise(SIGKILL);
      EXPECT_TRUE(is_killed(group));
      Group whole = group.grow(filling());
      EXPECT_EQ(whole.rank(), group.rank());
      group = std::move(whole);
      expect_sum(group);
    }
    EXPECT_EQ(group.size(), kSize);
    EXPECT_EQ(group.info().spares, 0);
    expect_sum(group);
    group.finalize();
  });
  ranks.expect_success({1, 3});
}

TEST(Spares, ThatDoNotAnswerKeepNoOtherOut) {
  const Scene scene;
  Processes ranks(5, [&](int who) {
    if (who >= 2) {
      const auto ticket = scene.ticket->await();
      scene.facts->pids[who] = getpid();
      std::thread([&] {
        EXPECT_TRUE(eventually([&] { return scene.facts->ready == 2; }));
        if (who == 2) raise(SIGSTOP);
        if (who == 3) raise(SIGKILL);
      }).detach();
      const Group group = Group::join(ticket, newcomer());
      EXPECT_EQ(who, 4);
      EXPECT_EQ(group.rank(), 2);
      expect_sum(group);
      group.finalize();
      return;
    }

    const Group group = with_spares(scene, who, 2, 3);
    ++scene.facts->ready;
    EXPECT_TRUE(eventually([&] { return group.info().spares == 2; })) << "one was killed";
    const Group larger = group.grow(appending(1));
    EXPECT_EQ(larger.size(), 3);
    expect_sum(larger);
    larger.finalize();
  });
  for (const int who : {0, 1, 4}) {
    ranks[who].expect_success(std::to_string(who));
  }
  ranks[2].kill(SIGKILL);
  ranks[2].wait();
  ranks[3].wait();
  as_processes(1, [&](int) { create(scene.meeting.processes(), 0, 1).grow(); });
}

TEST(Spares, StayWithTheGroupsThatBecomeOfTheirs) {
  const Scene scene;
  Processes ranks(5, [&](int who) {
    if (who >= 3) {
      const Group group = Group::join(scene.ticket->await(), newcomer());
      EXPECT_TRUE(group.rank() == 2 || group.rank() == 3) << group.rank();
      if (group.size() == 3) {
        const Group four = group.grow(appending(1));
        EXPECT_EQ(four.size(), 4);
        expect_sum(four);
        four.finalize();
        return;
      }
      expect_sum(group);
      group.finalize();
      return;
    }

    const Group group = with_spares(scene, who, 3, 2);
    all_there(*scene.facts, 3);
    if (who == 0) raise(SIGKILL);
    EXPECT_TRUE(is_killed(group));
    const Group rest = group.shrink();
    EXPECT_EQ(rest.info().spares, 2);
    const Group three = rest.grow(appending(1));
    EXPECT_EQ(three.rank(), who - 1);
    EXPECT_EQ(three.info().spares, 1);
    const Group four = three.grow(appending(1));
    EXPECT_EQ(four.size(), 4);
    expect_sum(four);
    four.finalize();
  });
  ranks.expect_success({0});
}

TEST(Spares, TooFewOfThemAreNewcomersAgain) {
  const Scene scene;
  Processes ranks(5, [&](int who) {
    if (who >= 2) {
      const auto ticket = scene.ticket->await();
      EXPECT_TRUE(who == 2 || eventually([&] { return scene.facts->ready == 2; }));
      const Group group = Group::join(ticket, newcomer());
      EXPECT_EQ(group.size(), 5);
      expect_sum(group);
      group.finalize();
      return;
    }

    // One spare, of two newcomers that are wanted; then all three that there are, as spares.
    const Group group = with_spares(scene, who, 2, 1);
    expect_failure(SYMM_ERR_TIMEOUT, {"newcomers that are wanted: 2"},
        [&] { group.grow(appending(2, 1'500)); });
    EXPECT_EQ(group.info().spares, 0);
    ++scene.facts->ready;
    group.keep_spares(2, 20'000);
    group.keep_spares(3, 20'000);
    EXPECT_EQ(group.info().spares, 3);
    const Group five = group.grow(appending(3));
    EXPECT_EQ(five.rank(), who);
    EXPECT_EQ(five.info().spares, 0);
    expect_sum(five);
    five.finalize();
  });
  ranks.expect_success();
}

TEST(Spares, OfAGroupThatHasGoneWaitForTheNextOfItsPool) {
  const Scene scene;
  Processes ranks(2, [&](int who) {
    if (who == 1) {
      expect_failure(SYMM_ERR_TIMEOUT, {"ticket: no member"},
          [&] { Group::join(scene.ticket->await(), newcomer(3'000)); });
      return;
    }
    with_spares(scene, 0, 1, 1).finalize();
  });
  ranks.expect_success();
}

TEST(Spares, GroupsOfAPartHaveNone) {
  const Scene scene;
  Processes ranks(3, [&](int who) {
    if (who == 2) {
      outcome_of([&] { Group::join(scene.ticket->await(), newcomer(5'000)); });
      return;
    }
    const Group group = with_spares(scene, who, 2, 1);
    EXPECT_EQ(group.split(who).info().spares, 0);
    expect_failure(
        SYMM_ERR_MISMATCH, {"options.count"}, [&] { group.keep_spares(1 + who, 2'000); });
    expect_failure(SYMM_ERR_MISMATCH, {"options.mode", "SYMM_GROW_SPARE"}, [&] {
      who == 0 ? group.keep_spares(1, 2'000) : static_cast<void>(group.grow(appending(1, 2'000)));
    });
    EXPECT_EQ(group.info().spares, 1);
    group.barrier();
    group.finalize();
  });
  ranks.expect_success();
}

TEST(Spares, WhoeverDiesMeanwhileAllThatLiveHaveTheSame) {
  deaths_while_growing(3, 3, std::chrono::microseconds(6'000));
}
}  // namespace
}  // namespace support
