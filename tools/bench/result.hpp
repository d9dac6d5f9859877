#pragma once

#include <nlohmann/json.hpp>
#include "tools/bench/options.hpp"

namespace symm::tool {
// Of one size, type and op, in place or not. A time is that of the slowest rank in one iteration.
struct Result {
  bool measured = false;
  double p50_us = 0;
  double min_us = 0;
  double p99_us = 0;
  double max_us = 0;
  int slowest_rank = 0;  // whose own times have the highest median
  int iterations = 0;
  uint64_t wrong = 0;  // elements, on all ranks and in all iterations
  std::string algorithm;

  double algorithm_bandwidth(uint64_t bytes) const { return static_cast<double>(bytes) / p50_us / 1000; }  // GB/s
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type;
  std::string op;  // "none" if there is none
  int root = -1;
  Result out_of_place;
  Result in_place;
};

std::string table_header(const BenchOptions& options, int ranks, const std::string& bootstrap);
std::string table_row(const BenchOptions& options, const Row& row, int ranks);
std::string table_footer(const BenchOptions& options, const std::vector<Row>& rows, int ranks);
nlohmann::json bench_json(const BenchOptions& options, const std::vector<Row>& rows, int ranks);
uint64_t total_wrong(const std::vector<Row>& rows);
}  // namespace symm::tool
