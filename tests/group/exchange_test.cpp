// A failure on one rank is the same failure on all, whatever was thrown, and nobody
// waits for the deadline to learn it.
#include "core/group/exchange.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/wait.hpp"
#include "core/group/group.hpp"
#include "core/group/heap.hpp"
#include "core/group/memory.hpp"
#include "core/host/transport.hpp"
#include "core/mesh/mesh.hpp"
#include "tests/support/core.hpp"

namespace {
// Options of a call that makes a group of another one, with a deadline of its own.
symm::SubgroupOptions within(uint64_t timeout_ms) {
  symm::SubgroupOptions options;
  options.call_timeout_ms = timeout_ms;
  return options;
}

// So many more allocations of this thread succeed, then one fails; negative: all succeed. They are
// counted from the first allocation of `counted_from` bytes on; 0: from now on.
thread_local long allocations_left = -1;
thread_local size_t counted_from = 0;
}  // namespace

// These functions are not inlined: GCC would see a free() of memory that, it believes, another
// operator new made.
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  if (counted_from == size) counted_from = 0;
  if (counted_from == 0 && allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  const auto unit = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

[[gnu::noinline]] void* operator new(size_t size) {
  return operator new(size, std::align_val_t(alignof(std::max_align_t)));
}

// Called by std::stable_sort(), which can do without the memory.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size);
}

[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }

