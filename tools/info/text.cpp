#include "tools/text.hpp"
#include <utility>
#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/info/report.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;

std::string words(const json& list) {
  std::vector<std::string> parts;
  for (const json& item : list) parts.push_back(item.get<std::string>());
  return parts.empty() ? "none" : join(parts, ", ");
}

std::string yes_or_why_not(const json& feature) {
  if (feature.at("available").get<bool>()) return "yes";
  const std::string reason = feature.value("reason", "");
  return reason.empty() ? "no" : "no: " + reason;
}

std::string bytes_or_unlimited(const json& value) { return value.is_null() ? "unlimited" : format_bytes(value.get<uint64_t>()); }
std::string count_or_unlimited(const json& value) {
  return value.is_null() ? "unlimited" : std::to_string(value.get<uint64_t>());
}

void add_devices(const json& back_end, Table& table) {
  for (const json& device : back_end.at("devices")) {
    const std::string title = back_end.at("name").get<std::string>() + ":" + std::to_string(device.at("device").get<int>());
    table.add({title, device.at("name")});
    table.add({"", format_bytes(device.at("memory_bytes").get<uint64_t>()) + ", " +
                       std::to_string(device.at("compute_units").get<int>()) + " compute units, " +
                       device.at("uuid").get<std::string>()});
    for (const char* name : {"multicast", "fabric", "dmabuf"})
      table.add({"", std::string(name) + " " + yes_or_why_not(device.at(name))});
    const int node = device.at("numa_node").get<int>();
    table.add({"", "host memory " + yes_or_why_not(device.at("host_memory")) +
                       (node < 0 ? "" : ", NUMA node " + std::to_string(node) + " is nearest")});
  }
}

std::string limits_text(const json& limits) {
  Table table({false, false});
  table.add({"processors", std::to_string(limits.at("processors").get<int>()) + " usable"});
  if (limits.contains("processor_quota")) {
    char quota[32];
    std::snprintf(quota, sizeof quota, "%.2f processors", limits.at("processor_quota").get<double>());
    table.add({"processor quota", quota});
  }
  table.add({"open files", count_or_unlimited(limits.at("open_files").at("soft")) + " of at most " +
                               count_or_unlimited(limits.at("open_files").at("hard"))});
  table.add({"locked memory", bytes_or_unlimited(limits.at("locked_memory_bytes").at("soft"))});
  if (limits.contains("dev_shm_bytes")) {
    table.add({"/dev/shm", format_bytes(limits.at("dev_shm_bytes").at("free").get<uint64_t>()) + " free of " +
                               format_bytes(limits.at("dev_shm_bytes").at("total").get<uint64_t>())});
  }
  if (limits.contains("memory_control_group_bytes")) {
    const json& group = limits.at("memory_control_group_bytes");
    table.add({"memory control group",
        format_bytes(group.at("free").get<uint64_t>()) + " left of " + format_bytes(group.at("limit").get<uint64_t>())});
  }
  return table.text();
}

// "-" on the diagonal, "." where there is no link.
std::string link_matrix(const std::vector<std::vector<int>>& links) {
  Table table(std::vector<bool>(links.size() + 1, true));
  std::vector<std::string> header{""};
  for (size_t i = 0; i < links.size(); ++i) header.push_back(std::to_string(i));
  table.add(header);
  for (size_t row = 0; row < links.size(); ++row) {
    std::vector<std::string> cells{std::to_string(row)};
    for (size_t column = 0; column < links.size(); ++column) {
      const int count = links[row][column];
      cells.push_back(row == column ? "-" : count == 0 ? "." : std::to_string(count));
    }
    table.add(cells);
  }
  return table.text();
}
}  // namespace

std::string environment_text(const json& table, bool colour) {
  std::string out;
  Table rows({false, false, false});
  const auto end_section = [&] { out += std::exchange(rows, Table({false, false, false})).text(); };
  for (size_t i = 1; i < table.size(); ++i) {
    const std::string name = table[i][0];
    if (table[i].size() == 1) {
      end_section();
      out += paint(name, Colour::bold, colour) + "\n";
      continue;
    }
    const std::string value = environment(name.c_str());
    const std::string fallback = table[i][1];
    rows.add({name, !value.empty() ? value : fallback.empty() ? "-" : "(" + fallback + ")", table[i][2]});
  }
  end_section();
  return out;
}

std::string info_text(const json& report, bool colour) {
  const auto heading = [&](const std::string& text) { return paint(text, Colour::bold, colour) + "\n"; };
  const json& library = report.at("library");
  const json& build = library.at("build");
  std::string out = heading("symm " + library.at("version").get<std::string>());
  Table about({false, false});
  about.add({"revision", build.value("git", "unknown")});
  about.add({"compiler", build.value("compiler", "unknown")});
  about.add({"build", build.value("build_type", "unknown")});
  about.add({"SIMD targets", words(build.value("simd_targets", json::array()))});
  about.add({"CUDA architectures", words(build.value("cuda_architectures", json::array()))});
  out += about.text();

  out += heading("Back ends");
  Table back_ends({false, false});
  Table devices({false, false});
  for (const json& back_end : report.at("back_ends")) {
    const bool available = back_end.at("available").get<bool>();
    back_ends.add({back_end.at("name"), available ? "available" : "unavailable: " + back_end.at("reason").get<std::string>()});
    if (available) add_devices(back_end, devices);
  }
  out += back_ends.text() + heading("Devices") + devices.text();
  for (const json& back_end : report.at("back_ends")) {
    if (back_end.value("devices", json::array()).size() < 2) continue;
    const json& links = back_end.at("links");
    out +=
        heading("Links between " + back_end.at("name").get<std::string>() + " devices: " + links.at("class").get<std::string>());
    if (links.contains("matrix")) out += link_matrix(links.at("matrix").get<std::vector<std::vector<int>>>());
    else out += "  " + links.at("reason").get<std::string>() + "\n";
  }
  out += heading("Host") + draw(report.at("host"));
  out += heading("Kernel: " + report.at("kernel").at("release").get<std::string>());
  Table features({false, false});
  for (const auto& [name, feature] : report.at("kernel").at("features").items()) features.add({name, yes_or_why_not(feature)});
  return out + features.text() + heading("Limits") + limits_text(report.at("limits"));
}
}  // namespace symm::tool
