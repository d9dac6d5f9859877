#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include "tools/host/host.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;

json part(const std::string& name, const std::string& detail) {
  json out{{"name", name}};
  if (!detail.empty()) out["detail"] = detail;
  return out;
}

std::string draw_below(const json& part, const std::string& indent) {
  const std::string detail = part.value("detail", "");
  std::string out = part.at("name").get<std::string>() + (detail.empty() ? "" : "  " + detail) + "\n";
  const json parts = part.value("parts", json::array());
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    out += indent + (last ? "└─ " : "├─ ") + draw_below(parts[i], indent + (last ? "   " : "│  "));
  }
  return out;
}

// Where a processor stands, outermost first; each by the kernel's name for it, and by how many there are before it.
enum Level { in_package, in_die, in_node, in_cache, in_core, level_count };
struct Processor {
  int number = 0;
  std::string folder;
  std::string cache;  // the folder of its L3
  std::array<std::string, level_count> name;
  std::array<int, level_count> index{};
};

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Processor processor(int number) {
  Processor one{number, "/sys/devices/system/cpu/cpu" + std::to_string(number), "", {}, {}};
  const std::string topology = one.folder + "/topology/";
  for (int i = 0; one.cache.empty(); ++i) {
    const std::string cache = one.folder + "/cache/index" + std::to_string(i);
    const std::string level = line_of(cache + "/level");
    if (level.empty()) break;
    if (level == "3") one.cache = cache;
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(one.folder, ignored))
    if (const std::string file = entry.path().filename(); file.starts_with("node")) one.name[in_node] = file.substr(4);
  one.name[in_package] = line_of(topology + "physical_package_id");
  one.name[in_die] = line_of(topology + "die_cpus_list");
  one.name[in_cache] = one.cache.empty() ? "" : line_of(one.cache + "/shared_cpu_list");
  one.name[in_core] = line_of(topology + "thread_siblings_list");
  if (one.name[in_core].empty()) one.name[in_core] = std::to_string(number);
  return one;
}

struct Machine {
  std::vector<Processor> processors;  // neighbours share what they can
  std::vector<Level> levels;          // those worth a line, outermost first
};

// Numbers what is at this level in the order of the processors; how many there are.
size_t number(std::vector<Processor>& processors, size_t level) {
  std::map<std::string, int> seen;
  for (Processor& one : processors)
    one.index[level] = seen.try_emplace(one.name[level], static_cast<int>(seen.size())).first->second;
  return seen.size();
}

Machine this_machine() {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) throw std::runtime_error("cannot find out which processors may be used");
  Machine machine;
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(number, &usable)) machine.processors.push_back(processor(number));
  std::array<size_t, level_count> count{};
  for (size_t level = 0; level < level_count; ++level) {
    count[level] = number(machine.processors, level);
    const bool known = !machine.processors.front().name[level].empty();
    if (level != in_core && known && (level != in_die || count[in_die] > count[in_package]))
      machine.levels.push_back(static_cast<Level>(level));
  }
  // A node may be more than a package or less, and so may a cache be more than a node.
  std::stable_sort(machine.levels.begin(), machine.levels.end(), [&](Level a, Level b) { return count[a] < count[b]; });
  std::stable_sort(machine.processors.begin(), machine.processors.end(), [&](const Processor& a, const Processor& b) {
    for (const Level level : machine.levels)
      if (a.index[level] != b.index[level]) return a.index[level] < b.index[level];
    return a.index[in_core] < b.index[in_core];
  });
  for (size_t level = 0; level < level_count; ++level) number(machine.processors, level);  // as they stand now
  return machine;
}

using Range = std::span<const Processor>;

// The next processors of the range that share what the first has at this level.
size_t together(Range range, Level level) {
  const auto end =
      std::find_if(range.begin(), range.end(), [&](const Processor& one) { return one.index[level] != range[0].index[level]; });
  return static_cast<size_t>(end - range.begin());
}

// "0-3,8"
std::string list(Range range) {
  std::set<int> numbers;
  for (const Processor& one : range) numbers.insert(one.number);
  std::string out;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    out += (out.empty() ? "" : ",") + std::to_string(first) + (last == first ? "" : "-" + std::to_string(last));
  }
  return out;
}

// All cores below one cache are one line: there may be many.
json cores(Range range) {
  int count = 0;
  for (Range rest = range; !rest.empty(); rest = rest.subspan(together(rest, in_core))) ++count;
  const std::string first = std::to_string(range.front().index[in_core]);
  const size_t threads = range.size() / static_cast<size_t>(count);
  return part(count == 1 ? "core " + first : "cores " + first + "-" + std::to_string(range.back().index[in_core]),
      "processors " + list(range) + (threads > 1 ? ", " + std::to_string(threads) + " per core" : ""));
}

// The value of a line "key : value" or "key: value".
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(key), colon = line.find(':');
    if (at != std::string::npos && colon != std::string::npos && at < colon) {
      const size_t value = line.find_first_not_of(" \t", colon + 1);
      return value == std::string::npos ? "" : line.substr(value, line.find_last_not_of(' ') + 1 - value);
    }
  }
  return "";
}

// "32768K", "24 kB"
std::string kilobytes(const std::string& text) {
  return text.empty() ? "" : format_bytes(std::strtoull(text.c_str(), nullptr, 10) << 10);
}

json describe(const Processor& one, Level level) {
  const std::string number = " " + std::to_string(one.index[level]);
  switch (level) {
    case in_package: return part("package" + number, value_of("/proc/cpuinfo", "model name"));
    case in_die: return part("die" + number, "");
    case in_cache: return part("L3" + number, kilobytes(line_of(one.cache + "/size")));
    default: {
      const std::string& node = one.name[in_node];
      return part("NUMA node " + node, kilobytes(value_of("/sys/devices/system/node/node" + node + "/meminfo", "MemTotal")));
    }
  }
}

void add_parts(json& whole, Range range, std::span<const Level> levels) {
  if (levels.empty()) return whole["parts"].push_back(cores(range));
  while (!range.empty()) {
    const size_t count = together(range, levels[0]);
    json& one = whole["parts"].emplace_back(describe(range[0], levels[0]));
    add_parts(one, range.first(count), levels.subspan(1));
    range = range.subspan(count);
  }
}
}  // namespace

std::string draw(const json& root) { return draw_below(root, ""); }

json host_tree() {
  const Machine machine = this_machine();
  json root = part(
      "machine", format_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))));
  add_parts(root, machine.processors, machine.levels);
  return root;
}

std::vector<cpu_set_t> usable_cores() {
  const Machine machine = this_machine();
  std::vector<cpu_set_t> all;
  for (Range rest = machine.processors; !rest.empty();) {
    const size_t count = together(rest, in_core);
    cpu_set_t& core = all.emplace_back();
    CPU_ZERO(&core);
    for (const Processor& one : rest.first(count)) CPU_SET(one.number, &core);
    rest = rest.subspan(count);
  }
  return all;
}
}  // namespace symm::tool