[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {
using namespace symm;
using namespace support;

constexpr int kRanks = 3;

std::shared_ptr<Group> create(
    int rank, int size, const std::string& bootstrap = "thread://exchange", const char* name = "") {
  GroupConfig config;
  config.name = name;
  config.rank = rank;
  config.size = size;
  config.backend = BackendKind::host;
  config.bootstrap = bootstrap;
  config.create_timeout_ms = 20'000;
  return Group::create(config);
}

struct Thrown {
  const char* name;
  std::function<void()> raise;
  Status status;
};

const Thrown kThrown[] = {
    {"Error", [] { throw Error(Status::unsupported, "odd"); }, Status::unsupported},
    {"bad_alloc", [] { throw std::bad_alloc(); }, Status::out_of_memory},
    {"length_error", [] { throw std::length_error("odd"); }, Status::internal},
    {"int", [] { throw 4711; }, Status::internal},
};

TEST(Exchange, WhateverOneRankThrowsInWhateverPhaseIsTheSameOnAll) {
  as_threads(kRanks, [](int rank) {
    const auto group = create(rank, kRanks);
    uint64_t sequence = 0;
    const auto run = [&](int bad_phase, const Thrown& thrown) {
      Phases phases;
      const auto step = [&](int phase) {
        if (rank == 1 && phase == bad_phase) thrown.raise();
      };
      int accepted = 0;
      phases.prepare = [&] {
        step(0);
        return Offer{
            {static_cast<uint64_t>(rank), 0}, {bytes_of("from " + std::to_string(rank)), {}}};
      };
      phases.agree = [](std::span<const Vote> votes) { EXPECT_EQ(votes[2].value[0], 2U); };
      phases.accept = [&](int peer, Message message) {
        step(1);
        EXPECT_EQ(text_of(message.body), "from " + std::to_string(peer));
        ++accepted;
      };
      phases.finish = [&] {
        step(2);
        EXPECT_EQ(accepted, kRanks - 1);
      };
      return failure_of(
          [&] { exchange(*group, MessageKind::segment, 99, sequence++, phases, soon()); });
    };

    for (const Thrown& thrown : kThrown) {
      for (int phase = 0; phase < 3; ++phase) {
        const Failure failure = run(phase, thrown);
        EXPECT_EQ(failure.status, thrown.status)
            << thrown.name << " in phase " << phase << ": " << failure.message;
        EXPECT_EQ(failure.rank, 1);
        EXPECT_EQ(failure.message.find("rank 1: "), 0U) << failure.message;
        EXPECT_FALSE(group->revocation().revoked());
      }
    }

    EXPECT_EQ(run(-1, kThrown[0]).status, Status::ok);
  });
}

// Agreed says that all ranks throw, so nobody tells the others of it again.
TEST(Exchange, WhatTheRanksDisagreeOnIsTheSameOnAll) {
  as_threads(kRanks, [](int rank) {
    const auto group = create(rank, kRanks);
    Phases phases;
    phases.prepare = [] { return Offer{}; };
    phases.agree = [](std::span<const Vote>) { throw Error({Status::mismatch, 2, 0, "as it is"}); };

    try {
      exchange(*group, MessageKind::segment, 99, 0, phases, soon());
      ADD_FAILURE() << "it succeeded";
    } catch (const Agreed& error) {
      EXPECT_EQ(error.failure().status, Status::mismatch);
      EXPECT_EQ(error.failure().rank, 2);
      EXPECT_EQ(error.failure().message, "as it is");
    }
    EXPECT_FALSE(group->revocation().revoked());
  });
}

// A rank whose group has failed returns, though what the others sent is there.
TEST(Exchange, AcceptsNothingMoreOnceTheGroupHasFailed) {
  std::latch sent(1);  // by rank 2, to all
  as_threads(kRanks, [&](int rank) {
    const auto group = create(rank, kRanks);
    int accepted = 0;
    const auto accept = [&](int, const Message&) {
      if (rank == 2 && accepted == 0) sent.count_down();
      if (rank == 0) {
        sent.wait();
        group->fail({Status::aborted, 0, 0, "a test"});
      }
      ++accepted;
    };

    const Phases phases{[] { return Offer{}; }, [](auto) {}, accept, [] {}};
    const Failure failure = failure_of([&] {
      try {
        exchange(*group, MessageKind::segment, 99, 0, phases, soon());
      } catch (const std::exception& error) {
        group->give_up(error);
      }
    });

    EXPECT_EQ(failure.status, Status::aborted) << failure.message;
    EXPECT_TRUE(rank != 0 || accepted == 1) << accepted;
  });
}

// Rank 2 is stopped after its vote was sent to rank 0,
// which goes on to wait for rank 1, which waits for rank 2.
TEST(Exchange, ALateRankIsNamedEvenByRanksThatHaveItsVote) {
  for (const uint64_t round : {0U, 1U}) {
    std::barrier<> over(kRanks);
    as_threads(kRanks, [&](int rank) {
      const auto group = create(rank, kRanks);
      const auto vote = [&](uint64_t number) {
        return Topic{MessageKind::vote, group->id(), 99, number};
      };

      if (rank == 2) {
        if (round == 1) {
          commit_vote(*group, vote(0), {}, soon());
          for (const int peer : {0, 1}) {
            group->send(peer, {MessageKind::segment, group->id(), 99, 0}, {}, {}, soon());
          }
        }
        constexpr size_t kVoteSize = sizeof Vote::value + kFailureHeader + kMaxFailureText;
        const Message yes = group->receive(0, vote(round), kVoteSize, 0, soon());
        group->send(0, vote(round), yes.body, {}, soon());
      } else {
        const Phases phases{[] { return Offer{}; }, [](auto) {}, [](int, const Message&) {}, [] {}};
        const auto meet = [&] {
          const Deadline deadline = Deadline::after_ms(rank == 0 ? 200 : 20'000);
          for (const uint64_t sequence : {0U, 1U}) {
            exchange(*group, MessageKind::segment, 99, sequence, phases, deadline);
          }
        };
        const Failure failure = failure_of([&] {
          try {
            meet();
          } catch (const std::exception& error) {
            group->give_up(error);
          }
        });
        EXPECT_EQ(failure.status, Status::timeout) << failure.message;
        EXPECT_EQ(failure.rank, 2)
            << "rank " << rank << ", round " << round << ": " << failure.message;
      }

      over.arrive_and_wait();
      EXPECT_EQ(group->revocation().failure().rank, 2) << group->revocation().failure().message;
    });
  }
}

// A rank that was stopped past its deadline finds that the others are missing, since
// they have ended because of it, and that they blame it. It must not answer that.
TEST(Exchange, ARankThatWasStoppedPastItsDeadlineTakesTheWordOfTheOthers) {
  std::barrier<> over(kRanks);
  as_threads(kRanks, [&](int rank) {
    const auto group = create(rank, kRanks);
    const auto prepare = [&] {
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1'200));
      return Offer{};
    };
    const Phases phases{prepare, [](auto) {}, [](int, const Message&) {}, [] {}};

    over.arrive_and_wait();
    const Deadline deadline = Deadline::after_ms(300);
    const Failure failure = failure_of([&] {
      try {
        exchange(*group, MessageKind::segment, 99, 0, phases, deadline);
      } catch (const std::exception& error) {
        group->give_up(error);
      }
    });
    EXPECT_EQ(failure.status, Status::timeout) << failure.message;
    EXPECT_EQ(failure.rank, 2) << "rank " << rank << ": " << failure.message;

    over.arrive_and_wait();
    EXPECT_EQ(group->revocation().failure().rank, 2) << group->revocation().failure().message;
  });
}

// A descriptor by which a number can be read.
Fd numbered(int number) {
  Fd fd(memfd_create("number", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), &number, sizeof number), static_cast<ssize_t>(sizeof number));
  return fd;
}

int number_of(const Fd& fd) {
  int number = -1;
  EXPECT_EQ(pread(fd.get(), &number, sizeof number, 0), static_cast<ssize_t>(sizeof number));
  return number;
}

void expect_descriptors(const Group& group, int peer, const Message& message, size_t more) {
  EXPECT_EQ(message.body.size(), 8U);
  ASSERT_EQ(message.fds.size(), 2 + more) << "of rank " << peer << " on rank " << group.rank();
  for (size_t i = 0; i < message.fds.size(); ++i) {
    EXPECT_EQ(number_of(message.fds[i]), 1000 * peer + static_cast<int>(i));
  }
}

// Some send none, and some more than a message or than several have room for.
void exchange_descriptors(Group& group, uint64_t sequence) {
  static constexpr size_t kMore[kRanks][3] = {{0, 4, 1}, {5, 0, 500}, {17, 8, 0}};
  std::vector<Fd> own;
  const auto prepare = [&] {
    Offer offer;
    for (size_t i = 0; i < 2 + kMore[group.rank()][sequence]; ++i) {
      own.push_back(numbered(1000 * group.rank() + static_cast<int>(i)));
      auto& message = offer.message;
      (i < 2 ? message.fds : message.more_fds).push_back(own.back().get());
    }
    append(offer.message, sequence);
    return offer;
  };
  const auto accept = [&](int peer, const Message& message) {
    expect_descriptors(group, peer, message, kMore[peer][sequence]);
  };

  exchange(group, MessageKind::segment, 98, sequence, Phases{prepare, [](auto) {}, accept, [] {}},
      Deadline::after_ms(20'000));
}

TEST(Exchange, EachRankSendsAsManyDescriptorsMoreAsItLikes) {
  const TemporaryDirectory directory;
  Processes ranks(kRanks, [&](int rank) {
    const auto group = create(rank, kRanks, "dir://" + directory.path());
    for (uint64_t sequence = 0; sequence < 3; ++sequence) {
      exchange_descriptors(*group, sequence);
    }
  });
  ranks.expect_success();

  as_threads(kRanks, [](int rank) { exchange_descriptors(*create(rank, kRanks), 0); });
}

TEST(Exchange, ARankThatWantsToSendTooManyDescriptorsIsNamed) {
  as_threads(kRanks, [](int rank) {
    const auto group = create(rank, kRanks);
    const auto prepare = [&] {
      Offer offer;
      if (rank == 1) offer.message.more_fds.assign(kMostParts, 0);
      return offer;
    };
    const Phases phases{prepare, [](auto) {}, [](int, const Message&) {}, [] {}};
    const Failure failure = failure_of(
        [&] { exchange(*group, MessageKind::segment, 98, 0, phases, Deadline::after_ms(20'000)); });
    EXPECT_EQ(failure.status, Status::peer_failed) << failure.message;
    EXPECT_EQ(failure.rank, 1) << failure.message;
    exchange_descriptors(*group, 1);
  });
}

// Rank 1 has given up a call, and rank 0, which has not heard of that, begins it.
TEST(Shrink, ARankThatIsACallBehindGoesOnToTheLaterOne) {
  std::barrier<> given_up(2);
  as_threads(2, [&](int rank) {
    const auto group = create(rank, 2);
    if (rank == 1) {
      EXPECT_EQ(failure_of([&] { group->shrink(within(100)); }).status, Status::timeout);
      given_up.arrive_and_wait();
    } else {
      given_up.arrive_and_wait();
      constexpr size_t kViewOfTwo = 6 + kFailureHeader + kMaxFailureText;
      const Topic first_call{MessageKind::agreement, group->id(), 0, 0};
      const Failure end = failure_of([&] {
        for (;;) {
          group->receive(1, first_call, kViewOfTwo, 0, Deadline::after_ms(100));
        }
      });
      EXPECT_EQ(end.status, Status::timeout) << end.message;
    }

    const auto part = group->shrink(within(10'000));
    EXPECT_EQ(part->size(), 2);
  });
}

// A rank that takes part in the creation of another group has left the calls of those groups that
// it knew to have failed, but perhaps not the calls of others.
TEST(Stragglers, HaveLeftTheCallsOfGroupsKnownToHaveFailed) {
  const TemporaryDirectory directory;
  Processes ranks(2, [&](int rank) {
    const auto make = [&](const char* name) {
      return create(rank, 2, "dir://" + directory.path(), name);
    };

    const auto first = make("first");
    const auto buffer = Buffer::allocate(*first, 4096);
    const auto memory = Memory::rendezvous(first, buffer, 0);
    const Failure failure{Status::peer_failed, 0, 0, "a test"};
    if (rank == 0) first->revocation().revoke(failure);  // rank 1 sees the failure later
    const auto second = make("second");
    if (rank == 0) {
      expect_failure(Status::unavailable, {"rank 1"}, [&] { buffer->require_no_stragglers(0); });
    }

    if (rank == 1) first->revocation().revoke(failure);
    const auto third = make("third");
    if (rank == 0) buffer->require_no_stragglers(0);
  });

  ranks.expect_success();
}

// From a point on, each allocation of rank 1 fails in turn, until all succeed. The other rank must
// hear of each failure.
// The usual recovery: memory and group are released, a new group is made, and the old buffer meets
// on it. A rank that leaves first hears no more when the others leave: the new group tells it.
struct Recovery {
  const char* name;
  bool is_known_to_all;
  int first_to_leave;
  friend void PrintTo(const Recovery& one, std::ostream* out) { *out << one.name; }
};

class Recoveries : public testing::TestWithParam<Recovery> {};

TEST_P(Recoveries, LetAnOldBufferMeetOnANewGroup) {
  const Recovery recovery = GetParam();
  const TemporaryDirectory directory;
  const Shared<std::atomic<bool>> one_has_left;
  Processes ranks(2, [&](int rank) {
    const auto make = [&](const char* name) {
      return create(rank, 2, "dir://" + directory.path(), name);
    };

    auto group = make("first");
    const auto buffer = Buffer::allocate(*group, 4096);
    auto memory = Memory::rendezvous(group, buffer, 0);
    if (rank == 0 || recovery.is_known_to_all) {
      group->revocation().revoke({Status::peer_failed, 0, 0, "a test"});
    }
    memory.reset();

    if (rank != recovery.first_to_leave) {
      ASSERT_TRUE(eventually([&] { return one_has_left->load(); }));
    }
    group.reset();
    *one_has_left = true;

    group = make("second");
    EXPECT_NE(Memory::rendezvous(group, buffer, 0), nullptr);
  });

  ranks.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Stragglers, Recoveries,
    testing::Values(Recovery{"known_0_first", true, 0}, Recovery{"known_1_first", true, 1},
        Recovery{"unknown_0_first", false, 0}, Recovery{"unknown_1_first", false, 1}),
    [](const auto& one) { return one.param.name; });

using Body = std::function<std::shared_ptr<Group>(
    int rank, const std::function<void(size_t from)>& run_short)>;

void run_out_of_memory(const Body& body) {
  for (long allocations = 0;; ++allocations) {
    ASSERT_LT(allocations, 10'000);
    Failure failures[2];
    std::shared_ptr<Group> groups[2];
    bool all_succeeded = false;
    const auto start = std::chrono::steady_clock::now();
    as_threads(2, [&](int rank) {
      const auto run_short = [&](size_t from) {
        if (rank != 1) return;
        allocations_left = allocations;
        counted_from = from;
      };

      try {
        groups[rank] = body(rank, run_short);
        if (rank == 1) all_succeeded = allocations_left >= 0;
        allocations_left = -1;
      } catch (...) {
        allocations_left = -1;
        failures[rank] = current_failure();
      }
    });
    if (all_succeeded) return;
    if (groups[0] && failures[0].status == Status::ok) {
      // Rank 0 had finished when rank 1 failed, so it learns the failure from its group.
      failures[0] = groups[0]->revocation().failure();
    }
    // Both ranks could do without the memory.
    if (failures[0].status == Status::ok && failures[1].status == Status::ok) continue;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << allocations;
    for (const Failure& failure : failures) {
      EXPECT_EQ(failure.status, Status::out_of_memory) << allocations << ": " << failure.message;
      EXPECT_EQ(failure.rank, 1) << allocations << ": " << failure.message;
    }
  }
}

TEST(OutOfMemory, WhileATransportIsMadeAndConnectedIsTheSameOnAll) {
  run_out_of_memory([](int rank, const auto& run_short) {
    run_short(sizeof(host::HostTransport));
    return create(rank, 2);
  });
}

TEST(OutOfMemory, InARendezvousIsTheSameOnAll) {
  for (const bool of_heap : {false, true}) {
    run_out_of_memory([&](int rank, const auto& run_short) {
      auto group = create(rank, 2);
      const auto buffer = Buffer::allocate(*group, 4096);
      run_short(0);
      if (of_heap) {
        Heap::create(group, 4096, {});
      } else {
        Memory::rendezvous(group, buffer, 0);
      }
      return group;
    });
  }
}

TEST(OutOfMemory, WhereAGroupIsMadeOfAnotherIsTheSameOnAll) {
  constexpr int32_t kBoth[] = {0, 1};
  const std::function<std::shared_ptr<Group>(Group&)> ways[] = {
      [](Group& group) { return group.split(0, 0); },
      [&](Group& group) { return group.create_from_ranks(kBoth); },
      [](Group& group) { return group.shrink(); }};

  for (const auto& make : ways) {
    run_out_of_memory([&](int rank, const auto& run_short) {
      const auto group = create(rank, 2);
      run_short(0);
      return make(*group);
    });
  }
}
}  // namespace
