// Machines whose wiring is published, as `nvidia-smi topo -m` shows it. The fake
// driver, the fake NVML, and tests of the topology use them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace fake_machine {
struct Machine {
  std::string name;
  int gpus = 0;
  // Links of each GPU to switches.
  int switch_links = 0;
  // The far ends of the links to switches are unknown, as in a virtual machine.
  bool hidden_switches = false;
  // Direct links between each two GPUs; empty if there are none.
  std::vector<std::vector<int>> links;
};

inline const std::vector<Machine>& machines() {
  static const std::vector<Machine> all = {
      // Eight V100 have six NVLink2 each, one or two of them to a neighbour.
      {"dgx1v", 8, 0, false,
          {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
              {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
              {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}}},
      {"dgx2", 16, 6, false, {}},
      {"hgx_h100", 8, 18, false, {}},
      {"hgx_h100_vm", 8, 18, true, {}},
      {"pcie", 4, 0, false, {}},
      {"pcie_bridges", 4, 0, false, {{0, 12, 0, 0}, {12, 0, 0, 0}, {0, 0, 0, 12}, {0, 0, 12, 0}}},
  };

  return all;
}

inline const Machine* find(const std::string& name) {
  for (const Machine& machine : machines()) {
    if (machine.name == name) return &machine;
  }
  return nullptr;
}

// The bus of a GPU as the driver writes it.
inline std::string bus_of(int gpu) {
  char text[32];
  // A bus has two digits, and a domain as many buses as have room.
  std::snprintf(text, sizeof text, "%04x:%02x:00.0", gpu / 19, 6 + 13 * (gpu % 19));
  return text;
}
}  // namespace fake_machine
