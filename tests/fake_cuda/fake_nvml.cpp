// An NVML that knows the links of one machine of machines.hpp, FAKE_NVML_MACHINE, whatever GPUs the process may use.
// FAKE_NVML_BLIND: a GPU that it does not see. FAKE_NVML_CUT=a,b: the links between these two are down. FAKE_NVML_INIT: what
// nvmlInit returns.
#include <cstdlib>
#include <cstring>
#include "tests/fake_cuda/machines.hpp"

namespace {
using Return = int;
constexpr Return kSuccess = 0;
constexpr Return kInvalid = 2;
constexpr Return kNotFound = 6;
constexpr unsigned kMaxLinks = 18;
constexpr int kGpu = 0;
constexpr int kSwitch = 2;
constexpr int kUnknown = 255;

struct Pci {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};
struct Link {
  int gpu = -1;  // -1: to a switch
  bool active = true;
};
using Links = std::vector<Link>;  // of a GPU

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::vector<Links>& gpus() {
  static std::vector<Links> all = [] {
    const fake_machine::Machine* machine = fake_machine::find(variable("FAKE_NVML_MACHINE"));
    std::vector<Links> made(machine != nullptr ? static_cast<size_t>(machine->gpus) : 0);
    int cut[2] = {-1, -1};
    std::sscanf(variable("FAKE_NVML_CUT").c_str(), "%d,%d", &cut[0], &cut[1]);
    const auto is_cut = [&](int a, int b) { return (a == cut[0] && b == cut[1]) || (a == cut[1] && b == cut[0]); };
    for (int a = 0; a < static_cast<int>(made.size()); ++a) {
      Links& links = made[static_cast<size_t>(a)];
      for (int i = 0; i < machine->switch_links; ++i) links.push_back({-1, true});
      if (machine->links.empty()) continue;
      const std::vector<int>& row = machine->links[static_cast<size_t>(a)];
      for (int b = 0; b < static_cast<int>(row.size()); ++b)
        for (int i = 0; i < row[static_cast<size_t>(b)]; ++i) links.push_back({b, !is_cut(a, b)});
    }
    return made;
  }();
  return all;
}

bool hides_switches() { return fake_machine::find(variable("FAKE_NVML_MACHINE"))->hidden_switches; }

// "00000000:1B:00.0", the form of NVML.
std::string long_bus(int gpu) {
  std::string text = "0000" + fake_machine::bus_of(gpu);
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c);
  return text;
}

const Link* link_of(void* device, unsigned link) {
  const auto& links = *static_cast<Links*>(device);
  return link < links.size() ? &links[link] : nullptr;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Return

API nvmlInit_v2() { return std::atoi(variable("FAKE_NVML_INIT").c_str()); }
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(Return result) {
  return result == kNotFound ? "Not Found" : result == 9 ? "Driver Not Loaded" : "Some Error";
}
API nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  for (int gpu = 0; gpu < static_cast<int>(gpus().size()); ++gpu) {
    if (fake_machine::bus_of(gpu) != bus && long_bus(gpu) != bus) continue;
    if (variable("FAKE_NVML_BLIND") == std::to_string(gpu)) return kNotFound;
    return *device = &gpus()[static_cast<size_t>(gpu)], kSuccess;
  }
  return kNotFound;
}
API nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  const Link* found = link_of(device, link);
  if (found == nullptr || link >= kMaxLinks) return kInvalid;
  return *active = found->active ? 1 : 0, kSuccess;
}
API nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  const Link* found = link_of(device, link);
  if (found == nullptr) return kInvalid;
  return *type = found->gpu >= 0 ? kGpu : hides_switches() ? kUnknown : kSwitch, kSuccess;
}
API nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, Pci* pci) {
  const Link* found = link_of(device, link);
  if (found == nullptr || (found->gpu < 0 && hides_switches())) return kInvalid;
  std::memset(pci, 0, sizeof *pci);
  const std::string bus = found->gpu >= 0 ? long_bus(found->gpu) : "00000000:F0:00.0";
  std::memcpy(pci->bus_id, bus.c_str(), bus.size());
  return kSuccess;
}
