// Ranks that meet at rank 0 by TCP, among strangers.
#include "core/bootstrap/tcp_store.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ios>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_listener.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

class TcpStores : public WithSecret {
 protected:
  std::unique_ptr<Store> open(int rank, int size, uint64_t milliseconds = 20'000) const {
    return open_tcp_store(
        {"127.0.0.1", port_}, 1, rank, size, "tcp://here", Deadline::after_ms(milliseconds));
  }

  // Connects as a stranger who says `text`, and returns what it hears until it is turned away. If
  // `text` is empty, the connection stays open and nothing is awaited.
  std::string say(const std::string& text) const {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{AF_INET, htons(port_), {htonl(INADDR_LOOPBACK)}, {}};
    if (!eventually([&] {
          return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
        })) {
      return "nobody is there";
    }
    if (text.empty()) {
      idle_.emplace_back(std::move(fd));
      return "";
    }

    (void)!::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    std::string heard;
    char buffer[4096];
    ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, 0);
    while (size > 0) {
      heard.append(buffer, static_cast<size_t>(size));
      size = ::recv(fd.get(), buffer, sizeof buffer, 0);
    }
    return heard;
  }

  uint16_t port_ = SecureListener("127.0.0.1", 0, {}, 0, nullptr).port();
  mutable std::vector<Fd> idle_;
};

TEST_F(TcpStores, StrangersAreTurnedAwayUnheardAndKeepNobody) {
  const size_t before = open_descriptors();
  std::unique_ptr<Store> first;
  std::thread leader([&] { first = open(0, 2); });
  const std::string browser =
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,application/xml;q=0.9\r\n"
      "User-Agent: a browser that says quite a lot of things\r\n\r\n";
  ASSERT_GE(browser.size(), SecureStream::kGreeting);
  EXPECT_EQ(say(browser), "");
  std::string noise(5'000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i] = static_cast<char>(i * 7919 >> 3);
  }

  EXPECT_EQ(say(noise), "");
  SecureStream stream(secret_);
  EXPECT_EQ(say(text_of(stream.greet()) + std::string(5'000, '\1')).size(),
      SecureStream::kAnswer);  // replayed: an answer, and no further
  Secret other = secret_;
  other[31] ^= 1;
  EXPECT_EQ(say(text_of(SecureStream(other).greet())), "");
  leave_descriptors(2'500);

  for (int i = 0; i < 1'000; ++i) {
    say("");
  }

  // They have a descriptor each at rank 0, and only until all have come.
  constexpr size_t kMostSilent = 256;
  constexpr size_t kHere = 16;
  EXPECT_LE(open_descriptors(), before + idle_.size() + kMostSilent + kHere);
  auto second = open(1, 2);
  leader.join();
  second->set("key", bytes_of("value"), soon());
  EXPECT_EQ(text_of(first->get("key", soon())), "value");
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + idle_.size() + kHere; }));
  EXPECT_GE(first->rejected(), idle_.size());
}

TEST_F(TcpStores, StrangersGetAnEighthOfTheDescriptors) {
  const Limit limit(RLIMIT_NOFILE);
  constexpr size_t kMost = 400;
  limit.lower(kMost);
  const size_t before = open_descriptors();
  std::unique_ptr<Store> first;
  std::thread leader([&] { first = open(0, 2); });
  for (int i = 0; i < 150; ++i) {
    say("");
  }
  const auto all_accepted = [&] { return settled([] { return open_descriptors(); }); };
  EXPECT_LE(all_accepted(), before + idle_.size() + kMost / 8 + 16);
  const auto second = open(1, 2);
  leader.join();
}

