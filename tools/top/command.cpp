// symm top: reads the pages of ranks (symm/page.h). The report is JSON, and the text is made from
// it.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/run/processes.hpp"
#include "tools/text.hpp"
#include "tools/top/asleep.hpp"
#include "tools/top/pages.hpp"
#include "tools/top/shares.hpp"
#include <symm/page.h>
#include <symm/symm.h>

namespace symm::tool {
namespace {
using nlohmann::json;

// ---- pages

struct Look {
  pid_t pid = 0;  // as seen from here
  uint64_t when_ns = 0;
  std::vector<uint64_t> words{};  // none: it was no page, or of another layout
  std::string unreadable{};       // why it is of another layout
  uint64_t calls = 0;
  uint64_t bytes = 0;
  std::string asleep{};  // the system call in which its main thread sleeps, or ""

  const symm_page_t& page() const { return *reinterpret_cast<const symm_page_t*>(words.data()); }

  double ms_since(uint64_t ns) const {
    return std::round(static_cast<double>(when_ns - std::min(when_ns, ns)) / 1e6);
  }
};

using Looks = std::map<std::tuple<uint64_t, uint64_t, int>, Look>;  // by root, group and rank

// Reads the time of a wait twice, the second time after the rest. A rank that keeps going to
// sleep and waking up is seen at the next look.
void copy_wait(uint64_t* to, const uint64_t* from) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const uint64_t since = load(from[0]);
    for (size_t i = sizeof(symm_page_wait_t) / sizeof *to; i-- > 0;) {
      to[i] = load(from[i]);
    }
    if (to[0] == since) return;
  }
  to[0] = 0;
}

// The number of its changes, the tag and the number again, until what was read is whole. A tag that
// changes all the time is left out.
void copy_tag(symm_page_counts_t& to, const symm_page_counts_t& from) {
  constexpr size_t kWords = sizeof to.tag / sizeof(uint64_t);
  const auto* const words = reinterpret_cast<const uint64_t*>(from.tag);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const uint64_t changes = load(from.tag_changes);
    for (size_t i = 0; i < kWords; ++i) {
      const uint64_t word = load(words[i]);
      std::memcpy(to.tag + i * sizeof word, &word, sizeof word);
    }
    if (changes % 2 == 0 && load(from.tag_changes) == changes) return;
  }
  to.tag[0] = '\0';
}

Look read_page(const std::string& path, pid_t pid) {
  Look look{pid,
      static_cast<uint64_t>(
          std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count())};
  const ShownMemory shown(path, sizeof(symm_page_t));
  if (!shown) return look;
  const uint64_t* const words = shown.words();

  const uint64_t magic = load(words[0]);
  if (magic != SYMM_PAGE_MAGIC) {
    look.unreadable = other_layout(magic, load(words[1]), SYMM_PAGE_MAGIC);
  } else {
    look.words.resize(shown.bytes() / sizeof *words);
    for (size_t i = 0; i < look.words.size(); ++i) {
      look.words[i] = load(words[i]);
    }
    constexpr size_t kFirst = offsetof(symm_page_t, sleeping);
    constexpr size_t kEnd = offsetof(symm_page_t, collective_names);
    for (size_t at = kFirst; at < kEnd; at += sizeof(symm_page_wait_t)) {
      copy_wait(&look.words[at / sizeof *words], &words[at / sizeof *words]);
    }
    copy_tag(reinterpret_cast<symm_page_t*>(look.words.data())->counts,
        reinterpret_cast<const symm_page_t*>(words)->counts);
    const symm_page_t& page = look.page();
    for (const auto& counts : page.counts.collectives) {
      look.calls += counts.calls;
      look.bytes += counts.bytes;
    }
    const size_t room = (shown.bytes() - offsetof(symm_page_t, pids)) / sizeof page.pids[0];
    if (page.rank < 0 || page.rank >= page.size || static_cast<size_t>(page.size) > room) {
      look.words.clear();
    }
  }

  return look;
}

// Ranks whose pages have another layout, as a report has them.
using Unreadable = std::map<pid_t, std::string>;

Looks look_at_ranks(Unreadable& unreadable) {
  Looks looks;
  for_each_descriptor(SYMM_PAGE_LINK, [&](const std::string& path, pid_t pid) {
    Look look = read_page(path, pid);
    if (!look.unreadable.empty()) unreadable[look.pid] = look.unreadable;
    if (look.words.empty()) return;
    look.asleep = sleeps_in(look.pid);
    const symm_page_t& page = look.page();
    looks.try_emplace({page.root, page.group, page.rank}, std::move(look));
  });
  return looks;
}

// ---- report

std::string hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", number);
  return text;
}

std::string state_of(int64_t pid, const char* otherwise) {
  const auto process = find_process(pid);
  const char state = process ? process->state : 'X';
  switch (state) {
    case 'Z':
    case 'X': return "dead";
    case 'T':
    case 't': return "stopped";
    default: return otherwise;
  }
}

