// The host back end: memory shared between processes of one machine, in groups and by tokens.
#pragma once

#include <memory>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"

namespace symm::host {
std::shared_ptr<Backend> open();
const ipc::Provider& ipc_provider();
}  // namespace symm::host
