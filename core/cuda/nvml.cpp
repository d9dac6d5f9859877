// Asks NVML, loaded at run time, for the links between GPUs. Without it, links are unknown.
#include "core/cuda/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/backend/topology.hpp"
#include "core/base/error.hpp"
#include "core/base/library.hpp"
#include "core/base/per_process.hpp"

namespace symm::cuda {
namespace {
// Calls and types of nvml.h, as far as they are used here.
using nvmlReturn = int;
using nvmlDevice = struct nvmlDevice_st*;

struct nvmlPciInfo {
  char busIdLegacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};

constexpr int kRemoteGpu = 0;
constexpr int kRemoteSwitch = 2;
constexpr int kRemoteUnknown = 255;

// Values of nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t.
constexpr int kAtomicsBetweenGpus = 3;
constexpr int kIsSupported = 0;

#define SYMM_NVML_CALLS(X)                                                                 \
  X(nvmlInit_v2, nvmlReturn, ())                                                           \
  X(nvmlDeviceGetHandleByPciBusId_v2, nvmlReturn, (const char*, nvmlDevice*))              \
  X(nvmlDeviceGetNvLinkState, nvmlReturn, (nvmlDevice, unsigned, int*))                    \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlReturn, (nvmlDevice, unsigned, nvmlPciInfo*)) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlReturn, (nvmlDevice, unsigned, int*))         \
  X(nvmlErrorString, const char*, (nvmlReturn))

// The NVLink domain of a GPU: nvmlGpuFabricInfo_v2_t.
struct nvmlFabricInfo {
  unsigned version;
  unsigned char clusterUuid[16];
  nvmlReturn status;
  unsigned cliqueId;
  unsigned char state;
  unsigned healthMask;
};
constexpr unsigned kFabricInfoVersion = sizeof(nvmlFabricInfo) | 2U << 24;
constexpr unsigned char kFabricNotSupported = 0;
constexpr unsigned char kFabricCompleted = 3;

[[noreturn]] void unavailable(const std::string& why) { throw Error(Status::unavailable, why); }

struct Nvml {
  SYMM_NVML_CALLS(SYMM_LIBRARY_CALL)
  // Null before driver 550.
  nvmlReturn (*nvmlDeviceGetGpuFabricInfoV)(nvmlDevice, nvmlFabricInfo*) = nullptr;
  // Only atomic operations need these, so a library without them serves for the rest.
  nvmlReturn (*nvmlDeviceGetHandleByUUID)(const char*, nvmlDevice*) = nullptr;
  nvmlReturn (*nvmlDeviceGetP2PStatus)(nvmlDevice, nvmlDevice, int, int*) = nullptr;

  Nvml() {
    const std::string where = "NVML";
    std::string why;
    void* const found = find_library("libnvidia-ml.so.1", "", nullptr, why);
    if (found == nullptr) unavailable("the links between GPUs are known to NVML only: " + why);

    SYMM_NVML_CALLS(SYMM_LIBRARY_FIND)
    nvmlDeviceGetGpuFabricInfoV = reinterpret_cast<decltype(nvmlDeviceGetGpuFabricInfoV)>(
        dlsym(found, "nvmlDeviceGetGpuFabricInfoV"));
    nvmlDeviceGetHandleByUUID = reinterpret_cast<decltype(nvmlDeviceGetHandleByUUID)>(
        dlsym(found, "nvmlDeviceGetHandleByUUID"));
    nvmlDeviceGetP2PStatus =
        reinterpret_cast<decltype(nvmlDeviceGetP2PStatus)>(dlsym(found, "nvmlDeviceGetP2PStatus"));

    if (const nvmlReturn result = nvmlInit_v2(); result != 0) {
      unavailable("nvmlInit: " + text(result));
    }
  }

  std::string text(nvmlReturn result) const {
    const char* words = nvmlErrorString(result);
    return format("%s (NVML error %d)", words != nullptr ? words : "no text", result);
  }
};

// Throws Error(unavailable) where there is no NVML; the next call tries again. Not a static object,
// as driver() says.
const Nvml& nvml() { return PerProcess<Nvml>::current(); }

// The device at `bus`. Throws Error(unavailable), in which `name` is what people call the device.
nvmlDevice device_at(const Nvml& nvml, const std::string& bus, const std::string& name) {
  nvmlDevice device = nullptr;
  const nvmlReturn result = nvml.nvmlDeviceGetHandleByPciBusId_v2(bus.c_str(), &device);
  if (result != 0) unavailable("NVML does not see " + name + ": " + nvml.text(result));
  return device;
}

LinkFacts links_of(const Nvml& nvml, nvmlDevice device, const std::string& bus) {
  LinkFacts links{.bus = bus_number(bus)};
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int active = 0;
    if (nvml.nvmlDeviceGetNvLinkState(device, link, &active) != 0 || active == 0) continue;

    int type = kRemoteUnknown;
    if (nvml.nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type) != 0) type = kRemoteUnknown;
    nvmlPciInfo remote{};
    const bool located = nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &remote) == 0;
    if (type == kRemoteUnknown) {
      // A virtual machine hides its switches, so a link that is up and leads to nothing known leads
      // to a switch.
      nvmlDevice neighbour = nullptr;
      type = located && nvml.nvmlDeviceGetHandleByPciBusId_v2(remote.busId, &neighbour) == 0
                 ? kRemoteGpu
                 : kRemoteSwitch;
    }
    if (type == kRemoteSwitch) ++links.to_switches;
    if (type == kRemoteGpu && located) {
      links.to_gpus[static_cast<size_t>(links.direct++)] = bus_number(remote.busId);
    }
  }
  return links;
}
}  // namespace

