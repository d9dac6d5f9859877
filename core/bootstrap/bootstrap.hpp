// From a bootstrap string to a store, a rank and a size.
#pragma once

#include "core/bootstrap/store.hpp"

namespace symm {
struct BootstrapConfig {
  std::string url;  // "env://", "tcp://host:port", "dir:///path", "thread://name"
  const StoreCallbacks* callbacks = nullptr;
  int rank = 0;
  int size = 0;  // 0: from the bootstrap
  std::string name;
};

// Where the ranks of one group meet. The store is scoped to this
// creation: successive creations with the same bootstrap and name
// never see each other's keys, nor those of a crashed former job.
struct BootstrapResult {
  std::unique_ptr<Store> store;
  int rank = 0;
  int size = 1;
  std::string description;  // "env:// (Open MPI)"
};

BootstrapResult bootstrap(const BootstrapConfig& config, Deadline deadline);
}  // namespace symm
