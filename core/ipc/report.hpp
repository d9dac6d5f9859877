// SPDX-License-Identifier: Apache-2.0
//
// What a process can say of its sharing. The fields are those of symm.h.
#pragma once

#include <cstdint>

namespace symm::ipc {

struct Report {
  uint64_t leases_ended = 0;
  uint64_t leases_written_off = 0;
  uint64_t blocks_freed = 0;
  uint64_t bytes_freed = 0;
  uint64_t mappings_dropped = 0;
  uint64_t blocks_in_limbo = 0;
  uint64_t bytes_in_limbo = 0;
};

struct Stats {
  uint64_t tokens = 0;
  uint64_t exported_blocks = 0;
  uint64_t exported_bytes = 0;
  uint64_t grants = 0;
  uint64_t leased = 0;
  uint64_t leased_blocks = 0;
  uint64_t limbo_blocks = 0;
  uint64_t limbo_bytes = 0;
  uint64_t quarantined_blocks = 0;
  uint64_t quarantined_bytes = 0;
  uint64_t written_off = 0;
  uint64_t refused = 0;
  uint64_t rejected_connections = 0;
  uint64_t consumers = 0;
  uint64_t imported = 0;
  uint64_t imported_blocks = 0;
  uint64_t imported_bytes = 0;
  uint64_t exporters = 0;
  uint64_t collections = 0;
  uint64_t oldest_lease_ms = 0;
  int64_t oldest_lease_pid = 0;
  uint64_t oldest_lease_start_time = 0;
};

}  // namespace symm::ipc
