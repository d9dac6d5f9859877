// Measures how soon other ranks know of a failure: ranks are
// killed, or attacked otherwise, at random moments of random calls,
// and every survivor measures from just before kill() to its error.
// The experiment itself is that of tests/ranks/kill_test.cpp.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/ranks/failure.hpp"
#include "tests/ranks/kill_experiment.hpp"
#include "tools/bench/thresholds.hpp"

namespace {
struct Row {
  std::map<std::string, int> counts;
  std::vector<double> latencies_ms;

  void add(const support::AttackReport& report) {
    ++counts["trials"];
    for (const auto& [what, count] : report.counts) {
      counts[what] += count;
    }
    latencies_ms.insert(latencies_ms.end(), report.latencies_ms.begin(), report.latencies_ms.end());
  }

  nlohmann::json json() const {
    nlohmann::json row(counts);
    row["survivors_told"] = latencies_ms.size();
    for (const auto& [name, part] :
        {std::pair("p50_ms", 0.5), std::pair("p99_ms", 0.99), std::pair("max_ms", 1.0)}) {
      row[name] = latencies_ms.empty() ? 0 : symm::tool::quantile(latencies_ms, part);
    }
    return row;
  }
};
}  // namespace

// Reads the options, attacks, and prints. Long for its list of options.
int main(int argc, char** argv) {
  CLI::App app{
      "Attack ranks at random moments; print as JSON how soon the others get their error, and what "
      "hung or leaked"};
  int trials = 1000;
  int seconds = 0;
  support::Attack attack = support::Attack::kill;
  bool apart = false;
  std::vector<int> sizes{2, 4, 8};
  uint64_t seed = std::random_device{}();

  app.add_option("--kills", trials, "number of experiments, over all sizes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", seconds, "begin none after so many seconds");

  const std::map<std::string, support::Attack> attacks(
      std::begin(support::kAttacks), std::end(support::kAttacks));
  app.add_option("--attack", attack, "what is done to the ranks")
      ->transform(CLI::CheckedTransformer(attacks));
  std::optional<support::Phase> phase;
  std::map<std::string, support::Phase> phases;
  for (int i = 0; i < support::kPhases; ++i) {
    phases[support::phase_name(static_cast<support::Phase>(i))] = static_cast<support::Phase>(i);
  }
  app.add_option("--phase", phase, "the calls in which ranks are attacked; drawn if not given")
      ->transform(CLI::CheckedTransformer(phases));
  app.add_flag("--apart", apart, "ranks are in namespaces of their own");
  app.add_option("--ranks", sizes, "numbers of ranks to form groups of")
      ->delimiter(',')
      ->check(CLI::Range(2, support::kMost))
      ->capture_default_str();
  app.add_option("--seed", seed, "seed of the first experiment; the others count up from it");
  CLI11_PARSE(app, argc, argv);

  // Creation notices a death by other means, and gives a dead
  // rank a second to come back: it is not among "calls".
  std::map<std::string, Row> by_size;
  std::map<std::string, Row> by_phase;
  Row all;
  Row calls;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int i = 0; i < trials && (seconds == 0 || std::chrono::steady_clock::now() < until); ++i) {
    const int size = sizes[static_cast<size_t>(i) % sizes.size()];
    const support::AttackReport report =
        support::attack_one(attack, seed + static_cast<uint64_t>(i), size, apart, phase);
    by_phase[phase_name(report.phase)].add(report);
    all.add(report);
    if (report.phase != support::Phase::create) {
      by_size[std::to_string(size) + " ranks"].add(report);
      calls.add(report);
    }

    for (const std::string& problem : report.problems) {
      std::cerr << report.what << ": " << problem << '\n';
    }
  }

  nlohmann::json result{{"seed", seed}, {"all", all.json()}, {"calls", calls.json()}};
  for (const auto& [name, row] : by_size) {
    result["by_size"][name] = row.json();
  }
  for (const auto& [name, row] : by_phase) {
    result["by_phase"][name] = row.json();
  }

  std::cout << result.dump(2) << '\n';
  return all.counts["problems"] == 0 ? 0 : 1;
}
