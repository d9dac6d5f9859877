// Each thing that can be wrong with a token says so by itself.
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "symm/symm.h"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
using Errors = Sharing;

// FNV-1a, as in core/base/hash.hpp: the tests see the library from outside.
void seal(Token& token) {
  uint64_t value = 0xCBF29CE484222325U;
  for (size_t i = 0; i < token.size - 8; ++i) {
    value = (value ^ std::to_integer<uint64_t>(token.bytes[i])) * 0x100000001B3U;
  }
  for (size_t i = 0; i < 8; ++i) {
    token.bytes[token.size - 8 + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

Token changed(Token token, size_t offset, std::byte bits = std::byte{1}) {
  token.bytes[offset] ^= bits;
  seal(token);
  return token;
}

Outcome expect_error(
    const Token& token, symm_status_t status, const char* words, const char* what) {
  SCOPED_TRACE(what);
  return expect_failure(status, {words}, [&] { import(token); });
}

// A token for which the caller has no room is not counted, and holds nothing.
TEST_F(Errors, ATokenWithoutRoomIsNotMade) {
  exporter([&] {
    {
      const Owned owned(4096);
      const uint64_t before = ipc_stats().tokens;
      symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
      options.hold_ms = 60'000;
      std::byte token[SYMM_IPC_TOKEN_MAX_BYTES];
      size_t bytes = 77;
      expect_failed(symm_ipc_export(owned.data, 64, &options, token, 4, &bytes, nullptr),
          SYMM_ERR_INVALID_ARGUMENT, {"capacity: 4 is less than the"});
      EXPECT_EQ(bytes, 77U);
      EXPECT_EQ(ipc_stats().tokens, before);
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U);
  });
}

TEST_F(Errors, EachHasItsOwnMessage) {
  const Process& owner = exporter([&] {
    const Owned owned = offer(4096);
    {
      const Owned released(4096);
      facts->tokens[1] = make_token(released.data, 64);
    }
    facts->tokens[2] = make_token(owned.data + 1024, 64);
    check(symm_ipc_withdraw(owned.data + 1024, 1, within(1000)));
    pass();
    EXPECT_EQ(ipc_stats().leases, 0U);
    EXPECT_GE(ipc_stats().refused_imports, 5U);
  });

  importer([&] {
    const Token good = facts->token;
    // The second round has the memory mapped: then a lease is taken without asking the exporter.
    for (const bool connected : {false, true}) {
      SCOPED_TRACE(connected ? "with the memory mapped" : "at first");
      Token wrong = good;
      wrong.size = 10;
      expect_error(wrong, SYMM_ERR_INVALID_ARGUMENT, "shorter than any token", "cut short");
      wrong.size = good.size - 1;
      expect_error(wrong, SYMM_ERR_INVALID_ARGUMENT, "cut short", "cut short");
      wrong = good;
      wrong.bytes[94] ^= std::byte{4};
      expect_error(wrong, SYMM_ERR_INVALID_ARGUMENT, "checksum", "damaged");
      expect_error(changed(good, 0), SYMM_ERR_INVALID_ARGUMENT, "no token", "something else");
      expect_error(changed(good, 4, std::byte{8}), SYMM_ERR_UNSUPPORTED, "its maker has symm 0.2.0",
          "of another number");
      expect_error(
          changed(good, 20), SYMM_ERR_UNAVAILABLE, "another machine", "of another machine");
      expect_error(changed(good, 68), SYMM_ERR_INVALID_ARGUMENT, "forged", "another secret");
      expect_error(changed(good, 84 + 7), SYMM_ERR_INVALID_ARGUMENT, "forged", "another block");
      expect_error(changed(good, 92 + 6), SYMM_ERR_INVALID_ARGUMENT, "forged",
          "a number that was never issued");
      expect_error(changed(good, 108 + 2), SYMM_ERR_INVALID_ARGUMENT, "forged", "a larger piece");
      expect_error(changed(good, 52), SYMM_ERR_PEER_FAILED, "is gone", "another exporter");
      const Outcome stale =
          expect_error(facts->tokens[1], SYMM_ERR_INVALID_HANDLE, "released", "stale");
      EXPECT_EQ(std::pair(stale.rank, stale.pid), std::pair(-1, int64_t{owner.pid()}))
          << "a process, of no group";
      expect_error(facts->tokens[2], SYMM_ERR_INVALID_HANDLE, "withdrawn", "withdrawn");
      EXPECT_EQ(outcome_of_import(good).status, SYMM_OK);
    }
  });
}

// Whatever is changed, with a right checksum: memory
// is had only by the secret that was given for it.
TEST_F(Errors, RandomForgeries) {
  exporter([&] {
    const Owned owned(1 << 16);
    const Owned other(1 << 16);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(other.data, 64);
    pass();
    EXPECT_EQ(ipc_stats().leases, 0U);
  });

  importer([&] {
    constexpr size_t kExporter = 52;  // then the secret, then the number of the block
    constexpr size_t kAfterBlock = 92;
    std::mt19937 random(11);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
      const Token& good = facts->tokens[i % 2];
      Token forged = good;
      for (int changes = 1 + i % 3; changes > 0; --changes) {
        forged.bytes[random() % (forged.size - 8)] ^= static_cast<std::byte>(1 + random() % 255);
      }
      seal(forged);
      const Outcome outcome = outcome_of_import(forged);
      EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << outcome.message;
      EXPECT_NE(outcome.status, SYMM_ERR_INTERNAL) << outcome.message;
      refused += outcome.status != SYMM_OK ? 1 : 0;
      if (outcome.status == SYMM_OK) {
        EXPECT_EQ(
            std::memcmp(good.bytes + kExporter, forged.bytes + kExporter, kAfterBlock - kExporter),
            0);
      }
      EXPECT_EQ(outcome_of_import(good).message, "");
    }
    EXPECT_GT(refused, 1000);
  });
}

TEST_F(Errors, AnExporterThatIsGone) {
  for (const bool killed : {false, true}) {
    gone(exporter([&] {
      const Owned owned = offer(4096);
      go_on();
      if (killed) raise(SIGKILL);  // otherwise it ends by exit()
    }));
    importer([&] {
      expect_error(facts->token, SYMM_ERR_PEER_FAILED, "is gone", killed ? "killed" : "ended");
      EXPECT_EQ(ipc_stats().exporters, 0U);
    });
    join();
  }
}

// A logout or a clean-up of /tmp removes the directory.
TEST_F(Errors, ADirectoryThatWasTakenAwayIsMadeAgain) {
  exporter([&] {
    const Owned owned = offer(4096);
    std::filesystem::remove_all(directory.path());
    expect_eventually("a new token can be imported", [&] {
      facts->token = make_token(owned.data, 64);
      return std::filesystem::exists(directory.path());
    });
    pass();
  });
  importer([&] { EXPECT_EQ(outcome_of_import(facts->token).message, ""); });
}

TEST_F(Errors, AStoppedExporterIsATimeOut) {
  const Process& owner = exporter([&] {
    const Owned owned = offer(4096);
    pass();
    EXPECT_EQ(ipc_stats().leases, 1U) << "what was asked for in vain is not leased";
    go_on();
  });

  wait_for(facts->step, 1);
  owner.kill(SIGSTOP);
  importer([&] {
    expect_failure(SYMM_ERR_TIMEOUT, {"pid " + std::to_string(owner.pid())},
        [&] { import(facts->token, 50); });
    owner.kill(SIGCONT);
    const Import late = import(facts->token);
    pass();
  });
}

TEST_F(Errors, ADirectoryThatIsNotPrivate) {
  exporter([&] {
    check(chmod(directory.path().c_str(), 0755) == 0 ? SYMM_OK : SYMM_ERR_SYSTEM);
    const Owned owned(4096);
    expect_failure(SYMM_ERR_UNAVAILABLE, {"0700"}, [&] { make_token(owned.data, 64); });
    check(chmod(directory.path().c_str(), 0700) == 0 ? SYMM_OK : SYMM_ERR_SYSTEM);
    setenv("SYMM_IPC_DIRECTORY", "relative", 1);
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {}, [&] { make_token(owned.data, 64); });
    setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
    make_token(owned.data, 64);
  });
}

// Root can become somebody else, and both directions must be refused.
TEST_F(Errors, AnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  exporter([&] {
    const Owned owned = offer(4096);
    pass();
    EXPECT_EQ(ipc_stats().granted_leases, 0U);
  });
  importer([&] {
    if (setuid(65534) != 0) throw std::runtime_error("setuid");
    expect_error(facts->token, SYMM_ERR_UNAVAILABLE, "another user", "of another user");
  });
}
}  // namespace
}  // namespace support
