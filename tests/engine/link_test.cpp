// What every link between processes promises: over the UCX of this machine, if it has one, and over
// symm's own connections, on loopback.
#include "core/engine/link.hpp"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/bootstrap/store.hpp"
#include "tests/engine/engine_support.hpp"

namespace {
using namespace support;

constexpr size_t kLarge = 48U << 20;

struct Board {  // where two processes leave their addresses
  std::atomic<size_t> bytes[2];
  std::byte address[2][4096];

  std::span<const std::byte> exchange(int rank, const Served& mine) {
    const symm::Bytes own = mine.messages->address();
    std::copy(own.begin(), own.end(), address[rank]);
    bytes[rank] = own.size();
    EXPECT_TRUE(eventually([&] { return bytes[1 - rank] != 0; }));
    return {address[1 - rank], bytes[1 - rank]};
  }
};

struct Kind {
  const char* name;
  std::unique_ptr<Link> (*open)(Sink&);
};

// Otherwise the address of the function would be part of the test's name.
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

struct Links : testing::TestWithParam<Kind> {
  void SetUp() override {
    SYMM_NOT_UNDER_TSAN("UCX ends in it");
    setenv("SYMM_SECRET_FILE", (secrets.path() + "/secret").c_str(), 1);
  }

  bool open(int rank) {
    try {
      served[rank].emplace(GetParam().open);
    } catch (const symm::Error& error) {
      without = error.what();
      // One that is there works.
      if (without.find("no engine") == std::string::npos &&
          without.find("libsodium") == std::string::npos) {
        throw;
      }
    }
    return without.empty();
  }

  // Rank 1, in a process of its own, sends without end when it is told to. Both have
  // groups 7 and 8, made in another order.
  void start() {
    peer.emplace([this] {
      if (!open(1)) sleep_for_ever();
      End eight(*served[1], 8, 1, 2);
      End seven(*served[1], 7, 1, 2);
      const auto address = board->exchange(1, *served[1]);
      for (End* end : {&eight, &seven}) {
        end->endpoint->connect(0, address);
        end->send(0, {.kind = 1});
      }
      const std::vector<std::byte> payload(kLarge, std::byte{7});
      for (seven.await(1); true;) {
        seven.send(0, {.kind = 1}, payload);
      }
    });

    if (!open(0)) GTEST_SKIP() << without;
    for (const uint64_t group : {7, 8}) {
      ends.emplace_back(std::make_unique<End>(*served[0], group, 0, 2, kLarge));
    }

    const auto address = board->exchange(0, *served[0]);
    for (auto& end : ends) {
      end->endpoint->connect(1, address);
      ASSERT_TRUE(end->await(1));
    }
  }

  // The engine still serves others.
  void expect_alive() { EXPECT_FALSE(served[0]->messages->address().empty()); }

  const TemporaryDirectory secrets;
  std::string without;
  std::optional<Served> served[2];
  Shared<Board> board;
  std::optional<Process> peer;
  std::vector<std::unique_ptr<End>> ends;
};

TEST_P(Links, MessagesAndAnswersOfAllSizesArriveWholeAndInOrder) {
  if (!open(0) || !open(1)) GTEST_SKIP() << without;
  constexpr size_t kMost = 5U << 20;
  End one(*served[0], 7, 0, 2, 2 * kMost);
  End two(*served[1], 7, 1, 2, kMost);
  one.endpoint->connect(1, served[1]->messages->address());
  size_t rounds = 0;
  for (const size_t bytes :
      {size_t{1}, size_t{100}, size_t{4096}, size_t{70'000}, size_t{1} << 20, kMost}) {
    std::vector<std::byte> payload(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      payload[i] = static_cast<std::byte>(i * 131 + i / 4096 + bytes);
    }
    one.send(1, {.kind = 1}, payload);
    one.send(1, {.kind = 2, .value = kMost, .call = bytes});
    ASSERT_TRUE(two.await(2 * ++rounds)) << bytes;
    // The answer to the first message waits until its endpoint is connected.
    if (rounds == 1) two.endpoint->connect(0, served[0]->messages->address());
    ASSERT_TRUE(one.await(rounds)) << bytes;
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), one.memory.begin() + kMost)) << bytes;
  }

  for (size_t i = 0; i < two.heads.size(); ++i) {
    EXPECT_EQ(two.heads[i].sequence, i);
  }
  EXPECT_TRUE(one.losses.empty() && two.losses.empty());
}

