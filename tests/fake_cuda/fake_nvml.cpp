// An NVML that knows the links of one machine of machines.hpp, whatever GPUs the
// process may use. Variables of the environment direct it:
//
//   FAKE_NVML_MACHINE  the name of the machine
//   FAKE_NVML_BLIND    a GPU that it does not see
//   FAKE_NVML_CUT=a,b  two GPUs; the links between them are down
//   FAKE_NVML_INIT     the result of nvmlInit
//   FAKE_NVML_DOMAIN=letter,clique,state,status   the NVLink domain of all GPUs: each byte of the
//                      cluster's UUID is the letter, "-" stands for 0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fake_cuda/machines.hpp"

namespace {
using Return = int;
constexpr Return kSuccess = 0;
constexpr Return kInvalid = 2;
constexpr Return kNotFound = 6;

// Types of the device at the far end of a link.
constexpr int kGpu = 0;
constexpr int kSwitch = 2;
constexpr int kUnknown = 255;

struct Pci {
  char legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids;
  unsigned subsystem;
  char bus_id[32];
};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

const fake_machine::Machine& machine() {
  static const fake_machine::Machine none;
  const fake_machine::Machine* const found = fake_machine::find(variable("FAKE_NVML_MACHINE"));
  return found != nullptr ? *found : none;
}

// The bus of a GPU as NVML writes it: "00000000:1B:00.0".
std::string long_bus(int gpu) {
  std::string text = "0000" + fake_machine::bus_of(gpu);
  for (char& c : text) {
    c = static_cast<char>(c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c);
  }
  return text;
}

// A device is a row of numbers, one for each of its links:
// the number of the GPU at the far end, or -1 for a switch.
using Device = std::vector<int>;

std::vector<Device>& devices() {
  static std::vector<Device> all = [] {
    std::vector<Device> made(static_cast<size_t>(machine().gpus),
        Device(static_cast<size_t>(machine().switch_links), -1));
    for (size_t a = 0; a < machine().links.size(); ++a) {
      for (size_t b = 0; b < made.size(); ++b) {
        made[a].insert(
            made[a].end(), static_cast<size_t>(machine().links[a][b]), static_cast<int>(b));
      }
    }
    return made;
  }();

  return all;
}

const int* far_end(void* device, unsigned link) {
  const auto& ends = *static_cast<Device*>(device);
  return link < ends.size() ? &ends[link] : nullptr;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Return

API nvmlInit_v2() { return std::atoi(variable("FAKE_NVML_INIT").c_str()); }

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(Return result) {
  if (result == kNotFound) return "Not Found";
  return result == 9 ? "Driver Not Loaded" : "Some Error";
}

API nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  for (int gpu = 0; gpu < machine().gpus; ++gpu) {
    if (fake_machine::bus_of(gpu) != bus && long_bus(gpu) != bus) continue;
    if (variable("FAKE_NVML_BLIND") == std::to_string(gpu)) return kNotFound;
    *device = &devices()[static_cast<size_t>(gpu)];
    return kSuccess;
  }
  return kNotFound;
}

// "GPU-" and the UUID of the fake driver, each byte of which is the number of the GPU, plus 1.
API nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  unsigned number = 0;
  if (std::sscanf(uuid, "GPU-%2x", &number) != 1) return kInvalid;
  const int gpu = static_cast<int>(number) - 1;
  if (gpu < 0 || gpu >= machine().gpus || variable("FAKE_NVML_BLIND") == std::to_string(gpu)) {
    return kNotFound;
  }
  *device = &devices()[static_cast<size_t>(gpu)];
  return kSuccess;
}

// Links of NVLink carry atomic operations, and PCIe does not.
API nvmlDeviceGetP2PStatus(void* from, void* to, int which, int* status) {
  constexpr int kAtomics = 3;
  constexpr int kNotSupported = 5;
  if (which != kAtomics || from == to) return kInvalid;
  const auto& ends = *static_cast<Device*>(from);
  const auto is_linked = [&](int end) {
    return end < 0 || &devices()[static_cast<size_t>(end)] == to;
  };
  *status = std::any_of(ends.begin(), ends.end(), is_linked) ? 0 : kNotSupported;
  return kSuccess;
}

API nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  const int* const end = far_end(device, link);
  if (end == nullptr) return kInvalid;
  const std::string a = std::to_string(static_cast<Device*>(device) - devices().data());
  const std::string b = std::to_string(*end);
  const std::string cut = variable("FAKE_NVML_CUT");
  *active = cut != a + "," + b && cut != b + "," + a ? 1 : 0;
  return kSuccess;
}

API nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  const int* const end = far_end(device, link);
  if (end == nullptr) return kInvalid;
  const int far = machine().hidden_switches ? kUnknown : kSwitch;
  *type = *end >= 0 ? kGpu : far;
  return kSuccess;
}

API nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, Pci* pci) {
  const int* const end = far_end(device, link);
  if (end == nullptr || (*end < 0 && machine().hidden_switches)) return kInvalid;
  std::memset(pci, 0, sizeof *pci);
  const std::string bus = *end >= 0 ? long_bus(*end) : "00000000:F0:00.0";
  std::memcpy(pci->bus_id, bus.c_str(), bus.size());
  return kSuccess;
}

struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  Return status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

API nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) {
  constexpr unsigned kVersion2 = sizeof(FabricInfo) | 2U << 24;
  if (info->version != kVersion2) return kInvalid;
  char letter = '-';
  int clique = 0;
  int state = 0;
  int status = 0;
  std::sscanf(
      variable("FAKE_NVML_DOMAIN").c_str(), "%c,%d,%d,%d", &letter, &clique, &state, &status);
  *info = {
      kVersion2, {}, status, static_cast<unsigned>(clique), static_cast<unsigned char>(state), 0};
  std::memset(info->cluster, letter == '-' ? 0 : letter, sizeof info->cluster);
  return kSuccess;
}
