// Memory of one NUMA node.
#pragma once

#include <cstddef>

namespace symm::host {
// All pages that the file gets from now on, whoever touches them
// first, come from `node`. Throws Error(unavailable) with the reason
// where that cannot be had, Error(out_of_memory) if the node has not
// as much, Error(invalid_argument) if there is no such node.
void bind_to_node(int fd, size_t bytes, int node);
}  // namespace symm::host
