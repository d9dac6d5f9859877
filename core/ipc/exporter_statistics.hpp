// SPDX-License-Identifier: Apache-2.0
//
// What an exporter counts, in the structs in which it tells it.
#pragma once

#include <symm/symm.h>

namespace symm::ipc {

struct ExporterStatistics {
  symm_ipc_stats_t total{};    // only what is counted since the beginning; the rest is looked up when it is asked for
  symm_ipc_report_t recent{};  // since the last report

  void write_off(uint64_t leases) noexcept {
    total.written_off += leases;
    recent.leases_written_off += leases;
  }
};

}  // namespace symm::ipc
