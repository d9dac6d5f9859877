// Threads of one process export, import, withdraw and release at once.
#include <stdlib.h>

#include <cstddef>

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
        EXPECT_EQ(symm_ipc_withdraw(mine, 4096, 1), SYMM_ERR_TIMEOUT);
      }
      a.reset();
      EXPECT_EQ(symm_ipc_withdraw(mine, 4096, 20'000), SYMM_OK) << symm_last_error();
      EXPECT_THROW(import(piece), Error);
      if (i % 50 == 0) ipc_collect();
    }
  });

  EXPECT_EQ(ipc_stats().leased, 0U);
  EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
  EXPECT_EQ(ipc_stats().grants, 4U * 300 * 3);
}
}  // namespace
}  // namespace support
