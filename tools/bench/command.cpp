// The options of symm bench, and what the command does with them. The measurement is in
// bench.cpp.
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/commands.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
const char* const kCollectives =
    "allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall, scan, exscan, barrier; "
    "p2p: puts, from each rank to each";

// One value by its name, or all of them. A command line is no place for guesses: an
// unknown name lists the known ones.
template <typename Value>
std::vector<Value> pick(const char* option, const std::vector<Named<Value>>& list,
    const std::string& name, bool allow_all) {
  std::vector<Value> out;
  std::vector<std::string> known;
  for (const auto& entry : list) {
    if (name == entry.name || (allow_all && name == "all")) out.push_back(entry.value);
    known.emplace_back(entry.name);
  }

  if (allow_all) known.emplace_back("all");
  if (out.empty()) {
    throw CLI::ValidationError(
        option, "'" + name + "' is not known; known are " + join(known, ", "));
  }

  return out;
}

const std::vector<Named<symm_backend_t>>& backends() {
  static const std::vector<Named<symm_backend_t>> list{
      {"auto", SYMM_BACKEND_AUTO}, {"host", SYMM_BACKEND_HOST}, {"cuda", SYMM_BACKEND_CUDA}};
  return list;
}

nlohmann::json read_baseline(const std::string& file) {
  std::ifstream in(file);
  const nlohmann::json report = nlohmann::json::parse(in, nullptr, false);
  if (!report.is_object() || !report.contains("results")) {
    throw CLI::ValidationError("--baseline", file + " is not a file that --json wrote");
  }
  return report;
}

// Completes the options with values that follow from several of them.
void finish(BenchOptions& options, const std::string& collective) {
  options.traits = find_operation(collective);
  options.p2p = collective == "p2p";
  if (options.tune) {
    if (!collective.empty()) {
      throw CLI::ValidationError(
          "--tune", "measures what the plan needs, so it takes no collective");
    }
  } else if (options.traits == nullptr && !options.p2p) {
    throw CLI::ValidationError(
        "collective", "'" + collective + "' is not known; known are " + kCollectives);
  }

  if (const auto& before = options.baseline;
      !before.is_null() && find_operation(before.value("collective", "")) != options.traits) {
    throw CLI::ValidationError(
        "--baseline", "is of " + before.value("collective", "another command"));
  }

  if (options.begin > options.end) throw CLI::ValidationError("--end", "is less than --begin");
  if (!options.in_place && !options.out_of_place) options.in_place = options.out_of_place = true;
}

// ---- the options of the command, in the order in which --help lists them

CLI::Option* parsed(CLI::App* bench, const char* names, const char* without, const char* what,
    const std::function<void(const std::string&)>& parse) {
  return bench->add_option_function<std::string>(names, parse, what)->default_str(without);
}

