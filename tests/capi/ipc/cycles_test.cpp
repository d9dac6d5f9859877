// Again and again: what is made and given back leaves
// descriptors, mappings, threads and shared memory as they were.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
// A way for tokens from one process to another, as a user's pipe would be: each at
// once, for it is no longer than PIPE_BUF.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }

  void send(const Token& token) const {
    if (write(ends[1], &token, sizeof token) != sizeof token) throw std::runtime_error("write");
  }

  Token receive() const {
    Token token;
    if (read(ends[0], &token, sizeof token) != sizeof token) throw std::runtime_error("read");
    return token;
  }

  int ends[2];  // until the test's process ends
};

// Pieces go from the first process to the second, which hands each on to the third.
TEST(Cycles, AHundredThousandPiecesThroughThreeProcesses) {
  constexpr int kPieces = 100'000;
  constexpr size_t kPiece = 64;
  constexpr size_t kSlots = 4096;
  const Directory directory;
  const Pipe first;
  const Pipe second;
  Shared<Facts> facts;
  Processes processes(3, [&](int rank) {
    if (rank == 0) {
      const Owned owned(kPiece * kSlots);
      for (size_t i = 0; i < kSlots; ++i) {
        *owned.at<int>(kPiece * i) = static_cast<int>(i);
      }
      Footprint before{};
      for (int i = 0; i < kPieces; ++i) {
        if (i == kPieces / 10) before = Footprint::settled();
        first.send(make_token(owned.data + kPiece * (static_cast<size_t>(i) % kSlots), kPiece));
      }
      wait_for(facts->done, 2);
      expect_eventually("all leases are over", [] { return ipc_stats().leases == 0; });
      EXPECT_EQ(ipc_stats().tokens, static_cast<uint64_t>(kPieces));
      EXPECT_EQ(ipc_stats().granted_leases, 2 * static_cast<uint64_t>(kPieces));
      EXPECT_EQ(ipc_stats().refused_imports, 0U);
      expect_eventually("nothing was added", [&] { return Footprint::now() == before; });
      facts->step = 1;
      return;
    }

    const Pipe& from = rank == 1 ? first : second;
    std::vector<Import> held(100);
    for (int i = 0; i < kPieces; ++i) {
      Import piece = import(from.receive());
      ASSERT_EQ(*piece.at<int>(), i % static_cast<int>(kSlots));
      if (rank == 1) second.send(make_token(piece.at<int>(), kPiece));
      // The second process holds each import until the third has its own.
      held[static_cast<size_t>(i) % held.size()] = std::move(piece);
    }

    if (rank == 2) ++facts->done;
    wait_for(facts->done, 1);
    held.clear();
    EXPECT_EQ(ipc_stats().imports, 0U);
    EXPECT_EQ(ipc_stats().imported_blocks, 1U);
    if (rank == 1) ++facts->done;
    wait_for(facts->step, 1);
  });

  for (int rank = 0; rank < 3; ++rank) {
    processes[rank].wait(120'000);
  }
  processes.expect_success();
}
}  // namespace
}  // namespace support
