// Link matrices of known machines, from what NVML says of them.
#include "core/cuda/nvml.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda {
namespace {
// The long form, which NVML uses.
std::string remote(int gpu) { return "0000" + fake_machine::bus_of(gpu); }

// Of a machine, the devices that are there, in the order of CUDA.
Links seen(const std::string& name, const std::vector<int>& devices) {
  const fake_machine::Machine* machine = fake_machine::find(name);
  std::vector<std::string> buses;
  std::vector<NvLinks> ends;
  for (const int device : devices) {
    buses.push_back(fake_machine::bus_of(device));
    NvLinks links;
    links.to_switches = machine->switch_links;
    for (int peer = 0; peer < machine->gpus && !machine->links.empty(); ++peer)
      for (int i = 0; i < machine->links[static_cast<size_t>(device)][static_cast<size_t>(peer)]; ++i)
        links.to_gpus.push_back(remote(peer));
    ends.push_back(std::move(links));
  }
  return links_between(buses, ends);
}

Links all_of(const std::string& name) {
  std::vector<int> devices(static_cast<size_t>(fake_machine::find(name)->gpus));
  std::iota(devices.begin(), devices.end(), 0);
  return seen(name, devices);
}

TEST(NvLink, HgxH100IsFullyConnectedThroughSwitches) {
  const Links links = all_of("hgx_h100");
  EXPECT_EQ(links.between(0, 7), 18);
  EXPECT_EQ(links.between(3, 3), 0);
  EXPECT_EQ(classify(links), TopologyClass::fully_connected);
}

TEST(NvLink, Dgx2IsFullyConnectedThroughSwitches) {
  const Links links = all_of("dgx2");
  EXPECT_EQ(links.between(2, 15), 6);
  EXPECT_EQ(classify(links), TopologyClass::fully_connected);
}

TEST(NvLink, Dgx1VIsAHybridCubeMesh) {
  const Links links = all_of("dgx1v");
  EXPECT_EQ(links.between(0, 3), 2);
  EXPECT_EQ(links.between(0, 4), 2);
  EXPECT_EQ(links.between(2, 6), 1);
  EXPECT_EQ(links.between(0, 5), 0);
  EXPECT_EQ(classify(links), TopologyClass::hybrid_cube_mesh);
}

TEST(NvLink, DevicesComeInTheOrderOfCuda) {
  const Links turned = seen("dgx1v", {7, 0, 5, 2, 4, 1, 6, 3});
  EXPECT_EQ(turned.between(0, 4), 2);  // 7 and 4
  EXPECT_EQ(turned.between(1, 4), 2);  // 0 and 4
  EXPECT_EQ(turned.between(1, 0), 0);  // 0 and 7
  EXPECT_EQ(classify(turned), TopologyClass::hybrid_cube_mesh);
}

// NVML names neighbours that the process may not use.
TEST(NvLink, NeighboursThatAreNotThereDoNotCount) {
  const Links quad = seen("dgx1v", {6, 4, 7, 5});
  EXPECT_EQ(quad.between(0, 2), 2);
  EXPECT_EQ(classify(quad), TopologyClass::fully_connected);
  EXPECT_EQ(classify(seen("dgx1v", {0, 1, 4, 5})), TopologyClass::unknown);
}

TEST(NvLink, APcieBoxIsUnknown) { EXPECT_EQ(classify(all_of("pcie")), TopologyClass::unknown); }

TEST(NvLink, PairsByBridgeAreUnknown) {
  const Links links = all_of("pcie_bridges");
  EXPECT_EQ(links.between(1, 0), 12);
  EXPECT_EQ(classify(links), TopologyClass::unknown);
}
}  // namespace
}  // namespace symm::cuda
