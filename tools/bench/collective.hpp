// What distinguishes the operations: how much is sent and received, where the result lies in place, what it must be, and by
// which factor nccl-tests turns algorithm bandwidth into bus bandwidth.
#pragma once

#include <string>
#include "tools/bench/pattern.hpp"

namespace symm::tool {
constexpr symm_collective_t kBarrier = -1;  // which symm.h does not count among them

struct OperationTraits {
  const char* name;
  symm_collective_t collective;
  bool reduces;  // has an op
  bool rooted;
  bool divided;  // `count` is per rank; the size is of all ranks together
};
const OperationTraits* find_operation(const std::string& name);  // nullptr if unknown

double bus_factor(symm_collective_t collective, int ranks);

// One call: its arguments on this rank.
struct Call {
  const OperationTraits* traits;
  symm_group_t* group;
  int rank;
  int ranks;
  symm_dtype_t dtype;
  symm_op_t op;
  int root;
  size_t count;  // as the call's own argument
  bool in_place;
  std::byte* first;   // send; in place, the larger of the two buffers
  std::byte* second;  // recv, out of place
  symm_collective_options_t options;
  void* stream;  // of CUDA, else nullptr

  size_t element() const;
  size_t bytes() const { return count * element() * static_cast<size_t>(traits->divided ? ranks : 1); }  // as nccl-tests shows it
  std::byte* send() const;
  std::byte* recv() const;

  void write_inputs(const Pattern& pattern, size_t shift) const;
  symm_status_t run() const;
  size_t count_wrong(const Pattern& pattern, size_t shift) const;
  symm_collective_call_t record() const;
  std::string algorithm() const;  // what the library would do; throws Error where it would refuse
};
}  // namespace symm::tool
