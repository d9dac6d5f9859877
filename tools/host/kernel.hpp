// SPDX-License-Identifier: Apache-2.0
//
// What the running kernel can do, found out by trying it.
#pragma once

#include <string>
#include <vector>

namespace symm::tool {

struct Feature {
  std::string name;
  bool available = false;
  std::string reason;  // why not
};

std::string kernel_release();

Feature memfd_with_seals();  // memory that peers can map and nobody can cut off
Feature pidfd();             // a peer's death seen without a race on its number
Feature peer_pidfd();        // SO_PEERPIDFD: the same across pid namespaces
Feature futex_waitv();       // one wait for several words
std::vector<Feature> kernel_features();

}  // namespace symm::tool
