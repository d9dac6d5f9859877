// The operands that symm bench writes and the results that must come of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/bench/reference.hpp"
#include <symm/symm.h>

namespace symm::tool {
// Names of the constants of symm.h.
template <typename Value>
struct Named {
  const char* name;
  Value value;
};

const std::vector<Named<symm_dtype_t>>& dtypes();
const std::vector<Named<symm_op_t>>& ops();
const std::vector<Named<symm_algorithm_t>>& algorithms();
const std::vector<Named<symm_order_t>>& orders();

template <typename Value>
std::string name_in(const std::vector<Named<Value>>& list, Value value) {
  for (const auto& entry : list) {
    if (entry.value == value) return entry.name;
  }
  return "unknown";
}

using reference::size_of;

// The operands that ranks send and the results that must come out, for any length, from small
// tables. Element i of rank r's data is table[r][(i + shift) mod period], with another shift in
// every iteration, so that what an earlier call left behind is never right. The period is
// prime: data that lands in a wrong slice or chunk shows. It is short enough that writing the
// inputs costs little and long enough that every lane of every vector sees different values.
class Pattern {
 public:
  // With SYMM_ORDER_ANY, the reduction of the elements has the same bits in any order. Else an
  // order other than the one that is given shows.
  Pattern(symm_dtype_t dtype, symm_op_t op, int ranks, symm_order_t order = SYMM_ORDER_RANKS);

  static constexpr size_t period = 4093;

  // Write or compare `count` elements that start at element `first` of a rank's data.
  void write(std::byte* out, int rank, size_t first, size_t count) const {
    write_from(tables_[static_cast<size_t>(rank)], out, first, count);
  }
  // Every so many of them are looked at.
  size_t count_wrong(
      const std::byte* seen, int rank, size_t first, size_t count, size_t every = 1) const {
    return count_wrong_in(tables_[static_cast<size_t>(rank)], seen, first, count, every);
  }
  // Compares with the reduction over all ranks.
  size_t count_wrong_reduced(
      const std::byte* seen, size_t first, size_t count, size_t every = 1) const {
    return count_wrong_in(reduced_, seen, first, count, every);
  }
  // Compares with the reduction over ranks 0 .. ranks-1, in their order.
  size_t count_wrong_prefix(
      const std::byte* seen, int ranks, size_t first, size_t count, size_t every = 1) const;

 private:
  using Bytes = std::vector<std::byte>;
  void write_from(const Bytes& table, std::byte* out, size_t first, size_t count) const;
  size_t count_wrong_in(
      const Bytes& table, const std::byte* seen, size_t first, size_t count, size_t every) const;
  // The reduction over the first ranks, of which there may be none.
  Bytes reduced_over(size_t ranks, symm_order_t order) const;

  symm_dtype_t dtype_;
  symm_op_t op_;
  size_t element_;
  std::vector<Bytes> tables_;
  Bytes reduced_;
};

constexpr symm_collective_t kBarrier = -1;  // which symm.h does not count among them

// The properties of each operation: how much is sent and received, where the result lies in place,
// what it must be, and the factor by which nccl-tests turns algorithm bandwidth into bus bandwidth.
struct OperationTraits {
  const char* name;
  symm_collective_t collective;
  bool reduces;  // has an op
  bool rooted;
  bool divided;  // `count` is per rank; the size is of all ranks together
};
inline constexpr OperationTraits kOperations[] = {
    {"allreduce", SYMM_COLLECTIVE_ALLREDUCE, true, false, false},
    {"reduce_scatter", SYMM_COLLECTIVE_REDUCE_SCATTER, true, false, true},
    {"allgather", SYMM_COLLECTIVE_ALLGATHER, false, false, true},
    {"broadcast", SYMM_COLLECTIVE_BROADCAST, false, true, false},
    {"reduce", SYMM_COLLECTIVE_REDUCE, true, true, false},
    {"alltoall", SYMM_COLLECTIVE_ALLTOALL, false, false, true},
    {"scan", SYMM_COLLECTIVE_SCAN, true, false, false},
    {"exscan", SYMM_COLLECTIVE_EXSCAN, true, false, false},
    {"barrier", kBarrier, false, false, false}};
// Other libraries' spellings such as all_reduce are known too. nullptr for an unknown name.
const OperationTraits* find_operation(const std::string& name);

// The operands that one rank passes to a call, and the result that they must have.
struct Operands {
  const OperationTraits* traits;
  int rank;
  int ranks;
  symm_dtype_t dtype;
  symm_op_t op;
  int root = 0;
  size_t count = 0;  // as the call's own argument
  bool in_place = false;
  std::byte* first = nullptr;   // send; in place, the larger of the two buffers
  std::byte* second = nullptr;  // recv, out of place

  size_t element() const { return size_of(dtype); }
  // The value as nccl-tests shows it.
  size_t bytes() const {
    return count * element() * static_cast<size_t>(traits->divided ? ranks : 1);
  }
  std::byte* send() const;
  std::byte* recv() const;

  void write_inputs(const Pattern& pattern, size_t shift) const;
  size_t count_wrong(const Pattern& pattern, size_t shift, size_t every = 1) const;
  symm_collective_call_t record() const;
};
}  // namespace symm::tool
