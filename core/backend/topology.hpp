// The links between devices and what shape they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

// The location of a rank's memory, as seen from another rank.
enum class Locality : int32_t {
  unknown = 0,
  same_device = 1,
  nvlink = 2,
  same_node = 3,
  same_machine = 4,
  other_machine = 5
};

// The class of a link matrix: pure. Two devices are linked if each has a link to the other.
// - Fully connected: every two devices are linked (one device is).
// - Hybrid cube mesh: 8 devices that can be divided into two quads, so that every two devices of a
//   quad are linked and each device is linked to exactly one device of the other quad, its partner.
//   How many links two devices have does not matter.
TopologyClass classify(const Links& links);

// The roles of 8 ranks in a hybrid cube mesh. The default is that of a DGX-1 whose ranks have the
// devices of their own numbers: 0-3 and 4-7 are quads, r and r + 4 partners.
struct CubeMesh {
  // The ranks of the quad that has rank 0, as bits.
  uint32_t quad = 0x0F;
  // The partner of rank r is in bits 4r to 4r + 3.
  uint32_t partners = 0x32107654;

  int partner_of(int rank) const { return static_cast<int>(partners >> (4 * rank) & 0xFU); }
  bool in_one_quad(int a, int b) const { return ((quad >> a ^ quad >> b) & 1U) == 0; }
  friend bool operator==(const CubeMesh&, const CubeMesh&) = default;
};

// The roles of the devices of a matrix by their numbers there; none if the matrix is not a hybrid
// cube mesh. Pure, and no matrix has two answers: four linked devices that are no quad have one
// device or more in each quad, and two or more in one of them; a device of the other quad would be
// linked to both, but is linked to its partner only.
std::optional<CubeMesh> find_cube_mesh(const Links& links);
}  // namespace symm
