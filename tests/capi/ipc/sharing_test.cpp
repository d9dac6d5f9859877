// Memory goes from process to process, as often and in whatever order they like.
#include "tests/capi/ipc/sharing.hpp"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"

namespace support {
namespace {
TEST_F(Sharing, BothSidesSeeOneMemory) {
  exporter([&] {
    const Owned owned(1'000'000);
    *owned.at<int>(4096) = 41;
    facts->token = make_token(owned.at<int>(4096), 100);
    pass();
    EXPECT_EQ(*owned.at<int>(4100), 42);
    expect_eventually("the lease is over", [] { return ipc_stats().leases == 0; });
    EXPECT_EQ(ipc_stats().granted_leases, 1U);
  });

  importer([&] {
    const Import piece = import(facts->token);
    EXPECT_EQ(piece.at<int>()[0], 41);
    piece.at<int>()[1] = 42;
    EXPECT_EQ(piece.span().size(), 100U);
    const symm_ipc_info_t info = piece.info();
    EXPECT_EQ(info.backend, SYMM_BACKEND_HOST);
    EXPECT_EQ(info.bytes, 100U);
    EXPECT_EQ(info.offset, 4096U);
    EXPECT_EQ(info.block_bytes, 1'000'000U);
    EXPECT_EQ(info.exporter_alive, 1);
  });
}

// An owner that gives its memory back takes nothing from those who have imported it.
TEST_F(Sharing, ASuspendedBufferEndsItsTokensAndNothingElse) {
  constexpr size_t kBytes = 1 << 16;
  exporter([&] {
    const Owned owned(kBytes);
    *owned.at<int>() = 41;
    facts->token = make_token(owned.data, kBytes);
    pass();
    owned.buffer.suspend();
    EXPECT_EQ(ipc_stats().limbo_blocks, 1U);
    pass();
    owned.buffer.resume();
    EXPECT_EQ(*owned.at<int>(), 0);
    *owned.at<int>() = 43;
    facts->token = make_token(owned.data, kBytes);
    pass();
  });

  importer([&] {
    const Import old = import(facts->token);
    pass();
    EXPECT_EQ(*old.at<int>(), 41);
    EXPECT_EQ(outcome_of_import(facts->token).status, SYMM_ERR_INVALID_HANDLE);
    pass();
    const Import renewed = import(facts->token);
    EXPECT_EQ(*renewed.at<int>(), 43);
    EXPECT_EQ(*old.at<int>(), 41);
  });
}

TEST_F(Sharing, ImportsOfOneBufferShareOneMapping) {
  exporter([&] {
    const Owned owned(1 << 20);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(owned.at<int>(8192), 64);
    pass();
  });

  importer([&] {
    const Import first = import(facts->tokens[0]);
    const Footprint one = Footprint::now();
    const Import again = import(facts->tokens[0]);
    const Import other = import(facts->tokens[1]);
    EXPECT_EQ(Footprint::now(), one);
    EXPECT_EQ(first.at<std::byte>(), again.at<std::byte>());
    EXPECT_EQ(first.at<std::byte>() + 8192, other.at<std::byte>());
    EXPECT_EQ(ipc_stats().imports, 3U);
    EXPECT_EQ(ipc_stats().imported_blocks, 1U);
    EXPECT_EQ(ipc_stats().imported_bytes, size_t{1} << 20);
  });
}

TEST_F(Sharing, TheExportingProcessMayImport) {
  exporter([] {
    Owned owned(4096);
    const Token token = make_token(owned.at<int>(16), 8);
    Import mine = import(token);
    EXPECT_EQ(mine.at<std::byte>(), owned.data + 16);
    symm::Import same = mine.share();
    EXPECT_EQ(same.get(), mine.get());
    same.reset();
    EXPECT_EQ(ipc_stats().leases, 1U) << "the other reference is left";
    EXPECT_EQ(ipc_stats().oldest_lease_pid, getpid());
    owned.buffer.reset();
    EXPECT_EQ(ipc_stats().limbo_blocks, 1U);
    *mine.at<int>() = 5;  // still there
    EXPECT_EQ(outcome_of_import(token).status, SYMM_ERR_INVALID_HANDLE);
    mine.reset();
    EXPECT_EQ(ipc_stats().leases, 0U);
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
    const symm_ipc_collect_stats_t report = ipc_collect();
    EXPECT_EQ(report.freed_blocks, 1U);
    EXPECT_EQ(report.ended_leases, 1U);
  });
}

TEST_F(Sharing, ATokenThatNobodyImportsHoldsNothing) {
  exporter([] {
    for (int i = 0; i < 10; ++i) {
      const Owned owned(4096);
      make_token(owned.data, 64);
      make_token(owned.data, 64);
    }
    const symm_ipc_stats_t now = ipc_stats();
    EXPECT_EQ(now.tokens, 20U);
    EXPECT_EQ(now.exported_blocks, 0U);
    EXPECT_EQ(now.limbo_blocks, 0U);
    EXPECT_EQ(ipc_collect().freed_blocks, 10U);
    EXPECT_EQ(ipc_collect().freed_blocks, 10U) << "is counted from the beginning, whoever collects";
  });
}

TEST_F(Sharing, ManyProcessesImportOneToken) {
  constexpr int kImporters = 6;
  as_processes(1 + kImporters, [&](int rank) {
    if (rank == 0) {
      const Owned owned(1 << 16);
      *owned.at<int>() = 77;
      facts->token = make_token(owned.data, 4);
      facts->step = 1;
      wait_for(facts->done, kImporters);
      EXPECT_EQ(ipc_stats().leases, static_cast<uint64_t>(kImporters));
      EXPECT_EQ(ipc_stats().consumers, static_cast<uint64_t>(kImporters));
      const symm_ipc_holders_t holders = symm::ipc_holders(symm::Span(owned.data, 4));
      EXPECT_EQ(holders.leases, static_cast<uint64_t>(kImporters));
      EXPECT_EQ(holders.processes, static_cast<uint64_t>(kImporters));
      EXPECT_EQ(symm::ipc_holders(symm::Span(owned.data + 4, 4)).leases, 0U);
      const symm_ipc_stats_t now = ipc_stats();
      bool one_of_them = false;
      for (int i = 0; i < kImporters; ++i) {
        one_of_them = one_of_them || facts->tokens[i].size == static_cast<size_t>(holders.pid);
      }
      EXPECT_NE(now.oldest_lease_pid, 0);
      EXPECT_TRUE(one_of_them);
      EXPECT_GT(now.oldest_lease_start_time, 0U);
      facts->step = 2;
      expect_eventually("all leases are over", [] { return ipc_stats().leases == 0; });
      EXPECT_EQ(ipc_stats().written_off_leases, 0U);
      return;
    }

    wait_for(facts->step, 1);
    const Import mine = import(facts->token);
    EXPECT_EQ(*mine.at<int>(), 77);
    facts->tokens[rank - 1].size = static_cast<size_t>(getpid());
    ++facts->done;
    wait_for(facts->step, 2);
  });
}

TEST_F(Sharing, ReexportNamesTheOwner) {
  as_processes(3, [&](int rank) {
    if (rank == 0) {
      const Owned owned(1 << 16);
      *owned.at<int>(128) = 9;
      facts->tokens[0] = make_token(owned.at<int>(64), 128);
      facts->step = 1;
      wait_for(facts->step, 3);
      EXPECT_EQ(ipc_stats().leases, 1U);  // that of the third; the second has let go
      EXPECT_EQ(ipc_stats().consumers, 2U);
      facts->done = 1;
      return;
    }

    if (rank == 1) {
      wait_for(facts->step, 1);
      {
        const Import piece = import(facts->tokens[0]);
        facts->tokens[1] = make_token(piece.at<std::byte>() + 64, 4);
        for (const size_t size : {size_t{65}, SIZE_MAX}) {
          EXPECT_THROW(make_token(piece.at<std::byte>() + 64, size), Error)
              << "more than was imported";
        }
        EXPECT_THROW(symm::ipc_holders(piece.span()), Error) << "the owner knows";
        EXPECT_EQ(outcome_of([&] { make_token(piece.at<std::byte>(), 4, 100); }).status,
            SYMM_ERR_UNSUPPORTED)
            << "not to be held";
        EXPECT_THROW(make_token(piece.at<std::byte>() - 64, 4), Error) << "not what was imported";
      }
      EXPECT_EQ(ipc_stats().exported_blocks, 0U);
      facts->step = 2;
      wait_for(facts->done, 1);
      return;
    }

    wait_for(facts->step, 2);
    const Import piece = import(facts->tokens[1]);
    EXPECT_EQ(*piece.at<int>(), 9);
    EXPECT_EQ(piece.info().offset, 128U);
    facts->step = 3;
    wait_for(facts->done, 1);
  });
}

// A program that must hold no memory says so, and the environment does not overrule it.
TEST_F(Sharing, TheProgramForbidsToHoldWhatTheEnvironmentHolds) {
  exporter([&] {
    setenv("SYMM_IPC_HOLD_MS", "60000", 1);
    symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
    options.flags = SYMM_IPC_NO_HOLD;
    {
      const Owned owned(1 << 16);
      symm::ipc_export(symm::Span(owned.data, 64), options);
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U);

    options.flags = 0;
    {
      const Owned owned(1 << 16);
      symm::ipc_export(symm::Span(owned.data, 64), options);
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 1U) << "held by the default of the process";
  });
}

TEST_F(Sharing, AHeldTokenOutlivesTheBuffer) {
  exporter([&] {
    {
      const Owned owned(1 << 16);
      *owned.at<int>() = 1234;
      facts->tokens[0] = make_token(owned.data, 4, 60'000, 2);
      facts->tokens[1] = make_token(owned.data, 4);
      facts->tokens[2] = make_token(owned.data, 4, 1, 0);
      setenv("SYMM_IPC_HOLD_MS", "60000", 1);
      facts->tokens[3] = make_token(owned.data, 4, 0, 1);
      unsetenv("SYMM_IPC_HOLD_MS");
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 1U);
    EXPECT_EQ(ipc_stats().exported_blocks, 1U);
    usleep(2000);  // more than the third token's millisecond
    pass();
    expect_eventually(
        "two imports were made and released", [] { return ipc_collect().limbo_blocks == 0; });
    EXPECT_EQ(ipc_stats().exported_blocks, 0U);
  });

  importer([&] {
    EXPECT_EQ(outcome_of_import(facts->tokens[1]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[2]).status, SYMM_ERR_INVALID_HANDLE);
    const Import first = import(facts->tokens[0]);
    EXPECT_EQ(*first.at<int>(), 1234);
    const Import second = import(facts->tokens[0]);
    EXPECT_EQ(*second.at<int>(), 1234);
    EXPECT_EQ(outcome_of_import(facts->tokens[0]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[3]).message, "")
        << "held by the default of the process";
  });
}

// An empty array in a list must break neither its sender nor its receiver, even if the sender is
// gone.
TEST_F(Sharing, ATokenOfNothingNeedsNobody) {
  gone(exporter([&] {
    const Owned owned(4096);
    facts->tokens[0] = make_token(nullptr, 0, 1000, 1);
    facts->tokens[1] = make_token(owned.data + 4096, 0);
    EXPECT_EQ(ipc_stats().exported_blocks, 0U);
    go_on();
  }));
  importer([&] {
    for (const Token& token : {facts->tokens[0], facts->tokens[1]}) {
      const Import nothing = import(token);
      EXPECT_TRUE(nothing.span().empty());
      EXPECT_EQ(nothing.at<std::byte>(), nullptr);
      EXPECT_EQ(nothing.info().block_bytes, 0U);
      EXPECT_EQ(ipc_stats().exporters, 0U);
    }
  });
}

// Released memory is not kept mapped for a next import, which cannot come.
TEST_F(Sharing, ReleasedMemoryGoesBackToTheSystem) {
  exporter([&] {
    Owned owned = offer(1 << 20);
    pass();
    owned.buffer.reset();
    pass();
  });

  importer([&] {
    import(facts->token);
    EXPECT_EQ(ipc_stats().imports, 0U);
    EXPECT_EQ(ipc_stats().imported_blocks, 1U) << "kept for the next";
    go_on();
    expect_eventually(
        "the exporter's word arrives", [] { return ipc_stats().imported_blocks == 0; });
  });
}

TEST_F(Sharing, CollectDropsMappingsAndIdleConnections) {
  exporter([&] {
    const Owned owned = offer(1 << 20);
    pass();
    expect_eventually("the importer has gone", [] { return ipc_stats().consumers == 0; });
    pass();
  });

  importer([&] {
    import(facts->token);
    EXPECT_EQ(ipc_stats().exporters, 1U);
    EXPECT_EQ(ipc_collect().dropped_mappings, 1U);
    EXPECT_EQ(ipc_stats().exporters, 0U);
    pass();
    EXPECT_EQ(outcome_of_import(facts->token).message, "") << "it connects anew";
  });
}

void remember(void* user, symm_log_level_t level, const char* message) {
  if (level == SYMM_LOG_WARNING) *static_cast<std::string*>(user) = message;
}

TEST_F(Sharing, ManyBlocksInLimboAreWarnedOf) {
  constexpr int kBlocks = 64;
  exporter([&] {
    std::string warning;
    const symm::LogListener listener(remember, &warning, SYMM_LOG_WARNING);
    std::vector<std::unique_ptr<Owned>> owned;
    for (int i = 0; i < kBlocks; ++i) {
      owned.push_back(std::make_unique<Owned>(4096));
      facts->tokens[i] = make_token(owned.back()->data, 64);
    }
    pass();
    owned.pop_back();
    EXPECT_EQ(warning, "");
    owned.clear();
    EXPECT_NE(warning.find("64 released buffers"), std::string::npos) << warning;
    EXPECT_NE(
        warning.find("pid " + std::to_string(facts->tokens[0].size) + " (64)"), std::string::npos)
        << warning;
    EXPECT_EQ(ipc_stats().limbo_blocks, static_cast<uint64_t>(kBlocks));
    EXPECT_EQ(ipc_stats().limbo_bytes, size_t{kBlocks} * 4096);
    go_on();
    expect_eventually("limbo is empty", [] { return ipc_collect().limbo_blocks == 0; });
  });

  importer([&] {
    std::vector<Import> imports;
    for (const Token& token : facts->tokens) {
      imports.push_back(import(token));
    }
    facts->tokens[0].size = static_cast<size_t>(getpid());
    pass();
  });
}

// ---- before memory is written anew, no lease of it may be left

using Withdraw = Sharing;

TEST_F(Withdraw, EndsTheTokensOfAPieceOnly) {
  exporter([&] {
    const Owned owned(4096);
    // Memory of which no token was made.
    check(symm_ipc_withdraw(owned.data, 4096, within(1)));
    EXPECT_EQ(ipc_stats().tokens, 0U);
    for (size_t i = 0; i < 4; ++i) {
      facts->tokens[i] = make_token(owned.data + 1024 * i, 1024);
    }
    pass();
    // The range touches the first and the second piece.
    check(symm_ipc_withdraw(owned.data + 1000, 100, within(20'000)));
    facts->tokens[4] = make_token(owned.data, 2048);
    pass();
    const std::string holder = "pid " + std::to_string(facts->tokens[0].size);
    expect_failed(symm_ipc_withdraw(owned.data, 4096, within(SYMM_TIMEOUT_NOW)), SYMM_ERR_TIMEOUT,
        {"after 0 ms", holder});
    go_on();
    check(symm_ipc_withdraw(owned.data, 4096, within(20'000)));
    pass();
  });

  importer([&] {
    import(facts->tokens[2]);
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[0]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[1]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[2]).message, "");
    EXPECT_EQ(outcome_of_import(facts->tokens[3]).message, "");
    Import fresh = import(facts->tokens[4]);
    facts->tokens[0].size = static_cast<size_t>(getpid());
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[4]).status, SYMM_ERR_INVALID_HANDLE);
    fresh.reset();
    pass();
  });
}

// A release never waits, so more of them than the ring holds
// must be told later, though their process does nothing more.
TEST_F(Withdraw, HearsOfReleasesThatFoundNoRoom) {
  constexpr size_t kLeases = 2000;
  const Process& owner = exporter([&] {
    const Owned owned(4096);
    for (const bool by_asking : {false, true}) {
      facts->token = make_token(owned.data, 64);
      pass();  // stopped in between
      if (by_asking) {
        expect_eventually("all leases are over", [] { return ipc_stats().leases == 0; });
      } else {
        check(symm_ipc_withdraw(owned.data, 4096, within(20'000)));
      }
      EXPECT_EQ(ipc_stats().leases, 0U);
    }
    go_on();
  });

  importer([&] {
    for (int round = 0; round < 2; ++round) {
      std::vector<Import> held(kLeases);
      for (Import& one : held) {
        one = import(facts->token);
      }
      owner.kill(SIGSTOP);
      usleep(5000);  // until all of its threads have stopped
      held.clear();
      owner.kill(SIGCONT);
      pass();
    }
  });
}
}  // namespace
}  // namespace support
