// SPDX-License-Identifier: Apache-2.0
#include "core/topology.hpp"

#include <array>
#include <bit>

namespace symm {
namespace {

bool linked(const Links& links, int a, int b) { return links.between(a, b) > 0 && links.between(b, a) > 0; }

bool all_linked(const Links& links, unsigned set) {
  for (int a = 0; a < links.devices; ++a) {
    for (int b = 0; b < a; ++b) {
      if ((set >> a & 1U) != 0 && (set >> b & 1U) != 0 && !linked(links, a, b)) return false;
    }
  }
  return true;
}

bool one_partner_each(const Links& links, unsigned quad) {
  for (int a = 0; a < 8; ++a) {
    int across = 0;
    for (int b = 0; b < 8; ++b) {
      if (((quad >> a) & 1U) != ((quad >> b) & 1U) && linked(links, a, b)) ++across;
    }
    if (across != 1) return false;
  }
  return true;
}

}  // namespace

TopologyClass classify(const Links& links) {
  if (links.devices <= 0) return TopologyClass::unknown;
  if (links.devices <= 32 && all_linked(links, links.devices == 32 ? ~0U : (1U << links.devices) - 1))
    return TopologyClass::fully_connected;
  if (links.devices != 8) return TopologyClass::unknown;
  // Any numbering of the devices: try the 35 ways to divide them into two quads, device 0 in the first.
  for (unsigned quad = 1; quad < 256; quad += 2) {
    if (std::popcount(quad) == 4 && all_linked(links, quad) && all_linked(links, ~quad & 0xFFU) &&
        one_partner_each(links, quad)) {
      return TopologyClass::hybrid_cube_mesh;
    }
  }
  return TopologyClass::unknown;
}

}  // namespace symm
