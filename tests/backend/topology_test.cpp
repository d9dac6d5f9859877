// Classes of links. How the program shows machines as there are some: InfoOnFakes.LinksOfMachines
// in tests/tools.
#include "core/backend/topology.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/fake_cuda/machines.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
Links none(int devices) {
  const auto n = static_cast<size_t>(devices);
  return {devices, std::vector<int32_t>(n * n)};
}

void connect(Links& links, int a, int b, int count) {
  const auto n = static_cast<size_t>(links.devices);
  links.count[static_cast<size_t>(a) * n + static_cast<size_t>(b)] = count;
  links.count[static_cast<size_t>(b) * n + static_cast<size_t>(a)] = count;
}

// The direct links of a machine whose device order[i] has number i.
Links direct(const std::string& machine, const std::vector<int>& order) {
  const auto& counts = fake_machine::find(machine)->links;
  Links links = none(static_cast<int>(order.size()));
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      connect(links, static_cast<int>(a), static_cast<int>(b),
          counts[static_cast<size_t>(order[a])][static_cast<size_t>(order[b])]);
    }
  }
  return links;
}

std::vector<int> first(int devices) {
  std::vector<int> order(static_cast<size_t>(devices));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Topology, OneWayLinksDoNotCountAndNoDevicesAreNothing) {
  EXPECT_EQ(classify({2, {0, 3, 3, 0}}), TopologyClass::fully_connected);
  EXPECT_EQ(classify({2, {0, 3, 0, 0}}), TopologyClass::unknown);
  EXPECT_EQ(classify({0, {}}), TopologyClass::unknown);
}

TEST(CubeMesh, OfADgx1HasTheRolesThatAForcedCallTakes) {
  const auto mesh = find_cube_mesh(direct("dgx1v", first(8)));
  ASSERT_TRUE(mesh);
  EXPECT_EQ(*mesh, CubeMesh{});
  for (int device = 0; device < 8; ++device) {
    EXPECT_EQ(mesh->partner_of(device), (device + 4) % 8);
    EXPECT_EQ(mesh->in_one_quad(device, 0), device < 4);
  }
}

// Whatever numbers the devices have, each has a link to all that its role names, and to no other.
TEST(CubeMesh, HasRolesThatKeepToLinksInAnyNumbering) {
  std::vector<int> order = first(8);
  std::mt19937 random(7);
  for (int turn = 0; turn < 100; ++turn) {
    std::shuffle(order.begin(), order.end(), random);
    const Links links = direct("dgx1v", order);
    EXPECT_EQ(classify(links), TopologyClass::hybrid_cube_mesh);

    const auto mesh = find_cube_mesh(links);
    ASSERT_TRUE(mesh);
    EXPECT_EQ(std::popcount(mesh->quad), 4);
    EXPECT_EQ(mesh->quad & 1U, 1U);
    for (int a = 0; a < 8; ++a) {
      const int partner = mesh->partner_of(a);
      EXPECT_EQ(mesh->partner_of(partner), a);
      EXPECT_EQ(order[static_cast<size_t>(partner)], (order[static_cast<size_t>(a)] + 4) % 8);
      for (int b = 0; b < 8; ++b) {
        const bool is_neighbour = a != b && (mesh->in_one_quad(a, b) || b == partner);
        EXPECT_EQ(links.between(a, b) > 0, is_neighbour) << a << ' ' << b;
      }
    }
  }
}

// The number of links between two devices does not matter, only whether there are any.
TEST(CubeMesh, IsOneWithSingleLinksAndWithPartnersCrossedOver) {
  Links links = direct("dgx1v", first(8));
  for (int32_t& count : links.count) {
    count = std::min(count, 1);
  }
  EXPECT_EQ(classify(links), TopologyClass::hybrid_cube_mesh);

  connect(links, 0, 4, 0);
  connect(links, 1, 5, 0);
  connect(links, 0, 5, 1);
  connect(links, 1, 4, 1);
  const auto mesh = find_cube_mesh(links);
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->partner_of(0), 5);
  EXPECT_EQ(mesh->partner_of(4), 1);
}

TEST(CubeMesh, IsNoneWithOneLinkLessOrOneMore) {
  const Links whole = direct("dgx1v", first(8));
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < a; ++b) {
      Links links = whole;
      connect(links, a, b, whole.between(a, b) > 0 ? 0 : 1);
      EXPECT_FALSE(find_cube_mesh(links)) << a << ' ' << b;
      EXPECT_EQ(classify(links), TopologyClass::unknown) << a << ' ' << b;
    }
  }
}

// A device with two partners beside one that has none; and a link that one end does not see.
TEST(CubeMesh, IsNoneWithUnevenPartners) {
  Links links = direct("dgx1v", first(8));
  connect(links, 1, 5, 0);
  connect(links, 0, 5, 1);
  EXPECT_FALSE(find_cube_mesh(links));

  links = direct("dgx1v", first(8));
  links.count[3 * 8 + 7] = 0;
  EXPECT_FALSE(find_cube_mesh(links));
}

TEST(CubeMesh, IsNoneOfOtherMachinesAndNumbers) {
  EXPECT_FALSE(find_cube_mesh(none(0)));
  EXPECT_FALSE(find_cube_mesh(none(8)));
  EXPECT_FALSE(find_cube_mesh(direct("dgx1v", first(7))));
  EXPECT_FALSE(find_cube_mesh(direct("pcie_bridges", first(4))));

  Links all = none(8);
  for (int32_t& count : all.count) {
    count = 1;
  }
  EXPECT_FALSE(find_cube_mesh(all));
  EXPECT_EQ(classify(all), TopologyClass::fully_connected);
}
}  // namespace
}  // namespace symm
