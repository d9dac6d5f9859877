// A child of an exporter, or of an importer, has
// nothing of its parent's and harms nothing of it.
#include <unistd.h>

#include <functional>

#include "symm/symm.h"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
using Fork = Sharing;

// Runs `body` in a child process, which ends without leaving the library.
void in_child(const std::function<void()>& body) {
  Process child([&] {
    body();
    return "";
  });
  child.result();
}

TEST_F(Fork, OfAnExporter) {
  exporter([&] {
    Owned owned = offer(4096);
    *owned.at<int>() = 3;
    pass();
    in_child([&] {
      EXPECT_EQ(ipc_stats().tokens, 0U);
      EXPECT_THROW(make_token(owned.data, 64), Error) << "the buffer is the parent's";
      symm_buffer_release(owned.buffer.get());  // as a garbage collector would
      {
        const Import from_parent = import(facts->token);  // it is a process like any other
        EXPECT_EQ(*from_parent.at<int>(), 3);
      }
      const Owned own(4096);
      make_token(own.data, 64);
      EXPECT_EQ(ipc_stats().tokens, 1U);
    });
    expect_eventually("the child's lease is over", [] { return ipc_stats().leases == 1; });
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
    pass();
  });

  importer([&] {
    Import mine = import(facts->token);
    pass();
    EXPECT_EQ(mine.info().exporter_alive, 1);
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
  });
}

TEST_F(Fork, OfAnImporter) {
  exporter([&] {
    const Owned owned = offer(4096);
    *owned.at<int>() = 3;
    pass();
    EXPECT_EQ(ipc_stats().leases, 1U) << "the child's release is not the parent's";
    pass();
  });

  importer([&] {
    Import mine = import(facts->token);
    in_child([&] {
      void* pointer = nullptr;
      EXPECT_EQ(symm_ipc_pointer(mine.get(), &pointer), SYMM_ERR_INVALID_HANDLE);
      EXPECT_EQ(ipc_stats().imports, 0U);
      symm_ipc_release(mine.get(), nullptr);
      check(symm_ipc_collect(nullptr, nullptr));
      const Import own = import(facts->token);
      EXPECT_EQ(*own.at<int>(), 3);
    });
    pass();
    EXPECT_EQ(*mine.at<int>(), 3);
  });
}

// A child that outlives its parent must not keep importers waiting at a socket on which no process
// accepts.
TEST_F(Fork, AChildDoesNotHideItsParentsDeath) {
  exporter([&] {
    const Owned owned = offer(4096);
    if (fork() == 0) {
      wait_for(facts->done, 2);
      _exit(0);
    }
    pass();
    _exit(0);
  });

  importer([&] {
    const Import mine = import(facts->token);
    go_on();
    expect_eventually("its death is noticed", [&] { return mine.info().exporter_alive == 0; });
    EXPECT_EQ(outcome_of_import(facts->token).status, SYMM_ERR_PEER_FAILED);
  });
}
}  // namespace
}  // namespace support
