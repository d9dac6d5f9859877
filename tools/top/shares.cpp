// Reads the shares of all processes, and finds for each version the leases on it: those on the same
// block of the same exporter whose ranges overlap its own.
#include "tools/top/shares.hpp"

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/run/processes.hpp"
#include "tools/text.hpp"
#include "tools/top/pages.hpp"
#include <symm/page.h>

namespace symm::tool {
namespace {
using nlohmann::json;

struct Share {
  pid_t pid = 0;  // of the process that shows it, as seen from here
  symm_share_t row{};
};

struct Seen {
  std::vector<Share> versions;
  std::vector<Share> leases;
  uint64_t left_out = 0;
};

// A row that is whole, if there is one; its process writes meanwhile.
std::optional<symm_share_t> copy_row(const symm_share_t& from) {
  constexpr size_t kWords = sizeof(symm_share_t) / sizeof(uint64_t);
  const auto* const words = reinterpret_cast<const uint64_t*>(&from);
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::array<uint64_t, kWords> copy{};
    for (size_t i = 0; i < kWords; ++i) {
      copy[i] = load(words[i]);
    }
    if (copy[0] % 2 != 0 || load(words[0]) != copy[0]) continue;
    symm_share_t row{};
    std::memcpy(&row, copy.data(), sizeof row);
    row.name[sizeof row.name - 1] = '\0';
    if (row.kind == 0) return std::nullopt;
    return row;
  }
  return std::nullopt;
}

// Why the shares are of another layout; "" if they are not, or none.
std::string read_shares(const std::string& path, pid_t pid, Seen& seen) {
  const ShownMemory shown(path, sizeof(symm_shares_t));
  if (!shown) return "";
  const auto& shares = *reinterpret_cast<const symm_shares_t*>(shown.words());

  std::string why;
  const uint64_t magic = load(shares.magic);
  if (magic != SYMM_SHARES_MAGIC) {
    why = other_layout(magic, load(shares.version), SYMM_SHARES_MAGIC);
  } else {
    seen.left_out += load(shares.left_out);
    for (const symm_share_t& row : shares.rows) {
      const auto copy = copy_row(row);
      if (!copy) continue;
      (copy->kind == SYMM_SHARE_PUBLISHED ? seen.versions : seen.leases).push_back({pid, *copy});
    }
  }

  return why;
}

Seen look(std::map<pid_t, std::string>& unreadable) {
  Seen seen;
  for_each_descriptor(SYMM_SHARES_LINK, [&](const std::string& path, pid_t pid) {
    const std::string why = read_shares(path, pid, seen);
    if (!why.empty()) unreadable[pid] = why;
  });
  return seen;
}

bool is_of(const symm_share_t& lease, const symm_share_t& version) {
  return std::memcmp(lease.exporter, version.exporter, sizeof lease.exporter) == 0 &&
         lease.block == version.block && lease.offset < version.offset + version.range &&
         version.offset < lease.offset + lease.range;
}

double seconds_since(uint64_t ns) {
  const auto now = static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  return std::round(static_cast<double>(now - std::min(now, ns)) / 1e6) / 1e3;
}

// The processes that hold the leases, each with how many and for how long.
json holders_of(const std::vector<const Share*>& leases) {
  std::map<pid_t, std::pair<int, uint64_t>> by_pid;  // leases, the oldest of them
  for (const Share* lease : leases) {
    auto& [count, since] = by_pid.try_emplace(lease->pid, 0, lease->row.since_ns).first->second;
    ++count;
    since = std::min(since, lease->row.since_ns);
  }

  json holders = json::array();
  for (const auto& [pid, held] : by_pid) {
    holders.push_back(
        {{"pid", pid}, {"leases", held.first}, {"seconds", seconds_since(held.second)}});
  }
  return holders;
}

// Memory that is held, by its exporter and block, and not that of a published version.
json orphans_of(const Seen& seen) {
  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;
  std::map<Key, std::vector<const Share*>> by_block;
  for (const Share& lease : seen.leases) {
    const bool is_published = std::any_of(seen.versions.begin(), seen.versions.end(),
        [&](const Share& version) { return is_of(lease.row, version.row); });
    if (is_published) continue;
    by_block[{lease.row.exporter[0], lease.row.exporter[1], lease.row.block}].push_back(&lease);
  }

  json orphans = json::array();
  for (const auto& [key, leases] : by_block) {
    uint64_t bytes = 0;
    for (const Share* lease : leases) {
      bytes = std::max(bytes, lease->row.bytes);
    }
    const int64_t pid = leases.front()->row.exporter_pid;
    const auto process = find_process(pid);
    const bool is_dead = !process || process->state == 'Z' || process->state == 'X';
    orphans.push_back({{"pid", pid}, {"state", is_dead ? "dead" : "running"}, {"bytes", bytes},
        {"holders", holders_of(leases)}});
  }
  return orphans;
}

std::string held_by(const json& holders) {
  if (holders.empty()) return "nobody";
  std::vector<std::string> names;
  for (const json& holder : holders) {
    const std::string count =
        holder["leases"] == 1 ? "" : " (" + holder["leases"].dump() + " leases)";
    names.push_back(holder["pid"].dump() + count);
  }
  return join(names, ", ");
}
}  // namespace

