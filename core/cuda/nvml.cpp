#include "core/cuda/nvml.hpp"
#include <dlfcn.h>
#include <cctype>

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
constexpr unsigned kMaxLinks = 18;  // of a GPU
constexpr int kRemoteGpu = 0;
constexpr int kRemoteSwitch = 2;
constexpr int kRemoteUnknown = 255;

struct Nvml {
  nvmlReturn (*init)() = nullptr;
  nvmlReturn (*by_bus)(const char*, nvmlDevice*) = nullptr;
  nvmlReturn (*state)(nvmlDevice, unsigned, int*) = nullptr;
  nvmlReturn (*remote_pci)(nvmlDevice, unsigned, nvmlPciInfo*) = nullptr;
  nvmlReturn (*remote_type)(nvmlDevice, unsigned, int*) = nullptr;
  const char* (*error_string)(nvmlReturn) = nullptr;
  std::string reason;

  std::string text(nvmlReturn result) const {
    const char* words = error_string(result);
    return format("%s (NVML error %d)", words != nullptr ? words : "no text", result);
  }
};

Nvml load_nvml() {
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
  find(nvml.error_string, "nvmlErrorString");
  if (nvml.reason.empty()) {
    if (const nvmlReturn result = nvml.init(); result != 0) nvml.reason = "nvmlInit: " + nvml.text(result);
  }
  return nvml;
}

LinkFacts links_of(const Nvml& nvml, nvmlDevice device, const std::string& bus) {
  LinkFacts links{bus, 0, {}};
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int active = 0;
    if (nvml.state(device, link, &active) != 0 || active == 0) continue;
    int type = kRemoteUnknown;
    if (nvml.remote_type(device, link, &type) != 0) type = kRemoteUnknown;
    nvmlPciInfo remote{};
    const bool located = nvml.remote_pci(device, link, &remote) == 0;
    if (type == kRemoteUnknown) {
      // A virtual machine hides its switches, so a link that is up and leads to nothing known leads to one.
      nvmlDevice neighbour = nullptr;
      type = located && nvml.by_bus(remote.busId, &neighbour) == 0 ? kRemoteGpu : kRemoteSwitch;
    }
    if (type == kRemoteSwitch) ++links.to_switches;
    if (type == kRemoteGpu && located) links.to_gpus.emplace_back(remote.busId);
  }
  return links;
}

// "00000000:1B:00.0" and "0000:1b:00.0" are one device.
std::string normal(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  const size_t start = std::min(text.find_first_not_of('0'), colon);
  return text.substr(start);
}
}  // namespace

std::vector<LinkFacts> links_of(const std::vector<std::string>& buses) {
  static const Nvml* nvml = new Nvml(load_nvml());
  if (!nvml->reason.empty()) throw Error(Status::unavailable, nvml->reason);
  std::vector<LinkFacts> all;
  for (size_t i = 0; i < buses.size(); ++i) {
    nvmlDevice device = nullptr;
    if (const nvmlReturn result = nvml->by_bus(buses[i].c_str(), &device); result != 0) {
      throw Error(
          Status::unavailable, format("NVML does not see device %zu (%s): %s", i, buses[i].c_str(), nvml->text(result).c_str()));
    }
    all.push_back(links_of(*nvml, device, buses[i]));
  }
  return all;
}

Links links_between(std::span<const LinkFacts> devices) {
  const size_t count = devices.size();
  Links links{static_cast<int>(count), std::vector<int32_t>(count * count)};
  for (size_t a = 0; a < count; ++a) {
    const auto& ends = devices[a].to_gpus;
    for (size_t b = 0; b < count; ++b) {
      if (a == b) continue;
      const auto direct =
          std::count_if(ends.begin(), ends.end(), [&](const std::string& bus) { return normal(bus) == normal(devices[b].bus); });
      links.count[a * count + b] = static_cast<int32_t>(direct) + std::min(devices[a].to_switches, devices[b].to_switches);
    }
  }
  return links;
}
}  // namespace symm::cuda
