// The options of symm bench, its results, and the texts of both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "symm/symm.h"
#include "tools/bench/pattern.hpp"
#include <symm/symm.hpp>

namespace symm::tool {
double bus_factor(symm_collective_t collective, int ranks);

struct Call : Operands {
  Call(const Group& owner, const OperationTraits* what, symm_dtype_t type, symm_op_t reduction,
      void* on_stream)
      : Operands{what, owner.rank(), owner.size(), type, reduction},
        group(owner.get()),
        stream(on_stream) {}
  symm_group_t* group;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  void* stream;  // a CUDA stream, or nullptr

  symm_status_t run() const;
  // The plan of the library for the call; throws Error if the library would refuse.
  symm_plan_info_t plan() const;
  std::string algorithm() const;
};

struct BenchOptions {
  const OperationTraits* traits = nullptr;
  uint64_t begin = 8;
  uint64_t end = uint64_t{64} << 20;
  double factor = 2;
  std::vector<symm_dtype_t> types{SYMM_DTYPE_F32};
  std::vector<symm_op_t> ops{SYMM_OP_SUM};
  symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO;
  symm_order_t order = SYMM_ORDER_GROUP;
  int root = 0;
  int warmup = 5;
  int iterations = 0;  // 0: by size
  bool symmetric = true;
  bool in_place = true;
  bool out_of_place = true;
  bool check = true;
  bool json = false;
  bool csv = false;
  nlohmann::json baseline;  // what --json wrote of an earlier run; null: none
  std::string plot;         // file for a picture; "": none
  symm_backend_t backend = SYMM_BACKEND_AUTO;
  bool overlapping_devices = false;  // several ranks may use one GPU
  int graph = 0;                     // calls in a graph of CUDA; 0: none
  bool loose = false;                // ranks may be moved from core to core

  bool p2p = false;   // then traits is nullptr
  bool tune = false;  // then too, and these count
  bool nccl = false;  // with --tune: NCCL is measured, too
  bool end_given = false;
  std::string out;  // "": standard output
};

// Bytes from begin to end, each `factor` times the one before; end itself is not added.
std::vector<uint64_t> sizes(const BenchOptions& options);
// More for small messages, whose times vary more. The same on all ranks.
int iterations_for(const BenchOptions& options, uint64_t bytes);

int run_bench(const BenchOptions& options);
int run_tune(const BenchOptions& options);

// The result for one size, type and op, in place or not. A time is that of the slowest rank in one
// iteration.
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
  // Whether NCCL was measured to be faster, by the plan table.
  symm_advice_t advice = SYMM_ADVICE_UNMEASURED;
  uint64_t advice_symm_ns = 0;
  uint64_t advice_nccl_ns = 0;

  void take_plan(const Call& call);
  // GB/s
  double algorithm_bandwidth(uint64_t bytes) const {
    return static_cast<double>(bytes) / p50_us / 1000;
  }
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

// The bandwidths of a result in GB/s. A group of one has no bus, and its calls in place move no
// bytes: then there is none.
struct Bandwidths {
  std::optional<double> algorithm;
  std::optional<double> bus;
};
Bandwidths bandwidths(const BenchOptions& options, const Row& row, const Result& result, int ranks);

std::string table_header(const BenchOptions& options, int ranks, const std::string& bootstrap);
std::string table_row(const BenchOptions& options, const Row& row, int ranks);
std::string table_footer(const BenchOptions& options, const std::vector<Row>& rows, int ranks);
// The factor by which `result` is faster than the result of the call in the baseline;
// 0: the baseline has none.
double speedup(const BenchOptions& options, const Row& row, const Result& result);
// The results of `symm bench p2p`, as a table for people.
std::string p2p_table(const nlohmann::json& report);
// A line for each result of bench_json(), below one of names.
std::string bench_csv(const nlohmann::json& report);
nlohmann::json bench_json(const BenchOptions& options, const std::vector<Row>& rows, int ranks);
uint64_t total_wrong(const std::vector<Row>& rows);
}  // namespace symm::tool
