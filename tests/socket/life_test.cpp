// SPDX-License-Identifier: Apache-2.0
//
// What the kernel says of a process through the words that it holds: its end, and nothing else.
#include "core/socket/life.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <thread>

#include "core/base/memfd.hpp"
#include "core/socket/fdpass.hpp"
#include "tests/support/core.hpp"

namespace {

using namespace symm;
using support::soon;

struct Told final : Watched {
  void ready(int) noexcept override { ++times; }
  std::atomic<int> times{0};
};

// A process that holds `count` words for this one, lives a little, and then does as `end` says.
struct Holder {
  template <class End>
  Holder(uint64_t count, End end)
      : process([&] {
          uint64_t index = 0;
          for (uint64_t held = 0; held < count; ++held) {
            if (!Life::current().hold(index) || index != held) return;
          }
          const int words = Life::current().fd();
          fdpass::send(ends[1], support::bytes_of("life"), {&words, 1});
          support::tell();
          end();
          support::sleep_for_ever();
        }) {
    EXPECT_TRUE(process.told());
    fdpass::Received received = fdpass::receive(ends[0], packet);
    fd = std::move(received.fds.at(0));
  }
  ~Holder() {
    close(ends[0]);
    close(ends[1]);
  }
  struct Ends {
    Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0); }
    int operator[](int i) const { return both[i]; }
    int both[2];
  } ends;
  std::array<std::byte, 16> packet{};
  Fd fd;
  support::Process process;
};

TEST(Life, ThreadsAndChildrenThatEndAreNoDeath) {
  Holder holder(1, [] {
    std::thread([] {}).join();
    if (const pid_t child = fork(); child == 0) {
      _exit(0);
    } else {
      waitpid(child, nullptr, 0);
    }
    pid_t child = 0;
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    if (posix_spawnp(&child, name, nullptr, nullptr, arguments, nullptr) == 0) waitpid(child, nullptr, 0);
    support::say("lived");
  });
  const LifeWord word = map_life_word(holder.fd, 0);
  ASSERT_TRUE(word);
  EXPECT_NE(*word, 0U);
  const auto told = std::make_shared<Told>();
  Life::current().watch(word, told);
  ASSERT_TRUE(holder.process.hear("lived"));
  EXPECT_FALSE(has_ended(word));
  EXPECT_EQ(told->times, 0);
  holder.process.kill(SIGKILL);
  EXPECT_TRUE(retry_until([&] { return told->times == 1; }, soon()));
  EXPECT_TRUE(has_ended(word));
}

TEST(Life, WhatBecomesAnotherProgramHasEnded) {
  const Holder holder(1, [] { execlp("sleep", "sleep", "60", nullptr); });
  const LifeWord word = map_life_word(holder.fd, 0);
  EXPECT_TRUE(retry_until([&] { return has_ended(word); }, soon()));
}

TEST(Life, MoreWordsThanOneThreadCanSleepOn) {
  constexpr uint64_t kHeld = 300;
  const Holder holder(kHeld, [] {});
  std::vector<std::shared_ptr<Told>> all;
  std::vector<uint64_t> numbers;
  for (uint64_t index = 0; index < kHeld; ++index) {
    all.push_back(std::make_shared<Told>());
    numbers.push_back(Life::current().watch(map_life_word(holder.fd, index), all.back()));
  }
  Life::current().forget(numbers[7]);
  holder.process.kill(SIGKILL);
  for (uint64_t index = 0; index < kHeld; ++index) {
    EXPECT_TRUE(index == 7 || retry_until([&] { return all[index]->times == 1; }, soon())) << index;
  }
  EXPECT_EQ(all[7]->times, 0);
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
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mine.get(), 0), MAP_FAILED) << "peers may only read";
  Life::current().let_go(index);
  uint64_t again = 1;
  ASSERT_TRUE(Life::current().hold(again));
  EXPECT_EQ(again, index);
}

}  // namespace
