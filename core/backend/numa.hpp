// Memory of one NUMA node.
#pragma once

#include <cstddef>

namespace symm::host {
// Makes all pages that the file gets from now on come from `node`, whichever process touches them
// first. Throws Error(unavailable) with the reason if the kernel does not permit it,
// Error(out_of_memory) if the node has too little memory, Error(invalid_argument) if there is no
// such node.
void bind_to_node(int fd, size_t bytes, int node);
}  // namespace symm::host
