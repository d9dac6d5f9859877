// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host shared by tokens.
#pragma once

#include "core/backend/provider.hpp"

namespace symm::host {

const ipc::Provider& ipc_provider();

}  // namespace symm::host
