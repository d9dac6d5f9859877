// How bytes move before memory is shared: a key-value store
// with deadlines. A key is set once and never changes.
#pragma once

#include "core/base/wait.hpp"

namespace symm {
using Bytes = std::vector<std::byte>;

inline constexpr int kMostRanks = 32767;  // of a group

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const Bytes& value, Deadline deadline) = 0;
  // Wait for the key. Throws Error(timeout) naming the key when the deadline passes first.
  virtual Bytes get(const std::string& key, Deadline deadline) = 0;
  // A directory of mode 0700 that all ranks share, where their
  // sockets go; "" if this store has none, in which case rank
  // 0 makes one and publishes its path through the store.
  virtual std::string directory() const { return {}; }
  // By which ranks of other machines reach this one; "" if this store does not know.
  virtual std::string address() const { return {}; }
  // of several that it may name, the one that answered
  virtual std::string reached(const std::string& at) const { return at; }
  // Why this rank goes, for those who still wait for it here, where the store can say so.
  virtual void tell(const Failure& /*why*/) const noexcept {}
};

// Callbacks of a user's store in C++ clothes; capi fills it
// from symm_store_t. The functions return a Status value.
struct StoreCallbacks {
  void* user = nullptr;
  int32_t (*set)(void*, const char*, const void*, size_t, uint64_t) = nullptr;
  int32_t (*get)(void*, const char*, void*, size_t, size_t*, uint64_t) = nullptr;
};
// A store over the functions of a user's store. Keys carry the name of the group, and
// no number of its creation: only the user knows which of his stores is which, for one
// may lie where another of this rank's lay, and not on other ranks.
std::unique_ptr<Store> open_callback_store(
    const StoreCallbacks& callbacks, const std::string& name);

// After a deadline: who of the ranks did not come to `place`.
Failure missing_ranks(const std::vector<bool>& came, const std::string& place);

// A store for ranks that are threads of one process: a map that lives as long as the
// store of its last rank. Waits until all `size` ranks have come to `name`; a later
// call with the same name meets in a new map. Throws Error: timeout naming the missing
// ranks, mismatch if a rank came twice or the sizes differ.
std::unique_ptr<Store> open_thread_store(
    const std::string& name, int rank, int size, Deadline deadline);
}  // namespace symm