// The system call in which a rank has slept from one look to the next; "" if it did not. A rank
// that works is asleep for moments, too.
std::string blocked_in(const Look& before, const Look& now) {
  return before.asleep == now.asleep && before.calls == now.calls ? now.asleep : "";
}

json rank_report(const Look& look, const Looks& all_before) {
  const symm_page_t& page = look.page();
  json rank{{"rank", page.rank}, {"pid", look.pid}, {"calls", look.calls}, {"bytes", look.bytes},
      {"failures", page.counts.failures}, {"waits", json::array()}};

  for (const symm_page_wait_t& wait : page.sleeping) {
    if (wait.since_ns == 0) continue;
    rank["waits"].push_back({{"for", wait.peer}, {"in", printable(wait.what)},
        {"seconds", look.ms_since(wait.since_ns) / 1e3}});
  }

  const auto before = all_before.find({page.root, page.group, page.rank});
  const bool is_known = before != all_before.end();
  const std::string blocked = is_known ? blocked_in(before->second, look) : "";
  const std::string otherwise = blocked.empty() ? "running" : "asleep in " + blocked;
  rank["state"] = state_of(look.pid, rank["waits"].empty() ? otherwise.c_str() : "waiting");
  const uint64_t call = page.counts.call;
  const uint64_t collective = call & 0xFF;
  const uint64_t algorithm = call >> 8 & 0xFF;
  if (collective != 0 && collective <= SYMM_PAGE_KINDS && algorithm != 0 &&
      algorithm <= SYMM_PAGE_KINDS) {
    rank["call"] = {{"name", printable(page.collective_names[collective - 1])},
        {"bytes", call >> 16}, {"algorithm", printable(page.algorithm_names[algorithm - 1])}};
    if (page.counts.tag[0] != '\0') rank["call"]["tag"] = printable(page.counts.tag);
  }

  if (!is_known) return rank;
  const double ms = std::max(look.ms_since(before->second.when_ns), 1.0);
  rank["calls_per_s"] =
      std::lround(static_cast<double>(look.calls - before->second.calls) / ms * 1e3);
  rank["gb_per_s"] =
      std::round(static_cast<double>(look.bytes - before->second.bytes) / ms / 1e3) / 1e3;

  return rank;
}

// The ranks that others wait for in the end: those that are waited for and do not wait themselves.
json waited_for(const json& ranks) {
  constexpr double kLong = 0.5;
  json found = json::array();
  for (const json& waiting : ranks) {
    if (waiting["state"] != "waiting") continue;
    for (const json& wait : waiting["waits"]) {
      const auto peer = wait["for"].get<size_t>();  // -1 is none of them
      if (wait["seconds"] < kLong || peer >= ranks.size() || ranks[peer]["state"] == "waiting") {
        continue;
      }
      if (std::find(found.begin(), found.end(), peer) == found.end()) found.push_back(peer);
    }
  }

  return found;
}

json group_report(const Look& any, const Looks& now, const Looks& before) {
  const symm_page_t& page = any.page();
  const bool sees_pids = page.pids[page.rank] == any.pid;  // as the ranks do
  const char* const backend = page.backend == SYMM_BACKEND_CUDA ? "cuda" : "host";
  json ranks = json::array();
  json group{{"job", page.job[0] != 0 ? printable(page.job) : hex(page.root)},
      {"group", hex(page.group)}, {"name", printable(page.name)}, {"size", page.size},
      {"seconds", any.ms_since(page.made_ns) / 1e3},
      {"backend", page.backend < 0 ? "being made" : backend}};

  for (int rank = 0; rank < page.size; ++rank) {
    const int64_t pid = page.pids[rank];
    const auto found = now.find({page.root, page.group, rank});
    if (found == now.end()) {
      std::string state = "elsewhere";
      if (pid != 0) state = sees_pids ? state_of(pid, "left") : "not to be seen";
      ranks.push_back({{"rank", rank}, {"pid", pid}, {"waits", json::array()}, {"state", state}});
      continue;
    }
    ranks.push_back(rank_report(found->second, before));
    const uint64_t failure = found->second.page().failure;
    const char* status = symm_status_string(static_cast<symm_status_t>(failure >> 32));
    if (failure != 0) {
      group["failure"] = {
          {"status", status}, {"rank", static_cast<int64_t>(failure & UINT32_MAX) - 1}};
    }
  }

  group["waited_for"] = waited_for(ranks);
  group["ranks"] = std::move(ranks);
  return group;
}

