// Imports that are suspended: the lease and the mapping go, and memory comes back to the same
// address, that of another version or of another process, too.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/capi/ipc/weights.hpp"

namespace support {
namespace {
using Asleep = Sharing;

constexpr size_t kSleeper = 1 << 16;

// Whether a process that touches `word` is ended by SIGSEGV.
bool faults(const volatile int* word) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    (void)*word;
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

// A token that processes share.
Token shared(const symm::Token& made) {
  Token token{made.size(), {}};
  std::copy(made.begin(), made.end(), token.bytes);
  return token;
}

Outcome outcome_of_resume(const Import& import, const Token& token) {
  return outcome_of([&] { import.resume(token); });
}

TEST_F(Asleep, TheLeaseGoesAndTheAddressStays) {
  exporter([&] {
    const Owned owned(kSleeper);
    *owned.at<int>(64) = 41;
    facts->token = make_token(owned.at<int>(64), 4);
    pass();
    EXPECT_EQ(ipc_stats().leases, 0U);
    check(symm_ipc_withdraw(owned.at<int>(64), 4, within(20'000)));
    *owned.at<int>(64) = 42;
    facts->tokens[0] = make_token(owned.at<int>(64), 4);
    pass();
    EXPECT_EQ(ipc_stats().leases, 1U);
    go_on();
  });

  importer([&] {
    const Import piece = import(facts->token);
    int* const at = piece.at<int>();
    EXPECT_EQ(*at, 41);
    piece.suspend();
    EXPECT_EQ(piece.at<int>(), at);
    EXPECT_TRUE(faults(at));
    EXPECT_EQ(piece.span().size(), 4U);
    EXPECT_EQ(piece.info().flags, SYMM_IPC_SUSPENDED);
    EXPECT_EQ(piece.info().exporter_alive, 0);
    EXPECT_EQ(piece.info().block_bytes, kSleeper);
    EXPECT_EQ(ipc_stats().imported_blocks, 0U);
    EXPECT_EQ(outcome_of([&] { piece.suspend(); }).status, SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(outcome_of([&] { piece.record_use(nullptr); }).status, SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(outcome_of([&] { make_token(at, 4); }).status, SYMM_ERR_INVALID_ARGUMENT);
    pass();

    EXPECT_EQ(outcome_of([&] { piece.resume(); }).status, SYMM_ERR_INVALID_HANDLE) << "withdrawn";
    EXPECT_EQ(piece.info().flags, SYMM_IPC_SUSPENDED);
    piece.resume(facts->tokens[0]);
    EXPECT_EQ(piece.at<int>(), at);
    EXPECT_EQ(*at, 42);
    EXPECT_EQ(piece.info().flags, 0U);
    EXPECT_EQ(piece.info().exporter_alive, 1);
    EXPECT_EQ(outcome_of([&] { piece.resume(); }).status, SYMM_ERR_INVALID_ARGUMENT);
    pass();
  });
}

// Each version has other memory, and is seen where the first was.
TEST_F(Asleep, ABundleComesBackInAnotherVersion) {
  constexpr int kVersions = 1'000;
  exporter([&] {
    Weights weights[2] = {Weights(0), Weights(1)};
    pass();
    for (int version = 0; version < kVersions; ++version) {
      Weights& next = weights[version % 2];
      for (size_t i = 0; i < kInts; ++i) {
        next.first.at<int>()[i] = version;
        next.second.at<int>()[i] = version;
      }
      facts->token = shared(next.token());
      pass();
      symm::ipc_withdraw(symm::Span(next.first.data, kInts * 4), {20'000});
    }
    go_on();
  });

  importer([&] {
    pass();
    const Import bundle = import_for_reading(facts->token);
    const auto* const first = static_cast<int*>(bundle.bundle_piece("first").pointer);
    const auto* const second = static_cast<int*>(bundle.bundle_piece("second").pointer);
    const Footprint before = Footprint::now();
    for (int version = 0; version < kVersions; ++version) {
      if (version != 0) bundle.resume(facts->token);
      ASSERT_EQ(version_of(bundle), version);
      ASSERT_EQ(first[kInts - 1], version);
      ASSERT_EQ(second[0], version);
      ASSERT_EQ(bundle.info().flags, SYMM_IPC_READ_ONLY);
      bundle.suspend();
      pass();
    }
    EXPECT_EQ(bundle.bundle_piece("second").pointer, second);
    EXPECT_TRUE(faults(first));
    EXPECT_LE(Footprint::now().descriptors, before.descriptors);
  });
}

TEST_F(Asleep, OnlyWhatLiesAlikeComesBack) {
  exporter([&] {
    const Owned owned(kSleeper);
    const Owned larger(2 * kSleeper);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(owned.at<int>(64), 64);
    facts->tokens[2] = make_token(owned.data, 128);
    facts->tokens[3] = make_token(larger.data, 64);
    const Weights one(1);
    facts->tokens[4] = shared(one.token());
    symm_ipc_piece_t pieces[2] = {SYMM_IPC_PIECE_INIT, SYMM_IPC_PIECE_INIT};
    pieces[0] = {sizeof pieces[0], one.first.data, kInts * 4, "first", nullptr, 0};
    pieces[1] = {sizeof pieces[1], one.second.data, kInts * 4, "third", nullptr, 0};
    facts->tokens[5] = shared(symm::ipc_export_bundle(pieces));
    pieces[1] = {sizeof pieces[1], one.first.at<int>(4), kInts * 2, "second", nullptr, 0};
    facts->tokens[6] = shared(symm::ipc_export_bundle(pieces));
    pass();
  });

  importer([&] {
    const auto is_refused = [](const Import& import, const Token& token, const char* why) {
      const Outcome outcome = outcome_of_resume(import, token);
      EXPECT_EQ(outcome.status, SYMM_ERR_INVALID_ARGUMENT);
      EXPECT_NE(outcome.message.find(why), std::string::npos) << outcome.message;
    };

    const Import piece = import(facts->tokens[0]);
    int* const at = piece.at<int>();
    piece.suspend();
    is_refused(piece, facts->tokens[1], "at 64 of a block");
    is_refused(piece, facts->tokens[2], "128 bytes");
    is_refused(piece, facts->tokens[3], "131072 bytes");
    is_refused(piece, facts->tokens[4], "that of a bundle");
    is_refused(piece, make_token(Owned(kSleeper).data, 64), "memory of this process");
    EXPECT_TRUE(faults(at));

    const Import bundle = import_for_reading(facts->tokens[4]);
    bundle.suspend();
    is_refused(bundle, facts->tokens[0], "that of one piece");
    is_refused(bundle, facts->tokens[5], "'third', and was 'second'");
    is_refused(bundle, facts->tokens[6], "2 pieces in 1 blocks");
    bundle.resume();
    EXPECT_EQ(version_of(bundle), 1);
    piece.resume();
    EXPECT_EQ(piece.at<int>(), at);
    EXPECT_FALSE(faults(at));
  });
}

TEST_F(Asleep, MemoryThatIsUsedOtherwiseStays) {
  exporter([&] {
    const Owned owned(kSleeper);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(owned.at<int>(64), 64);
    pass();
  });

  importer([&] {
    const Import first = import(facts->tokens[0]);
    Import second = import(facts->tokens[1]);
    EXPECT_EQ(outcome_of([&] { first.suspend(); }).status, SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_FALSE(faults(first.at<int>()));
    second.reset();
    first.suspend();

    // An import that comes later has an address of its own, and keeps nothing from coming back.
    second = import(facts->tokens[0]);
    EXPECT_NE(second.at<int>(), first.at<int>());
    first.resume();
    *second.at<int>() = 7;
    EXPECT_EQ(*first.at<int>(), 7);
    EXPECT_EQ(ipc_stats().imported_blocks, 2U);
    EXPECT_EQ(*import(make_token(first.at<int>(), 4)).at<int>(), 7) << "and can be exported";
    first.suspend();
    EXPECT_FALSE(faults(second.at<int>()));
  });
}

// A reader that has slept through the death of the maker is given the memory by a keeper.
TEST_F(Asleep, AnotherProcessMayGiveTheMemory) {
  const Shared<std::atomic<int>> reader;  // how far it has come
  Process& maker = exporter([&] {
    const Owned owned = offer(kSleeper);
    *owned.at<int>() = 41;
    pass();
    kill(getpid(), SIGKILL);
  });

  importer([&] {
    const Import held = import(facts->token);
    Process sleeper([&] {
      const Import sleeping = import_for_reading(facts->token);
      const int* const at = sleeping.at<int>();
      sleeping.suspend();
      *reader = 1;
      wait_for(*reader, 2);
      EXPECT_EQ(outcome_of([&] { sleeping.resume(); }).status, SYMM_ERR_PEER_FAILED);
      sleeping.resume(facts->tokens[0]);
      EXPECT_EQ(sleeping.at<int>(), at);
      EXPECT_EQ(*at, 41);
    });
    wait_for(*reader, 1);
    go_on();
    expect_eventually("the death is noticed", [&] { return held.info().exporter_alive == 0; });
    facts->tokens[0] = make_token(held.at<int>(), 64);
    *reader = 2;
    sleeper.expect_success("the reader");
  });
  gone(maker);
}

TEST_F(Asleep, MemoryOfThisProcessStaysWhereItIs) {
  exporter([&] {
    const Owned owned(kSleeper);
    const Owned other(kSleeper);
    const Token token = make_token(owned.data, 64);
    const Import mine = import(token);
    EXPECT_EQ(ipc_stats().leases, 1U);
    mine.suspend();
    EXPECT_EQ(ipc_stats().leases, 0U);
    EXPECT_EQ(mine.at<std::byte>(), owned.data);
    EXPECT_EQ(
        outcome_of_resume(mine, make_token(other.data, 64)).status, SYMM_ERR_INVALID_ARGUMENT);
    mine.resume();
    EXPECT_EQ(ipc_stats().leases, 1U);
    EXPECT_EQ(mine.at<std::byte>(), owned.data);
    const Import reading = import_for_reading(token);
    EXPECT_EQ(outcome_of([&] { reading.suspend(); }).status, SYMM_ERR_UNSUPPORTED);
  });
}

TEST_F(Asleep, OneThatIsReleasedLeavesNothing) {
  exporter([&] {
    const Owned owned = offer(kSleeper);
    const Owned other(kSleeper);
    facts->tokens[0] = make_token(other.data, 64);
    pass();
  });

  importer([&] {
    const Import open = import(facts->tokens[0]);  // so that the connection stays
    const Footprint before = Footprint::now();
    for (int i = 0; i < 10; ++i) {
      const Import piece = import(facts->token);
      piece.suspend();
    }
    for (int i = 0; i < 10; ++i) {
      const Import piece = import(facts->token);
      piece.suspend();
      piece.resume();
    }
    ipc_collect();
    EXPECT_EQ(Footprint::now(), before);
  });
}
}  // namespace
}  // namespace support
