#include <memory>
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/commands.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
struct Arguments {
  BenchOptions options;
  std::string collective;
  std::string begin = "8";
  std::string end = "64M";
  std::string type = "f32";
  std::string op = "sum";
  std::string algorithm = "auto";
  bool use_private = false;
  bool symmetric = false;
  bool in_place = false;
  bool out_of_place = false;
  int check = 1;
  std::string backend = "auto";
};

// One value by its name, or all of them. A command line is no place for guesses: an unknown name lists the known ones.
template <typename Value>
std::vector<Value> pick(const char* option, const std::vector<Named<Value>>& list, const std::string& name, bool allow_all) {
  std::vector<Value> out;
  std::vector<std::string> known;
  for (const auto& entry : list) {
    if (name == entry.name || (allow_all && name == "all")) out.push_back(entry.value);
    known.emplace_back(entry.name);
  }
  if (allow_all) known.emplace_back("all");
  if (out.empty()) throw CLI::ValidationError(option, "'" + name + "' is not known; known are " + join(known, ", "));
  return out;
}

uint64_t size_option(const char* option, const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const std::invalid_argument& error) { throw CLI::ValidationError(option, error.what()); }
}

const std::vector<Named<symm_backend_t>>& backends() {
  static const std::vector<Named<symm_backend_t>> list{
      {"auto", SYMM_BACKEND_AUTO}, {"host", SYMM_BACKEND_HOST}, {"cuda", SYMM_BACKEND_CUDA}};
  return list;
}

BenchOptions finish(const Arguments& arguments) {
  BenchOptions options = arguments.options;
  options.traits = find_operation(arguments.collective);
  if (options.tune) {
    if (!arguments.collective.empty())
      throw CLI::ValidationError("--tune", "measures what the plan needs, so it takes no collective");
  } else if (options.traits == nullptr) {
    throw CLI::ValidationError(
        "collective", "'" + arguments.collective +
                          "' is not known; known are allreduce, reduce_scatter, allgather, broadcast, reduce, "
                          "alltoall, barrier");
  }
  options.begin = size_option("--begin", arguments.begin);
  options.end = size_option("--end", arguments.end);
  if (options.begin > options.end) throw CLI::ValidationError("--end", "is less than --begin");
  options.backend = pick("--backend", backends(), arguments.backend, false).front();
  options.types = pick("--type", dtypes(), arguments.type, true);
  options.ops = pick("--op", ops(), arguments.op, true);
  options.algorithm = pick("--algorithm", algorithms(), arguments.algorithm, false).front();
  options.symmetric = !arguments.use_private;
  if (arguments.in_place != arguments.out_of_place) {
    options.in_place = arguments.in_place;
    options.out_of_place = arguments.out_of_place;
  }
  options.check = arguments.check != 0;
  return options;
}
}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  BenchOptions& options = arguments->options;
  CLI::App* bench =
      app.add_subcommand("bench", "Measure a collective and check every result; start it by symm run or another launcher");
  bench->add_option(
      "collective", arguments->collective, "allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall, barrier");
  bench->add_option("-b,--begin", arguments->begin, "Smallest size in bytes; K, M, G are powers of 1024")->capture_default_str();
  auto* end = bench->add_option("-e,--end", arguments->end, "Largest size")->capture_default_str();
  bench->add_option("-f,--factor", options.factor, "Factor between sizes")->check(CLI::Range(1.01, 1e6))->capture_default_str();
  bench->add_option("-d,--type", arguments->type, "Data type, or all")->capture_default_str();
  bench->add_option("-o,--op", arguments->op, "Reduction: sum, avg, min, max, prod, or all")->capture_default_str();
  bench->add_option("-a,--algorithm", arguments->algorithm, "Force an algorithm")->capture_default_str();
  bench->add_option("-r,--root", options.root, "Root of broadcast and reduce")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  bench->add_option("-w,--warmup", options.warmup, "Calls before the measured ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  bench->add_option("-n,--iterations", options.iterations, "Measured calls of each size; 0: 20 to 500, more for small sizes")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  bench->add_option("-c,--check", arguments->check, "1: check every result, 0: do not")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  auto* use_private = bench->add_flag("--private", arguments->use_private, "Private memory");
  bench->add_flag("--symmetric", arguments->symmetric, "Symmetric memory (the default)")->excludes(use_private);
  bench->add_flag("--in-place", arguments->in_place, "In place only");
  bench->add_flag("--out-of-place", arguments->out_of_place, "Out of place only");
  bench->add_flag("--json", options.json, "Write JSON (under symm run use its --no-prefix)");
  auto* tune = bench->add_flag("--tune", options.tune,
      "Instead of a collective: measure where one algorithm should give way to the next, for this number of "
      "ranks, and write a table for SYMM_PLAN_FILE; takes -b, -e, -f, -w, -n");
  bench->add_option("--out", options.out, "With --tune: the file to write; standard output if there is none")->needs(tune);
  bench->add_option("--backend", arguments->backend, "auto, host or cuda")->capture_default_str();
  bench->add_option("-G,--graph", options.graph, "On GPUs: replay a graph of so many calls; 0: 20 calls in a row without one")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  for (const char* name :
      {"--type", "--op", "--algorithm", "--root", "--check", "--private", "--in-place", "--out-of-place", "--json", "--graph"})
    tune->excludes(bench->get_option(name));
  bench->callback([&action, arguments, end] {
    arguments->options.end_given = end->count() > 0;
    const BenchOptions finished = finish(*arguments);
    action = [finished] { return finished.tune ? run_tune(finished) : run_bench(finished); };
  });
}
}  // namespace symm::tool
