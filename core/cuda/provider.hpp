// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs shared by tokens.
#pragma once

#include "core/backend/provider.hpp"

namespace symm::cuda {

// Throws Error(unavailable) if there is no driver.
const ipc::Provider& ipc_provider();
void ipc_reclaim() noexcept;  // does not load the driver

}  // namespace symm::cuda
