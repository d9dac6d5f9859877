// Sharing by tokens for tests, and what processes of a test tell each other.
#pragma once

#include <list>
#include "tests/support/group.hpp"

namespace support {
using symm::ipc_collect;
using symm::ipc_stats;

// Where the sockets of a test are. At its end nothing may be left there.
struct Directory : TemporaryDirectory {
  Directory();
  ~Directory();
};

// A buffer of a group of one, which it shares with others that are made in the same process.
struct Owned {
  explicit Owned(size_t bytes);
  Buffer buffer;
  std::byte* data = nullptr;
  template <class T> T* at(size_t offset = 0) const { return reinterpret_cast<T*>(data + offset); }
};

struct Import : symm::Import {
  using symm::Import::Import;
  template <class T> T* at() const { return span<T>().data(); }
};
Import import(const Token& token, uint64_t timeout_ms = 20'000);
Outcome outcome_of_import(const Token& token, uint64_t timeout_ms = 20'000);

// What the processes of one test share beside the library.
struct Facts {
  std::atomic<int> step;
  std::atomic<int> done;
  Token token;
  Token tokens[64];
};
// Fails the test, by an exception, if that takes too long.
void wait_for(const std::atomic<int>& value, int at_least);
void expect_eventually(const char* what, const std::function<bool()>& so);

// A test of processes that share, most often of an exporter and an importer, which take turns: the importer begins when the
// exporter first goes on, and goes on itself when it ends.
class Sharing : public testing::Test {
 protected:
  Process& exporter(const std::function<void()>& body);
  Process& importer(const std::function<void()>& body);
  // In one of them: let the other go on; and wait until that does the same.
  void go_on();
  void pass();
  // Wait for the end of one that may end in any manner; wait for all others, which must end well, as at the end of the test.
  void gone(Process& process);
  void join();
  // A buffer, with the first 64 bytes of it as the token of the test.
  Owned offer(size_t bytes);

  const Directory directory;
  Shared<Facts> facts;
 private:
  void TearDown() override { join(); }
  void await() const;

  bool exporting_ = false;
  int turn_ = 0;
  std::list<Process> processes_;
};
}  // namespace support
