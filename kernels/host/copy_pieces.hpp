// Copies the pieces of a list within memory of the host.
#pragma once

#include <cstddef>

#include "kernels/piece_list.hpp"

namespace symm::host {
// Copies in the order of the list, and long rows with non-temporal stores if asked for. Each row
// lies within its side, and the sides do not overlap.
void copy_pieces(
    std::byte* to, const std::byte* from, const PieceList& list, bool nontemporal) noexcept;
}  // namespace symm::host
