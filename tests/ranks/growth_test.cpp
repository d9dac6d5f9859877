// Groups that live: newcomers take the numbers of the dead, or follow the living, and whoever dies
// or does not answer meanwhile, all that live have the same group or the same failure.
#include "tests/ranks/growth.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
TEST(Growth, NewcomersTakeTheNumbersOfTheDead) {
  const Scene scene;
  constexpr int kSize = 4;
  Processes ranks(kSize + 2, [&](int who) {
    if (who >= kSize) {
      const Group group = Group::join(scene.ticket->await(), newcomer());
      EXPECT_EQ(group.size(), kSize);
      EXPECT_TRUE(group.rank() == 0 || group.rank() == 2) << group.rank();
      EXPECT_STREQ(group.info().name, "elders");
      EXPECT_EQ(group.info().channels, 7);
      EXPECT_EQ(group.info().timeout_ms, 20'000U);
      expect_sum(group);
      const Block block = allocate(group, 4096);
      block.at<int>((group.rank() + 1) % kSize)[0] = group.rank();
      group.barrier();
      EXPECT_EQ(block.at<int>(group.rank())[0], (group.rank() + kSize - 1) % kSize);
      group.finalize();
      return;
    }

    Config config = scene.meeting.processes();
    config.name = "elders";
    config.channels = 7;
    const Group group = create(config, who, kSize);
    if (who == 0) scene.ticket->set(group.invite());
    all_there(*scene.facts, kSize);
    if (who == 0 || who == 2) raise(SIGKILL);
    EXPECT_EQ(until_failure([&] { group.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);

    const Group whole = group.grow(filling());
    EXPECT_EQ(whole.rank(), who);
    EXPECT_EQ(whole.size(), kSize);
    EXPECT_STREQ(whole.info().name, "elders");
    EXPECT_EQ(group.translate_rank(whole, who), who);
    EXPECT_EQ(whole.translate_rank(group, 0), -1);
    EXPECT_EQ(group.status().status, SYMM_ERR_PEER_FAILED) << "the old one stays as it is";
    expect_sum(whole);
    const Block block = allocate(whole, 4096);
    block.at<int>((who + 1) % kSize)[0] = who;
    whole.barrier();
    EXPECT_EQ(block.at<int>(who)[0], (who + kSize - 1) % kSize);
    whole.finalize();
  });
  ranks.expect_success({0, 2});
}

TEST(Growth, NewcomersFollowTheLivingInTheOrderInWhichTheyCame) {
  const Scene scene;
  Processes ranks(4, [&](int who) {
    if (who >= 2) {
      const auto ticket = scene.ticket->await();
      EXPECT_TRUE(eventually([&] { return scene.facts->ready == who - 2; }));
      const auto join = [&] {
        // The next one comes when this one waits.
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          ++scene.facts->ready;
        }).detach();
        return Group::join(ticket, newcomer());
      };
      const Group group = join();
      EXPECT_EQ(group.rank(), who);
      expect_sum(group);
      group.finalize();
      return;
    }

    const Group group = create(scene.meeting.processes(), who, 2);
    if (who == 1) scene.ticket->set(group.invite(60'000));
    EXPECT_TRUE(eventually([&] { return scene.facts->ready == 2; }));
    const Group larger = group.grow(appending(2));
    EXPECT_EQ(larger.rank(), who);
    EXPECT_EQ(larger.size(), 4);
    expect_sum(larger);
    group.barrier();  // the old group goes on
    larger.finalize();
  });
  ranks.expect_success();
}

TEST(Growth, ATicketStaysGoodForWhatBecomesOfTheGroup) {
  const Scene scene;
  Processes ranks(5, [&](int who) {
    if (who >= 3) {
      const auto ticket = scene.ticket->await();
      EXPECT_TRUE(who == 3 || eventually([&] { return scene.facts->ready != 0; }));
      Group group = Group::join(ticket, newcomer());
      EXPECT_EQ(group.rank(), 2);
      if (who == 3) {
        ++scene.facts->ready;
        raise(SIGKILL);
      }
      expect_sum(group);
      group.finalize();
      return;
    }

    // One dies: the others shrink, and grow; the newcomer dies, too, and another takes its number.
    const Group group = create(scene.meeting.processes(), who, 3);
    if (who == 0) scene.ticket->set(group.invite());
    all_there(*scene.facts, 3);
    if (who == 2) raise(SIGKILL);
    EXPECT_EQ(until_failure([&] { group.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);
    const Group rest = group.shrink();
    const Group three = rest.grow(appending(1));
    EXPECT_EQ(three.size(), 3);
    until_failure([&] { three.barrier({}, 1); });
    EXPECT_EQ(three.failed_ranks(), std::vector<int32_t>{2});
    const Group again = three.grow(filling());
    EXPECT_EQ(again.rank(), who);
    expect_sum(again);
    again.finalize();
  });
  ranks.expect_success({2, 3});
}

TEST(Growth, WhereNobodyIsGoneTheNewGroupHasTheSameRanks) {
  std::atomic<int> created = 0;
  as_threads(3, [&](int rank, const Group& group) {
    // An abort at once could end the creation for a rank that has not returned from it.
    ++created;
    EXPECT_TRUE(eventually([&] { return created == 3; }));
    if (rank == 1) group.abort("enough");
    EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_ABORTED; }));
    const Group again = group.grow();
    EXPECT_EQ(again.rank(), rank);
    EXPECT_EQ(again.size(), 3);
    expect_sum(again);
    again.finalize();
  });
}

TEST(Growth, TooFewNewcomersAreADeadlineForAllAndChangeNothing) {
  const Scene scene;
  Processes ranks(3, [&](int who) {
    if (who == 2) {
      const auto ticket = scene.ticket->await();
      const Group group = Group::join(ticket, newcomer());  // taken by the second call
      EXPECT_EQ(group.rank(), 2);
      expect_sum(group);
      group.finalize();
      return;
    }

    const Group group = create(scene.meeting.processes(), who, 2);
    if (who == 0) scene.ticket->set(group.invite());
    const Outcome few = expect_failure(SYMM_ERR_TIMEOUT, {"newcomers that are wanted: 2"},
        [&] { group.grow(appending(2, 1'500)); });
    EXPECT_EQ(few.rank, -1);
    EXPECT_EQ(group.status().status, SYMM_OK);
    group.barrier();
    const Group larger = group.grow(appending(1));
    EXPECT_EQ(larger.size(), 3);
    expect_sum(larger);
    larger.finalize();
  });
  ranks.expect_success();
}

TEST(Growth, ANewcomerThatDoesNotAnswerKeepsNoOtherOut) {
  const Scene scene;
  Processes ranks(5, [&](int who) {
    if (who >= 2) {
      const auto ticket = scene.ticket->await();
      // In this order: one is killed while it waits, one is stopped, and one is fine.
      EXPECT_TRUE(eventually([&] { return scene.facts->ready == who - 2; }));
      scene.facts->pids[who] = getpid();
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ++scene.facts->ready;
        if (who == 2) raise(SIGKILL);
        if (who == 3) raise(SIGSTOP);
      }).detach();
      const Group group = Group::join(ticket, newcomer());
      EXPECT_EQ(who, 4);
      EXPECT_EQ(group.rank(), 2);
      expect_sum(group);
      group.finalize();
      return;
    }

    const Group group = create(scene.meeting.processes(), who, 2);
    if (who == 0) scene.ticket->set(group.invite());
    EXPECT_TRUE(eventually([&] { return scene.facts->ready == 3; }));
    const Group larger = group.grow(appending(1));
    EXPECT_EQ(larger.size(), 3);
    expect_sum(larger);
    larger.finalize();
  });
  EXPECT_TRUE(eventually([&] { return scene.facts->pids[3] != 0; }));
  for (const int who : {0, 1, 4}) {
    ranks[who].expect_success(std::to_string(who));
  }
  ranks[3].kill(SIGKILL);
  ranks[2].wait();
  ranks[3].wait();
  // Who grows a group removes what newcomers left that were killed.
  as_processes(1, [&](int) { create(scene.meeting.processes(), 0, 1).grow(); });
}

TEST(Growth, WhatRanksAskForIsCompared) {
  as_threads(2, [](int rank, const Group& group) {
    expect_failure(SYMM_ERR_MISMATCH, {"options.count", "newcomers"},
        [&] { group.grow(appending(1 + rank, 2'000)); });
    group.barrier();
    expect_failure(SYMM_ERR_MISMATCH, {"options.mode", "SYMM_GROW_FILL_DEAD"},
        [&] { group.grow(rank == 0 ? filling(2'000) : appending(1, 2'000)); });
    group.barrier();
  });
}

TEST(Growth, ATicketIsCheckedBeforeItIsBelieved) {
  const Group group = alone();
  const symm::Ticket ticket = group.invite();
  const auto join = [](const symm::Ticket& bytes) { Group::join(bytes, newcomer(1)); };
  const auto words = {std::string("ticket_bytes")};
  expect_failure(SYMM_ERR_TIMEOUT, {"ticket: no member"}, [&] { join(ticket); });

  for (size_t size = 1; size < ticket.size(); ++size) {
    symm::Ticket cut(ticket.begin(), ticket.begin() + static_cast<std::ptrdiff_t>(size));
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, words, [&] { join(cut); });
  }
  for (size_t at = 0; at < ticket.size(); ++at) {
    symm::Ticket changed = ticket;
    changed[at] ^= std::byte{0x10};
    const Outcome got = outcome_of([&] { join(changed); });
    EXPECT_TRUE(got.status == SYMM_ERR_INVALID_ARGUMENT || got.status == SYMM_ERR_UNSUPPORTED)
        << at << ": " << got.message;
  }
  const symm::Ticket brief = group.invite(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"ticket: has expired"}, [&] { join(brief); });
}

TEST(Growth, ANewcomerChoosesNothingThatTheGroupDecides) {
  const symm::Ticket ticket = alone().invite();
  const auto refused = [&](const char* word, const auto& change) {
    symm_group_config_t config = newcomer(1);
    change(config);
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {word}, [&] { Group::join(ticket, config); });
  };
  refused("config.rank", [](auto& config) { config.rank = 1; });
  refused("config.size", [](auto& config) { config.size = 2; });
  refused("config.bootstrap", [](auto& config) { config.bootstrap = "env://"; });
  refused("config.name", [](auto& config) { config.name = "x"; });
  refused("config.channels", [](auto& config) { config.channels = 3; });
  refused("config.scratch_bytes", [](auto& config) { config.scratch_bytes = 4096; });
  refused("config.timeout_ms", [](auto& config) { config.timeout_ms = 5; });
  refused("SYMM_GROUP_ANY_ORDER", [](auto& config) { config.flags = SYMM_GROUP_ANY_ORDER; });

  symm_group_config_t checks = newcomer(1);
  checks.flags = SYMM_GROUP_CHECK;
  expect_failure(SYMM_ERR_TIMEOUT, {}, [&] { Group::join(ticket, checks); });
}

TEST(Growth, WhoeverDiesMeanwhileAllThatLiveHaveTheSame) {
  deaths_while_growing(4, 0, std::chrono::microseconds(12'000));
}
}  // namespace
}  // namespace support
