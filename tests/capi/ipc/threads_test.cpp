// Threads of one process export, import, withdraw and release at once.
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
TEST(Threads, OfTheExportingProcess) {
  const Bootstrap meeting;  // no Directory: it forks, and this process has threads
  setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
  const Owned owned(1 << 20);
  const Token shared = make_token(owned.data + (1 << 19), 4096);
  as_threads(4, [&](int rank) {
    std::byte* mine = owned.data + (static_cast<size_t>(rank) << 16);
    for (int i = 0; i < 300; ++i) {
      const Owned other(64);
      const Token piece = make_token(mine, 4096);
      const Token whole = make_token(other.data, 64);
      Import a = import(piece);
      const Import b = import(whole);
      const Import c = import(shared);
      EXPECT_EQ(a.at<std::byte>(), mine);
      if (i % 100 == 0) {
        EXPECT_EQ(symm_ipc_withdraw(mine, 4096, within(1)), SYMM_ERR_TIMEOUT);
      }
      a.reset();
      EXPECT_EQ(symm_ipc_withdraw(mine, 4096, within(20'000)), SYMM_OK) << symm_last_error();
      EXPECT_THROW(import(piece), Error);
      if (i % 50 == 0) ipc_collect();
    }
  });

  EXPECT_EQ(ipc_stats().leases, 0U);
  EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
  EXPECT_EQ(ipc_stats().granted_leases, 4U * 300 * 3);
}

// Who asks for an import that is suspended meanwhile is told its address and its size all the same.
TEST(Threads, AnImportSleepsWhileOthersAsk) {
  const Bootstrap meeting;
  setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
  const Owned owned(1 << 16);
  const Token token = make_token(owned.data + 64, 4096);
  const Import sleeper = import(token);
  std::atomic<bool> is_over{false};

  as_threads(4, [&](int rank) {
    if (rank == 0) {
      for (int i = 0; i < 500; ++i) {
        sleeper.suspend();
        sleeper.resume(token);
      }
      is_over = true;
    }
    while (!is_over) {
      EXPECT_EQ(sleeper.at<std::byte>(), owned.data + 64);
      EXPECT_EQ(sleeper.info().bytes, 4096U);
      if (rank == 1) (void)outcome_of([&] { sleeper.record_use(nullptr); });
      if (rank == 2) {
        EXPECT_EQ(import(token).span().size(), 4096U);
      }
    }
  });
  EXPECT_EQ(sleeper.info().flags, 0U);
  EXPECT_EQ(ipc_stats().leases, 1U);
}

// The owner writes plainly to memory that threads put into, a half each, once a fence has closed it
// to them. What they have put before happened before that.
TEST(Threads, AFenceOrdersThePutsOfThreadsBeforeTheOwnersStores) {
  const Bootstrap meeting;
  setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
  constexpr size_t kBytes = 4096;
  constexpr uint64_t kEpochs = 3000;
  const Owned owned(kBytes);
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.channels = 1;
  const Token token = make_token(owned.data, kBytes, options);
  std::atomic<uint64_t> epoch{0};
  std::atomic<uint64_t> landed{0};

  as_threads(3, [&](int rank) {
    if (rank == 0) {
      while (epoch != kEpochs) {
        const uint64_t next = epoch + 1;
        symm::ipc_fence(owned.buffer.span(), next);
        std::fill_n(owned.data, kBytes, std::byte{0});
        epoch = next;
        if (next == 1) {
          EXPECT_TRUE(eventually([&] { return landed != 0; }));
        }
      }
      return;
    }

    const Import there = import(token);
    const std::vector<std::byte> source(kBytes, std::byte{1});
    const uint64_t at = rank == 1 ? 0 : kBytes / 2;
    const symm_piece_t half{at, at, kBytes / 2, 1, 0, 0};
    while (epoch != kEpochs) {
      const Outcome outcome = outcome_of(
          [&] { there.put_pieces(0, source, symm::Pieces(symm::Span(&half, 1)), epoch); });
      if (outcome.status == SYMM_OK) {
        ++landed;
      } else {
        EXPECT_EQ(outcome.status, SYMM_ERR_ABORTED) << outcome.message;
      }
    }
  });
  EXPECT_EQ(ipc_stats().leases, 0U);
}

// Half of the threads allocate and release, the others export whatever they see. A token that is
// made at the moment of the release must not keep the block: nobody would release it any more.
TEST(Threads, AnExportAgainstTheReleaseLeavesNothing) {
  const Bootstrap meeting;
  setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
  constexpr size_t kBytes = size_t{1} << 16;
  const uint64_t exported_before = ipc_stats().exported_blocks;
  std::atomic<std::byte*> shown{nullptr};
  std::atomic<int> owners{2};
  std::atomic<uint64_t> refused{0};

  as_threads(4, [&](int rank) {
    if (rank < 2) {
      for (int i = 0; i < 1000; ++i) {
        const Owned owned(kBytes);
        shown = owned.data;
        std::this_thread::yield();
      }
      --owners;
      return;
    }

    while (owners != 0) {
      std::byte token[SYMM_IPC_TOKEN_MAX_BYTES];
      size_t size = 0;
      const symm_status_t status =
          symm_ipc_export(shown, 64, nullptr, token, sizeof token, &size, nullptr);
      if (status == SYMM_OK) continue;
      EXPECT_EQ(status, SYMM_ERR_INVALID_ARGUMENT) << symm_last_error();
      ++refused;
    }
  });

  EXPECT_GT(refused, 0U) << "no export met a buffer that was gone";
  EXPECT_EQ(ipc_stats().exported_blocks, exported_before);
  EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
}
}  // namespace
}  // namespace support
