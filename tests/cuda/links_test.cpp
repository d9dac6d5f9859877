// What NVML says of the links of known machines: the matrices of devices, what ranks tell each other, and what all make of it.
#include "core/cuda/cube_mesh.hpp"
#include "core/cuda/nvml.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda {
namespace {
// Rank r has device order[r] of the machine.
std::vector<LinkFacts> told(const std::string& name, const std::vector<int>& order) {
  const fake_machine::Machine& machine = *fake_machine::find(name);
  std::vector<LinkFacts> facts;
  for (const int device : order) {
    LinkFacts& links =
        facts.emplace_back(LinkFacts{1, machine.switch_links, 0, pack_bus(fake_machine::bus_of(device).c_str()), {}});
    for (int peer = 0; peer < machine.gpus && !machine.links.empty(); ++peer)
      for (int i = 0; i < machine.links[static_cast<size_t>(device)][static_cast<size_t>(peer)]; ++i)
        // The long form, which NVML uses.
        links.to_gpus[static_cast<size_t>(links.direct++)] = pack_bus(("0000" + fake_machine::bus_of(peer)).c_str());
  }
  return facts;
}

// Of a machine, the devices that are there, in the order of CUDA.
Links seen(const std::string& name, const std::vector<int>& devices) { return links_between(told(name, devices)); }

std::vector<int> straight(int count) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Links all_of(const std::string& name) { return seen(name, straight(fake_machine::find(name)->gpus)); }

TEST(NvLink, AreThoseOfTheMachine) {
  for (const char* name : {"hgx_h100", "dgx2", "dgx1v", "pcie", "pcie_bridges"}) {
    const fake_machine::Machine& machine = *fake_machine::find(name);
    const Links links = all_of(name);
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
  EXPECT_EQ(classify(turned), TopologyClass::hybrid_cube_mesh);
}

// NVML names neighbours that the process may not use.
TEST(NvLink, NeighboursThatAreNotThereDoNotCount) {
  const Links quad = seen("dgx1v", {6, 4, 7, 5});
  EXPECT_EQ(quad.between(0, 2), 2);
  EXPECT_EQ(classify(quad), TopologyClass::fully_connected);
  EXPECT_EQ(classify(seen("dgx1v", {0, 1, 4, 5})), TopologyClass::unknown);
}

TEST(CubeMeshOfRanks, Dgx1V) {
  const auto cube = cube_mesh_of(told("dgx1v", straight(8)));
  ASSERT_TRUE(cube);
  EXPECT_EQ(*cube, CubeMesh{});
}

// Rank 0 has device 7, rank 1 device 0 and so on: 7 6 5 4 are a quad, and partners are 4 apart.
TEST(CubeMeshOfRanks, DevicesInAnotherOrder) {
  const auto cube = cube_mesh_of(told("dgx1v", {7, 0, 5, 2, 4, 1, 6, 3}));
  ASSERT_TRUE(cube);
  EXPECT_EQ(cube->quad, 0b01010101U);
  EXPECT_EQ(cube->partners, 0x03216547U);  // devices 7-3, 0-4, 5-1, 2-6 are ranks 0-7, 1-4, 2-5, 3-6
}

TEST(CubeMeshOfRanks, OneThatDoesNotKnow) {
  for (size_t blind = 0; blind < 8; ++blind) {
    std::vector<LinkFacts> facts = told("dgx1v", straight(8));
    facts[blind] = {};
    EXPECT_FALSE(cube_mesh_of(facts)) << blind;
  }
}

TEST(CubeMeshOfRanks, OtherMachinesAndNumbers) {
  EXPECT_FALSE(cube_mesh_of(told("hgx_h100", straight(8))));
  EXPECT_FALSE(cube_mesh_of(told("pcie", straight(4))));
  EXPECT_FALSE(cube_mesh_of(told("dgx2", straight(8))));
  EXPECT_FALSE(cube_mesh_of(told("dgx1v", {0, 1, 2, 3})));
  EXPECT_FALSE(cube_mesh_of(told("dgx1v", {0, 1, 2, 3, 4, 5, 6, 6}))) << "two ranks on one device";
  EXPECT_FALSE(cube_mesh_of(told("dgx1v", {0, 1, 2, 3, 0, 1, 2, 3})));
  EXPECT_FALSE(cube_mesh_of({}));
}

// One rank says that a link is down.
TEST(CubeMeshOfRanks, ALinkThatOneEndDoesNotHave) {
  std::vector<LinkFacts> facts = told("dgx1v", straight(8));
  LinkFacts& three = facts[3];
  ASSERT_EQ(three.direct, 6);
  // 3-7 is the last of its links, and a single one.
  three.direct = 5;
  EXPECT_FALSE(cube_mesh_of(facts));
}

// What a peer sends is not believed beyond its bounds.
TEST(CubeMeshOfRanks, NonsenseFromAPeer) {
  std::vector<LinkFacts> facts = told("dgx1v", straight(8));
  facts[5].direct = 1'000'000;
  for (auto& bus : facts[5].to_gpus) bus.fill('7');
  facts[5].bus.fill('x');
  EXPECT_FALSE(cube_mesh_of(facts));
  facts[5].direct = -1;
  EXPECT_FALSE(cube_mesh_of(facts));
}

TEST(CubeMeshOfRanks, ABusThatDoesNotFit) { EXPECT_EQ(pack_bus(std::string(40, 'b').c_str()).back(), '\0'); }
}  // namespace
}  // namespace symm::cuda
