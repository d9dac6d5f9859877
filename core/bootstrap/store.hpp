// SPDX-License-Identifier: Apache-2.0
//
// How bytes move before memory is shared: a key-value store with deadlines. A key is set once and never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  // A directory of mode 0700 that all ranks share, where their sockets go; "" if this store has none, in which case
  // rank 0 makes one and publishes its path through the store.
  virtual std::string directory() const { return {}; }
  virtual std::string describe() const = 0;  // for messages and symm_group_info: "dir:///run/user/1000/job"
};

}  // namespace symm
