// Pictures: what symm bench --plot and symm info --svg and --plan write.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace symm::tool {
// Draws the microseconds of bench_json() by bytes, both in powers; the curves of `baseline`,
// which may be null, are dashed.
std::string bench_svg(const nlohmann::json& report, const nlohmann::json& baseline);
// The devices of a back end of info_report() in a circle, by NUMA node, and the links
// between them. Throws std::runtime_error with the reason where there are none.
std::string links_svg(const nlohmann::json& back_end);
// A strip for each number of ranks, of {back end: {ranks: [[bytes, algorithm], ...]}}.
std::string plan_svg(const nlohmann::json& maps);
}  // namespace symm::tool
