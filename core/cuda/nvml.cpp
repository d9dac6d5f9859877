// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#include "core/error.hpp"

namespace symm::cuda {
namespace {

// Of nvml.h: what we call, and its types.
using nvmlReturn = int;
using nvmlDevice = struct nvmlDevice_st*;
struct nvmlPciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};
constexpr unsigned kMaxLinks = 18;
constexpr int kRemoteGpu = 0;
constexpr int kRemoteSwitch = 2;

struct Nvml {
  nvmlReturn (*init)() = nullptr;
  nvmlReturn (*by_bus)(const char*, nvmlDevice*) = nullptr;
  nvmlReturn (*state)(nvmlDevice, unsigned, int*) = nullptr;
  nvmlReturn (*remote_pci)(nvmlDevice, unsigned, nvmlPciInfo*) = nullptr;
  nvmlReturn (*remote_type)(nvmlDevice, unsigned, int*) = nullptr;
  std::string reason;
};

Nvml load() {
  Nvml nvml;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    nvml.reason = "the links between GPUs are known to NVML only, and libnvidia-ml.so.1 cannot be loaded";
    return nvml;
  }
  const auto find = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (entry == nullptr) nvml.reason = format("NVML has no %s", name);
  };
  find(nvml.init, "nvmlInit_v2");
  find(nvml.by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  find(nvml.state, "nvmlDeviceGetNvLinkState");
  find(nvml.remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  find(nvml.remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
  if (nvml.reason.empty()) {
    if (const nvmlReturn result = nvml.init(); result != 0) nvml.reason = format("nvmlInit: error %d", result);
  }
  return nvml;
}

// "00000000:1B:00.0" and "0000:1b:00.0" are one device.
std::string normal(const std::string& bus) {
  std::string text;
  for (const char c : bus) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  const size_t start = std::min(text.find_first_not_of('0'), colon);
  return text.substr(start);
}

}  // namespace

std::vector<NvLinks> nvlinks_of(const std::vector<std::string>& buses) {
  static const Nvml* nvml = new Nvml(load());
  if (!nvml->reason.empty()) throw Error(Status::unavailable, nvml->reason);
  std::vector<NvLinks> all;
  for (const std::string& bus : buses) {
    nvmlDevice device = nullptr;
    if (const nvmlReturn result = nvml->by_bus(bus.c_str(), &device); result != 0) {
      throw Error(Status::unavailable, format("nvmlDeviceGetHandleByPciBusId(%s): error %d", bus.c_str(), result));
    }
    NvLinks links;
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      int active = 0;
      int type = 0;
      if (nvml->state(device, link, &active) != 0 || active == 0 || nvml->remote_type(device, link, &type) != 0) continue;
      if (type == kRemoteSwitch) ++links.to_switches;
      nvmlPciInfo remote{};
      if (type == kRemoteGpu && nvml->remote_pci(device, link, &remote) == 0) links.to_gpus.emplace_back(remote.busId);
    }
    all.push_back(std::move(links));
  }
  return all;
}

Links links_between(const std::vector<std::string>& buses, const std::vector<NvLinks>& ends) {
  Links links{static_cast<int>(buses.size()), std::vector<int32_t>(buses.size() * buses.size())};
  for (size_t a = 0; a < buses.size(); ++a) {
    for (size_t b = 0; b < buses.size(); ++b) {
      if (a == b) continue;
      const auto direct = std::count_if(ends[a].to_gpus.begin(), ends[a].to_gpus.end(),
                                        [&](const std::string& bus) { return normal(bus) == normal(buses[b]); });
      links.count[a * buses.size() + b] = static_cast<int32_t>(direct) + std::min(ends[a].to_switches, ends[b].to_switches);
    }
  }
  return links;
}

}  // namespace symm::cuda
