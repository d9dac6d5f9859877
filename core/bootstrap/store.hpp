// How bytes move before memory is shared: a key-value store with deadlines. A key is set once and
// never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"

namespace symm {
using Bytes = std::vector<std::byte>;

inline constexpr int kMostRanks = 32767;  // in a group
// How long a dead rank has to be started again while ranks meet. All ranks know of a death within a
// second.
inline constexpr uint64_t kRestartMs = 500;

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const Bytes& value, Deadline deadline) = 0;
  // Waits for the key. Throws Error(timeout) naming the key when the deadline passes first.
  virtual Bytes get(const std::string& key, Deadline deadline) = 0;
  // A directory of mode 0700 that all ranks share, for their sockets. "" if this store has none:
  // then rank 0 makes one and publishes its path through the store.
  virtual std::string directory() const { return {}; }
  // The address by which ranks of other machines reach this one; "" if this store does not know it.
  virtual std::string address() const { return {}; }
  // The address to dial for a rank that published the address `at`. A name may have several
  // addresses; if this store has reached one of them, it returns that one.
  virtual std::string reached(const std::string& at) const { return at; }
  // How many connections of strangers were refused while the ranks met.
  virtual uint64_t rejected() const { return 0; }
  // Tells the ranks that still wait for this one why it leaves, if the store can.
  virtual void tell(const Failure& /*why*/) const noexcept {}
};

// The callbacks of a user's store; capi fills it from symm_store_t. The functions return a Status
// value.
struct StoreCallbacks {
  void* user = nullptr;
  int32_t (*set)(void*, const char*, const void*, size_t, uint64_t) = nullptr;
  int32_t (*get)(void*, const char*, void*, size_t, size_t*, uint64_t) = nullptr;
};
// A store that calls the functions of a user's store. Keys contain the name of the group, but no
// number of its creation: ranks could not count creations alike, because only the user knows which
// of his stores belong together. (A store may have the address that an earlier store had on this
// rank, and not on others.)
std::unique_ptr<Store> open_callback_store(
    const StoreCallbacks& callbacks, const std::string& name);

// The failure, after a deadline, that names the ranks that did not come to `place`.
Failure missing_ranks(const std::vector<bool>& came, const std::string& place);

// A store for ranks that are threads of one process: a map that lives as long as the store of its
// last rank. Waits until all `size` ranks have come to `name`. A later call with an equal name
// makes a new map. Throws Error: timeout naming the missing ranks, mismatch if a rank came twice or
// the sizes differ.
std::unique_ptr<Store> open_thread_store(
    const std::string& name, int rank, int size, Deadline deadline);
}  // namespace symm
