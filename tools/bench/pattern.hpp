#pragma once

#include <symm/symm.h>
#include <cstddef>
#include <string>
#include <vector>
#include "tools/bench/reference.hpp"

namespace symm::tool {
// Names of the constants of symm.h.
template <typename Value> struct Named {
  const char* name;
  Value value;
};

const std::vector<Named<symm_dtype_t>>& dtypes();
const std::vector<Named<symm_op_t>>& ops();
const std::vector<Named<symm_algorithm_t>>& algorithms();

template <typename Value> std::string name_of(const std::vector<Named<Value>>& list, Value value) {
  for (const auto& entry : list)
    if (entry.value == value) return entry.name;
  return "unknown";
}

using reference::size_of;

// What the ranks send and what must come out, for any length, from small tables.
// Element i of rank r's data is table[r][(i + shift) mod period], with another shift in every iteration, so that what an earlier
// call left behind is never right. The period is prime: data that lands in a wrong slice or chunk shows. It is short enough that
// writing the inputs costs little and long enough that every lane of every vector sees different values.
class Pattern {
 public:
  // any_order: with elements whose reduction has the same bits in any order; without, an order other than that of ranks shows.
  Pattern(symm_dtype_t dtype, symm_op_t op, int ranks, bool any_order = false);

  static constexpr size_t period = 4093;

  // Write or compare `count` elements that start at element `first` of a rank's data.
  void write(std::byte* out, int rank, size_t first, size_t count) const {
    write_from(tables_[static_cast<size_t>(rank)], out, first, count);
  }
  size_t count_wrong(const std::byte* seen, int rank, size_t first, size_t count) const {
    return count_wrong_in(tables_[static_cast<size_t>(rank)], seen, first, count);
  }
  // The same with the reduction over all ranks.
  size_t count_wrong_reduced(const std::byte* seen, size_t first, size_t count) const {
    return count_wrong_in(reduced_, seen, first, count);
  }
 private:
  using Bytes = std::vector<std::byte>;
  void write_from(const Bytes& table, std::byte* out, size_t first, size_t count) const;
  size_t count_wrong_in(const Bytes& table, const std::byte* seen, size_t first, size_t count) const;

  size_t element_;
  std::vector<Bytes> tables_;
  Bytes reduced_;
};
}  // namespace symm::tool