TEST_F(TcpStores, ARankThatComesTooLateHearsWhyTheOthersFailed) {
  // Another group of rank 0 keeps its port open.
  const auto other =
      open_tcp_store({"127.0.0.1", port_}, 2, 0, 1, "tcp://here", Deadline::after_ms(20'000));
  std::vector<Failure> failures(3);
  as_threads(3, [&](int thread) {
    failures[static_cast<size_t>(thread)] = failure_of([&] { open(thread == 0 ? 0 : 1, 3); });
  });
  EXPECT_EQ(failures[0].status, Status::mismatch) << failures[0].message;
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.message, failures[0].message);
  }

  const Failure late = failure_of([&] { open(2, 3, 5'000); });
  EXPECT_EQ(late.status, Status::mismatch) << late.message;
  EXPECT_EQ(late.message, failures[0].message);
  as_threads(3, [&](int rank) { open(rank, 3); });  // all know, so they begin anew
}

TEST_F(TcpStores, ARankThatHadMetRankZeroAndLosesItSaysSo) {
  SYMM_NOT_UNDER_TSAN("it does not let a process with threads fork one that starts some");
  Process zero([&] {
    open(0, 3);
    return std::string();
  });
  Process one([&] {
    return outcome_of([&] {
      open(1, 3);
      return std::string();
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2'000));
  zero.kill(SIGKILL);
  const std::string said = one.result();
  EXPECT_EQ(said.rfind("peer failed: rank 0 of tcp://here died", 0), 0u) << said;
}

// The process is stopped until after the deadline. Then the waiting thread may run first.
TEST_F(TcpStores, AValueThatHadComeCountsAfterTheDeadline) {
  SYMM_NOT_UNDER_TSAN("it does not let a process with threads fork one that starts some");
  constexpr int kRounds = 4;
  std::vector<Process> ranks;
  for (int round = 0; round < kRounds; ++round) {
    ranks.emplace_back([&, round] {
      return outcome_of([&] {
        const auto store = open_tcp_store({"127.0.0.1", port_}, static_cast<uint64_t>(round), 1, 2,
            "tcp://here", Deadline::after_ms(20'000));
        tell();
        return text_of(store->get("key", Deadline::after_ms(1'500)));
      });
    });
  }

  for (int round = 0; round < kRounds; ++round) {
    Process& one = ranks[static_cast<size_t>(round)];
    const auto store = open_tcp_store({"127.0.0.1", port_}, static_cast<uint64_t>(round), 0, 2,
        "tcp://here", Deadline::after_ms(20'000));
    ASSERT_TRUE(one.told());
    one.kill(SIGSTOP);
    store->set("key", bytes_of("value"), soon());
    std::this_thread::sleep_for(std::chrono::milliseconds(1'700));
    one.kill(SIGCONT);
    EXPECT_EQ(one.result(), "value");
  }
}

TEST_F(TcpStores, AnotherSecretIsNamedByBoth) {
  std::thread leader([&] {
    expect_failure(Status::timeout,
        {"rank 1 of 2", "share one secret", "127.0.0.1 leads to the loopback"},
        [&] { open(0, 2, 4'000); });
  });
  EXPECT_EQ(say(std::string(SecureStream::kGreeting, 'x')), "");  // it has read its secret
  std::ofstream(top_ / "secret", std::ios::binary) << std::string(32, 's');
  expect_failure(Status::unavailable,
      {"rank 0 of tcp://here", "rank 1", "different secrets", top_ / "secret"},
      [&] { open(1, 2); });
  leader.join();
}

TEST_F(TcpStores, ASecretThatOthersMayReadOrOfAnotherLengthIsRefused) {
  std::filesystem::permissions(top_ / "secret", std::filesystem::perms(0640));
  expect_failure(Status::unavailable, {"mode 0640", "0600"}, [&] { read_secret(); });
  std::filesystem::permissions(top_ / "secret", std::filesystem::perms(0600));
  std::filesystem::resize_file(top_ / "secret", 31);
  expect_failure(Status::unavailable, {"31 bytes"}, [&] { read_secret(); });
}

TEST_F(TcpStores, ADeadRankIsNamedWithItsHostAlsoIfItIsRankZero) {
  SYMM_NOT_UNDER_TSAN("it does not let a process with threads fork one that starts some");
  for (const int victim : {0, 1}) {
    Process rank([&] {
      const auto store = open(victim, 2);
      raise(SIGKILL);
      return std::string();
    });
    const auto store = open(1 - victim, 2);
    const auto failure = expect_failure(Status::peer_failed,
        {format("rank %d", victim), "tcp://here", "died"}, [&] { store->get("missing", soon()); });
    EXPECT_EQ(failure.rank, victim);
  }
}

TEST_F(TcpStores, ARankZeroThatDoesNotComeIsNamedAndPlacesAreChecked) {
  EXPECT_EQ(expect_failure(Status::timeout, {"rank 0", "tcp://here", "cannot be reached"},
                [&] { open(1, 2, 200); })
                .rank,
      0);
  for (const char* bad :
      {"tcp://", "tcp://a", "tcp://a:0", "tcp://:7", "tcp://a:70000", "tcp://a:7x"}) {
    expect_failure(
        Status::invalid_argument, {bad}, [&] { bootstrap({bad, nullptr, 0, 2, ""}, soon()); });
  }
  EXPECT_EQ(parse_tcp_place("[::1]:7").host, "::1");
}
}  // namespace
