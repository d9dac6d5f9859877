// SPDX-License-Identifier: Apache-2.0
//
// Facts about this process that never change, and the one that may: whether it is a forked child.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace symm::process {

const std::string& boot_id();  // of the running kernel; "" if unreadable
uint64_t random64();

// Number of fork() calls between the process that first used the library and this one. A handle remembers the value at its
// creation; in a child it differs and the handle is refused. (getpid() would cost a system call in every collective.)
uint32_t fork_generation() noexcept;
// Run in the child right after fork(), in which only async-signal-safe work is allowed: close sockets.
void at_fork_in_child(void (*handler)() noexcept);

}  // namespace symm::process
