// The times of NCCL and of symm that were measured on a machine, for one number of ranks: a
// column of the plan table, which `symm bench --tune --nccl` writes. It chooses no algorithm. A
// plan takes from it for which calls NCCL was ahead; a program that has both libraries may call
// the faster one. The column must be equal on all ranks, like everything in the plan table:
// ranks that are advised differently would wait for each other in two libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm {
// One measured size: the bytes of `count`, and the times of a call.
struct NcclPoint {
  uint64_t bytes = 0;
  uint64_t symm_ns = 0;
  uint64_t nccl_ns = 0;
};

// One collective of one data type. `dtype` is 0 for a collective that moves data and combines
// none: its time depends on the bytes alone.
struct NcclRow {
  Collective collective{};
  DType dtype{};
  std::vector<NcclPoint> points;  // by ascending size
  std::string where;              // the line of the file
};

class NcclColumn {
 public:
  // "nccl allreduce bf16" in front of the sign of equality, "8:5.1/9.8 4K:6.2/9.9"
  // behind it: the size, and the times of symm and of NCCL in microseconds. Throws
  // Error(invalid_argument) that names `where`.
  static NcclRow parse(std::string_view name, std::string_view values, const std::string& where);
  static bool is_name(std::string_view name);

  explicit NcclColumn(int ranks = 0) : ranks_(ranks) {}
  // A row replaces that of the same collective and type.
  void add(NcclRow row);
  size_t rows() const noexcept { return rows_.size(); }
  // A hash of all rows; 0 if there are none.
  uint64_t hash() const;

  // Writes into the report whether NCCL was ahead for this call, and why. A call that was not
  // measured, or not in this form, gets Advice::unmeasured, and the report says so.
  void advise(const CollectiveCall& call, PlanReport& report) const;

 private:
  const NcclRow* find(const CollectiveCall& call) const;

  int ranks_;
  std::vector<NcclRow> rows_;
};
}  // namespace symm
