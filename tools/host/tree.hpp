// SPDX-License-Identifier: Apache-2.0
//
// The machine as a tree of named parts, and its picture in text.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace symm::tool {

struct Part {
  std::string name;    // "package 0", "L3", "cores 0-3"
  std::string detail;  // "AMD EPYC ...", "32 MiB"
  std::vector<Part> parts;
};

std::string draw(const Part& root);
nlohmann::json to_json(const Part& part);

Part host_tree();  // of what this process may use; throws std::runtime_error

}  // namespace symm::tool
