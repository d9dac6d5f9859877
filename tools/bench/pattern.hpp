// What the ranks send and what must come out, for any length, from small tables.
#pragma once

#include <symm/symm.h>
#include <cstddef>
#include <vector>

namespace symm::tool {
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
