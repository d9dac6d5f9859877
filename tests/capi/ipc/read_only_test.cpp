// Imports for reading only: the mapping refuses stores, and stays what it is through re-export,
// release and the owner's death.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
using ReadOnly = Sharing;

// The signal by which a store into `word` ends a process; 0: none.
int signal_of_store(volatile int* word) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *word = 1;
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(ReadOnly, AStoreFaultsAndTheOwnersDoNot) {
  exporter([&] {
    const Owned owned = offer(1 << 16);
    *owned.at<int>() = 41;
    pass();
    *owned.at<int>() = 42;
    pass();
  });

  importer([&] {
    const Import reading = import_for_reading(facts->token);
    EXPECT_EQ(reading.info().flags, SYMM_IPC_READ_ONLY);
    EXPECT_EQ(signal_of_store(reading.at<int>() + 1), SIGSEGV);
    EXPECT_EQ(*reading.at<int>(), 41);

    const Import writing = import(facts->token);
    EXPECT_EQ(writing.info().flags, 0U);
    EXPECT_NE(writing.at<int>(), reading.at<int>()) << "a mapping of its own";
    EXPECT_EQ(signal_of_store(writing.at<int>() + 1), 0);
    EXPECT_EQ(reading.at<int>()[1], 1) << "of the same memory";
    EXPECT_EQ(import_for_reading(facts->token).at<int>(), reading.at<int>());
    EXPECT_EQ(ipc_stats().imported_blocks, 2U);
    pass();
    EXPECT_EQ(*reading.at<int>(), 42);
  });
}

TEST_F(ReadOnly, InTheProcessThatExports) {
  exporter([&] {
    Owned owned = offer(1 << 16);
    *owned.at<int>() = 7;
    {
      const Import reading = import_for_reading(facts->token);
      EXPECT_NE(reading.at<std::byte>(), owned.data);
      EXPECT_EQ(*reading.at<int>(), 7);
      EXPECT_EQ(signal_of_store(reading.at<int>()), SIGSEGV);
      EXPECT_EQ(signal_of_store(owned.at<int>()), 0);
      EXPECT_EQ(*reading.at<int>(), 1);
      EXPECT_EQ(import_for_reading(facts->token).at<int>(), reading.at<int>());

      const Token again = make_token(reading.at<std::byte>() + 8, 8);
      EXPECT_EQ(import(again).at<std::byte>(), owned.data + 8) << "named by either address";
      EXPECT_THROW(make_token(reading.at<std::byte>() + 8, 1 << 16), Error) << "beyond the end";
      owned.buffer.reset();
      EXPECT_EQ(*reading.at<int>(), 1) << "in limbo";
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
  });
}

TEST_F(ReadOnly, TheDataOfADeadOwnerGoesOnByReexport) {
  Process& owner = exporter([&] {
    const Owned owned = offer(1 << 16);
    *owned.at<int>(8) = 5;
    go_on();
    sleep_for_ever();
  });

  importer([&] {
    const Import reading = import_for_reading(facts->token);
    go_on();
    expect_eventually("its death is noticed", [&] { return reading.info().exporter_alive == 0; });
    facts->tokens[0] = make_token(reading.at<std::byte>() + 8, 4);
    Process other([&] { EXPECT_EQ(*import_for_reading(facts->tokens[0]).at<int>(), 5); });
    other.expect_success("a reader");
    EXPECT_EQ(signal_of_store(reading.at<int>()), SIGSEGV);
  });

  wait_for(facts->done, 1);
  owner.kill(SIGKILL);
  gone(owner);
}
}  // namespace
}  // namespace support
