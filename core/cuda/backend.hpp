// Back end 2: memory of GPUs, shared between processes through the driver's virtual memory
// management.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/topology.hpp"
#include "core/cuda/device.hpp"
#include <symm/symm.h>

namespace symm::cuda {
// Why the back end cannot be used here; "" if it can.
std::string unavailable_reason();

std::shared_ptr<Backend> open(int device, int local_rank);

int device_count();
symm_device_info_t device_info(int device);
// The GPUs that this process sees, by ordinal. They do not change while it runs.
const std::vector<Uuid>& visible_gpus();
Links links();
// The PCI bus id of a device, and the links between the devices that have these, of which this
// process need not see more than one.
std::string bus_of(int ordinal);
Links links_of_buses(const std::vector<std::string>& buses);

// For sharing by tokens. Throws Error(unavailable) if there is no driver.
const ipc::Provider& ipc_provider();
// Device::reclaim(). Does not load the driver.
void ipc_reclaim() noexcept;
}  // namespace symm::cuda
