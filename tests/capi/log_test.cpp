// Log messages go to any number of functions and descriptors,
// and none of them holds up the library or another.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace {
using support::create;

// Messages at level info: a group of this name is formed.
void make_group(const std::string& name) { create({"thread://log-" + name, name}, 0, 1); }

struct Heard {
  std::atomic<int> count{0};
  std::string last;

  static void listen(void* user, symm_log_level_t, const char* message) {
    auto& heard = *static_cast<Heard*>(user);
    heard.last = message;
    ++heard.count;
  }
};

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0); }

  ~Pipe() {
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }

  std::string read_all() const {
    std::string text(1 << 20, '\0');
    const ssize_t got = read(ends[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

  int ends[2] = {-1, -1};
};

TEST(Log, EachListenerHearsItsLevelsUntilItEnds) {
  Heard all;
  Heard warnings;
  const symm::LogListener of_warnings(Heard::listen, &warnings, SYMM_LOG_WARNING);
  {
    const symm::LogListener of_all(Heard::listen, &all, SYMM_LOG_DEBUG);
    make_group("first");
    EXPECT_NE(all.last.find("first"), std::string::npos) << all.last;
  }

  const int heard = all.count;
  EXPECT_GE(heard, 1);
  make_group("second");
  EXPECT_EQ(all.count, heard);
  EXPECT_EQ(warnings.count, 0) << warnings.last;
  symm::Group group = create({"thread://log-third", "third"}, 0, 1);
  group.abort("for the log");
  EXPECT_EQ(warnings.count, 1);
  EXPECT_NE(warnings.last.find("for the log"), std::string::npos) << warnings.last;
}

TEST(Log, ADescriptorTakesWholeLinesWithTheirLevel) {
  Pipe pipe;
  uint64_t id = 0;
  ASSERT_EQ(symm_log_to_fd(pipe.ends[1], SYMM_LOG_INFO, &id), SYMM_OK);
  close(std::exchange(pipe.ends[1], -1));  // the library has its own
  make_group("100% %s logged");
  create({"thread://log-lines", "two\nlines"}, 0, 1).abort("enough");
  const std::string text = pipe.read_all();
  EXPECT_NE(text.find("100% %s logged"), std::string::npos) << text;
  EXPECT_EQ(text.back(), '\n');

  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    EXPECT_TRUE(text.compare(at, 6, "info: ") == 0 || text.compare(at, 9, "warning: ") == 0)
        << text.substr(at);
  }

  ASSERT_EQ(symm_log_remove_listener(id), SYMM_OK);
  char byte = 0;
  EXPECT_EQ(read(pipe.ends[0], &byte, 1), 0) << "nobody has the other end any more";
  EXPECT_EQ(symm_log_remove_listener(id), SYMM_ERR_NOT_FOUND);
}

// A message has room for that of any failure; a longer one is cut behind a whole character.
TEST(Log, ALongMessageIsCutBehindACharacter) {
  constexpr size_t kMostOfMessage = 1023;
  const std::string character = "\u00e4";  // two bytes
  for (const bool odd : {false, true}) {
    std::string name = odd ? "x" : "";
    while (name.size() < 2 * kMostOfMessage) {
      name += character;
    }

    Heard heard;
    Pipe pipe;
    const symm::LogListener listener(Heard::listen, &heard, SYMM_LOG_WARNING);
    const symm::LogListener lines(pipe.ends[1], SYMM_LOG_WARNING);
    symm::Group group = create({"thread://log-long", name}, 0, 1);
    group.abort("a reason");

    const size_t length = heard.last.size();
    EXPECT_TRUE(length == kMostOfMessage || length == kMostOfMessage - 1) << length;
    EXPECT_EQ(heard.last.substr(length - character.size()), character);
    EXPECT_EQ(pipe.read_all(), "warning: " + heard.last + "\n");
  }
}

// A reader that does not read loses lines, even if the descriptor would block or the reader is
// gone.
TEST(Log, AReaderThatDoesNotReadHoldsNobodyUp) {
  for (const bool blocking : {true, false}) {
    Pipe full;
    Pipe broken;
    fcntl(full.ends[1], F_SETPIPE_SZ, 8192);
    if (blocking) fcntl(full.ends[1], F_SETFL, fcntl(full.ends[1], F_GETFL) & ~O_NONBLOCK);
    close(std::exchange(broken.ends[0], -1));
    const symm::LogListener to_full(full.ends[1], SYMM_LOG_DEBUG);
    const symm::LogListener to_broken(broken.ends[1], SYMM_LOG_DEBUG);
    for (int i = 0; i < 200; ++i) {
      make_group("flood");
    }
    EXPECT_GT(full.read_all().size(), 3000U);
    broken.ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
}

// Ranks share standard error with its reader, and it has not been made non-blocking.
TEST(Log, AnAbortDoesNotWaitForTheReaderOfStandardError) {
  setenv("SYMM_LOG", "warning", 1);
  support::Process rank([] {
    Pipe full;
    const std::string much(1 << 20, 'x');
    while (write(full.ends[1], much.data(), much.size()) > 0) {
    }
    fcntl(full.ends[1], F_SETFL, 0);
    dup2(full.ends[1], STDERR_FILENO);
    create({"thread://log-abort", ""}, 0, 1).abort("the program wants to end");
    return std::string("returned");
  });

  EXPECT_EQ(rank.result(), "returned");
  unsetenv("SYMM_LOG");
}

TEST(Log, AListenerMayEndItselfAndWhoEndsItWaitsUntilItHasReturned) {
  static std::atomic<uint64_t> id;
  static std::atomic<int> calls;
  static std::atomic<int> inside;
  calls = inside = 0;
  const auto once = [](void*, symm_log_level_t, const char*) {
    ++calls;
    EXPECT_EQ(symm_log_remove_listener(id), SYMM_OK);
  };
  uint64_t made = 0;
  ASSERT_EQ(symm_log_add_listener(once, nullptr, SYMM_LOG_INFO, &made), SYMM_OK);
  id = made;
  make_group("once");
  make_group("twice");
  EXPECT_EQ(calls, 1);

  const auto slow = [](void*, symm_log_level_t, const char*) {
    inside = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    inside = 2;
  };
  ASSERT_EQ(symm_log_add_listener(slow, nullptr, SYMM_LOG_INFO, &made), SYMM_OK);
  std::thread logging([] { make_group("slow"); });
  EXPECT_TRUE(support::eventually([] { return inside != 0; }));
  ASSERT_EQ(symm_log_remove_listener(made), SYMM_OK);
  EXPECT_EQ(inside, 2);
  logging.join();
}
}  // namespace
