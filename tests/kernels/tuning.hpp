#pragma once

#include "kernels/host/plan.hpp"

namespace symm::host {
// Thresholds that tests count on. Those of the library are in core/backend/plan_table.txt, which kernels know nothing of.
inline Tuning tuning_for(int size) { return {56, 2048 / static_cast<size_t>(size), 32 * 1024}; }
}  // namespace symm::host
