// The sizes and repetitions of symm bench, and its results as a table, CSV and JSON.
#include "tools/bench/options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/pattern.hpp"

namespace symm::tool {
namespace {
template <typename... Values>
std::string print(const char* format, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

const char* advice_name(symm_advice_t advice) {
  switch (advice) {
    case SYMM_ADVICE_SYMM: return "symm";
    case SYMM_ADVICE_NCCL: return "nccl";
    default: return "unknown";
  }
}

// A time of the plan table, in microseconds; null if it was not measured.
nlohmann::json measured(uint64_t ns) {
  return ns > 0 ? nlohmann::json(static_cast<double>(ns) / 1e3) : nlohmann::json();
}

bool has_size(const BenchOptions& options) { return options.traits->collective != kBarrier; }

// The properties that tell one result of a run from the others.
nlohmann::json identity(const BenchOptions& options, const Row& row, const Result& result) {
  if (!has_size(options)) return nlohmann::json::object();
  return {{"size", row.bytes}, {"type", row.type}, {"redop", row.op}, {"root", row.root},
      {"in_place", &result == &row.in_place}};
}

std::string cell(const std::optional<double>& bandwidth) {
  return bandwidth ? print(" %8.2f", *bandwidth) : print(" %8s", "N/A");
}

nlohmann::json json_of(const std::optional<double>& bandwidth) {
  return bandwidth ? nlohmann::json(*bandwidth) : nlohmann::json();
}

std::string cells(const BenchOptions& options, const Row& row, const Result& result, int ranks) {
  const double ratio = speedup(options, row, result);
  std::string beside;
  if (!options.baseline.is_null()) {
    beside = ratio == 0 ? print(" %7s", "-") : print(" %7.2f", ratio);
  }
  if (!has_size(options)) return print(" %10.2f", result.p50_us) + beside;
  const Bandwidths of = bandwidths(options, row, result, ranks);
  const std::string times = print(" %10.2f", result.p50_us) + cell(of.algorithm) + cell(of.bus);
  return times + (options.check ? print(" %7lu", result.wrong) : print(" %7s", "N/A")) + beside;
}

std::optional<double> average_bus_bandwidth(
    const BenchOptions& options, const std::vector<Row>& rows, int ranks) {
  double sum = 0;
  int measured = 0;

  for (const Row& row : rows) {
    for (const Result* result : {&row.out_of_place, &row.in_place}) {
      if (!result->measured) continue;
      const std::optional<double> bus = bandwidths(options, row, *result, ranks).bus;
      if (!bus) continue;
      sum += *bus;
      ++measured;
    }
  }

  if (measured == 0) return std::nullopt;
  return sum / measured;
}
}  // namespace

double bus_factor(symm_collective_t collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case SYMM_COLLECTIVE_ALLREDUCE: return 2 * (n - 1) / n;
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
    case SYMM_COLLECTIVE_ALLGATHER:
    case SYMM_COLLECTIVE_ALLTOALL: return (n - 1) / n;
    default: return 1;
  }
}

Bandwidths bandwidths(
    const BenchOptions& options, const Row& row, const Result& result, int ranks) {
  const bool in_place = &result == &row.in_place;
  if (ranks == 1 && in_place) return {};
  const double bandwidth = result.algorithm_bandwidth(row.bytes);
  if (ranks == 1) return {bandwidth, std::nullopt};
  return {bandwidth, bandwidth * bus_factor(options.traits->collective, ranks)};
}

std::vector<uint64_t> sizes(const BenchOptions& options) {
  std::vector<uint64_t> out;
  for (auto size = static_cast<double>(options.begin); size <= static_cast<double>(options.end);
      size *= options.factor) {
    const auto bytes = static_cast<uint64_t>(size);
    if (out.empty() || bytes > out.back()) out.push_back(bytes);
    if (size == 0) size = 1;
  }
  return out;
}

int iterations_for(const BenchOptions& options, uint64_t bytes) {
  if (options.iterations > 0) return options.iterations;
  constexpr uint64_t volume = uint64_t{64} << 20;
  return static_cast<int>(std::clamp<uint64_t>(volume / std::max<uint64_t>(bytes, 1), 20, 500));
}

std::string table_header(const BenchOptions& options, int ranks, const std::string& bootstrap) {
  std::string how;
  if (options.backend == SYMM_BACKEND_CUDA) {
    how = options.graph == 0 ? ", CUDA" : print(", CUDA graphs of %d", options.graph);
  }
  std::string out = print(
      "# symm bench %s: %d ranks by %s, %s memory%s, times of the slowest rank (p50)\n#%s\n",
      options.traits->name, ranks, bootstrap.c_str(), options.symmetric ? "symmetric" : "private",
      how.c_str(), options.loose ? " ranks are not bound to cores: symm run --bind core" : "");
  const char* const beside = options.baseline.is_null() ? "" : "  faster";

  if (!has_size(options)) {
    return out + print("# %10s %10s%s\n# %10s %10s\n", "ranks", "time", beside, "", "(us)");
  }

  std::string names = print("# %10s %12s %7s %6s %5s", "size", "count", "type", "redop", "root");
  std::string units = print("# %10s %12s %7s %6s %5s", "(B)", "(elements)", "", "", "");
  std::string groups(names.size(), ' ');
  groups[0] = '#';
  for (const auto& [wanted, title] :
      {std::pair{options.out_of_place, "out of place"}, std::pair{options.in_place, "in place"}}) {
    if (!wanted) continue;
    const auto width = static_cast<int>(std::strlen(beside));
    groups += print(" %*s", 36 + width, title);
    names += print(" %10s %8s %8s %7s%s", "time", "algbw", "busbw", "#wrong", beside);
    units += print(" %10s %8s %8s %7s%*s", "(us)", "(GB/s)", "(GB/s)", "", width, "");
  }

  return out + groups + "\n" + names + "  algorithm\n" + units + "\n";
}

std::string table_row(const BenchOptions& options, const Row& row, int ranks) {
  std::string out;
  if (has_size(options)) {
    out = print("  %10lu %12lu %7s %6s %5d", row.bytes, row.count, row.type.c_str(), row.op.c_str(),
        row.root);
  } else {
    out = print("  %10d", ranks);
  }

  std::string algorithm;
  bool is_nccl_ahead = false;
  for (const Result* result : {&row.out_of_place, &row.in_place}) {
    if (!result->measured) continue;
    out += cells(options, row, *result, ranks);
    is_nccl_ahead = is_nccl_ahead || result->advice == SYMM_ADVICE_NCCL;
    if (result->algorithm != algorithm) {
      algorithm += (algorithm.empty() ? "" : ", ") + result->algorithm;
    }
  }

  if (is_nccl_ahead) algorithm += ", NCCL was faster";
  return out + (algorithm.empty() ? "" : "  " + algorithm) + "\n";
}

std::string table_footer(const BenchOptions& options, const std::vector<Row>& rows, int ranks) {
  if (!has_size(options)) return "";
  const uint64_t wrong = total_wrong(rows);
  const char* const verdict = wrong == 0 ? "OK" : "FAILED";
  std::string out = "# Wrong elements    : not checked\n";
  if (options.check) out = print("# Wrong elements    : %lu %s\n", wrong, verdict);
  const std::optional<double> bus = average_bus_bandwidth(options, rows, ranks);
  return out + (bus ? print("# Avg bus bandwidth : %.4g GB/s\n", *bus)
                    : "# Avg bus bandwidth : N/A, a group of one has no bus\n");
}

uint64_t total_wrong(const std::vector<Row>& rows) {
  uint64_t wrong = 0;
  for (const Row& row : rows) {
    wrong += row.out_of_place.wrong + row.in_place.wrong;
  }
  return wrong;
}

double speedup(const BenchOptions& options, const Row& row, const Result& result) {
  if (options.baseline.is_null()) return 0;
  const nlohmann::json wanted = identity(options, row, result);
  for (const nlohmann::json& before : options.baseline.at("results")) {
    const bool same =
        std::all_of(wanted.items().begin(), wanted.items().end(), [&](const auto& item) {
          return before.contains(item.key()) && before[item.key()] == item.value();
        });
    if (same) return before.at("time_us").at("p50").get<double>() / result.p50_us;
  }
  return 0;
}

std::string p2p_table(const nlohmann::json& report) {
  std::string out;
  for (const auto& [key, unit] : {std::pair{"us", "us a put"}, std::pair{"GB/s", "GB/s"}}) {
    out += "# symm bench p2p: " + std::string(unit) + ", " + report[key]["bytes"].dump() +
           " bytes from each rank (row) to each, by 20 puts in a row and the barrier behind them\n";
    size_t from = 0;
    for (const nlohmann::json& row : report[key]["from_to"]) {
      out += print("%6zu", from++);
      for (const nlohmann::json& cell : row) {
        out += print(" %9.2f", cell.get<double>());
      }
      out += "\n";
    }
  }

  const auto wrong = report["wrong"].get<uint64_t>();
  return out + (wrong == 0 ? "" : "# Wrong bytes: " + std::to_string(wrong) + " FAILED\n");
}

std::string bench_csv(const nlohmann::json& report) {
  std::string names;
  std::string lines;
  for (const nlohmann::json& result : report["results"]) {
    std::string cells;
    names.clear();
    const nlohmann::json flat = result.flatten();  // with names as "/time_us/p50"
    for (const auto& [key, value] : flat.items()) {
      std::string name = key.substr(1);
      std::replace(name.begin(), name.end(), '/', '_');
      names += (names.empty() ? "" : ",") + name;
      cells += (cells.empty() ? "" : ",") +
               (value.is_string() ? value.get<std::string>() : value.dump());
    }
    lines += cells + "\n";
  }

  return names + "\n" + lines;
}

nlohmann::json bench_json(const BenchOptions& options, const std::vector<Row>& rows, int ranks) {
  nlohmann::json out{{"collective", options.traits->name}, {"ranks", ranks},
      {"backend", options.backend == SYMM_BACKEND_CUDA ? "cuda" : "host"}, {"graph", options.graph},
      {"memory", options.symmetric ? "symmetric" : "private"}, {"warmup", options.warmup},
      {"checked", options.check}, {"wrong", total_wrong(rows)},
      {"results", nlohmann::json::array()}};

  for (const Row& row : rows) {
    for (const Result* result : {&row.out_of_place, &row.in_place}) {
      if (!result->measured) continue;
      nlohmann::json entry{{"time_us", {{"p50", result->p50_us}, {"min", result->min_us},
                                           {"p99", result->p99_us}, {"max", result->max_us}}},
          {"iterations", result->iterations}, {"slowest_rank", result->slowest_rank}};
      if (has_size(options)) {
        const Bandwidths of = bandwidths(options, row, *result, ranks);
        entry.update(identity(options, row, *result));
        entry.update({{"count", row.count}, {"algorithm", result->algorithm},
            {"algbw", json_of(of.algorithm)}, {"busbw", json_of(of.bus)}, {"wrong", result->wrong},
            {"advice", advice_name(result->advice)},
            {"advice_symm_us", measured(result->advice_symm_ns)},
            {"advice_nccl_us", measured(result->advice_nccl_ns)}});
      }
      if (!options.baseline.is_null()) entry["speedup"] = speedup(options, row, *result);
      out["results"].push_back(entry);
    }
  }

  if (has_size(options)) {
    out["average_busbw"] = json_of(average_bus_bandwidth(options, rows, ranks));
  }
  return out;
}
}  // namespace symm::tool
