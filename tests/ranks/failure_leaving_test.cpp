// Leaving: handles in any order, before and after a failure, at the end of a process
// with or without them, and while others still wait.
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
Footprint footprint_after_first_use(const Config& config, int rank, int size) {
  // The first use starts the monitor thread and makes the C++ library allocate what it keeps.
  {
    expect_working(config, rank, size);
  }
  return Footprint::settled();
}

TEST(Release, InAnyOrder) {
  as_ranks(2, [](int rank, const Config& config, Facts&) {
    const Footprint before = footprint_after_first_use(config, rank, 2);
    std::array<int, 4> order{0, 1, 2, 3};
    do {
      Group group = create(config, rank, 2);
      Group part = group.split(0).split(0);  // which outlives its parents
      Block block = allocate(part, 10'000);
      int* const own = block.at<int>(rank);
      int* const others = block.at<int>(1 - rank);

      *own = rank;
      part.barrier();
      EXPECT_EQ(*others, 1 - rank);
      part.barrier();

      for (const int step : order) {
        if (step == 0) group.reset();
        if (step == 1) part.reset();
        if (step == 2) block.buffer.reset();
        if (step == 3) block.memory.reset();
        if (part) part.barrier();
        // The own block lives as long as the buffer or the memory, the block of the other rank as
        // long as the memory.
        if (block.buffer || block.memory) *own += 2;
        if (block.memory) {
          EXPECT_EQ(*others % 2, 1 - rank) << "whatever its owner has released";
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
    expect_footprint(before);
  });
}

TEST(Release, InAnyOrderAfterAFailure) {
  std::array<int, 3> order{0, 1, 2};
  do {
    const auto body = [&](int rank, const Config& config, Facts& facts) {
      const Footprint before = footprint_after_first_use(config, rank, 3);
      {
        Member member(config, rank, 3, facts);
        if (rank == 2) raise(SIGKILL);
        EXPECT_EQ(until_failure(member, operations().front()), SYMM_ERR_PEER_FAILED);
        *member.block.at<int>(2) = 5;  // the dead rank's block is still there
        for (const int step : order) {
          if (step == 0) member.group.reset();
          if (step == 1) member.block.buffer.reset();
          if (step == 2) member.block.memory.reset();
        }
      }
      expect_footprint(before);
    };
    as_ranks(3, body, {.die = {2}});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Release, WhileAnotherRankWaits) {
  as_members(3, [](Member& member) {
    if (member.rank == 1) {
      member.block.buffer.reset();
      member.block.memory.reset();
      member.group.reset();
      EXPECT_TRUE(eventually([&] { return member.facts.failed == 2; }));
      return;
    }
    const symm_status_t status = symm_barrier(member.group.get(), nullptr, 0, 0, nullptr, nullptr);
    expect_failed(status, SYMM_ERR_PEER_FAILED, {"has left"});
    member.expect_blame(status, SYMM_ERR_PEER_FAILED, 1);
    ++member.facts.failed;
  });
}

// A rank ends so. Those that do not need it go on: a barrier, in which one waits
// already, and signals without it, and its block.
void expect_no_harm(const std::function<void()>& end) {
  as_members(3, [&](Member& member) {
    const int rank = member.rank;
    *member.block.at<int>(rank) = 40 + rank;
    member.group.barrier();
    if (rank == 2) return end();
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int32_t rest[] = {0, 1};

    for (int i = 0; i < 20; ++i) {
      member.group.barrier(rest);
      member.block.memory.signal(1 - rank);
      member.block.memory.wait_signal(1 - rank);
    }

    EXPECT_EQ(*member.block.at<int>(2), 42);
    EXPECT_EQ(member.group.status().status, SYMM_OK) << member.group.status().message;
    expect_failed(symm_wait_signal(member.block.memory.get(), 2, 0, nullptr, nullptr),
        SYMM_ERR_PEER_FAILED, {"has left"});
    EXPECT_EQ(member.group.status().status, SYMM_OK) << member.group.status().message;
  });
}

TEST(Release, DoesNotHarmRanksThatDoNotNeedIt) {
  expect_no_harm([] {});
}

// The program has forgotten its handles.
TEST(Exit, WithoutReleaseDoesNotHarmRanksThatDoNotNeedIt) {
  expect_no_harm([] { std::exit(0); });
}

TEST(Exit, FromAnotherThreadThanTheFirst) {
  expect_no_harm([] { std::thread([] { std::exit(0); }).join(); });
}

TEST(Exit, WhileThreadsAreInsideTheLibrary) {
  as_processes(1, [](int, const Group& group) {
    for (int i = 0; i < 3; ++i) {
      std::thread([&group] {
        float one = 1;
        float sum = 0;
        while (allreduce(group, &one, &sum, 1) == SYMM_OK) {
          continue;
        }
      }).detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::exit(0);
  });
}

TEST(Finalize, TimesOutAndEndsTheGroupAllTheSame) {
  as_members(2, [](Member& member) {
    if (member.rank == 0) {
      member.expect_blame(
          symm_group_finalize(member.group.get(), support::within(100)), SYMM_ERR_TIMEOUT, 1);
      member.facts.go = 1;
    } else {
      EXPECT_TRUE(eventually([&] { return member.facts.go == 1; }));
      EXPECT_NE(symm_group_finalize(member.group.get(), nullptr), SYMM_OK);
    }
  });
}
}  // namespace
}  // namespace support
