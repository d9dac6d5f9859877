// What tests of groups that grow have in common.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
// A ticket for memory that processes share.
struct SharedTicket {
  std::atomic<size_t> size{0};
  std::byte bytes[SYMM_TICKET_MAX_BYTES] = {};

  void set(const symm::Ticket& ticket) {
    std::memcpy(bytes, ticket.data(), ticket.size());
    size = ticket.size();
  }
  symm::Span<const std::byte> await() const {
    EXPECT_TRUE(eventually([&] { return size != 0; }));
    return {bytes, size};
  }
};

inline symm_group_config_t newcomer(uint64_t timeout_ms = 20'000) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.create_timeout_ms = timeout_ms;
  return config;
}

inline symm_grow_options_t appending(int32_t count, uint64_t timeout_ms = 20'000) {
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.mode = SYMM_GROW_APPEND;
  options.count = count;
  options.timeout_ms = timeout_ms;
  return options;
}

inline symm_grow_options_t filling(uint64_t timeout_ms = 20'000) {
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return options;
}

// What members and newcomers share, who are processes of a test. They use a directory of their own
// for the library, in which nothing may stay.
struct Scene {
  Scene() { setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1); }
  ~Scene() {
    expect_empty(runtime.path() + "/symm");
    unsetenv("XDG_RUNTIME_DIR");
  }

  const TemporaryDirectory runtime;
  const Bootstrap meeting;
  const Shared<Facts> facts;
  const Shared<SharedTicket> ticket;
};

// The members of a test's group, who have spares.
inline Group with_spares(const Scene& scene, int who, int size, int spares) {
  Group group = create(scene.meeting.processes(), who, size);
  if (who == 0) scene.ticket->set(group.invite());
  if (spares == 0) return group;
  group.keep_spares(spares, 20'000);
  EXPECT_EQ(group.info().spares, spares);
  return group;
}

// What a process got, for the others to compare.
struct Got {
  std::atomic<int> status;
  std::atomic<uint64_t> id;
};

// A trial in which a member and a newcomer are killed while a group of four, of which one is dead,
// grows.
struct Deaths {
  static constexpr int kMembers = 4;
  int newcomers;
  int spares;  // of these, how many the group has met before
  int victim;  // of the members; 3 is dead before
  std::chrono::microseconds delay;
  std::chrono::microseconds delay_of_newcomer;
  bool kills_member;
  bool kills_newcomer;
  const Scene scene{};
  const Shared<std::array<Got, 2 * kMembers>> got{};

  bool may_die(int who) const { return who == 3 || (kills_member && who == victim); }

  void join(int who) const {
    const auto ticket = scene.ticket->await();
    if (kills_newcomer && who == kMembers) {
      std::thread([this] {
        while (spares != 0 && scene.facts->go == 0) {
          std::this_thread::yield();
        }
        die_soon(delay_of_newcomer);
      }).detach();
    }
    Got& mine = (*got)[static_cast<size_t>(who)];
    const Outcome outcome = outcome_of([&] {
      const Group group = Group::join(ticket, newcomer(60'000));
      mine.id = group.info().id;
      until_failure([&] { group.barrier({}, 1); });
    });
    mine.status = outcome.status + 1000;
    sleep_for_ever();
  }

  void grow(int who) const {
    const Group group = with_spares(scene, who, kMembers, spares);
    all_there(*scene.facts, kMembers);
    scene.facts->go = 1;
    if (who == 3) raise(SIGKILL);
    if (kills_member && who == victim) die_soon(delay);
    until_failure([&] { group.barrier({}, 1); });

    Got& mine = (*got)[static_cast<size_t>(who)];
    symm_group_t* made = nullptr;
    const symm_grow_options_t options = filling();
    mine.status = symm_group_grow(group.get(), &options, &made) + 1000;
    const Group whole(made);
    EXPECT_TRUE(mine.status == 1000 || mine.status == 1000 + SYMM_ERR_PEER_FAILED)
        << symm_last_error();
    if (whole) mine.id = whole.info().id;
    EXPECT_TRUE(!whole || whole.rank() == who) << whole.rank();
    ++scene.facts->ready;
    const int living = kMembers - 1 - (kills_member ? 1 : 0);
    EXPECT_TRUE(eventually([&] { return scene.facts->ready >= living; }));
  }

  // All members that live have one group or one failure; a newcomer has the members' group, or
  // waits still.
  void expect_alike(int trial) const {
    int first = 0;
    while (may_die(first)) {
      ++first;
    }
    const Got& theirs = (*got)[static_cast<size_t>(first)];
    for (int who = first; who < kMembers; ++who) {
      if (may_die(who)) continue;
      const Got& one = (*got)[static_cast<size_t>(who)];
      EXPECT_EQ(one.status, theirs.status) << "trial " << trial;
      EXPECT_EQ(one.id, theirs.id) << "trial " << trial;
    }
    for (int who = kMembers; who < kMembers + newcomers; ++who) {
      const Got& one = (*got)[static_cast<size_t>(who)];
      EXPECT_TRUE(one.status == 0 || one.status == 1000) << one.status << ", trial " << trial;
      EXPECT_TRUE(one.id == 0 || one.id == theirs.id) << "trial " << trial;
    }
  }

  void run(int trial) const {
    Processes ranks(kMembers + newcomers, [&](int who) { who < kMembers ? grow(who) : join(who); });
    for (int who = 0; who < kMembers; ++who) {
      if (!may_die(who)) ranks[who].expect_success(std::to_string(who));
      if (may_die(who)) ranks[who].wait();
    }
    for (int who = kMembers; who < kMembers + newcomers; ++who) {
      ranks[who].kill(SIGKILL);  // those that nobody has taken wait still
      ranks[who].wait();
    }
    expect_alike(trial);
    // Who grows a group removes what newcomers left that were killed.
    as_processes(1, [&](int) { create(scene.meeting.processes(), 0, 1).grow(); });
  }
};

// A member and a newcomer are killed while a group grows, at any moment.
inline void deaths_while_growing(int newcomers, int spares, std::chrono::microseconds latest) {
  const char* const asked = std::getenv("SYMM_TEST_GROWTHS");
  const int trials = asked != nullptr ? std::atoi(asked) : 30;
  std::mt19937 random(4711);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  const auto moment = [&] {
    return std::chrono::microseconds(random() % static_cast<uint64_t>(latest.count()));
  };
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    const int victim = static_cast<int>(random() % 3);
    const auto delay = moment();
    const auto delay_of_newcomer = moment();
    const bool kills_member = random() % 3 != 0;
    const bool kills_newcomer = random() % 3 != 0;
    const Deaths one{
        newcomers, spares, victim, delay, delay_of_newcomer, kills_member, kills_newcomer};
    one.run(trial);
  }
}
}  // namespace support
