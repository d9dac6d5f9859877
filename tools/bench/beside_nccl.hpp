// Times of symm and of NCCL in turns, on the ranks of this run: the NCCL column of a plan table.
#pragma once

#include "tools/bench/options.hpp"
#include "tools/bench/thresholds.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
// Throws where NCCL cannot be measured, on all ranks: there is no GPU, no NCCL, or another one on
// another rank. `control` is a group of the host back end with the same ranks. Before anything is
// measured.
void require_nccl(const BenchOptions& options, const Group& control, const symm_group_info_t& info);

// Measures symm with the table that `report` makes, and NCCL, and adds the column to the report.
void measure_nccl(const BenchOptions& options, const Group& control, TuneReport& report);
}  // namespace symm::tool
