#pragma once

#include <cstdint>
#include "tools/bench/collective.hpp"

namespace symm::tool {
struct BenchOptions {
  const OperationTraits* traits = nullptr;
  uint64_t begin = 8;
  uint64_t end = uint64_t{64} << 20;
  double factor = 2;
  std::vector<symm_dtype_t> types{SYMM_DTYPE_F32};
  std::vector<symm_op_t> ops{SYMM_OP_SUM};
  symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO;
  int root = 0;
  int warmup = 5;
  int iterations = 0;  // 0: by size
  bool symmetric = true;
  bool in_place = true;
  bool out_of_place = true;
  bool check = true;
  bool json = false;
  symm_backend_t backend = SYMM_BACKEND_AUTO;
  int graph = 0;  // calls in a graph of CUDA; 0: none

  bool tune = false;  // then traits is nullptr, and these count
  bool end_given = false;
  std::string out;  // "": standard output
};

// Bytes from begin to end, each `factor` times the one before; end itself is not added.
std::vector<uint64_t> sizes(const BenchOptions& options);
// More for small messages, whose times vary more. The same on all ranks.
int iterations_for(const BenchOptions& options, uint64_t bytes);

int run_bench(const BenchOptions& options);
int run_tune(const BenchOptions& options);
}  // namespace symm::tool
