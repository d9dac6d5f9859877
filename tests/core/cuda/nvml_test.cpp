// SPDX-License-Identifier: Apache-2.0
//
// Link matrices of known machines, from what NVML says of them.
#include "core/cuda/nvml.hpp"

#include <gtest/gtest.h>

namespace symm::cuda {
namespace {

std::vector<std::string> buses(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back("0000:" + std::string(1, static_cast<char>('a' + i)) + "0:00.0");
  return all;
}
// The long form, which NVML uses.
std::string remote(const std::string& bus) { return "0000" + bus; }

Links machine(int count, const std::vector<std::vector<int>>& neighbours, int switches) {
  const auto all = buses(count);
  std::vector<NvLinks> ends(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ends[i].to_switches = switches;
    if (i < neighbours.size()) {
      for (const int n : neighbours[i]) ends[i].to_gpus.push_back(remote(all[static_cast<size_t>(n)]));
    }
  }
  return links_between(all, ends);
}

TEST(NvLink, HgxH100IsFullyConnectedThroughSwitches) {
  const Links links = machine(8, {}, 18);
  EXPECT_EQ(links.between(0, 7), 18);
  EXPECT_EQ(links.between(3, 3), 0);
  EXPECT_EQ(classify(links), TopologyClass::fully_connected);
}

TEST(NvLink, Dgx2IsFullyConnectedThroughSwitches) {
  const Links links = machine(16, {}, 6);
  EXPECT_EQ(links.between(2, 15), 6);
  EXPECT_EQ(classify(links), TopologyClass::fully_connected);
}

TEST(NvLink, Dgx1VIsAHybridCubeMesh) {
  const Links links = machine(8,
                              {{1, 2, 3, 3, 4, 4},
                               {0, 2, 2, 3, 5, 5},
                               {0, 1, 1, 3, 6, 6},
                               {0, 0, 1, 2, 7, 7},
                               {5, 6, 7, 7, 0, 0},
                               {4, 6, 6, 7, 1, 1},
                               {4, 5, 5, 7, 2, 2},
                               {4, 4, 5, 6, 3, 3}},
                              0);
  EXPECT_EQ(links.between(0, 3), 2);
  EXPECT_EQ(links.between(0, 4), 2);
  EXPECT_EQ(links.between(0, 5), 0);
  EXPECT_EQ(classify(links), TopologyClass::hybrid_cube_mesh);
}

TEST(NvLink, APcieBoxIsUnknown) { EXPECT_EQ(classify(machine(4, {}, 0)), TopologyClass::unknown); }

TEST(NvLink, PairsByBridgeAreUnknown) {
  const Links links = machine(4, {{1, 1}, {0, 0}, {3, 3}, {2, 2}}, 0);
  EXPECT_EQ(links.between(1, 0), 2);
  EXPECT_EQ(classify(links), TopologyClass::unknown);
}

}  // namespace
}  // namespace symm::cuda
