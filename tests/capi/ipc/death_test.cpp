// Any process may die at any time: nothing leaks, no count underflows, and the memory that others
// read stays.
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symm/symm.h"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
class Death : public Sharing {
 protected:
  // A consumer imports so often, releases all but `leases`
  // and is killed; the exporter must then hold nothing of it.
  void expect_written_off(size_t imports, uint64_t leases) {
    exporter([&] {
      Owned owned = offer(1 << 16);
      pass();
      EXPECT_EQ(ipc_stats().leases, leases);
      owned.buffer.reset();
      EXPECT_EQ(ipc_stats().limbo_blocks, leases != 0 ? 1U : 0U);
      go_on();
      expect_eventually("its leases are written off",
          [] { return ipc_stats().leases == 0 && ipc_stats().consumers == 0; });
      EXPECT_EQ(ipc_stats().written_off_leases, leases);
      EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
      EXPECT_EQ(ipc_collect().freed_blocks, 1U);
    });

    Process& victim = importer([&] {
      std::vector<Import> held;
      for (size_t i = 0; i < imports; ++i) {
        held.push_back(import(facts->token));
      }
      held.resize(leases);
      go_on();
      sleep_for_ever();
    });

    wait_for(facts->step, 2);
    victim.kill(SIGKILL);
    gone(victim);
  }
};

TEST_F(Death, BeforeImporting) { expect_written_off(0, 0); }

TEST_F(Death, WhileHolding) { expect_written_off(3, 3); }

TEST_F(Death, AfterReleasingSome) { expect_written_off(2, 1); }

// Nothing is mapped there any more, and the process lives.
TEST_F(Death, OrBecomingAnotherProgram) {
  exporter([&] {
    const Owned owned = offer(4096);
    pass();
    EXPECT_EQ(ipc_stats().leases, 1U);
    go_on();
    check(symm_ipc_withdraw(owned.data, 4096, within(20'000)));
    EXPECT_EQ(ipc_stats().written_off_leases, 1U);
    facts->step = 9;
  });

  Process& other = importer([&] {
    const Import held = import(facts->token);
    go_on();
    wait_for(facts->step, 2);
    execlp("sleep", "sleep", "60", nullptr);
  });

  wait_for(facts->step, 9);
  other.kill(SIGKILL);
  gone(other);
}

TEST_F(Death, TheExportersDataStays) {
  constexpr size_t kInts = 1 << 18;
  Processes processes(4, [&](int rank) {
    if (rank == 0) {
      const Owned owned(kInts * 4);
      for (size_t i = 0; i < kInts; ++i) {
        owned.at<int>()[i] = static_cast<int>(i);
      }
      facts->token = make_token(owned.data, kInts * 4);
      facts->step = 1;
      sleep_for_ever();
    }

    if (rank == 3) {  // gets it at second hand, from a process that is not the owner
      wait_for(facts->step, 3);
      const Import again = import(facts->tokens[1]);
      EXPECT_EQ(again.at<int>()[0], 777);
      EXPECT_NE(again.info().exporter_pid, static_cast<int64_t>(facts->tokens[2].size));
      facts->done = 5;
      return;
    }

    wait_for(facts->step, 1);
    const Import mine = import(facts->token);
    ++facts->done;
    wait_for(facts->step, 2);
    expect_eventually("its death is noticed", [&] { return mine.info().exporter_alive == 0; });

    for (size_t i = 0; i < kInts; ++i) {
      ASSERT_EQ(mine.at<int>()[i], static_cast<int>(i));
    }

    const Outcome again = outcome_of_import(facts->token);
    EXPECT_EQ(again.status, SYMM_ERR_PEER_FAILED) << again.message;
    ++facts->done;
    if (rank != 1) return;
    wait_for(facts->done, 4);  // until both have looked
    mine.at<int>()[100] = 777;

    // The owner is dead, so this process serves the memory.
    facts->tokens[1] = make_token(mine.at<int>() + 100, 4);
    EXPECT_EQ(ipc_stats().exported_blocks, 1U);
    facts->step = 3;
    wait_for(facts->done, 5);
    expect_eventually("its lease is over", [] { return ipc_stats().leases == 0; });
  });

  facts->tokens[2].size = static_cast<size_t>(processes[0].pid());
  wait_for(facts->done, 2);
  processes[0].kill(SIGKILL);
  processes[0].reap(20'000);
  facts->step = 2;
  processes.expect_success({0});
}
}  // namespace
}  // namespace support
