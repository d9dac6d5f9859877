// Verbs that make, split, end and ask groups.
#include <signal.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/behaviours/runner.hpp"

namespace behaviours {
namespace {
// The flags whose names a line has, as CHECK:RANK_ORDER.
uint64_t named_flags(const Line& line, const std::string& key) {
  uint64_t found = 0;
  if (!line.has(key)) return found;
  for (const std::string& name : split(line.text(key), ":")) {
    found |= static_cast<uint64_t>(constant("GROUP", name));
  }
  return found;
}

void expect_group(Runner& runner, const Line& line) {
  const symm_group_info_t info = runner.group(line).info();
  require_fields(line, {
                           {"rank", info.rank},
                           {"size", info.size},
                           {"channels", info.channels},
                           {"spares", info.spares},
                       });
  if (line.has("timeout_ms")) require(info.timeout_ms, as_number(timeout(line)), "timeout_ms");
  const char* const creating = "create_timeout_ms";
  if (line.has(creating)) {
    require(info.create_timeout_ms, as_number(timeout(line, creating)), creating);
  }

  const uint64_t with = named_flags(line, "flags");
  require(info.flags & with, as_number(with), "flags");
  require(info.flags & named_flags(line, "without"), 0, "flags that are not to be there");
}

void expect_calls(Runner& runner, const Line& line) {
  const symm_collective_stats_t stats =
      runner.group(line).collective_stats(line.constant("collective"));
  require(stats.calls, line.integer("calls"), "calls");
  require(stats.bytes, line.integer("bytes"), "bytes");
}

// A device asks for CUDA, with which back end ever it is named.
void expect_cuda(Runner&, const Line& line) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.flags = SYMM_GROUP_ON_DEVICE;
  config.device = line.integer32("device");
  config.create_timeout_ms = 20'000;

  symm_status_t statuses[2] = {SYMM_OK, SYMM_OK};
  for (const bool named : {false, true}) {
    symm_group_t* none = nullptr;
    config.backend = named ? SYMM_BACKEND_CUDA : SYMM_BACKEND_AUTO;
    config.name = named ? "cuda" : "auto";
    statuses[named ? 1 : 0] = symm_group_create(&config, &none);
    if (none != nullptr) throw std::runtime_error("there is such a device");
  }
  require(statuses[0], statuses[1], "the status without a back end");
}

void expect_peer(Runner& runner, const Line& line) {
  const symm::Group& group = runner.group(line);
  const int32_t of = line.integer32("rank");
  const symm_group_peer_info_t peer = group.peer_info(of);
  require(peer.locality, line.constant("locality"), "locality");
  require(peer.links, line.integer("links"), "links");
  const size_t at = static_cast<size_t>(group.rank()) * static_cast<size_t>(group.size());
  require(group.topology().links.at(at + static_cast<size_t>(of)), line.integer("links"), "links");
}

void expect_advice(Runner& runner, const Line& line) {
  constexpr size_t kCount = 8;
  std::vector<float> own(kCount);
  const symm_plan_info_t plan =
      runner.group(line).plan(SYMM_COLLECTIVE_ALLREDUCE, own, own, kCount);
  require(plan.advice, line.constant("advice"), "advice");
  const bool is_measured = plan.advice != SYMM_ADVICE_UNMEASURED;
  require(plan.symm_ns > 0 && plan.nccl_ns > 0, is_measured, "whether there are times");
  if (std::string(plan.advice_reason).empty()) throw std::runtime_error("advice without a reason");
}

void expect_status(Runner& runner, const Line& line) {
  symm_failure_t now{};
  const auto is_so = [&] {
    now = runner.group(line).status();
    return now.status == line.constant("status");
  };

  support::eventually(is_so, 20'000);
  require(now.status, line.constant("status"), std::string("status (") + now.message + ")");
  require(now.rank, line.integer("failed_rank", now.rank), "failed_rank");
}

void expect_failed(Runner& runner, const Line& line) {
  if (runner.group(line).failed_ranks() != line.numbers("ranks")) {
    throw std::runtime_error("other ranks have failed");
  }
}

void create(Runner& runner, const Line& line) {
  uint64_t asked = flags(line);
  if (line.integer("shared_scratch", 0) != 0) asked |= SYMM_GROUP_SHARED_SCRATCH;
  const char* const key = "group_timeout_ms";
  const uint64_t group_timeout = line.has(key) ? timeout(line, key) : 60'000;
  runner.create(line.text("as"), line.text("as"), line.size("timeout_ms"), group_timeout, asked);
}

// The options of a call that makes a group of another one.
struct SubgroupOptions {
  explicit SubgroupOptions(const Line& line) : name(line.text("name", "")) {
    value.timeout_ms = timeout(line);
    if (line.has("name")) value.name = name.c_str();
    value.flags = flags(line);
    value.channels = line.integer32("channels", 0);
    value.create_timeout_ms = timeout(line, "create_timeout_ms");
    value.group_timeout_ms = timeout(line, "group_timeout_ms");
  }

  const std::string name;
  symm_group_options_t value = SYMM_GROUP_OPTIONS_INIT;
};

void make_id(Runner& runner, const Line& line) {
  symm::UniqueId id = symm::unique_id();
  id.resize(SYMM_UNIQUE_ID_MAX_BYTES);
  std::copy(id.begin(), id.end(), runner.address(line, "at"));
}

void create_by_id(Runner& runner, const Line& line) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 60'000;
  config.timeout_ms = 60'000;
  const int32_t size = runner.the<symm::Group>("group").size();
  runner.things[line.text("as")] =
      symm::Group::create(runner.bytes(line, "at"), runner.rank, size, config);
}

void split_group(Runner& runner, const Line& line) {
  const SubgroupOptions options(line);
  symm::Group part =
      runner.group(line).split(line.integer32("color"), line.integer32("key"), options.value);
  const bool is_part = line.integer("color") >= 0;
  const std::string name = line.text("as");
  if (static_cast<bool>(part) != is_part) {
    throw std::runtime_error("a group although color < 0, or none");
  }
  if (part) runner.things[name] = std::move(part);
}

void create_from_ranks(Runner& runner, const Line& line) {
  const SubgroupOptions options(line);
  runner.things[line.text("as")] =
      runner.group(line).create_from_ranks(line.numbers("ranks"), options.value);
}

void local(Runner& runner, const Line& line) {
  const SubgroupOptions options(line);
  runner.things[line.text("as")] = runner.group(line).local(options.value);
}

void shrink(Runner& runner, const Line& line) {
  const SubgroupOptions options(line);
  runner.things[line.text("as")] = runner.group(line).shrink(options.value);
}

void invite(Runner& runner, const Line& line) {
  const symm::Ticket ticket = runner.group(line).invite();
  std::copy(ticket.begin(), ticket.end(), runner.address(line, "at"));
}

void join(Runner& runner, const Line& line) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.create_timeout_ms = timeout(line);
  runner.things[line.text("as")] = symm::Group::join(runner.bytes(line, "at"), config);
}

