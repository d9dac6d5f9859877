// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace symm::tool {

enum class Bind : uint8_t {
  none,
  core
};

struct RunOptions {
  int ranks = 0;
  std::optional<std::chrono::milliseconds> timeout;  // for the whole job
  std::chrono::milliseconds grace{2000};             // before each harder way of ending a rank
  bool prefix = true;
  std::string tag;
  Bind bind = Bind::none;
  std::vector<std::string> command;
};

}  // namespace symm::tool
