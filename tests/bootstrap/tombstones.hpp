// Tombstones for tests.
#pragma once

#include <cstddef>

#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/tombstone.hpp"

namespace support {
// The tombstone of an attempt of `ranks` ranks that has just failed, and of which none knows.
inline symm::Tombstone fresh_tombstone(size_t ranks) {
  symm::Tombstone tombstone;
  tombstone.failure = {symm::Status::peer_failed, 0, 1, "rank 0 died"};
  tombstone.know.assign(ranks, false);
  tombstone.failed_ns = symm::process::boot_time_ns();
  tombstone.until_ns = tombstone.failed_ns + 60'000'000'000;
  return tombstone;
}
}  // namespace support
