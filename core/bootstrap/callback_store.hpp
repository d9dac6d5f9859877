// SPDX-License-Identifier: Apache-2.0
//
// A store over the functions of a user's store. Keys carry the name of the group and the number of its creation, since the user's
// store may outlive a group while a key is set only once.
#pragma once

#include <memory>

#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {

// `rank` tells the ranks apart where several are threads of this process and share a store: each counts its own creations.
std::unique_ptr<Store> open_callback_store(const StoreCallbacks& callbacks, const std::string& name, int rank);

}  // namespace symm
