// The promises of every store: the library's own, for threads, in a directory or at rank 0, and
// that of a caller.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/store.hpp"
#include "core/bootstrap/tcp_store.hpp"
#include "core/socket/secure_listener.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

enum class Kind { thread, directory, tcp };

uint16_t free_port() { return SecureListener("localhost", 0, {}, 0, nullptr).port(); }

class Stores : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Store> open(int rank, int size, uint64_t milliseconds = 20'000) const {
    const Deadline deadline = Deadline::after_ms(milliseconds);
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    if (GetParam() == Kind::thread) return open_thread_store(name, rank, size, deadline);
    if (GetParam() == Kind::tcp) {
      return open_tcp_store({"localhost", port_}, 1, rank, size, "tcp://localhost", deadline);
    }
    return std::make_shared<DirStore>(
        DirectoryRendezvousConfig{base_, "", "", "dir://" + base_, rank, size, false}, deadline);
  }

  void SetUp() override {
    setenv("SYMM_SECRET_FILE", (top_ / "made/on/first/use").c_str(), 1);
    if (GetParam() != Kind::tcp) return;
    if (const std::string why = support::why_no_secret(); !why.empty()) GTEST_SKIP() << why;
  }

  ~Stores() override {
    if (std::filesystem::exists(base_)) expect_empty(base_);
  }

  TemporaryDirectory top_;
  std::string base_ = top_ / "job";
  uint16_t port_ = free_port();
};

INSTANTIATE_TEST_SUITE_P(Of, Stores, testing::Values(Kind::thread, Kind::directory, Kind::tcp));

