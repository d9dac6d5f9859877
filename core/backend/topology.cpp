#include "core/backend/topology.hpp"
#include <bit>

namespace symm {
namespace {
bool linked(const Links& links, int a, int b) { return links.between(a, b) > 0 && links.between(b, a) > 0; }

bool all_linked(const Links& links, unsigned set) {
  for (int a = 0; a < links.devices; ++a) {
    for (int b = 0; b < a; ++b)
      if ((set >> a & 1U) != 0 && (set >> b & 1U) != 0 && !linked(links, a, b)) return false;
  }
  return true;
}

// The partner of each, packed as in CubeMesh; none unless each has one.
std::optional<uint32_t> one_partner_each(const Links& links, unsigned quad) {
  uint32_t partners = 0;
  for (int a = 0; a < kCubeMeshRanks; ++a) {
    int across = 0;
    for (int b = 0; b < kCubeMeshRanks; ++b) {
      if (((quad >> a) & 1U) == ((quad >> b) & 1U) || !linked(links, a, b)) continue;
      partners |= static_cast<uint32_t>(b) << 4 * a;
      ++across;
    }
    if (across != 1) return {};
  }
  return partners;
}
}  // namespace

TopologyClass classify(const Links& links) {
  if (links.devices <= 0) return TopologyClass::unknown;
  if (links.devices <= 32 && all_linked(links, links.devices == 32 ? ~0U : (1U << links.devices) - 1))
    return TopologyClass::fully_connected;
  return find_cube_mesh(links) ? TopologyClass::hybrid_cube_mesh : TopologyClass::unknown;
}

std::optional<CubeMesh> find_cube_mesh(const Links& links) {
  if (links.devices != kCubeMeshRanks) return {};
  // Any numbering of the devices: try the 35 ways to divide them into two quads, device 0 in the first.
  for (unsigned quad = 1; quad < 256; quad += 2) {
    if (std::popcount(quad) != 4 || !all_linked(links, quad) || !all_linked(links, ~quad & 0xFFU)) continue;
    if (const auto partners = one_partner_each(links, quad)) return CubeMesh{quad, *partners};
  }
  return {};
}
}  // namespace symm
