// Makes a store, a rank and a size of a bootstrap string.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
struct BootstrapConfig {
  std::string url;  // "env://", "tcp://host:port", "dir:///path", "thread://name"
  const StoreCallbacks* callbacks = nullptr;
  int rank = 0;
  int size = 0;  // 0: rank and size come from the bootstrap
  std::string name;
  std::vector<std::byte> id = {};           // of make_unique_id(); empty: none
  const char* source = "config.bootstrap";  // what messages call `url`
};

// A rank, and the store by which the ranks of its group meet. The store belongs to one creation:
// later creations with an equal bootstrap and name do not see its keys, and it does not see those
// of a crashed former job.
struct BootstrapResult {
  std::unique_ptr<Store> store;
  int rank = 0;
  int size = 1;
  std::string description;  // "env:// (Open MPI)"
};

BootstrapResult bootstrap(const BootstrapConfig& config, Deadline deadline);
}  // namespace symm
