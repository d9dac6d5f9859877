// The creation of a group succeeds on all ranks or on none, even if a rank is missing, dies or is
// stopped on the way, and leaves nothing behind. A rendezvous that cannot succeed on one rank fails
// alike on all, costs nothing, and leaves the group as useful as before.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"
#include "tests/support/file_store.hpp"

namespace support {
namespace {
// Only the deadline tells ranks that another one is stopped, and they blame each rank that has not
// come by then. A rank that lives needs milliseconds, or a second or two beside other programs, so
// this deadline passes for the victim alone. Attempts run at once, so that the deadline is waited
// for once.
constexpr uint64_t kCreationMs = 20'000;
constexpr int kAttemptsAtOnce = 8;  // of one victim; a creation makes about six calls of the store

// One creation of a group, in which `fatal_call` of the victim's calls of the store is its last, or
// the call in which it is stopped.
class Attempt {
 public:
  Attempt(int victim, int fatal_call, int signal)
      : victim_(victim),
        fatal_call_(fatal_call),
        signal_(signal),
        processes_(kRanks, [this](int rank) { take_part(rank); }) {}

  int victim() const { return victim_; }
  int fatal_call() const { return fatal_call_; }

  // Waits for the end of all ranks, and returns whether the victim made that many calls.
  bool expect_all_or_nothing() {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
        "rank " + std::to_string(victim_) + " in call " + std::to_string(fatal_call_));
    const auto are_ready = [&] { return facts_->ready == kRanks - 1; };
    EXPECT_TRUE(eventually(are_ready, static_cast<int>(30'000 + 6 * kCreationMs)));
    if (signal_ == SIGSTOP) processes_[victim_].kill(SIGCONT);
    const int ended = processes_[victim_].wait();

    const bool was_reached = facts_->failed == kRanks - 1;
    EXPECT_TRUE(was_reached || facts_->failed == 0) << "all or nothing";
    EXPECT_TRUE(was_reached || (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)) << ended;
    processes_.expect_success(signal_ == SIGKILL ? std::vector<int>{victim_} : std::vector<int>{});
    return was_reached;
  }

 private:
  // What each rank does in its process.
  void take_part(int rank) {
    setenv("XDG_RUNTIME_DIR", runtime_.path().c_str(), 1);
    FileStore store{met_};
    store.fatal_call = rank == victim_ ? fatal_call_ : -1;
    store.signal = signal_;
    const symm_store_t callbacks = store.callbacks();
    // The deadlines of all ranks begin when all processes are there.
    all_there(*facts_, kRanks);
    Group group;
    Outcome end = outcome_of([&] {
      group = create({.create_timeout_ms = kCreationMs, .store = &callbacks}, rank, kRanks);
    });

    if (rank == victim_) {
      EXPECT_TRUE(end.status != SYMM_OK || store.calls <= fatal_call_)
          << "went on after the others had given up";
      if (end.status == SYMM_OK) group.barrier();
      return;
    }
    if (end.status == SYMM_OK) {
      end = outcome_of([&] { group.barrier({}, 0, 5 * kCreationMs); });
    }

    if (end.status != SYMM_OK) {
      EXPECT_TRUE(end.status == SYMM_ERR_TIMEOUT ||
                  (signal_ == SIGKILL && end.status == SYMM_ERR_PEER_FAILED))
          << end.message;
      EXPECT_TRUE(names_rank(end.message, victim_)) << end.message;
      EXPECT_EQ(end.rank, victim_) << end.message;
    }

    facts_->failed += end.status != SYMM_OK;
    ++facts_->ready;
  }

  const int victim_;
  const int fatal_call_;
  const int signal_;
  const Bootstrap runtime_;  // the directory of sockets
  const TemporaryDirectory met_;
  const Shared<Facts> facts_;
  Processes processes_;
};

// Tries the calls of the store in their order, some at once, until a victim makes no more.
void expect_all_or_nothing_at_each_call(int signal) {
  std::set<int> victims{0, 2};
  for (int first = 0; !victims.empty(); first += kAttemptsAtOnce) {
    ASSERT_LT(first, 50);
    std::list<Attempt> attempts;
    for (const int victim : victims) {
      for (int call = first; call < first + kAttemptsAtOnce; ++call) {
        attempts.emplace_back(victim, call, signal);
      }
    }

    for (Attempt& attempt : attempts) {
      if (attempt.expect_all_or_nothing()) continue;
      EXPECT_GT(attempt.fatal_call(), 0) << "no call of the store was reached";
      victims.erase(attempt.victim());
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Creation, ARankDiesInAnyCallOfTheStore) { expect_all_or_nothing_at_each_call(SIGKILL); }

TEST(Creation, ARankIsStoppedInAnyCallOfTheStore) { expect_all_or_nothing_at_each_call(SIGSTOP); }

// Whatever it needs the last one for, what it ran out
// of is the cause on all ranks, and nobody has died.
TEST(Creation, ARankHasFewDescriptors) {
  SYMM_NOT_UNDER_ASAN("the sanitizer itself fails without descriptors");
  int failures = 0;
  for (int left = 24; left >= 0; --left) {
    const Bootstrap meeting;
    Config config = meeting.processes();
    // Only the attempts with the fewest descriptors wait for it; beside busy processes the others
    // have taken more than two seconds.
    config.create_timeout_ms = 10'000;
    Processes ranks(4, [&](int rank) {
      if (rank == 0) leave_descriptors(left);
      if (rank == 3) usleep(150'000);  // the others look for failures meanwhile
      const Outcome got = outcome_of([&] { create(config, rank, 4); });
      return std::to_string(got.status) + " " + std::to_string(got.rank) + " " + got.message;
    });
    std::vector<std::string> said;
    for (auto& rank : ranks) {
      said.push_back(rank.result());
    }
    // Could not even enter, or gave up before the last one came: it is missed at the deadline.
    if (std::any_of(said.begin() + 1, said.end(),
            [](const std::string& one) { return one.starts_with("-6 0 "); })) {
      EXPECT_TRUE(said[0].starts_with("-10 ") && said[0].find("(errno 24)") != std::string::npos)
          << "with " << left << said[0];
      left = std::min(left, 1);  // and with none
      continue;
    }
    for (const std::string& one : said) {
      EXPECT_EQ(one, said[0]) << "with " << left;
    }
    failures += said[0] != "0 -1 ";
    EXPECT_TRUE(said[0] == "0 -1 " || said[0].rfind("-10 0 ", 0) == 0) << said[0];
  }

  EXPECT_GT(failures, 5);
}

// ---- rendezvous

constexpr size_t kBytes = 1 << 20;

uint64_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// Rank 1 makes its rendezvous at step `step` after lower(limit, step). Every step fails
// alike everywhere, with one of `allowed`, until one succeeds.
void expect_equal_failures(decltype(RLIMIT_NOFILE) resource,
    const std::function<void(const Limit& limit, int step)>& lower, symm_status_t expected,
    int most) {
  as_processes(kRanks, [&](int rank, const Group& group) {
    {
      const Buffer buffer = group.allocate(kBytes);
      const Memory warm = group.rendezvous(buffer);
      group.barrier();
    }

    expect_sum(group);
    bool succeeded = false;
    int failures = 0;
    for (int step = 0; step < most && !succeeded; ++step) {
      group.barrier();
      const Footprint before = Footprint::settled();
      {
        // The buffer is a new one in each step, because a rendezvous is remembered.
        const Buffer buffer = group.allocate(kBytes);
        std::optional<Limit> limit(resource);
        if (rank == 1) lower(*limit, step);
        symm_memory_t* made = nullptr;  // an exception might need what the limit denies
        const symm_status_t status = symm_rendezvous(group.get(), buffer.get(), nullptr, &made);
        limit.reset();
        const Memory memory(made);
        const std::string message = status == SYMM_OK ? "" : symm_last_error();
        std::vector<int32_t> of_all(kRanks);
        group.allgather(symm::Span(&status, 1), of_all);
        EXPECT_EQ(of_all, std::vector<int32_t>(kRanks, status)) << "in step " << step;
        succeeded = status == SYMM_OK;
        failures += !succeeded;
        if (!succeeded) {
          EXPECT_EQ(status, expected) << message;
          EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
          EXPECT_EQ(last_failure().rank, 1) << message;
        }
      }
      group.barrier();
      SCOPED_TRACE("after step " + std::to_string(step));
      expect_footprint(before);
      EXPECT_EQ(group.status().status, SYMM_OK);
      expect_sum(group);
    }

    EXPECT_TRUE(succeeded) << "no limit was high enough";
    EXPECT_GT(failures, 0) << "no limit was low enough";
    const Buffer buffer = group.allocate(kBytes);
    const Memory last = group.rendezvous(buffer);
    expect_sum(group);
  });
}

TEST(Rendezvous, OneRankRunsOutOfDescriptors) {
  SYMM_NOT_UNDER_ASAN(
      "UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and takes a failure "
      "for a bad object");
  expect_equal_failures(
      RLIMIT_NOFILE, [](const Limit&, int step) { leave_descriptors(step); }, SYMM_ERR_SYSTEM, 16);
}

TEST(Rendezvous, OneRankMayNotMakeFilesOfThisSize) {
  expect_equal_failures(
      RLIMIT_FSIZE,
      [](const Limit& limit, int step) { limit.lower(step == 0 ? 0 : size_t{1} << 30); },
      SYMM_ERR_OUT_OF_MEMORY, 2);
}

TEST(Rendezvous, OneRankRunsOutOfAddressSpace) {
  SYMM_NOT_UNDER_ASAN("AddressSanitizer needs the address space");
  expect_equal_failures(
      RLIMIT_AS,
      [](const Limit& limit, int step) {
        limit.lower(address_space() + static_cast<uint64_t>(step) * kBytes / 2);
      },
      SYMM_ERR_OUT_OF_MEMORY, 300);
}

// Threads of a rank may meet at once with tags of their own, in any order, but ranks
// that wait past each other are told.
TEST(Rendezvous, TagsDiffer) {
  as_threads(3, [](int rank, const Group& group) {
    const auto meet = [&](uint64_t tag) {
      return outcome_of([&] { group.rendezvous(group.allocate(64), tag); });
    };

    std::thread other([&] { EXPECT_EQ(meet(rank == 0 ? 1 : 2).message, ""); });
    if (rank == 0) usleep(700'000);
    EXPECT_EQ(meet(rank == 0 ? 2 : 1).message, "");
    other.join();
    const Outcome outcome = meet(rank == 1 ? 8 : 7);
    EXPECT_EQ(outcome.status, SYMM_ERR_MISMATCH) << outcome.message;
    EXPECT_TRUE(outcome.message.find("rank 0 waits with 7, rank 1 with 8") != std::string::npos ||
                outcome.message.find("rank 1 waits with 8, rank 2 with 7") != std::string::npos)
        << outcome.message;
    EXPECT_EQ(group.status().status, SYMM_ERR_MISMATCH);
  });
}
}  // namespace
}  // namespace support
