// The order in which a receiver hears of packets, the
// end and a death, whatever the kernel tells first.
#include "core/socket/connection.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/memfd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using support::soon;

constexpr size_t kLongest = 64;
constexpr int kMany = 3 * Connection::kPacketsPerTurn;

std::vector<std::byte> packet_of(int number) {
  std::vector<std::byte> packet(sizeof number);
  std::memcpy(packet.data(), &number, sizeof number);
  return packet;
}

// The packets and events that a connection reports, as words: "0", "1", "end", "dead".
class Journal {
 public:
  void write(const std::string& word) {
    const std::lock_guard lock(mutex_);
    words_.push_back(word);
  }

  std::vector<std::string> words() const {
    const std::lock_guard lock(mutex_);
    return words_;
  }

  bool await(const std::string& word) const {
    return retry_until([&] { return index_of(word) >= 0; }, soon());
  }

  int index_of(const std::string& word) const {  // -1: not heard
    const auto all = words();
    const auto found = std::find(all.begin(), all.end(), word);
    return found == all.end() ? -1 : static_cast<int>(found - all.begin());
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> words_;
};

class Listening final : public Receiver {
 public:
  explicit Listening(PeerFd socket, PeerProcess peer = {})
      : connection(*this, std::move(socket), std::move(peer), kLongest) {}

  // Writes to the journal of `another`, with `prefix` before each word.
  Listening(PeerFd socket, const Listening& another, std::string prefix)
      : Listening(std::move(socket)) {
    journal = another.journal;
    prefix_ = std::move(prefix);
  }

  void on_turn(Connection& turn, bool dead) noexcept override {
    if (before_turn) before_turn();
    turn.hear(dead);
  }

  const char* on_packet(std::span<const std::byte> bytes, fdpass::Received&) override {
    int number = -1;
    if (bytes.size() != sizeof number) return "no number";
    std::memcpy(&number, bytes.data(), sizeof number);
    journal->write(prefix_ + std::to_string(number));
    if (on_number) on_number(number);
    return nullptr;
  }

  void on_end(End end, const std::string& why) override {
    const char* names[] = {"end", "broken: ", "dying", "failed: "};
    journal->write(prefix_ + names[static_cast<int>(end)] + why);
  }

  void on_death(const std::string& manner) override {
    manner_ = manner;
    journal->write(prefix_ + "dead");
  }

  std::shared_ptr<Journal> journal = std::make_shared<Journal>();
  std::string prefix_;
  std::string manner_;
  std::function<void(int)> on_number;
  std::function<void()> before_turn;
  Connection connection;
};

struct Ends {
  Ends() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) != 0) {
      throw system_error(errno, "socketpair");
    }
    mine = PeerFd(Fd(both[0]));
    theirs = Fd(both[1]);
  }

  PeerFd mine;
  Fd theirs;
};

void say(int socket, int from, int to) {
  for (int number = from; number < to; ++number) {
    ASSERT_EQ(fdpass::send(socket, packet_of(number), {}), fdpass::Sent::done) << number;
  }
}

std::vector<std::string> numbers(int count) {
  std::vector<std::string> all;
  for (int number = 0; number < count; ++number) {
    all.push_back(std::to_string(number));
  }
  return all;
}

std::vector<std::string> operator+(std::vector<std::string> words, const std::string& word) {
  words.push_back(word);
  return words;
}

// A process at the other end, which says `count` numbers and then waits to be killed;
// `holder` holds a copy of the socket for it.
struct Peer : Ends {
  explicit Peer(int count, bool with_holder = false)
      : body([&] {
          mine = {};
          pid_t child = 0;
          if (with_holder) {
            child = fork();
            if (child == 0) support::sleep_for_ever();
          }

          for (int number = 0; number < count; ++number) {
            fdpass::send(theirs.get(), packet_of(number), {});
          }
          support::say(std::to_string(child));
          support::sleep_for_ever();
        }) {
    theirs.reset();
    if (!body.hear("\n")) throw Error(Status::system, "the peer did not start");
    holder = std::stoi(body.said());

    // The credentials of a socketpair are those of the process that made it, so identify() would
    // name this process.
    process.pid = body.pid();
    process.pidfd = PeerFd(Fd(static_cast<int>(syscall(SYS_pidfd_open, body.pid(), 0))));
  }