void grow(Runner& runner, const Line& line) {
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.timeout_ms = timeout(line);
  options.count = line.integer32("append", 0);
  if (options.count != 0) options.mode = SYMM_GROW_APPEND;
  runner.things[line.text("as")] = runner.group(line).grow(options);
}

void keep_spares(Runner& runner, const Line& line) {
  runner.group(line).keep_spares(line.integer32("count"), timeout(line));
}

void finalize(Runner& runner, const Line& line) { runner.group(line).finalize(); }

void abort_group(Runner& runner, const Line& line) {
  runner.group(line).abort(line.text("reason").c_str());
}

void die(Runner&, const Line&) { raise(SIGKILL); }

void barrier(Runner& runner, const Line& line) {
  runner.group(line).barrier(line.numbers("among"), channel(line), timeout(line));
}

void synchronize(Runner& runner, const Line& line) {
  runner.group(line).synchronize(nullptr, timeout(line));
}

void stream_wait(Runner& runner, const Line& line) {
  runner.group(line).stream_wait(nullptr, symm::all_streams);
}

void expect_stream_done(Runner& runner, const Line& line) {
  require(runner.group(line).stream_done(nullptr) ? 1 : 0, 1, "done");
}
}  // namespace

const Verbs& verbs_of_groups() {
  static const Verbs verbs = {
      {"abort", abort_group},
      {"barrier", barrier},
      {"create", create},
      {"create_by_id", create_by_id},
      {"create_from_ranks", create_from_ranks},
      {"die", die},
      {"expect_advice", expect_advice},
      {"expect_calls", expect_calls},
      {"expect_cuda", expect_cuda},
      {"expect_failed", expect_failed},
      {"expect_group", expect_group},
      {"expect_peer", expect_peer},
      {"expect_status", expect_status},
      {"expect_stream_done", expect_stream_done},
      {"finalize", finalize},
      {"grow", grow},
      {"invite", invite},
      {"join", join},
      {"keep_spares", keep_spares},
      {"local", local},
      {"make_id", make_id},
      {"shrink", shrink},
      {"split", split_group},
      {"stream_wait", stream_wait},
      {"synchronize", synchronize},
  };

  return verbs;
}
}  // namespace behaviours
