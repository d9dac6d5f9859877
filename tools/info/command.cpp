// symm info: facts about library, devices and host as JSON, and a text made from that. If links
// cannot be known, a reason stands in place of the matrix.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/commands.hpp"
#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/svg.hpp"
#include "tools/text.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
namespace {
using nlohmann::json;

json feature(int32_t available, const char* reason) {
  json out{{"available", available != 0}};
  if (available == 0) out["reason"] = reason;
  return out;
}

json device_report(symm_backend_t backend, int32_t device) {
  const symm_device_info_t info = device_info(backend, device);
  return {{"device", info.device}, {"name", info.name}, {"uuid", info.uuid},
      {"memory_bytes", info.memory_bytes}, {"compute_units", info.compute_units},
      {"multicast", feature(info.multicast, info.multicast_reason)},
      {"fabric", feature(info.fabric, info.fabric_reason)},
      {"dmabuf", feature(info.dmabuf, info.dmabuf_reason)},
      {"host_memory", feature(info.host_memory, info.host_memory_reason)},
      {"numa_node", info.numa_node}};
}

const char* topology_name(symm_topology_class_t kind) {
  switch (kind) {
    case SYMM_TOPOLOGY_FULLY_CONNECTED: return "fully connected";
    case SYMM_TOPOLOGY_HYBRID_CUBE_MESH: return "hybrid cube mesh";
    default: return "unknown";
  }
}

json links_report(symm_backend_t backend, int32_t devices) {
  const auto n = static_cast<size_t>(devices);
  std::vector<int32_t> links(n * n);
  symm_topology_class_t kind = SYMM_TOPOLOGY_UNKNOWN;

  if (symm_topology(backend, &kind, links.data(), links.size(), nullptr) != SYMM_OK) {
    return {{"class", "unknown"}, {"reason", symm_last_error()}};
  }

  json rows = json::array();
  for (const int32_t* row = links.data(); row != links.data() + n * n; row += n) {
    rows.push_back(std::vector<int32_t>(row, row + n));
  }

  return {{"class", topology_name(kind)}, {"matrix", rows}};
}

json back_end_report(const char* name, symm_backend_t backend) {
  json out{{"name", name}};
  int32_t count = 0;
  const symm_status_t status = symm_device_count(backend, &count);
  out["available"] = status == SYMM_OK;

  if (status != SYMM_OK) {
    out["status"] = symm_status_string(status);
    out["reason"] = symm_last_error();
    return out;
  }

  out["devices"] = json::array();
  for (int32_t device = 0; device < count; ++device) {
    out["devices"].push_back(device_report(backend, device));
  }

  out["links"] = links_report(backend, count);
  return out;
}

// {back end: {ranks: [[bytes, algorithm], ...]}}, as groups of so many threads are told.
json plan_report() {
  json maps;
  for (const auto& [name, backend] :
      {std::pair("host", SYMM_BACKEND_HOST), std::pair("cuda", SYMM_BACKEND_CUDA)}) {
    if (int32_t count = 0; symm_device_count(backend, &count) != SYMM_OK || count == 0) continue;
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const auto ask = [backend = backend, ranks](int rank) {
        symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
        config.bootstrap = "thread://plan";
        config.backend = backend;
        config.rank = rank;
        config.size = ranks;
        config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;
        const Group group = Group::create(config);
        const BenchOptions range;
        const Memory memory = group.rendezvous(group.allocate(range.end));
        Call call(group, find_operation("allreduce"), SYMM_DTYPE_BF16, SYMM_OP_SUM, nullptr);
        call.first = call.second = memory.span().data();
        json row;
        for (const uint64_t bytes : sizes(range)) {
          call.count = bytes / 2;
          row.push_back({bytes, call.algorithm()});
        }
        group.finalize();
        return row;
      };
      std::vector<std::future<json>> others;
      progress(std::string("plan ") + name + ", " + std::to_string(ranks) + " ranks");
      for (int rank = 1; rank < ranks; ++rank) {
        others.push_back(std::async(std::launch::async, ask, rank));
      }
      maps[name][std::to_string(ranks)] = ask(0);
    }
  }