  ~Peer() {
    if (holder > 0) kill(holder, SIGKILL);
  }

  void die() const {
    body.kill(SIGKILL);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(body.pid()), &info, WEXITED | WNOWAIT);
  }

  support::Process body;
  pid_t holder = 0;
  PeerProcess process;
};

TEST(Connection, PacketsComeInOrderAndTheEndOnceAfterThem) {
  Ends ends;
  say(ends.theirs.get(), 0, kMany);
  ends.theirs.reset();
  const auto listening = std::make_shared<Listening>(std::move(ends.mine));
  listening->connection.start(listening);
  ASSERT_TRUE(listening->journal->await("end"));
  EXPECT_EQ(listening->journal->words(), numbers(kMany) + "end");
}

TEST(Connection, TheLastWordsOfTheDeadComeBeforeItsDeath) {
  for (int round = 0; round < 20; ++round) {
    Peer peer(kMany);
    const auto listening =
        std::make_shared<Listening>(std::move(peer.mine), std::move(peer.process));
    // In every second round all packets are there before the first look, so that the death is told
    // while most of them are still unread.
    if (round % 2 == 0) peer.die();
    listening->connection.start(listening);
    if (round % 2 == 1) peer.die();
    ASSERT_TRUE(listening->journal->await("dead"));
    EXPECT_EQ(listening->journal->words(), numbers(kMany) + "end" + "dead");
    EXPECT_TRUE(listening->manner_.empty() || listening->manner_ == "killed by signal 9")
        << listening->manner_;
  }
}

TEST(Connection, ADeathIsHeardThoughTheSocketLivesOn) {
  Peer peer(kMany, true);
  const auto listening = std::make_shared<Listening>(std::move(peer.mine), std::move(peer.process));
  peer.die();
  listening->connection.start(listening);
  ASSERT_TRUE(listening->journal->await("dead"));
  EXPECT_EQ(listening->journal->words(), numbers(kMany) + "dead");
  EXPECT_FALSE(listening->connection.has_death_watch());
  kill(peer.holder, SIGKILL);
  ASSERT_TRUE(listening->journal->await("end"));
  EXPECT_EQ(listening->journal->words(), numbers(kMany) + "dead" + "end");
}

TEST(Connection, ABusyPeerLeavesOthersTheirTurns) {
  Ends much;
  Ends little;
  std::atomic<bool> go{false};
  const auto talker = std::make_shared<Listening>(std::move(much.mine));
  talker->on_number = [&](int number) {
    if (number == 0) retry_until([&] { return go.load(); }, soon());
  };

  const auto other = std::make_shared<Listening>(std::move(little.mine), *talker, "other ");
  say(much.theirs.get(), 0, kMany);
  say(little.theirs.get(), 0, 1);
  talker->connection.start(talker);
  ASSERT_TRUE(talker->journal->await("0"));
  other->connection.start(other);
  go = true;
  ASSERT_TRUE(talker->journal->await(std::to_string(kMany - 1)));
  ASSERT_TRUE(talker->journal->await("other 0"));
  EXPECT_LE(talker->journal->index_of("other 0"), 2 * Connection::kPacketsPerTurn);
}

