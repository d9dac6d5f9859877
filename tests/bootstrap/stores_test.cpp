// What ranks may expect of every store of the library's own, be it of threads, in a directory or at rank 0.
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/tcp_store.hpp"
#include "core/socket/secure_connection.hpp"
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
    if (GetParam() == Kind::tcp) return open_tcp_store({"localhost", port_}, 1, rank, size, "tcp://localhost", deadline);
    return std::make_shared<DirStore>(DirectoryRendezvousConfig{base_, "", "", "dir://" + base_, rank, size, false}, deadline);
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
      // One rank a round waits for nobody, and may be in the next while others are in this.
      for (int peer = 0; peer < (round % 4 == rank ? 0 : 4); ++peer)
        ASSERT_EQ(store->get(std::to_string(peer), soon()), value(peer));
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
  expect_failure(Status::timeout, {"\"missing\""}, [&] { store->get("missing", Deadline::after_ms(20)); });
  const Status of_long_keys = GetParam() == Kind::directory ? Status::invalid_argument : Status::ok;
  EXPECT_EQ(failure_of([&] { store->set(std::string(300, 'k'), {}, soon()); }).status, of_long_keys);
}

TEST_P(Stores, KeysVanishWithTheirCreation) {
  open(0, 1)->set("key", bytes_of("old"), soon());
  EXPECT_EQ(failure_of([&] { open(0, 1)->get("key", Deadline::after_ms(20)); }).status, Status::timeout);
}

TEST_P(Stores, MissingRanksAreNamedByEveryRank) {
  as_threads(2, [&](int thread) {
    EXPECT_EQ(expect_failure(Status::timeout, {"ranks 1, 3 of 4"}, [&] { open(thread * 2, 4, 300); }).rank, 1);
  });
  as_threads(
      2, [&](int thread) { EXPECT_EQ(expect_failure(Status::timeout, {"rank 0"}, [&] { open(thread + 1, 3, 300); }).rank, 0); });
  as_threads(4, [&](int rank) { ASSERT_NE(open(rank, 4), nullptr); });  // and what failed is forgotten
}

TEST_P(Stores, DifferentSizesFailAll) {
  const std::vector<std::string> words = GetParam() == Kind::directory
                                             ? std::vector<std::string>{"there are 2 ranks", "that there are 3"}
                                             : std::vector<std::string>{"3", "2"};
  as_threads(2, [&](int rank) { expect_failure(Status::mismatch, words, [&] { open(rank, 3 - rank); }); });
}

TEST_P(Stores, ARankWhoseCreationFailsIsNotAwaited) {
  as_threads(2, [&](int rank) {
    const Failure failure = failure_of([&] {
      const auto store = open(rank, 2);
      if (rank == 1) throw Error(Status::out_of_memory, "something else went wrong");
      store->get("address.1", soon());
    });
    ASSERT_EQ(failure.status, rank == 1 ? Status::out_of_memory : Status::peer_failed) << failure.message;
    ASSERT_EQ(failure.rank, rank == 1 ? -1 : 1);
  });
}

TEST(ThreadStore, TellsOfARankTakenTwice) {
  as_threads(2, [](int) {
    EXPECT_EQ(
        expect_failure(Status::mismatch, {"rank 1 of thread://twice"}, [] { open_thread_store("twice", 1, 3, soon()); }).rank, 1);
  });
}
}  // namespace
