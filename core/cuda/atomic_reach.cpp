// Asks the driver, or NVML for devices that this process does not see, which links carry atomic
// operations.
#include "core/cuda/atomic_reach.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/cuda/backend.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/nvml.hpp"

namespace symm::cuda {
std::string AtomicReach::why_not(const Uuid& gpu) {
  if (gpu == device_->uuid()) return "";

  const std::lock_guard lock(mutex_);
  const auto found = known_.find(gpu);
  return found != known_.end() ? found->second : known_.emplace(gpu, ask(gpu)).first->second;
}

std::string AtomicReach::ask(const Uuid& gpu) const {
  const std::vector<Uuid>& visible = visible_gpus();
  const auto place = std::find(visible.begin(), visible.end(), gpu);
  if (place == visible.end()) return why_no_atomics(text_of(device_->uuid()), text_of(gpu));

  const Driver& driver = device_->driver();
  CUdevice peer = 0;
  driver.require(
      driver.cuDeviceGet(&peer, static_cast<int>(place - visible.begin())), "cuDeviceGet");
  int is_native = 0;
  driver.require(driver.cuDeviceGetP2PAttribute(&is_native,
                     CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device_->handle(), peer),
      "cuDeviceGetP2PAttribute");
  return is_native != 0
             ? ""
             : format(
                   "the link from device %d to %s carries no atomic operations, as PCIe does not",
                   device_->ordinal(), text_of(gpu).c_str());
}

std::string AtomicReach::why_not_on_host() const {
  return device_->attribute(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED) != 0
             ? ""
             : format(
                   "the link from device %d to the host carries no atomic operations, as PCIe "
                   "does not",
                   device_->ordinal());
}
}  // namespace symm::cuda
