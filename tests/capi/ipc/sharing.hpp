// Sharing by tokens for tests, and what processes of a test tell each other.
#pragma once

#include <list>

#include "tests/support/group.hpp"

namespace support {
using symm::ipc_collect;
using symm::ipc_stats;

// A buffer of a group of one rank. All such buffers of a process belong to one group.
struct Owned {
  explicit Owned(size_t bytes) {
    // A forked child makes its own; the parent's is left alone, as the library does.
    static Group group;
    static pid_t made_by = 0;
    static std::mutex mutex;
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(made_by, getpid()) != getpid()) {
        group = create({"thread://sharing", ""}, 0, 1);
      }
    }

    buffer = group.allocate(bytes);
    data = buffer.span().data();
  }
  Buffer buffer;
  std::byte* data = nullptr;
  template <class T>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(data + offset);
  }
};

// The directory of a test's sockets. At its end nothing may be left there.
struct Directory : TemporaryDirectory {
  Directory() { setenv("SYMM_IPC_DIRECTORY", path().c_str(), 1); }
  ~Directory() {
    // A killed exporter leaves a directory behind, which the next one removes when no
    // child of the killed one is there any more.
    (void)eventually([&] {
      Process([] { make_token(Owned(64).data, 64); }).wait();
      return std::filesystem::is_empty(path());
    });
    unsetenv("SYMM_IPC_DIRECTORY");
    expect_empty(path());
  }
};

struct Import : symm::Import {
  using symm::Import::Import;
  template <class T>
  T* at() const {
    return span<T>().data();
  }
};
inline Import import(const Token& token, uint64_t timeout_ms = 20'000) {
  return Import(token, {sizeof(symm_ipc_import_options_t), 0, timeout_ms, nullptr, 0, nullptr});
}
inline Import import_for_reading(const Token& token) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.flags = SYMM_IPC_READ_ONLY;
  return Import(token, options);
}
inline Outcome outcome_of_import(const Token& token, uint64_t timeout_ms = 20'000) {
  return outcome_of([&] { import(token, timeout_ms); });
}

// Memory that the processes of one test share without the library.
struct Facts {
  std::atomic<int> step;
  std::atomic<int> done;
  std::atomic<int> writing;
  Token token;
  Token tokens[64];
};
// Fails the test, by an exception, if that takes too long.
inline void wait_for(const std::atomic<int>& value, int at_least) {
  if (!eventually([&] { return value >= at_least; })) {
    throw std::runtime_error("nobody came to step " + std::to_string(at_least));
  }
}
inline void expect_eventually(const char* what, const std::function<bool()>& so) {
  EXPECT_TRUE(eventually(so)) << what;
}

// A test of processes that share, most often of an exporter
// and an importer, which take turns: the importer begins when
// the exporter first goes on, and goes on itself when it ends.
class Sharing : public testing::Test {
 protected:
  Process& exporter(const std::function<void()>& body) {
    return processes_.emplace_back([&] {
      exporting_ = true;
      body();
    });
  }
  Process& importer(const std::function<void()>& body) {
    return processes_.emplace_back([&] {
      await();
      body();
      go_on();
    });
  }
  // go_on() lets the other process go on; pass() also waits until that process does so.
  void go_on() { (exporting_ ? facts->step : facts->done) = ++turn_; }
  void pass() {
    go_on();
    await();
  }
  // Waits for the end of a process that may end in any manner. All others must end well; the end
  // of the test waits for them.
  void gone(Process& process) {
    process.reap(20'000);
    processes_.remove_if([&](const Process& one) { return &one == &process; });
  }
  void join() {
    for (Process& process : processes_) {
      process.expect_success("an exporter or importer");
    }
    processes_.clear();
  }
  // A buffer, with the first 64 bytes of it as the token of the test.
  Owned offer(size_t bytes) {
    Owned owned(bytes);
    facts->token = make_token(owned.data, 64);
    return owned;
  }

  const Directory directory;
  Shared<Facts> facts;

 private:
  void TearDown() override { join(); }
  void await() const {
    exporting_ ? wait_for(facts->done, turn_) : wait_for(facts->step, turn_ + 1);
  }

  bool exporting_ = false;
  int turn_ = 0;
  std::list<Process> processes_;
};
}  // namespace support
