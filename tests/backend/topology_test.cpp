#include "core/backend/topology.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
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

// What is left when only some devices are there, in the order given.
Links chosen(const Links& links, const std::vector<int>& devices) {
  Links out = uniform(static_cast<int>(devices.size()), 0);
  for (size_t a = 0; a < devices.size(); ++a)
    for (size_t b = 0; b < devices.size(); ++b) out.count[a * devices.size() + b] = links.between(devices[a], devices[b]);
  return out;
}

TEST(Topology, OneDeviceIsFullyConnected) { EXPECT_EQ(classify(uniform(1, 0)), TopologyClass::fully_connected); }
TEST(Topology, NoDevicesAreNothing) { EXPECT_EQ(classify(uniform(0, 0)), TopologyClass::unknown); }
TEST(Topology, SixteenThroughSwitches) { EXPECT_EQ(classify(machine("dgx2")), TopologyClass::fully_connected); }
TEST(Topology, EightThroughSwitches) { EXPECT_EQ(classify(machine("hgx_h100")), TopologyClass::fully_connected); }
TEST(Topology, NoLinksAtAll) { EXPECT_EQ(classify(machine("pcie")), TopologyClass::unknown); }
TEST(Topology, PairsByBridge) { EXPECT_EQ(classify(machine("pcie_bridges")), TopologyClass::unknown); }
TEST(Topology, LinksBetweenSomeOnly) { EXPECT_EQ(classify(machine("dgx1v")), TopologyClass::unknown); }

TEST(Topology, EveryPublishedRowHasSixLinks) {
  const Links links = machine("dgx1v");
  for (int a = 0; a < 8; ++a) {
    int32_t sum = 0;
    for (int b = 0; b < 8; ++b) {
      sum += links.between(a, b);
      EXPECT_EQ(links.between(a, b), links.between(b, a));
    }
    EXPECT_EQ(sum, 6) << a;
  }
}

// Every way to take four: a quad is fully connected, everything else nothing in particular.
TEST(Topology, FourOfTheEight) {
  const Links links = machine("dgx1v");
  int tried = 0;
  for (unsigned set = 0; set < 256; ++set) {
    if (std::popcount(set) != 4) continue;
    std::vector<int> devices;
    for (int d = 7; d >= 0; --d)
      if ((set >> d & 1U) != 0) devices.push_back(d);
    const bool quad = set == 0x0F || set == 0xF0;
    EXPECT_EQ(classify(chosen(links, devices)), quad ? TopologyClass::fully_connected : TopologyClass::unknown) << set;
    ++tried;
  }
  EXPECT_EQ(tried, 70);
}

TEST(Topology, OtherSubsets) {
  const Links links = machine("dgx1v");
  EXPECT_EQ(classify(chosen(links, {6, 2})), TopologyClass::fully_connected);
  EXPECT_EQ(classify(chosen(links, {0, 5})), TopologyClass::unknown);
  EXPECT_EQ(classify(chosen(links, {3, 1, 0})), TopologyClass::fully_connected);
  EXPECT_EQ(classify(chosen(links, {0, 1, 2, 3, 4, 5, 6})), TopologyClass::unknown);
  EXPECT_EQ(classify(chosen(machine("dgx2"), {15, 3, 8, 0})), TopologyClass::fully_connected);
}

TEST(Topology, PairsOnly) {
  Links links = uniform(8, 0);
  for (int i = 0; i < 8; i += 2) connect(links, i, i + 1, 4);
  EXPECT_EQ(classify(links), TopologyClass::unknown);
}

TEST(Topology, OneWayLinksDoNotCount) {
  Links links = uniform(2, 0);
  links.count[1] = 3;
  EXPECT_EQ(classify(links), TopologyClass::unknown);
}
}  // namespace
}  // namespace symm