json report_of(const std::string& job, const Looks& before, const Looks& now) {
  json groups = json::array();
  uint64_t last = 0;
  for (const auto& [key, look] : now) {
    if (look.page().group == std::exchange(last, look.page().group)) continue;
    json group = group_report(look, now, before);
    if (job.empty() || group["job"] == job || group["name"] == job) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

// ---- text

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> row_of(const json& rank) {
  const auto cell = [&](const char* key) { return rank.contains(key) ? text_of(rank[key]) : ""; };
  std::vector<std::string> call;
  std::vector<std::string> waits;

  if (rank.contains("call")) {
    call = {text_of(rank["call"]["name"]), format_bytes(rank["call"]["bytes"]),
        text_of(rank["call"]["algorithm"])};
    if (rank["call"].contains("tag")) call.push_back("'" + text_of(rank["call"]["tag"]) + "'");
  }

  for (const json& wait : rank["waits"]) {
    const std::string peer = wait["for"] < 0 ? "any of several" : "rank " + text_of(wait["for"]);
    waits.push_back(text_of(wait["in"]) + ": " + peer + ", " + text_of(wait["seconds"]) + " s");
  }

  return {cell("rank"), cell("pid"), cell("state"), join(call, " "), cell("calls"),
      cell("calls_per_s"), cell("gb_per_s"), join(waits, "; ")};
}

std::string group_text(const json& group, bool colour) {
  const std::string name =
      group["name"] == "" ? text_of(group["group"]) : "'" + text_of(group["name"]) + "'";
  std::string text = paint("job " + text_of(group["job"]), Colour::bold, colour) + ", group " +
                     name + " of " + text_of(group["size"]) + ", " + text_of(group["backend"]) +
                     ", " + text_of(group["seconds"]) + " s\n";
  Table table({true, true, false, false, true, true, true, false});
  table.add({"rank", "pid", "state", "call", "calls", "calls/s", "GB/s", "waits"});

  for (const json& rank : group["ranks"]) {
    table.add(row_of(rank));
  }

  text += table.text();
  const auto say = [&](const std::string& what, Colour in) {
    text += "  " + paint(what, in, colour) + "\n";
  };

  if (group.contains("failure")) {
    say("failed: " + text_of(group["failure"]["status"]) + ", rank " +
            text_of(group["failure"]["rank"]),
        Colour::red);
  }

  for (const json& rank : group["waited_for"]) {
    const json& blocker = group["ranks"][rank.get<size_t>()];
    say("waited for: rank " + text_of(rank) + " (pid " + text_of(blocker["pid"]) + "), " +
            text_of(blocker["state"]),
        Colour::yellow);
  }

  return text;
}

// What is shared by tokens, which belongs to no job.
json shares_of(const std::string& job, Unreadable& unreadable) {
  if (job.empty()) return look_at_shares(unreadable);
  return {{"versions", json::array()}, {"orphans", json::array()}, {"left_out", 0}};
}

int top(const std::string& job, bool as_json) {
  const bool again = !as_json && ::isatty(STDOUT_FILENO) != 0;
  Unreadable unreadable;
  Looks before = look_at_ranks(unreadable);
  for (std::chrono::milliseconds pause(200);; pause = std::chrono::seconds(1)) {
    std::this_thread::sleep_for(pause);
    unreadable.clear();
    Looks now = look_at_ranks(unreadable);
    const json groups = report_of(job, before, now);
    const json shares = shares_of(job, unreadable);
    const std::string shared = shares_text(shares, wants_colour(STDOUT_FILENO));

    if (groups.empty() && !job.empty()) {
      std::fprintf(stderr,
          "symm top: no job or group '%s' of this user here; without --job all are shown\n",
          job.c_str());
      return 1;
    }

    std::string text = again ? "\033[H\033[J" : "";
    for (const json& group : groups) {
      text += group_text(group, wants_colour(STDOUT_FILENO));
    }
    text += shared;
    if (groups.empty() && unreadable.empty() && shared.empty()) {
      text += "no rank of this user has a group here, and nothing is shared by tokens\n";
    }
    json others = json::array();
    for (const auto& [pid, why] : unreadable) {
      text += "pid " + std::to_string(pid) + ": its page " + why + "\n";
      others.push_back({{"pid", pid}, {"why", why}});
    }
    if (as_json) {
      text = json{{"groups", groups}, {"shares", shares}, {"unreadable", others}}.dump(
                 2, ' ', false, json::error_handler_t::replace) +
             "\n";
    }

    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return 1;
    if (!again) return 0;
    before = std::move(now);
  }
}
}  // namespace

void add_top(CLI::App& app, Action& action) {
  auto job = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "top", "Show what the ranks of this user's jobs do, and who waits for whom");
  command->add_option("--job", *job, "Only the job or the group of this name");
  command->add_flag("--json", *as_json, "Write JSON, once");
  command->callback(
      [&action, job, as_json] { action = [job, as_json] { return top(*job, *as_json); }; });
}
}  // namespace symm::tool
