// Memory of one NUMA node.
#pragma once

#include <cstddef>
#include <string>

namespace symm::host {
// The NUMA node that has all processors on which this thread may run; -1 if several have them, or
// the system does not tell.
int node_of_processors();
// Whether a list such as "0-3,8" has the number. Pure.
bool list_has(const std::string& list, int number);

// Makes all pages that the file gets from now on come from `node`, whichever process touches them
// first. Throws Error(unavailable) with the reason if the kernel does not permit it,
// Error(out_of_memory) if the node has too little memory, Error(invalid_argument) if there is no
// such node.
void bind_to_node(int fd, size_t bytes, int node);
}  // namespace symm::host
