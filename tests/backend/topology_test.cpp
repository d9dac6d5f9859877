#include "core/backend/topology.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm { namespace {
Links uniform(int devices, int32_t count) {
  Links links{devices, std::vector<int32_t>(static_cast<size_t>(devices) * static_cast<size_t>(devices), count)};
  for (int d = 0; d < devices; ++d) links.count[static_cast<size_t>(d * devices + d)] = 0;
  return links;
}

void connect(Links& links, int a, int b, int32_t count) {
  links.count[static_cast<size_t>(a * links.devices + b)] = count;
  links.count[static_cast<size_t>(b * links.devices + a)] = count;
}

Links machine(const std::string& name) {
  const fake_machine::Machine* found = fake_machine::find(name);
  Links links = uniform(found->gpus, found->switch_links);
  for (int a = 0; a < links.devices && !found->links.empty(); ++a)
    for (int b = 0; b < a; ++b) connect(links, a, b, found->links[static_cast<size_t>(a)][static_cast<size_t>(b)]);
  return links;
}

TEST(Topology, OneDeviceIsFullyConnected) { EXPECT_EQ(classify(uniform(1, 0)), TopologyClass::fully_connected); }
TEST(Topology, NoDevicesAreNothing) { EXPECT_EQ(classify(uniform(0, 0)), TopologyClass::unknown); }
TEST(Topology, SixteenThroughSwitches) { EXPECT_EQ(classify(machine("dgx2")), TopologyClass::fully_connected); }
TEST(Topology, EightThroughSwitches) { EXPECT_EQ(classify(machine("hgx_h100")), TopologyClass::fully_connected); }
TEST(Topology, NoLinksAtAll) { EXPECT_EQ(classify(machine("pcie")), TopologyClass::unknown); }
TEST(Topology, PairsByBridge) { EXPECT_EQ(classify(machine("pcie_bridges")), TopologyClass::unknown); }
TEST(Topology, LinksBetweenSomeOnly) { EXPECT_EQ(classify(machine("dgx1v")), TopologyClass::unknown); }

TEST(Topology, OneWayLinksDoNotCount) {
  Links links = uniform(2, 0);
  links.count[1] = 3;
  EXPECT_EQ(classify(links), TopologyClass::unknown);
}
}}  // namespace symm
