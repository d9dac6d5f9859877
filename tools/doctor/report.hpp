// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tools/doctor/finding.hpp"

namespace symm::tool {

bool any_failure(const std::vector<Finding>& findings);
nlohmann::json doctor_json(const std::vector<Finding>& findings);
std::string doctor_text(const std::vector<Finding>& findings, bool colour);

}  // namespace symm::tool
