// Verbs that make, split, end and ask groups.
#include <signal.h>

#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/bindings/behaviours/runner.hpp"

namespace behaviours {
namespace {
void expect_group(Runner& runner, const Line& line) {
  const symm_group_info_t info = runner.group(line).info();
  require_fields(line, {
                           {"rank", info.rank},
                           {"size", info.size},
                           {"channels", info.channels},
                       });
}

void expect_status(Runner& runner, const Line& line) {
  symm_group_status_t now{};
  const auto is_so = [&] {
    now = runner.group(line).status();
    return now.status == line.constant("status");
  };

  support::eventually(is_so, 20'000);
  require(now.status, line.constant("status"), std::string("status (") + now.message + ")");
  require(now.failed_rank, line.integer("failed_rank", now.failed_rank), "failed_rank");
}

void expect_failed(Runner& runner, const Line& line) {
  if (runner.group(line).failed_ranks() != line.numbers("ranks")) {
    throw std::runtime_error("other ranks have failed");
  }
}

void create(Runner& runner, const Line& line) {
  uint64_t flags = 0;
  if (line.integer("shared_scratch", 0) != 0) flags |= SYMM_GROUP_SHARED_SCRATCH;
  if (line.integer("check", 0) != 0) flags |= SYMM_GROUP_CHECK;
  runner.create(line.text("as"), line.text("as"), line.size("timeout_ms"), flags);
}

void split_group(Runner& runner, const Line& line) {
  symm::Group part = runner.group(line).split(line.integer32("color"), line.integer32("key"));
  const bool is_part = line.integer("color") >= 0;
  const std::string name = line.text("as");
  if (static_cast<bool>(part) != is_part) {
    throw std::runtime_error("a group although color < 0, or none");
  }
  if (part) runner.things[name] = std::move(part);
}

void create_from_ranks(Runner& runner, const Line& line) {
  runner.things[line.text("as")] = runner.group(line).create_from_ranks(line.numbers("ranks"));
}

void local(Runner& runner, const Line& line) {
  runner.things[line.text("as")] = runner.group(line).local();
}

void shrink(Runner& runner, const Line& line) {
  runner.things[line.text("as")] = runner.group(line).shrink();
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
      {"create_from_ranks", create_from_ranks},
      {"die", die},
      {"expect_failed", expect_failed},
      {"expect_group", expect_group},
      {"expect_status", expect_status},
      {"expect_stream_done", expect_stream_done},
      {"finalize", finalize},
      {"local", local},
      {"shrink", shrink},
      {"split", split_group},
      {"stream_wait", stream_wait},
      {"synchronize", synchronize},
  };

  return verbs;
}
}  // namespace behaviours
