// A store of the caller's own in memory that ranks share, be they threads or processes.
#pragma once

#include "tests/support/group.hpp"

namespace support {
struct Board {
  struct Entry {
    std::atomic<int> ready;
    char key[200];
    size_t size;
    char value[4096];
  };
  std::atomic<int> used;
  std::atomic<bool> set_twice;
  Entry entries[256];

  const Entry* find(const char* key) const {
    for (int i = 0; i < used; ++i)
      if (entries[i].ready != 0 && std::strcmp(entries[i].key, key) == 0) return &entries[i];
    return nullptr;
  }
};

// Counts the calls of a rank, and can be told what to do in one of them.
struct BoardStore {
  Board& board;
  int calls = 0;
  int fatal_call = -1;
  int signal = SIGKILL;

  symm_store_t callbacks() { return {sizeof(symm_store_t), this, set, get}; }

  static BoardStore& called(void* user) {
    auto& self = *static_cast<BoardStore*>(user);
    if (self.calls++ == self.fatal_call) raise(self.signal);
    return self;
  }
  static symm_status_t set(void* user, const char* key, const void* value, size_t size, uint64_t) {
    Board& board = called(user).board;
    if (board.find(key) != nullptr) board.set_twice = true;
    Board::Entry& entry = board.entries[board.used.fetch_add(1)];
    if (size > sizeof entry.value || std::strlen(key) >= sizeof entry.key) return SYMM_ERR_INVALID_ARGUMENT;
    std::strcpy(entry.key, key);
    std::memcpy(entry.value, value, size);
    entry.size = size;
    entry.ready = 1;
    return SYMM_OK;
  }
  static symm_status_t get(void* user, const char* key, void* value, size_t capacity, size_t* out_size, uint64_t timeout_ms) {
    const Board& board = called(user).board;
    const Board::Entry* found = nullptr;
    const auto look = [&] { return (found = board.find(key)) != nullptr; };
    if (!eventually(look, static_cast<int>(std::min<uint64_t>(timeout_ms, 60'000)))) return SYMM_ERR_TIMEOUT;
    *out_size = found->size;
    std::memcpy(value, found->value, std::min(capacity, found->size));
    return SYMM_OK;
  }
};
}  // namespace support