TEST_P(Stores, EveryRankReadsWhatEveryRankSetRoundAfterRound) {
  as_threads(4, [&](int rank) {
    for (int round = 0; round < 40; ++round) {
      const auto store = open(rank, 4);
      EXPECT_EQ(std::filesystem::is_directory(store->directory()), GetParam() == Kind::directory);
      const auto value = [&](int of) {
        return bytes_of(std::string(static_cast<size_t>(of) * 10'000, 'x') + std::to_string(round));
      };
      store->set(std::to_string(rank), value(rank), soon());
      // In each round one rank waits for no other, and may be in the next round while others are
      // in this one.
      for (int peer = 0; peer < (round % 4 == rank ? 0 : 4); ++peer) {
        ASSERT_EQ(store->get(std::to_string(peer), soon()), value(peer));
      }
    }
  });
}

TEST_P(Stores, KeysAreAnyBytesSetOnceAndAwaitedUntilTheDeadline) {
  const auto store = open(0, 1);
  store->set("a/b ../%\n", bytes_of("1"), soon());
  store->set("a_b", bytes_of("2"), soon());
  EXPECT_EQ(text_of(store->get("a/b ../%\n", soon())), "1");
  EXPECT_EQ(failure_of([&] { store->set("a_b", bytes_of("3"), soon()); }).status, Status::mismatch);
  EXPECT_EQ(text_of(store->get("a_b", soon())), "2");
  expect_failure(
      Status::timeout, {"\"missing\""}, [&] { store->get("missing", Deadline::after_ms(20)); });
  const Status of_long_keys = GetParam() == Kind::directory ? Status::invalid_argument : Status::ok;
  EXPECT_EQ(
      failure_of([&] { store->set(std::string(300, 'k'), {}, soon()); }).status, of_long_keys);
}

TEST_P(Stores, KeysVanishWithTheirCreation) {
  open(0, 1)->set("key", bytes_of("old"), soon());
  EXPECT_EQ(
      failure_of([&] { open(0, 1)->get("key", Deadline::after_ms(20)); }).status, Status::timeout);
}

TEST_P(Stores, MissingRanksAreNamedByEveryRank) {
  as_threads(2, [&](int thread) {
    EXPECT_EQ(
        expect_failure(Status::timeout, {"ranks 1, 3 of 4"}, [&] { open(thread * 2, 4, 300); })
            .rank,
        1);
  });

  as_threads(2, [&](int thread) {
    EXPECT_EQ(
        expect_failure(Status::timeout, {"rank 0"}, [&] { open(thread + 1, 3, 300); }).rank, 0);
  });

  // A failed attempt is forgotten.
  as_threads(4, [&](int rank) { ASSERT_NE(open(rank, 4), nullptr); });
}

TEST_P(Stores, DifferentSizesFailAll) {
  const std::vector<std::string> words =
      GetParam() == Kind::directory
          ? std::vector<std::string>{"there are 2 ranks", "that there are 3"}
          : std::vector<std::string>{"3", "2"};
  as_threads(
      2, [&](int rank) { expect_failure(Status::mismatch, words, [&] { open(rank, 3 - rank); }); });
  // A rank that comes late for a directory hears of it, and then nothing is left there.
  if (GetParam() == Kind::directory) {
    expect_failure(Status::mismatch, words, [&] { open(2, 3); });
  }
}

TEST_P(Stores, ARankWhoseCreationFailsIsNotAwaited) {
  as_threads(2, [&](int rank) {
    const Failure failure = failure_of([&] {
      const auto store = open(rank, 2);
      if (rank == 1) throw Error(Status::out_of_memory, "something else went wrong");
      store->get("address.1", soon());
    });
    ASSERT_EQ(failure.status, rank == 1 ? Status::out_of_memory : Status::peer_failed)
        << failure.message;
    ASSERT_EQ(failure.rank, rank == 1 ? -1 : 1);
  });
}

TEST(ThreadStore, TellsOfARankTakenTwice) {
  as_threads(2, [](int) {
    EXPECT_EQ(expect_failure(Status::mismatch, {"rank 1 of thread://twice"},
                  [] { open_thread_store("twice", 1, 3, soon()); })
                  .rank,
        1);
  });
}

// ---- the caller's

struct UserStore {
  std::map<std::string, std::string> values;
  int32_t returns = 0;
  size_t locked_size = 0;  // if not 0, what get() says
  bool silent = false;     // get() forgets to say the size
  uint64_t timeout_ms = 0;

  StoreCallbacks callbacks() { return {this, set, get}; }

  static int32_t set(
      void* user, const char* key, const void* value, size_t size, uint64_t timeout_ms) {
    auto& self = *static_cast<UserStore*>(user);
    self.timeout_ms = timeout_ms;
    self.values[key] =
        size == 0 ? std::string() : std::string(static_cast<const char*>(value), size);
    return self.returns;
  }

  static int32_t get(void* user, const char* key, void* value, size_t capacity, size_t* out_size,
      uint64_t timeout_ms) {
    auto& self = *static_cast<UserStore*>(user);
    self.timeout_ms = timeout_ms;
    const std::string& found = self.values[key];
    if (found.size() <= capacity) std::memcpy(value, found.data(), found.size());
    if (!self.silent) *out_size = self.locked_size != 0 ? self.locked_size : found.size();
    return self.returns;
  }
};

TEST(CallbackStore, PassesBytesAndDeadlinesOn) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "name");
  const Bytes value = bytes_of(std::string("a\0b", 3));
  store->set("key", value, Deadline::never());
  EXPECT_EQ(user.timeout_ms, UINT64_MAX);
  EXPECT_EQ(store->get("key", Deadline::after_ms(5'000)), value);
  EXPECT_GT(user.timeout_ms, 0u);
  EXPECT_LE(user.timeout_ms, 5'000u);
  store->set("empty", {}, soon());
  EXPECT_TRUE(store->get("empty", soon()).empty());
}

TEST(CallbackStore, EachNameHasItsOwnKeys) {
  UserStore user;
  for (const char* name : {"", "a", "a/b"}) {
    open_callback_store(user.callbacks(), name)->set("key", {}, soon());
  }
  EXPECT_EQ(user.values.size(), 3u);
}

TEST(CallbackStore, StatusOfTheUserComesThroughOrIsRefusedIfItIsNone) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "");
  for (const int32_t status :
      {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, 1, 42, -14, INT32_MAX, INT32_MIN}) {
    user.returns = status;
    const bool known = status <= -1 && status >= -13;
    for (const Failure& failure : {failure_of([&] { store->set("the key", {}, soon()); }),
             failure_of([&] { store->get("the key", soon()); })}) {
      EXPECT_EQ(failure.status, known ? static_cast<Status>(status) : Status::invalid_argument);
      EXPECT_NE(failure.message.find(known ? "the key" : std::to_string(status)), std::string::npos)
          << failure.message;
    }
  }
}

TEST(CallbackStore, SizesThatCannotBeAreRefused) {
  UserStore user;
  const auto store = open_callback_store(user.callbacks(), "");
  store->set("k", bytes_of("x"), soon());
  user.locked_size = 1 << 20;
  EXPECT_EQ(failure_of([&] { store->get("k", soon()); }).status, Status::invalid_argument);
  user.silent = true;
  EXPECT_EQ(failure_of([&] { store->get("k", soon()); }).status, Status::invalid_argument);
  EXPECT_EQ(failure_of([&] { store->set("large", Bytes(1 << 20), soon()); }).status,
      Status::invalid_argument);
}
}  // namespace