uint64_t bus_number(std::string_view text) {
  // Domain, bus, device and function, each in base 16.
  constexpr struct {
    uint32_t most;
    char end;
  } kParts[] = {{UINT32_MAX, ':'}, {0xFF, ':'}, {0xFF, '.'}, {0xFF, '\0'}};

  uint64_t number = 0;
  for (const auto& [most, end] : kParts) {
    uint32_t part = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), part, 16);
    const auto length = static_cast<size_t>(rest - text.data());
    const bool ends = end == '\0' ? length == text.size() : length < text.size() && *rest == end;
    if (error != std::errc() || !ends || part > most) return 0;

    number = number << 8 | part;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return number;
}

std::vector<LinkFacts> links_of(const std::vector<std::string>& buses) {
  const Nvml& loaded = nvml();
  std::vector<LinkFacts> all;

  for (size_t i = 0; i < buses.size(); ++i) {
    const std::string name = format("device %zu (%s)", i, buses[i].c_str());
    all.push_back(links_of(loaded, device_at(loaded, buses[i], name), buses[i]));
  }
  return all;
}

std::string domain_of(const std::string& bus) {
  const Nvml& loaded = nvml();
  if (loaded.nvmlDeviceGetGpuFabricInfoV == nullptr) {
    unavailable("NVML has no nvmlDeviceGetGpuFabricInfoV, which came with driver 550");
  }

  const nvmlDevice device = device_at(loaded, bus, "the device at " + bus);
  nvmlFabricInfo info{};
  info.version = kFabricInfoVersion;
  const nvmlReturn result = loaded.nvmlDeviceGetGpuFabricInfoV(device, &info);
  if (result != 0) unavailable("nvmlDeviceGetGpuFabricInfoV: " + loaded.text(result));

  if (info.state == kFabricNotSupported) unavailable("the GPU is in no NVLink domain");
  if (info.state != kFabricCompleted) {
    unavailable("the GPU has not joined its NVLink domain yet (fabric state " +
                std::to_string(info.state) + ")");
  }
  if (info.status != 0) {
    unavailable("the GPU could not join its NVLink domain: " + loaded.text(info.status));
  }
  const auto& uuid = info.clusterUuid;
  if (std::all_of(std::begin(uuid), std::end(uuid), [](unsigned char byte) { return byte == 0; })) {
    unavailable("the NVLink domain of the GPU has no cluster UUID");
  }

  std::string name;
  for (const unsigned char byte : uuid) {
    name += format("%02x", byte);
  }
  return name + format("/%u", info.cliqueId);
}

std::string why_no_atomics(const std::string& from, const std::string& to) {
  try {
    const Nvml& loaded = nvml();
    if (loaded.nvmlDeviceGetHandleByUUID == nullptr || loaded.nvmlDeviceGetP2PStatus == nullptr) {
      unavailable("NVML has no nvmlDeviceGetP2PStatus");
    }

    const auto device_of = [&](const std::string& uuid) {
      nvmlDevice device = nullptr;
      const nvmlReturn result = loaded.nvmlDeviceGetHandleByUUID(uuid.c_str(), &device);
      if (result != 0) unavailable("NVML does not see " + uuid + ": " + loaded.text(result));
      return device;
    };
    int status = -1;
    const nvmlReturn result =
        loaded.nvmlDeviceGetP2PStatus(device_of(from), device_of(to), kAtomicsBetweenGpus, &status);
    if (result != 0) unavailable("nvmlDeviceGetP2PStatus: " + loaded.text(result));

    if (status == kIsSupported) return "";
    return format("the link from %s to %s carries no atomic operations, as PCIe does not",
        from.c_str(), to.c_str());
  } catch (const Error& error) {
    return format("it is not known whether the link to %s carries atomic operations: %s",
        to.c_str(), error.what());
  }
}

Links links_between(std::span<const LinkFacts> devices) {
  const size_t count = devices.size();
  Links links{static_cast<int>(count), std::vector<int32_t>(count * count)};

  for (size_t a = 0; a < count; ++a) {
    const auto known = std::clamp(devices[a].direct, 0, static_cast<int32_t>(kMaxLinks));
    const auto ends = std::span(devices[a].to_gpus).first(static_cast<size_t>(known));
    for (size_t b = 0; b < count; ++b) {
      if (a == b) continue;
      const auto direct = std::count(ends.begin(), ends.end(), devices[b].bus);
      links.count[a * count + b] =
          static_cast<int32_t>(direct) + std::min(devices[a].to_switches, devices[b].to_switches);
    }
  }
  return links;
}
}  // namespace symm::cuda
