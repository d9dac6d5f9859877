// The links between devices and what shape they make.
#pragma once

#include "core/backend/backend.hpp"

namespace symm {
enum class TopologyClass : int32_t { unknown = 0, fully_connected = 1, hybrid_cube_mesh = 2 };

// Row-major matrix of the number of direct links between each two devices.
struct Links {
  int devices = 0;
  std::vector<int32_t> count;
  int32_t between(int a, int b) const {
    return count[static_cast<size_t>(a) * static_cast<size_t>(devices) + static_cast<size_t>(b)];
  }
};

// The class of a link matrix: pure. Fully connected: every pair has a link (one device is). Hybrid cube mesh: 8 devices in two
// fully connected quads, in which each device has exactly one neighbour in the other quad.
TopologyClass classify(const Links& links);

// Who stands where in a hybrid cube mesh of 8. As it is: 0 - 3 and 4 - 7, with r and r + 4 as partners.
struct CubeMesh {
  uint32_t quad = 0x0F;            // one quad, as bits: that of number 0
  uint32_t partners = 0x32107654;  // the partner of r in bits 4r to 4r + 3
  friend bool operator==(const CubeMesh&, const CubeMesh&) = default;
};
// In the numbers of the matrix; none if it is no hybrid cube mesh. Pure, and there is one answer at most: two of a quad and their
// partners make no triangle across, so no other four are all linked.
std::optional<CubeMesh> find_cube_mesh(const Links& links);
}  // namespace symm