TEST(Connection, NothingIsHeardAfterAPacketThatBreaksTheProtocolOrMakesItsReceiverThrow) {
  const std::pair<std::vector<std::byte>, std::string> bad[] = {
      {std::vector<std::byte>(7), "broken: no number"},
      {std::vector<std::byte>(kLongest + 1), "broken: a packet longer than the longest"},
      {packet_of(-2), "failed: no more"}};

  for (const auto& [packet, end] : bad) {
    Ends ends;
    say(ends.theirs.get(), 0, 2);
    ASSERT_EQ(fdpass::send(ends.theirs.get(), packet, {}), fdpass::Sent::done);
    say(ends.theirs.get(), 2, 4);
    const auto listening = std::make_shared<Listening>(std::move(ends.mine));
    listening->on_number = [](int number) {
      if (number == -2) throw Error(Status::internal, "no more");
    };
    listening->connection.start(listening);
    ASSERT_TRUE(listening->journal->await(end));
    // The other side sees it at once, and the receiver hears no second end.
    EXPECT_TRUE(retry_until(
        [&] { return fdpass::send(ends.theirs.get(), packet_of(9), {}) == fdpass::Sent::closed; },
        soon()));
    EXPECT_EQ(listening->journal->words(), (end[0] == 'f' ? numbers(2) + "-2" : numbers(2)) + end);
  }
}

TEST(Connection, AProgramThatClosesAllDescriptorsHearsOfIt) {
  support::Process program([] {
    Ends ends;
    const auto listening = std::make_shared<Listening>(std::move(ends.mine));
    listening->connection.start(listening);
    // syscall() closes behind the back of ThreadSanitizer, which takes close() for a race.
    for (int fd = 3; fd < 256; ++fd) {
      syscall(SYS_close, fd);
    }
    EXPECT_TRUE(listening->journal->await("failed: recvmsg: Bad file descriptor (errno 9)"));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });

  program.expect_success("the program");
}

TEST(Connection, NothingIsHeardOnceItStopped) {
  Ends ends;
  const auto listening = std::make_shared<Listening>(std::move(ends.mine));
  listening->on_number = [&](int number) {
    if (number == 2) listening->connection.stop();  // in the midst of a turn
  };

  say(ends.theirs.get(), 0, 5);
  listening->connection.start(listening);
  ASSERT_TRUE(listening->journal->await("2"));
  ends.theirs.reset();
  Ends last;  // heard after whatever was under way
  const auto probe = std::make_shared<Listening>(std::move(last.mine), *listening, "probe ");
  say(last.theirs.get(), 0, 1);
  probe->connection.start(probe);
  ASSERT_TRUE(listening->journal->await("probe 0"));
  EXPECT_EQ(listening->journal->words(), numbers(3) + "probe 0");
}

TEST(Connection, ATurnOfAStoppedConnectionIsEmpty) {
  Ends ends;
  std::atomic<int> turns{0};
  const auto listening = std::make_shared<Listening>(std::move(ends.mine));
  listening->before_turn = [&] {
    listening->connection.close_socket();  // as an owner does that had its lock first
    ++turns;
  };

  say(ends.theirs.get(), 0, 5);
  listening->connection.start(listening);
  ASSERT_TRUE(retry_until([&] { return turns > 0; }, soon()));
  EXPECT_FALSE(listening->connection.open());
  EXPECT_EQ(fdpass::send(ends.theirs.get(), packet_of(9), {}), fdpass::Sent::closed);
  EXPECT_TRUE(listening->journal->words().empty());
}

TEST(Connection, AFullQueueIsToldAtTheDeadline) {
  Ends ends;
  Listening listening(std::move(ends.mine));
  fdpass::Sent sent = fdpass::Sent::done;

  for (int i = 0; i < 100'000 && sent == fdpass::Sent::done; ++i) {
    sent = listening.connection.send_now(packet_of(i));
  }

  EXPECT_EQ(sent, fdpass::Sent::would_block);
  listening.connection.post(packet_of(0));
  EXPECT_EQ(listening.connection.send(packet_of(0), {}, Deadline::after_ms(20)),
      fdpass::Sent::would_block);
  ends.theirs.reset();
  EXPECT_EQ(listening.connection.send(packet_of(0), {}, soon()), fdpass::Sent::closed);
}

