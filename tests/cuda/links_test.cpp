// What NVML says of the links of known machines: the matrices of devices.
#include "core/cuda/nvml.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda { namespace {
// Of a machine, the devices that are there, in the order of CUDA.
Links seen(const std::string& name, const std::vector<int>& order) {
  const fake_machine::Machine& machine = *fake_machine::find(name);
  std::vector<LinkFacts> facts;
  for (const int device : order) {
    LinkFacts& links = facts.emplace_back(LinkFacts{fake_machine::bus_of(device), machine.switch_links, {}});
    for (int peer = 0; peer < machine.gpus && !machine.links.empty(); ++peer)
      for (int i = 0; i < machine.links[static_cast<size_t>(device)][static_cast<size_t>(peer)]; ++i)
        // The long form, which NVML uses.
        links.to_gpus.push_back("0000" + fake_machine::bus_of(peer));
  }
  return links_between(facts);
}

TEST(NvLink, AreThoseOfTheMachine) {
  for (const char* name : {"hgx_h100", "dgx2", "dgx1v", "pcie", "pcie_bridges"}) {
    const fake_machine::Machine& machine = *fake_machine::find(name);
    std::vector<int> all(static_cast<size_t>(machine.gpus));
    std::iota(all.begin(), all.end(), 0);
    const Links links = seen(name, all);
    for (int a = 0; a < machine.gpus; ++a)
      for (int b = 0; b < machine.gpus; ++b)
        EXPECT_EQ(links.between(a, b), a == b                  ? 0
                                       : machine.links.empty() ? machine.switch_links
                                                               : machine.links[static_cast<size_t>(a)][static_cast<size_t>(b)])
            << name << " " << a << " " << b;
  }
}

TEST(NvLink, DevicesComeInTheOrderOfCuda) {
  const Links turned = seen("dgx1v", {7, 0, 5, 2, 4, 1, 6, 3});
  EXPECT_EQ(turned.between(0, 4), 2);  // 7 and 4
  EXPECT_EQ(turned.between(1, 4), 2);  // 0 and 4
  EXPECT_EQ(turned.between(1, 0), 0);  // 0 and 7
}

// NVML names neighbours that the process may not use.
TEST(NvLink, NeighboursThatAreNotThereDoNotCount) {
  const Links quad = seen("dgx1v", {6, 4, 7, 5});
  EXPECT_EQ(quad.between(0, 2), 2);
  EXPECT_EQ(classify(quad), TopologyClass::fully_connected);
  EXPECT_EQ(classify(seen("dgx1v", {0, 1, 4, 5})), TopologyClass::unknown);
}
}}  // namespace symm::cuda
