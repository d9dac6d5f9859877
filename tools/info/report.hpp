// What `symm info` knows, as JSON; its text is made from the same. Links that cannot be known have a reason in place of a matrix.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace symm::tool {
nlohmann::json info_report();
std::string info_text(const nlohmann::json& report, bool colour);
std::string environment_text(const nlohmann::json& table, bool colour);  // with the values here
}  // namespace symm::tool
