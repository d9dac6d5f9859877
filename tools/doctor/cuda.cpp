// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/finding.hpp"

namespace symm::tool {

Finding judge_cuda_driver(const CudaDriver& driver, bool library_can, const std::string& library_reason) {
  const std::string check = "CUDA driver";
  const std::string devices = std::to_string(driver.devices) + (driver.devices == 1 ? " device" : " devices");
  if (!driver.present) return {check, Verdict::ok, "none: the host back end is used (" + driver.reason + ")", ""};
  if (!driver.usable) {
    return {
        check, Verdict::warning, driver.reason,
        "The driver is installed but does not work, so only the host back end can be used. See nvidia-smi; in a container start "
        "with --gpus all, and check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*."};
  }
  const std::string version = std::to_string(driver.version / 1000) + "." + std::to_string(driver.version % 1000 / 10);
  const std::string detail = devices + ", CUDA " + version;
  if (library_can) return {check, Verdict::ok, detail, ""};
  return {check, Verdict::note, detail + ", which this library does not use: " + library_reason,
          "Ranks work on host memory. Use a build of libsymm with the CUDA back end (symm info shows what this one has)."};
}

Finding judge_peer_access(int devices) {
  if (devices < 2) return {"peer access", Verdict::ok, "not applicable: fewer than two devices that libsymm can use", ""};
  return {"peer access", Verdict::note, "not examined", "symm info shows the links between the devices."};
}

}  // namespace symm::tool
