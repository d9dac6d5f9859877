// After a failure, those that live go on with the memory that they had: in whatever order they
// release the failed group and its memories and make the next group, an old buffer meets there and
// can be exported.
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
constexpr int kAtFirst = 4;
constexpr int kLast = kAtFirst - 1;  // it aborts the group, or dies

// One rank that lives, and has heard of the failure.
struct Survivor {
  Member& member;
  const Config& config;
  int living;

  Group make(const char* name) const {
    Config next = config;
    next.name = name;
    return create(next, member.rank, living);
  }
  void release() const {
    member.block.memory = {};
    member.group = {};
  }
};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Rank 0 aborts the group when all have come.
void fail_together(const Group& group) {
  if (group.rank() == 0) {
    group.barrier();
    group.abort("once more");
  }
  until_failure([&] { group.barrier(); });
}

// How the ranks come to their next group.
struct Way {
  std::string name;
  std::function<Group(const Survivor&)> go;
};
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

Group shrink_and_release(const Survivor& one) {
  Group next = one.member.group.shrink();
  one.release();
  return next;
}

Group shrink_and_keep(const Survivor& one) { return one.member.group.shrink(); }

Group create_and_release(const Survivor& one) {
  Group next = one.make("next");
  one.release();
  return next;
}

Group create_and_keep(const Survivor& one) { return one.make("next"); }

Group release_the_memory_and_create(const Survivor& one) {
  one.member.block.memory = {};
  return one.make("next");
}

Group release_and_create(const Survivor& one) {
  one.release();
  return one.make("next");
}

Group release_one_after_the_other(const Survivor& one) {
  sleep_ms(150 * one.member.rank);
  one.release();
  return one.make("next");
}

Group release_and_create_much_later(const Survivor& one) {
  one.release();
  sleep_ms(500);
  return one.make("next");
}

Group each_in_an_order_of_its_own(const Survivor& one) {
  if (one.member.rank == 0) return create_and_keep(one);
  return one.member.rank == 1 ? release_and_create(one) : create_and_release(one);
}

Group shrink_twice(const Survivor& one) {
  const Group next = shrink_and_release(one);
  const Memory met = next.rendezvous(one.member.block.buffer);
  fail_together(next);
  return next.shrink();
}

Group create_twice(const Survivor& one) {
  {
    const Group next = release_and_create(one);
    const Memory met = next.rendezvous(one.member.block.buffer);
    fail_together(next);
  }
  return one.make("after that");
}

std::vector<Way> ways() {
  return {{"ShrinkAndRelease", shrink_and_release}, {"ShrinkAndKeep", shrink_and_keep},
      {"CreateAndRelease", create_and_release}, {"CreateAndKeep", create_and_keep},
      {"ReleaseTheMemoryAndCreate", release_the_memory_and_create},
      {"ReleaseAndCreate", release_and_create},
      {"ReleaseOneAfterTheOther", release_one_after_the_other},
      {"ReleaseAndCreateMuchLater", release_and_create_much_later},
      {"EachInAnOrderOfItsOwn", each_in_an_order_of_its_own}, {"ShrinkTwice", shrink_twice},
      {"CreateTwice", create_twice}};
}

class Recovery : public testing::TestWithParam<std::tuple<Way, bool>> {};

TEST_P(Recovery, LetsAnOldBufferMeetAndBeExported) {
  const Way& way = std::get<0>(GetParam());
  const bool is_killed = std::get<1>(GetParam());
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    Member member(config, rank, kAtFirst, facts);
    member.symmetric_send()[0] = static_cast<float>(rank + 40);
    all_there(facts, kAtFirst);
    if (rank == kLast && is_killed) raise(SIGKILL);
    if (rank == kLast) member.group.abort("a test");
    EXPECT_EQ(until_failure([&] { member.group.barrier(); }),
        is_killed ? SYMM_ERR_PEER_FAILED : SYMM_ERR_ABORTED);

    const int living = is_killed ? kAtFirst - 1 : kAtFirst;
    const Group next = way.go({member, config, living});
    ASSERT_EQ(next.size(), living);
    const Buffer& old = member.block.buffer;
    const Memory memory = next.rendezvous(old);
    const int peer = (next.rank() + 1) % living;
    EXPECT_EQ(memory.span<float>(peer)[0], static_cast<float>(peer + 40));
    EXPECT_NE(symm::ipc_export(old.span<std::byte>()).size(), 0U);
    next.barrier();
  };

  as_ranks(kAtFirst, body, {.die = is_killed ? std::vector<int>{kLast} : std::vector<int>{}});
}

INSTANTIATE_TEST_SUITE_P(Each, Recovery,
    testing::Combine(testing::ValuesIn(ways()), testing::Bool()), [](const auto& row) {
      return std::get<0>(row.param).name +
             (std::get<1>(row.param) ? "AfterADeath" : "AfterAnAbort");
    });

// The last rank leaves the failed group, lives on, and takes part in nothing more.
struct Apart {
  const char* name;
  bool leaves_last;
  bool fails_in_part;  // the group that fails is a part of another one,
  bool keeps_whole;    // which stays
};
std::ostream& operator<<(std::ostream& out, const Apart& one) { return out << one.name; }

class LivingApart : public testing::TestWithParam<Apart> {};

TEST_P(LivingApart, ARankThatHasLeftDoesNotKeepABufferFromAnotherGroup) {
  const Apart& apart = GetParam();
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    const bool is_apart = rank == kLast;
    Group whole = create(config, rank, kAtFirst);
    Group failing = apart.fails_in_part ? whole.split(0) : std::move(whole);
    if (!apart.keeps_whole) whole = {};
    Block block = allocate(failing, 4096);
    all_there(facts, kAtFirst);
    if (rank == 0) failing.abort("a test");
    EXPECT_EQ(until_failure([&] { failing.barrier(); }), SYMM_ERR_ABORTED);

    const int before = is_apart ? kAtFirst - 1 : 1;
    if (is_apart == apart.leaves_last) {
      EXPECT_TRUE(eventually([&] { return facts.ready >= before; }));
    }
    block.memory = {};
    failing = {};
    ++facts.ready;
    if (is_apart) {
      EXPECT_TRUE(eventually([&] { return facts.go == kAtFirst - 1; }));
      return;
    }

    Config next = config;
    next.name = "next";
    const Group group = create(next, rank, kAtFirst - 1);
    EXPECT_TRUE(group.rendezvous(block.buffer));
    EXPECT_NE(symm::ipc_export(block.buffer.span<std::byte>()).size(), 0U);
    ++facts.go;
  };
  as_ranks(kAtFirst, body);
}

INSTANTIATE_TEST_SUITE_P(Each, LivingApart,
    testing::Values(Apart{"LeavesFirst", false, false, false},
        Apart{"LeavesLast", true, false, false}, Apart{"LeavesAPartLast", true, true, false},
        Apart{"LeavesAPartOfALivingGroupLast", true, true, true}),
    [](const auto& one) { return one.param.name; });
}  // namespace
}  // namespace support
