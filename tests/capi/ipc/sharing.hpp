// SPDX-License-Identifier: Apache-2.0
//
// Sharing by tokens for tests: the C ABI with failures turned into exceptions, and what processes of a test tell each other.
#pragma once

#include <atomic>
#include <cstring>

#include "tests/ranks/ranks.hpp"

namespace sharing {

using ranks::check;
using ranks::eventually;
using ranks::Failed;
using ranks::Footprint;
using ranks::Processes;
using ranks::Shared;

// Where the sockets of a test are. At its end nothing may be left there.
class Directory {
 public:
  Directory();
  ~Directory();
  std::string path() const { return meeting_.directory(); }

 private:
  ranks::BootstrapResult meeting_;
};

// A buffer of a group of one, which it shares with others that are made in the same process.
struct Owned {
  explicit Owned(size_t bytes);
  ranks::Buffer buffer;
  std::byte* data = nullptr;
  template <class T>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(data + offset);
  }
};

struct Token {
  size_t size = 0;
  std::byte bytes[SYMM_IPC_TOKEN_MAX_SIZE] = {};
};
Token make_token(const void* pointer, size_t bytes, uint64_t hold_ms = 0, uint64_t hold_imports = 0);

struct Release {
  void operator()(symm_ipc_t* ipc) const { symm_ipc_release(ipc, nullptr); }
};
struct Import : std::unique_ptr<symm_ipc_t, Release> {
  using std::unique_ptr<symm_ipc_t, Release>::unique_ptr;
  template <class T>
  T* at() const {
    void* found = nullptr;
    check(symm_ipc_pointer(get(), &found));
    return static_cast<T*>(found);
  }
  symm_ipc_info_t info() const;
};
Import import(const Token& token, uint64_t timeout_ms = 20'000, const char* directory = nullptr);
// Why an import fails; ok if it does not.
struct Outcome {
  symm_status_t status = SYMM_OK;
  std::string message;
};
Outcome outcome_of_import(const Token& token, uint64_t timeout_ms = 20'000);

symm_ipc_stats_t stats();
symm_ipc_report_t collect();

// What the processes of one test share beside the library.
struct Facts {
  std::atomic<int> step;
  std::atomic<int> done;
  Token token;
  Token tokens[64];
};
void reach(Facts& facts, int step);
// Fails the test, by an exception, if that takes too long.
void wait_for(const std::atomic<int>& value, int at_least);
void expect_eventually(const char* what, const std::function<bool()>& so);

}  // namespace sharing
