// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <vector>

namespace symm::tool {

// The cores that this process may use, as the sets of their processors, in an order in which neighbours share caches.
std::vector<cpu_set_t> usable_cores();  // throws std::runtime_error

}  // namespace symm::tool
