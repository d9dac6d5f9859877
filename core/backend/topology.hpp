// The links between devices and what shape they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/backend/backend.hpp"

namespace symm {
enum class TopologyClass : int32_t { unknown = 0, fully_connected = 1 };

// Row-major matrix of the number of direct links between each two devices.
struct Links {
  int devices = 0;
  std::vector<int32_t> count;
  int32_t between(int a, int b) const {
    return count[static_cast<size_t>(a) * static_cast<size_t>(devices) + static_cast<size_t>(b)];
  }
};

// The class of a link matrix: pure. Fully connected: every pair has a link (one device is).
TopologyClass classify(const Links& links);
}  // namespace symm
