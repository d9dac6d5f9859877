// Objects that are made and released again and again leave descriptors, mappings, threads and
// shared memory as they were.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
size_t private_kilobytes() {
  size_t total = 0;
  size_t resident = 0;
  size_t shared = 0;  // in pages
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return (resident - shared) * 4;
}

// Run `cycle` many times on each of two ranks in one group. The first tenth warms up:
// allocators keep what they had once.
void expect_cycles_to_leave_nothing(
    int cycles, const std::function<void(const Group&, int rank, int cycle)>& cycle) {
  const Bootstrap meeting;
  const Config config = meeting.processes();
  const size_t shm_before = entries("/dev/shm").size();
  const size_t shared_before = machine_shared_memory();
  Processes processes(2, [&](int rank) {
    const Group group = create(config, rank, 2);
    int i = 0;
    for (; i < cycles / 10; ++i) {
      cycle(group, rank, i);
    }

    group.barrier();
    const Footprint before = Footprint::settled();
    const size_t private_before = private_kilobytes();
    for (; i < cycles; ++i) {
      cycle(group, rank, i);
    }

    expect_footprint(before);
    EXPECT_LT(private_kilobytes(), private_before + 2048) << "heap";
    group.barrier();
  });

  for (int rank = 0; rank < 2; ++rank) {
    processes[rank].wait(300'000);
  }

  processes.expect_success();
  expect_empty(meeting.path());
  EXPECT_LT(entries("/dev/shm").size(), shm_before + 20)
      << "other programs put files there too, but not one for each cycle";
  constexpr size_t kSlack = size_t{64} << 20;  // shared memory that other programs may use
  EXPECT_TRUE(eventually([&] { return machine_shared_memory() < shared_before + kSlack; }));
}

TEST(Leak, TenThousandRendezvous) {
  expect_cycles_to_leave_nothing(10'000, [](const Group& group, int rank, int cycle) {
    const Block block = allocate(group, 64 + static_cast<size_t>(cycle % 3) * 5000);
    if (cycle % 100 != 0) return;
    *block.at<int>(rank) = cycle;
    group.barrier();
    EXPECT_EQ(*block.at<int>(1 - rank), cycle);
  });
}

TEST(Leak, RendezvousOfOneBufferAgainAndAgain) {
  std::map<int, Buffer> kept;
  expect_cycles_to_leave_nothing(2000, [&](const Group& group, int rank, int) {
    if (!kept[rank]) kept[rank] = group.allocate(4096);
    group.rendezvous(kept[rank]);
  });
}

TEST(Leak, TagsThatNeverComeAgain) {
  expect_cycles_to_leave_nothing(2000, [](const Group& group, int, int cycle) {
    allocate(group, 64, static_cast<uint64_t>(cycle));
  });
}

// Each time the other rank imports a block that is given back at once.
TEST(Leak, FiveThousandTokens) {
  const Shared<Token> sent;
  expect_cycles_to_leave_nothing(5000, [&](const Group& group, int rank, int cycle) {
    const Buffer buffer = group.allocate(64 + static_cast<size_t>(cycle % 3) * 5000);
    if (rank == 0) {
      *sent = make_token(buffer.span().data(), buffer.span().size());
      *buffer.span<int>().data() = cycle;
    }
    group.barrier();
    if (rank == 1) {
      EXPECT_EQ(*symm::Import(*sent).span<int>().data(), cycle);
    }
    group.barrier();
  });
}

TEST(Leak, FailingRendezvous) {
  expect_cycles_to_leave_nothing(2000, [](const Group& group, int rank, int) {
    const Buffer buffer = group.allocate(64 + static_cast<size_t>(rank));
    expect_failure(SYMM_ERR_MISMATCH, {}, [&] { group.rendezvous(buffer); });
  });
}

TEST(Leak, FiveHundredSplits) {
  expect_cycles_to_leave_nothing(500, [](const Group& group, int rank, int cycle) {
    const Group part = group.split(cycle % 3 == 0 ? rank : 0, cycle % 2 == 0 ? rank : -rank);
    part.barrier();
  });
}

TEST(Leak, FiveHundredGroups) {
  expect_cycles_to_leave_nothing(500, [](const Group& first, int rank, int) {
    const Group group = create({.bootstrap = first.info().bootstrap}, rank, 2);
    group.barrier();
  });
}

TEST(Leak, FiveHundredGroupsOfThreads) {
  const Bootstrap meeting;
  const auto cycle = [&] {
    as_threads(2, [&](int rank) {
      const Group group = create(meeting.threads(), rank, 2);
      const Block block = allocate(group, 64);
      group.barrier();
    });
  };

  // The test runs in a process of its own: the tests that fork must not have a monitor thread.
  as_processes(1, [&](int) {
    for (int i = 0; i < 50; ++i) {
      cycle();
    }
    const Footprint before = Footprint::settled();
    for (int i = 0; i < 450; ++i) {
      cycle();
    }
    expect_footprint(before);
  });
}

TEST(Leak, FailingCreations) {
  expect_cycles_to_leave_nothing(50, [](const Group& first, int rank, int) {
    const Config config{.bootstrap = first.info().bootstrap, .create_timeout_ms = 30};
    expect_failure(SYMM_ERR_TIMEOUT, {}, [&] { create(config, 2 * rank, 4); });
  });
}

// Many rendezvous at once: on one group with a tag each, and on groups of their own.
void rendezvous_on(const Group& group, int rank, uint64_t tag, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const Block block = allocate(group, 4096, tag);
    uint64_t* own = block.at<uint64_t>(rank);
    *own = tag * 1000 + static_cast<uint64_t>(round) * 10 + static_cast<uint64_t>(rank);
    group.barrier({}, static_cast<int>(tag));
    for (int peer = 0; peer < group.size(); ++peer) {
      EXPECT_EQ(*block.at<uint64_t>(peer),
          tag * 1000 + static_cast<uint64_t>(round) * 10 + static_cast<uint64_t>(peer));
    }
    group.barrier({}, static_cast<int>(tag));
  }
}

TEST(ManyAtOnce, ThreadsOnOneGroup) {
  constexpr int kThreads = 6;
  as_processes(3, [](int rank, const Group& group) {
    const Footprint before = Footprint::settled();
    as_threads(
        kThreads, [&](int tag) { rendezvous_on(group, rank, static_cast<uint64_t>(tag), 30); });
    group.barrier();
    expect_footprint(before);
  });
}

TEST(ManyAtOnce, ThreadsOnGroupsOfTheirOwn) {
  constexpr int kThreads = 4;
  const Bootstrap meeting;
  as_processes(3, [&](int rank) {
    {
      create(meeting.processes(), rank, 3);
    }

    const Footprint before = Footprint::settled();
    as_threads(kThreads, [&](int thread) {
      Config config = meeting.processes();
      config.name = "thread " + std::to_string(thread);
      for (int i = 0; i < 3; ++i) {
        const Group group = create(config, rank, 3);
        rendezvous_on(group, rank, 0, 10);
        group.barrier();
      }
    });

    expect_footprint(before);
  });

  expect_empty(meeting.path());
}

TEST(ManyAtOnce, RanksAndTheirThreadsInOneProcess) {
  as_threads(4, [](int rank, const Group& group) {
    as_threads(3, [&](int tag) { rendezvous_on(group, rank, static_cast<uint64_t>(tag), 20); });
  });
}
}  // namespace
}  // namespace support
