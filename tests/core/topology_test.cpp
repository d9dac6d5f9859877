// SPDX-License-Identifier: Apache-2.0
#include "core/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

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

// The published wiring of a DGX-1 with V100: two quads, partners i and i + 4, some pairs doubled.
Links dgx1v() {
  Links links = uniform(8, 0);
  for (const int quad : {0, 4}) {
    connect(links, quad + 0, quad + 1, 1);
    connect(links, quad + 0, quad + 2, 1);
    connect(links, quad + 0, quad + 3, 2);
    connect(links, quad + 1, quad + 2, 2);
    connect(links, quad + 1, quad + 3, 1);
    connect(links, quad + 2, quad + 3, 1);
  }
  for (int i = 0; i < 4; ++i) connect(links, i, i + 4, 1 + i % 2);
  return links;
}

TEST(Topology, OneDeviceIsFullyConnected) { EXPECT_EQ(classify(uniform(1, 0)), TopologyClass::fully_connected); }
TEST(Topology, NoDevicesAreNothing) { EXPECT_EQ(classify(uniform(0, 0)), TopologyClass::unknown); }
TEST(Topology, SixteenThroughSwitches) { EXPECT_EQ(classify(uniform(16, 6)), TopologyClass::fully_connected); }
TEST(Topology, EightThroughSwitches) { EXPECT_EQ(classify(uniform(8, 18)), TopologyClass::fully_connected); }
TEST(Topology, NoLinksAtAll) { EXPECT_EQ(classify(uniform(4, 0)), TopologyClass::unknown); }
TEST(Topology, HybridCubeMesh) { EXPECT_EQ(classify(dgx1v()), TopologyClass::hybrid_cube_mesh); }

TEST(Topology, HybridCubeMeshWithAnyNumbering) {
  const Links straight = dgx1v();
  std::vector<int> order(8);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    Links shuffled = uniform(8, 0);
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 8; ++b)
        shuffled.count[static_cast<size_t>(order[static_cast<size_t>(a)] * 8 + order[static_cast<size_t>(b)])] =
            straight.between(a, b);
    }
    EXPECT_EQ(classify(shuffled), TopologyClass::hybrid_cube_mesh);
  }
}

TEST(Topology, AMissingLinkBreaksTheMesh) {
  Links links = dgx1v();
  connect(links, 2, 3, 0);
  EXPECT_EQ(classify(links), TopologyClass::unknown);
  links = dgx1v();
  connect(links, 1, 5, 0);
  EXPECT_EQ(classify(links), TopologyClass::unknown);
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
