// SPDX-License-Identifier: Apache-2.0
//
// A store for ranks that are threads of one process: a map that lives as long as the store of its last rank.
#pragma once

#include <memory>
#include <string>

#include "core/bootstrap/store.hpp"

namespace symm {

// Wait until all `size` ranks have come to `name`, and give this one its store. A later call with the same name meets in a new
// map. Throws Error: timeout naming the missing ranks, mismatch if a rank came twice or the sizes differ.
std::unique_ptr<Store> open_thread_store(const std::string& name, int rank, int size, Deadline deadline);

}  // namespace symm
