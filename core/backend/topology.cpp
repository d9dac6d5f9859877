// Classifies links between devices. It computes with the table of links that a back end read
// and asks no driver.
#include "core/backend/topology.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "kernels/types.hpp"

namespace symm {
namespace {
bool linked(const Links& links, int a, int b) {
  return links.between(a, b) > 0 && links.between(b, a) > 0;
}

bool all_linked(const Links& links) {
  for (int a = 0; a < links.devices; ++a) {
    for (int b = 0; b < a; ++b) {
      if (!linked(links, a, b)) return false;
    }
  }
  return true;
}

// Whether every two devices of a quad are linked.
bool are_quads(const Links& links, const CubeMesh& mesh) {
  for (int a = 0; a < kCubeMeshRanks; ++a) {
    for (int b = 0; b < a; ++b) {
      if (mesh.in_one_quad(a, b) && !linked(links, a, b)) return false;
    }
  }
  return true;
}

// The only device of the other quad to which device `a` is linked; -1 if there is none, or if there
// are several.
int only_neighbour_across(const Links& links, const CubeMesh& mesh, int a) {
  int found = -1;
  for (int b = 0; b < kCubeMeshRanks; ++b) {
    if (mesh.in_one_quad(a, b) || !linked(links, a, b)) continue;
    if (found >= 0) return -1;
    found = b;
  }
  return found;
}
}  // namespace

TopologyClass classify(const Links& links) {
  if (links.devices > 0 && all_linked(links)) return TopologyClass::fully_connected;
  return find_cube_mesh(links) ? TopologyClass::hybrid_cube_mesh : TopologyClass::unknown;
}

// The devices may have any numbers, so all 35 ways are tried in which device 0 and three others can
// be a quad.
std::optional<CubeMesh> find_cube_mesh(const Links& links) {
  if (links.devices != kCubeMeshRanks) return std::nullopt;

  for (uint32_t quad = 1; quad < 1U << kCubeMeshRanks; quad += 2) {
    if (std::popcount(quad) != kQuadRanks) continue;

    CubeMesh mesh{quad, 0};
    if (!are_quads(links, mesh)) continue;

    bool has_all = true;
    for (int a = 0; a < kCubeMeshRanks; ++a) {
      const int partner = only_neighbour_across(links, mesh, a);
      has_all = has_all && partner >= 0;
      mesh.partners |= static_cast<uint32_t>(std::max(partner, 0)) << (4 * a);
    }
    if (has_all) return mesh;
  }
  return std::nullopt;
}
}  // namespace symm
