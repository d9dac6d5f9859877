// SPDX-License-Identifier: Apache-2.0
//
// Sharing by tokens for tests, and what processes of a test tell each other.
#pragma once

#include <atomic>
#include <cstring>

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
  template <class T>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(data + offset);
  }
};

// In memory that processes share, where symm::Token cannot be.
struct Token {
  size_t size = 0;
  std::byte bytes[SYMM_IPC_TOKEN_MAX_SIZE] = {};
};
Token make_token(const void* pointer, size_t bytes, uint64_t hold_ms = 0, uint64_t hold_imports = 0);

struct Import : symm::Import {
  using symm::Import::Import;
  template <class T>
  T* at() const {
    return span<T>().data();
  }
};
Import import(const Token& token, uint64_t timeout_ms = 20'000, const char* directory = nullptr);
Outcome outcome_of_import(const Token& token, uint64_t timeout_ms = 20'000);

// What the processes of one test share beside the library.
struct Facts {
  std::atomic<int> step;
  std::atomic<int> done;
  Token token;
  Token tokens[64];
};
inline void reach(Facts& facts, int step) { facts.step = step; }
// Fails the test, by an exception, if that takes too long.
void wait_for(const std::atomic<int>& value, int at_least);
void expect_eventually(const char* what, const std::function<bool()>& so);

}  // namespace support
