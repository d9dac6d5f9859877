// Whether a process sleeps in the kernel, and in which system call.
#pragma once

#include <sys/types.h>

#include <string>

namespace symm::tool {
// The place where the main thread of a process sleeps, as "openat" or, where the kernel tells
// its own place too, "openat (wait_for_partner)"; "" if it does not, or nothing can be learnt.
std::string sleeps_in(pid_t pid);
}  // namespace symm::tool
