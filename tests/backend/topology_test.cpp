// Machines as there are some: InfoOnFakes.LinksOfMachines in tests/tools.
#include "core/backend/topology.hpp"
#include "tests/support/test.hpp"

namespace symm { namespace {
TEST(Topology, OneWayLinksDoNotCountAndNoDevicesAreNothing) {
  EXPECT_EQ(classify({2, {0, 3, 3, 0}}), TopologyClass::fully_connected);
  EXPECT_EQ(classify({2, {0, 3, 0, 0}}), TopologyClass::unknown);
  EXPECT_EQ(classify({0, {}}), TopologyClass::unknown);
}
}}  // namespace symm