// The kernel bounds the descriptors that an ordinary user has in flight, over all of the user's
// processes.
TEST(SendingDescriptors, WaitsUntilThoseInFlightHaveArrived) {
  support::Process user([] {
    if (geteuid() == 0 && setuid(65534) != 0) return "no other user";
    const Ends full;
    Ends ends;
    Listening listening(std::move(ends.mine));
    const rlimit tight{32, 32};
    if (setrlimit(RLIMIT_NOFILE, &tight) != 0) return "no limit";
    const int gift[] = {0, 0, 0, 0};
    fdpass::Sent sent = fdpass::Sent::done;
    for (int i = 0; i < 100 && sent == fdpass::Sent::done; ++i) {
      sent = fdpass::send(full.mine.get(), packet_of(i), gift);
    }
    if (sent != fdpass::Sent::crowded) return "not crowded";
    if (listening.connection.send(packet_of(1), gift, Deadline::after_ms(20)) !=
        fdpass::Sent::crowded) {
      return "not refused";
    }
    const std::jthread reader([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::array<std::byte, 64> buffer;
      while (fdpass::receive(full.theirs.get(), buffer).what == fdpass::Received::What::packet) {
      }
    });
    sent = listening.connection.send(packet_of(1), gift, support::soon());
    return sent == fdpass::Sent::done ? "sent" : "not sent";
  });

  EXPECT_EQ(user.result(), "sent");
}

// ---- life words: what the kernel says of a process is its end, and nothing else

struct Told final : Watched {
  void ready(int) noexcept override { ++times; }

  std::atomic<int> times{0};
};

// A process that holds a word for this one, and then does as `end` says.
struct Holder {
  template <class End>
  explicit Holder(End end)
      : process([&] {
          uint64_t index = 1;
          if (!Life::current().hold(index) || index != 0) return;
          const int words = Life::current().fd();
          fdpass::send(ends.theirs.get(), support::bytes_of("life"), {&words, 1});
          support::tell();
          end();
          support::sleep_for_ever();
        }) {
    EXPECT_TRUE(process.told());
    std::array<std::byte, 16> packet{};
    word = map_life_word(fdpass::receive(ends.mine.get(), packet).fds.at(0), 0);
    EXPECT_TRUE(word && !has_ended(word));
  }

  Ends ends;
  LifeWord word;
  support::Process process;
};

TEST(Life, ThreadsAndChildrenThatEndAreNoDeath) {
  Holder holder([] {
    std::thread([] {}).join();
    if (const pid_t child = fork(); child == 0) {
      _exit(0);
    } else {
      waitpid(child, nullptr, 0);
    }
    pid_t child = 0;
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    if (posix_spawnp(&child, name, nullptr, nullptr, arguments, nullptr) == 0) {
      waitpid(child, nullptr, 0);
    }
    support::say("lived");
  });

  const auto told = std::make_shared<Told>();
  Life::current().watch(holder.word, told);
  ASSERT_TRUE(holder.process.hear("lived"));
  EXPECT_FALSE(has_ended(holder.word));
  EXPECT_EQ(told->times, 0);
  holder.process.kill(SIGKILL);
  EXPECT_TRUE(retry_until([&] { return told->times == 1; }, soon()));
  EXPECT_TRUE(has_ended(holder.word));
}

TEST(Life, AWordIsMappedOnlyFromWhatIsSealed) {
  uint64_t index = 0;
  ASSERT_TRUE(Life::current().hold(index));
  const Fd mine(dup(Life::current().fd()));

  EXPECT_TRUE(map_life_word(mine, index));
  EXPECT_FALSE(map_life_word(mine, 2048));

  const Fd other = make_memfd("other");
  ASSERT_EQ(ftruncate(other.get(), 16'384), 0);
  EXPECT_FALSE(map_life_word(other, 0));
  EXPECT_FALSE(map_life_word(Fd(), 0));
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mine.get(), 0), MAP_FAILED)
      << "peers may only read";

  Life::current().let_go(index);
  uint64_t again = 1;
  ASSERT_TRUE(Life::current().hold(again));
  EXPECT_EQ(again, index);
}
}  // namespace
