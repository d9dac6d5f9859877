// The list: which back ends there are, and what each can do on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/topology.hpp"
#include <symm/symm.h>

namespace symm {
// Resolves `automatic` to a back end of this machine. Throws Error(unavailable) with the reason
// for a back end that cannot be used.
BackendKind resolve(BackendKind kind);
int device_count(BackendKind kind);
symm_device_info_t device_info(BackendKind kind, int device);
Links links(BackendKind kind);
// What names a device to other processes of this machine; "" for the host.
std::string bus_of(BackendKind kind, int device);
// The links between the devices with these names. Throws Error(unavailable) if NVML does not tell.
Links links_of_buses(BackendKind kind, const std::vector<std::string>& buses);
// The back end for a new group. Throws Error(unavailable) with the reason.
std::shared_ptr<Backend> open_backend(BackendKind kind, int device, int local_rank);

// Returns the object that shares a back end's memory by tokens. Throws Error(unavailable) if
// the back end cannot be used here.
const ipc::Provider& ipc_provider(BackendKind kind);
// Give back what back ends have put off, because streams were not past it.
void ipc_reclaim() noexcept;
}  // namespace symm