// An engine must not change what belongs to the program. The test runs in a process of its own, in
// which none is loaded yet.
TEST_P(Links, LeavesSignalsEnvironmentAndOutputAlone) {
  Process alone([&]() -> std::string {
    const std::string before = variables_and_handlers();
    FILE* const written = tmpfile();
    dup2(fileno(written), 1);
    dup2(fileno(written), 2);
    if (!open(0) || !open(1)) return without;
    End one(*served[0], 7, 0, 2);
    End two(*served[1], 7, 1, 2);
    one.endpoint->connect(1, served[1]->messages->address());
    one.send(1, {.kind = 1}, one.memory);
    if (!two.await(1)) return "nothing came";
    one.endpoint->cut(1);
    if (variables_and_handlers() != before) return "other variables or handlers of signals";

    return "wrote " + std::to_string(lseek(fileno(written), 0, SEEK_END));
  });

  const std::string said = alone.result();
  if (said.find("no engine") != std::string::npos) GTEST_SKIP() << said;
  EXPECT_EQ(said, "wrote 0");
}

TEST_P(Links, WhatWasSentBeforeAPostIsClosedArrives) {
  if (!open(0) || !open(1)) GTEST_SKIP() << without;
  for (uint64_t group = 1; group <= 5; ++group) {
    End two(*served[1], group, 1, 2);
    {
      End one(*served[0], group, 0, 2);
      one.endpoint->connect(1, served[1]->messages->address());
      for (int i = 0; i < 20; ++i) {
        one.send(1, {.kind = 1}, one.memory);
      }
    }
    ASSERT_TRUE(two.await(20)) << group;
  }
}

TEST_P(Links, AKilledPeerIsLost) {
  ASSERT_NO_FATAL_FAILURE(start());
  peer->kill(SIGKILL);
  for (auto& end : ends) {
    EXPECT_TRUE(end->await(1, 1));
    expect_failure(
        symm::Status::peer_failed, {GetParam().name, "rank 1"}, [&] { end->send(1, {.kind = 1}); });
  }
  expect_alive();
}

// What the peer has sent is still to be read when it dies, while a message to it is under way: the
// engine learns of the death when it writes. UCX 1.13 ended the process then, if TCP was sending
// the message from where it lay.
TEST_P(Links, APeerThatDiesWhileBothSendIsLost) {
  peer.emplace([this] {
    if (!open(1)) sleep_for_ever();
    End end(*served[1], 7, 1, 2);
    end.endpoint->connect(0, board->exchange(1, *served[1]));
    const std::vector<std::byte> payload(1000);
    for (;;) {
      end.send(0, {.kind = 1}, payload);
    }
  });
  if (!open(0)) GTEST_SKIP() << without;

  End end(*served[0], 7, 0, 2);
  end.pause = std::chrono::milliseconds(1);
  end.endpoint->connect(1, board->exchange(0, *served[0]));
  std::jthread attacker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    peer->kill(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    peer->kill(SIGKILL);
  });

  const std::vector<std::byte> payload(200'000);
  expect_failure(symm::Status::peer_failed, {GetParam().name, "rank 1"}, [&] {
    for (;;) {
      end.send(1, {.kind = 1}, payload);
    }
  });
  expect_alive();
}

TEST_P(Links, AStoppedPeerIsLeftWhileItTakesAMessage) {
  ASSERT_NO_FATAL_FAILURE(start());
  peer->kill(SIGSTOP);
  expect_failure(symm::Status::timeout, {"rank 1"},
      [&] { ends[0]->send(1, {.kind = 1}, ends[0]->memory, 300); });
  expect_alive();
}

TEST_P(Links, AStoppedPeerIsLeftWhileItSendsAMessage) {
  ASSERT_NO_FATAL_FAILURE(start());
  ends[0]->send(1, {.kind = 1});
  ASSERT_TRUE(ends[0]->await(3));

  peer->kill(SIGSTOP);
  ends[0]->endpoint->cut(1);
  std::fill(ends[0]->memory.begin(), ends[0]->memory.end(), std::byte{1});
  peer->kill(SIGCONT);

  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(
      static_cast<size_t>(std::count(ends[0]->memory.begin(), ends[0]->memory.end(), std::byte{1})),
      kLarge);
  expect_alive();
}

std::string name_of(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Over, Links, testing::Values(Kind{"ucx", open_ucx_here}), name_of);
INSTANTIATE_TEST_SUITE_P(
    OverOwn, Links, testing::Values(Kind{"secure", open_secure_here}), name_of);
}  // namespace