  return maps;
}

json bounded(rlim_t value) { return value == RLIM_INFINITY ? json(nullptr) : json(value); }

json limits_report() {
  json out;
  const auto both = [](const rlimit& limit) {
    return json{{"soft", bounded(limit.rlim_cur)}, {"hard", bounded(limit.rlim_max)}};
  };

  out["open_files"] = both(limit_of(RLIMIT_NOFILE));
  out["locked_memory_bytes"] = both(limit_of(RLIMIT_MEMLOCK));
  out["processors"] = usable_processors();
  if (const auto quota = processor_quota()) out["processor_quota"] = *quota;

  if (const auto space = shared_memory_mount()) {
    out["dev_shm_bytes"] = {{"total", space->total}, {"free", space->free}};
  }

  if (const auto group = memory_control_group()) {
    out["memory_control_group_bytes"] = {{"limit", group->total}, {"free", group->free}};
  }

  return out;
}

std::string words(const json& list) {
  std::vector<std::string> parts;
  for (const json& item : list) {
    parts.push_back(item.get<std::string>());
  }
  return parts.empty() ? "none" : join(parts, ", ");
}

std::string yes_or_why_not(const json& feature) {
  if (feature.at("available").get<bool>()) return "yes";
  const std::string reason = feature.value("reason", "");
  return reason.empty() ? "no" : "no: " + reason;
}

std::string bytes_or_unlimited(const json& value) {
  return value.is_null() ? "unlimited" : format_bytes(value.get<uint64_t>());
}

std::string count_or_unlimited(const json& value) {
  return value.is_null() ? "unlimited" : std::to_string(value.get<uint64_t>());
}

void add_devices(const json& back_end, Table& table) {
  for (const json& device : back_end.at("devices")) {
    const std::string title = back_end.at("name").get<std::string>() + ":" +
                              std::to_string(device.at("device").get<int>());

    table.add({title, device.at("name")});
    table.add({"", format_bytes(device.at("memory_bytes").get<uint64_t>()) + ", " +
                       std::to_string(device.at("compute_units").get<int>()) + " compute units, " +
                       device.at("uuid").get<std::string>()});

    for (const char* name : {"multicast", "fabric", "dmabuf"}) {
      table.add({"", std::string(name) + " " + yes_or_why_not(device.at(name))});
    }

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
    std::snprintf(
        quota, sizeof quota, "%.2f processors", limits.at("processor_quota").get<double>());
    table.add({"processor quota", quota});
  }

  table.add({"open files", count_or_unlimited(limits.at("open_files").at("soft")) + " of at most " +
                               count_or_unlimited(limits.at("open_files").at("hard"))});
  table.add({"locked memory", bytes_or_unlimited(limits.at("locked_memory_bytes").at("soft"))});

  if (limits.contains("dev_shm_bytes")) {
    table.add({"/dev/shm",
        format_bytes(limits.at("dev_shm_bytes").at("free").get<uint64_t>()) + " free of " +
            format_bytes(limits.at("dev_shm_bytes").at("total").get<uint64_t>())});
  }

  if (limits.contains("memory_control_group_bytes")) {
    const json& group = limits.at("memory_control_group_bytes");
    table.add(
        {"memory control group", format_bytes(group.at("free").get<uint64_t>()) + " left of " +
                                     format_bytes(group.at("limit").get<uint64_t>())});
  }

  return table.text();
}

