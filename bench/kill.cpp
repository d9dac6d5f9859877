// How soon the others know: ranks are killed at random moments of random calls, and every survivor measures from just before
// kill() to its error. The experiment itself is that of tests/ranks/kill_test.cpp.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include "tests/ranks/kill_experiment.hpp"
#include "tests/support/footprint.hpp"
#include "tools/bench/quantile.hpp"

namespace {

struct Row {
  int kills = 0;
  int missed = 0;
  int hangs = 0;
  int leaks = 0;
  int problems = 0;
  std::vector<double> latencies_ms;

  void add(const support::KillReport& report) {
    ++kills;
    missed += report.missed;
    hangs += report.hangs;
    leaks += report.leaks;
    problems += static_cast<int>(report.problems.size());
    latencies_ms.insert(latencies_ms.end(), report.latencies_ms.begin(), report.latencies_ms.end());
  }
  double quantile(double part) const { return latencies_ms.empty() ? 0 : symm::tool::quantile(latencies_ms, part); }
};

void print(const std::string& name, const Row& row) {
  std::printf("%-12s %6d %10zu %8.2f %8.2f %8.2f %8d %6d %6d %9d\n", name.c_str(), row.kills, row.latencies_ms.size(),
              row.quantile(0.5), row.quantile(0.99), row.quantile(1), row.missed, row.hangs, row.leaks, row.problems);
}

nlohmann::json to_json(const Row& row) {
  return {{"kills", row.kills},          {"survivors_told", row.latencies_ms.size()},
          {"p50_ms", row.quantile(0.5)}, {"p99_ms", row.quantile(0.99)},
          {"max_ms", row.quantile(1)},   {"missed", row.missed},
          {"hangs", row.hangs},          {"leaks", row.leaks},
          {"problems", row.problems}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Kill ranks at random moments; print how soon the others get their error (ms), and what hung or leaked"};
  int kills = 1000;
  std::vector<int> sizes{2, 4, 8};
  uint64_t seed = std::random_device{}();
  bool json = false;
  app.add_option("--kills", kills, "number of ranks to kill, over all sizes")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--ranks", sizes, "numbers of ranks to form groups of")
      ->delimiter(',')
      ->check(CLI::Range(2, 8))
      ->capture_default_str();
  app.add_option("--seed", seed, "seed of the first experiment; the others count up from it");
  app.add_flag("--json", json, "print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);

  // Creation notices a death by other means, and gives a dead rank a second to come back: it has rows of its own.
  std::map<std::string, Row> by_size, by_phase;
  Row all, calls;
  const size_t shared_before = support::machine_shared_memory();
  for (int i = 0; i < kills; ++i) {
    const int size = sizes[static_cast<size_t>(i) % sizes.size()];
    const support::KillReport report = support::kill_one(seed + static_cast<uint64_t>(i), size);
    by_phase[name_of(report.phase)].add(report);
    all.add(report);
    if (report.phase != support::Phase::create) {
      by_size[std::to_string(size) + " ranks"].add(report);
      calls.add(report);
    }
    for (const std::string& problem : report.problems) {
      std::cerr << "seed " << seed + static_cast<uint64_t>(i) << ", rank " << report.victim << " of " << size << " during "
                << name_of(report.phase) << ": " << problem << '\n';
    }
  }
  const double shared_mb = (static_cast<double>(support::machine_shared_memory()) - static_cast<double>(shared_before)) / 1e6;

  if (json) {
    nlohmann::json result{
        {"seed", seed}, {"all", to_json(all)}, {"calls", to_json(calls)}, {"machine_shared_memory_growth_mb", shared_mb}};
    for (const auto& [name, row] : by_size) result["by_size"][name] = to_json(row);
    for (const auto& [name, row] : by_phase) result["by_phase"][name] = to_json(row);
    std::cout << result.dump(2) << '\n';
  } else {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::printf("%-12s %6s %10s %8s %8s %8s %8s %6s %6s %9s\n", "", "kills", "survivors", "p50 ms", "p99 ms", "max ms", "missed",
                "hangs", "leaks", "problems");
    for (const auto& [name, row] : by_size) print(name, row);
    for (const auto& [name, row] : by_phase) print(name, row);
    print("all calls", calls);
    print("all", all);
    std::printf("by number of ranks and \"all calls\": without the phase of creation\n");
    std::printf(
        "survivors: got PEER_FAILED in their call; missed: the dead rank had not yet joined a creation, which timed out naming "
        "it\n");
    std::printf("shared memory of the machine: %+.1f MB\n", shared_mb);
  }
  return all.problems == 0 ? 0 : 1;
}