CLI::Option* size(
    CLI::App* bench, const char* names, const char* without, const char* what, uint64_t& into) {
  return parsed(bench, names, without, what, [names, &into](const std::string& text) {
    try {
      into = parse_bytes(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(names + 3, error.what());
    }
  });
}

CLI::Option* flag(CLI::App* bench, const char* name, bool& is, bool value, const char* what) {
  return bench->add_flag_callback(name, [&is, value] { is = value; }, what);
}

// The options of the call.
void add_call_options(CLI::App* bench, BenchOptions& options) {
  size(bench, "-b,--begin", "8", "Smallest size in bytes; K, M, G are powers of 1024",
      options.begin);
  size(bench, "-e,--end", "64M", "Largest size", options.end);
  bench->add_option("-f,--factor", options.factor, "Factor between sizes")
      ->check(CLI::Range(1.01, 1e6));
  parsed(bench, "-d,--type", "f32", "Data type, or all",
      [&](const std::string& name) { options.types = pick("--type", dtypes(), name, true); });
  parsed(bench, "-o,--op", "sum",
      "Reduction: sum, avg, min, max, prod, band, bor, bxor, minloc, maxloc, or all",
      [&](const std::string& name) { options.ops = pick("--op", ops(), name, true); });
  parsed(bench, "-a,--algorithm", "auto", "Force an algorithm", [&](const std::string& name) {
    options.algorithm = pick("--algorithm", algorithms(), name, false).front();
  });

  parsed(bench, "--order", "group",
      "Order in which floats are combined: ranks, tree or any; group: as SYMM_ORDER says",
      [&](const std::string& name) {
        options.order = pick("--order", orders(), name, false).front();
      });
  bench->add_option("-r,--root", options.root, "Root of broadcast and reduce")
      ->check(CLI::NonNegativeNumber);
}

// The options of how often the collective is called, on which memory, and whether
// results are checked.
void add_sample_options(CLI::App* bench, BenchOptions& options) {
  bench->add_option("-w,--warmup", options.warmup, "Calls before the measured ones")
      ->check(CLI::Range(0, 1'000'000));
  bench
      ->add_option("-n,--iterations", options.iterations,
          "Measured calls of each size; 0: 20 to 500, more for small sizes")
      ->check(CLI::Range(0, 10'000'000));
  bench->add_option("-c,--check", options.check, "1: check every result, 0: do not")
      ->check(CLI::Range(0, 1))
      ->default_str("1");

  auto* use_private = flag(bench, "--private", options.symmetric, false, "Private memory");
  flag(bench, "--symmetric", options.symmetric, true, "Symmetric memory (the default)")
      ->excludes(use_private);
  flag(bench, "--in-place", options.out_of_place, false, "In place only");
  flag(bench, "--out-of-place", options.in_place, false, "Out of place only");
}

// The options of the results.
void add_output_options(CLI::App* bench, BenchOptions& options) {
  auto* json =
      bench->add_flag("--json", options.json, "Write JSON (under symm run use its --no-prefix)");
  bench->add_flag("--csv", options.csv, "Write the same results with commas between them")
      ->excludes(json);
  bench->add_option_function<std::string>(
      "--baseline", [&](const std::string& file) { options.baseline = read_baseline(file); },
      "Say how much faster each result is than in this file, which --json wrote");
  bench->add_option(
      "--plot", options.plot, "Draw times by sizes, and those of --baseline, into this file (SVG)");
}

void add_tune_options(CLI::App* bench, BenchOptions& options) {
  auto* tune = bench->add_flag("--tune", options.tune,
      "Instead of a collective: measure where one algorithm should give way to the next, for this "
      "number of ranks, and write a table for SYMM_PLAN_FILE; takes -b, -e, -f, -w, -n");

  bench
      ->add_option(
          "--out", options.out, "With --tune: the file to write; standard output if there is none")
      ->needs(tune);
  bench
      ->add_flag("--nccl", options.nccl,
          "With --tune: measure NCCL on the same ranks, too, and write a column of its times, by "
          "which symm_collective_plan() tells for which calls NCCL was ahead")
      ->needs(tune);
}

void add_device_options(CLI::App* bench, BenchOptions& options) {
  parsed(bench, "--backend", "auto", "auto, host or cuda", [&](const std::string& name) {
    options.backend = pick("--backend", backends(), name, false).front();
  });
  flag(bench, "--overlapping-devices", options.overlapping_devices, true,
      "Several ranks may use one GPU");
  bench
      ->add_option("-G,--graph", options.graph,
          "On GPUs: replay a graph of so many calls; 0: 20 calls in a row without one")
      ->check(CLI::Range(0, 10'000));
}
}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto all = std::make_shared<std::pair<BenchOptions, std::string>>();
  BenchOptions& options = all->first;
  std::string& collective = all->second;
  CLI::App* bench = app.add_subcommand("bench",
      "Measure a collective and check every result; start it by symm run or another launcher");
  bench->option_defaults()->always_capture_default();
  bench->footer(
      "Examples:\n  symm run -n 4 --bind core -- symm bench allreduce -e 4M\n  symm run -n gpu -- "
      "symm bench p2p --backend cuda");

  bench->add_option("collective", collective, kCollectives);
  add_call_options(bench, options);
  add_sample_options(bench, options);
  add_output_options(bench, options);
  add_tune_options(bench, options);
  add_device_options(bench, options);

  const std::vector<std::string> of_collectives{"--type", "--op", "--algorithm", "--order",
      "--root", "--private", "--in-place", "--out-of-place", "--csv", "--baseline", "--plot",
      "--graph"};
  auto* tune = bench->get_option("--tune");
  for (const std::string& name : of_collectives) {
    tune->excludes(bench->get_option(name));
  }
  for (const char* name : {"--check", "--json"}) {
    tune->excludes(bench->get_option(name));
  }

  auto* end = bench->get_option("--end");
  bench->callback([&action, all, end, bench, of_collectives] {
    if (all->second == "sendrecv") all->second = "p2p";  // as nccl-tests call it
    for (const std::string& name : of_collectives) {
      if (all->second == "p2p" && bench->get_option(name)->count() > 0) {
        throw CLI::ValidationError(name, "is of collectives, not of p2p");
      }
    }
    all->first.end_given = end->count() > 0;
    finish(all->first, all->second);
    action = [all] { return all->first.tune ? run_tune(all->first) : run_bench(all->first); };
  });
}
}  // namespace symm::tool