// "-" on the diagonal, "." where there is no link.
std::string link_matrix(const std::vector<std::vector<int>>& links) {
  Table table(std::vector<bool>(links.size() + 1, true));
  std::vector<std::string> header{""};
  for (size_t i = 0; i < links.size(); ++i) {
    header.push_back(std::to_string(i));
  }

  table.add(header);
  for (size_t row = 0; row < links.size(); ++row) {
    std::vector<std::string> cells{std::to_string(row)};
    for (size_t column = 0; column < links.size(); ++column) {
      const int count = links[row][column];
      const std::string cell = count == 0 ? "." : std::to_string(count);
      cells.push_back(row == column ? "-" : cell);
    }
    table.add(cells);
  }

  return table.text();
}

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
    std::string value = environment(name.c_str());
    const std::string fallback = table[i][1];
    if (value.empty()) value = fallback.empty() ? "-" : "(" + fallback + ")";
    rows.add({name, value, table[i][2]});
  }

  end_section();
  return out;
}

std::string info_text(const json& report, bool colour) {
  const auto heading = [&](const std::string& text) {
    return paint(text, Colour::bold, colour) + "\n";
  };
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
    back_ends.add({back_end.at("name"),
        available ? "available" : "unavailable: " + back_end.at("reason").get<std::string>()});
    if (available) add_devices(back_end, devices);
  }
  out += back_ends.text() + heading("Devices") + devices.text();
  for (const json& back_end : report.at("back_ends")) {
    if (back_end.value("devices", json::array()).size() < 2) continue;
    const json& links = back_end.at("links");
    out += heading("Links between " + back_end.at("name").get<std::string>() +
                   " devices: " + links.at("class").get<std::string>());
    if (links.contains("matrix")) {
      out += link_matrix(links.at("matrix").get<std::vector<std::vector<int>>>());
    } else {
      out += "  " + links.at("reason").get<std::string>() + "\n";
    }
  }
  out += heading("Host") + draw(report.at("host"));
  out += heading("Kernel: " + report.at("kernel").at("release").get<std::string>());
  Table features({false, false});
  for (const auto& [name, feature] : report.at("kernel").at("features").items()) {
    features.add({name, yes_or_why_not(feature)});
  }
  return out + features.text() + heading("Limits") + limits_text(report.at("limits"));
}

json info_report() {
  json out;
  out["library"] = {
      {"version", version_text(symm_version())}, {"header_version", version_text(SYMM_VERSION)}};
  out["library"]["build"] = json::parse(symm_build_info());
  progress("looking at back ends");
  out["back_ends"] = {
      back_end_report("host", SYMM_BACKEND_HOST), back_end_report("cuda", SYMM_BACKEND_CUDA)};

  try {
    out["host"] = host_tree();
  } catch (const std::runtime_error& error) {
    out["host"] = {{"name", "machine"}, {"detail", error.what()}};
  }

  out["kernel"]["release"] = kernel_release();
  for (const Feature& found : kernel_features()) {
    json& entry = out["kernel"]["features"][found.name];
    entry = feature(found.available, found.reason.c_str());
  }

  out["limits"] = limits_report();
  return out;
}

// The output of the command; `is` tells which flag was given.
template <class Is>
std::string text_of(const Is& is) {
  const bool colour = wants_colour(STDOUT_FILENO);
  if (is("--plan")) {
    const json report = plan_report();
    progress("");
    return plan_svg(report);
  }
  if (is("--env")) return environment_text(json::parse(symm_build_info())["environment"], colour);

  const json report = info_report();
  progress("");
  if (is("--svg")) return links_svg(report.at("back_ends").at(1));
  if (is("--json")) return report.dump(2) + "\n";
  return info_text(report, colour);
}
}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* info =
      app.add_subcommand("info", "Show the library, its back ends, the devices and this machine");

  info->add_flag("--json")->description("Write JSON");
  info->add_flag("--env")->description(
      "Show the environment variables that are read, with their values here (or defaults)");
  info->add_flag("--svg")->description("Draw the GPUs and the links between them (SVG)");
  info->add_flag("--plan")->description(
      "Draw which algorithm an all-reduce takes, by ranks and bytes (SVG)");
  info->require_option(0, 1);

  info->callback([&action, info] {
    action = [is = [info](const char* flag) { return info->count(flag) > 0; }] {
      const std::string text = text_of(is);
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 1;
    };
  });
}
}  // namespace symm::tool