json look_at_shares(std::map<pid_t, std::string>& unreadable) {
  Seen seen = look(unreadable);
  std::sort(seen.versions.begin(), seen.versions.end(), [](const Share& a, const Share& b) {
    const int order = std::strcmp(a.row.name, b.row.name);
    return std::tuple(order, a.row.version, a.pid) < std::tuple(0, b.row.version, b.pid);
  });

  json versions = json::array();
  for (const Share& version : seen.versions) {
    std::vector<const Share*> leases;
    for (const Share& lease : seen.leases) {
      if (is_of(lease.row, version.row)) leases.push_back(&lease);
    }
    versions.push_back({{"name", printable(version.row.name)}, {"version", version.row.version},
        {"bytes", version.row.bytes}, {"pid", version.pid},
        {"seconds", seconds_since(version.row.since_ns)}, {"holders", holders_of(leases)}});
  }
  return {{"versions", versions}, {"orphans", orphans_of(seen)}, {"left_out", seen.left_out}};
}

std::string shares_text(const json& shares, bool colour) {
  Table table({false, true, true, true, false});
  table.add({"published", "bytes", "by", "seconds", "held by"});
  for (const json& version : shares["versions"]) {
    table.add({version["name"].get<std::string>() + " " + version["version"].dump(),
        format_bytes(version["bytes"]), version["pid"].dump(), version["seconds"].dump(),
        held_by(version["holders"])});
  }
  for (const json& orphan : shares["orphans"]) {
    const bool is_dead = orphan["state"] == "dead";
    table.add({is_dead ? "(of a process that is gone)" : "(not published)",
        format_bytes(orphan["bytes"]), orphan["pid"].dump(), "", held_by(orphan["holders"])});
  }

  if (shares["versions"].empty() && shares["orphans"].empty()) return "";
  std::string text = paint("memory by tokens", Colour::bold, colour) + "\n" + table.text();
  if (shares["left_out"] != 0) {
    text +=
        "  and " + shares["left_out"].dump() + " leases or versions for which there is no row\n";
  }
  return text;
}

std::vector<std::string> shares_lines(const json& shares) {
  std::vector<std::string> lines;
  for (const json& version : shares["versions"]) {
    lines.push_back(version["name"].get<std::string>() + " " + version["version"].dump() + ": " +
                    format_bytes(version["bytes"]) + " by pid " + version["pid"].dump() +
                    ", held by " + held_by(version["holders"]));
  }
  for (const json& orphan : shares["orphans"]) {
    if (orphan["state"] != "dead") continue;
    lines.push_back(format_bytes(orphan["bytes"]) + " of pid " + orphan["pid"].dump() +
                    ", which is gone, held by " + held_by(orphan["holders"]));
  }
  return lines;
}
}  // namespace symm::tool
