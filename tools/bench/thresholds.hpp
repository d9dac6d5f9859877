// Turns times into thresholds: the size at which one algorithm should give way to the next, and the
// plan table that says so.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace symm::tool {
// An algorithm, and the key of the plan table that says up to which size it is used; ""
// for the last one, which takes what is left.
struct Candidate {
  std::string name;
  std::string key;
};

struct Measured {
  uint64_t bytes = 0;
  std::vector<double> us;  // by candidate; 0 where it cannot do this size
  bool steady = true;      // the times of the calls differed little
};

// Candidates in the order in which they are used, from small messages to large ones,
// and what they took, by ascending size.
struct Ladder {
  std::string title;
  std::vector<Candidate> candidates;
  std::vector<Measured> sizes;
};

// The candidate for each size. It never goes back to an earlier one for a larger size,
// and among all such divisions it is the one that loses least against the fastest at
// each size, as a factor: single measurements that are off do not decide. Pure. The
// last candidate must be able to do every size.
std::vector<size_t> divide(const Ladder& ladder);

// The values of a ladder's keys: the largest size at which a candidate, or a candidate before
// it, is used; 0 if there is no such size.
struct Threshold {
  std::string key;
  uint64_t bytes = 0;
  bool is_end = false;  // nothing larger was measured
};
std::vector<Threshold> thresholds(const Ladder& ladder);

// Times of symm and of NCCL for one collective of one type, by ascending size.
struct NcclMeasured {
  std::string collective;
  std::string type;  // as the plan table names it
  struct Size {
    uint64_t bytes;
    double symm_us;
    double nccl_us;
  };
  std::vector<Size> sizes;
};

struct TuneReport {
  std::string version;
  std::string date;
  std::string backend;  // as the plan table names it
  std::string device;
  int ranks = 0;
  std::vector<Ladder> ladders;
  // The column of NCCL; "" and none if it was not measured.
  std::string nccl_version{};
  std::vector<NcclMeasured> nccl{};
  bool nccl_steady = true;
};
// A plan table for SYMM_PLAN_FILE, with the times as comments.
std::string plan_text(const TuneReport& report);

// The smallest value that at least this part of all does not exceed; NaN without values.
inline double quantile(std::vector<double> values, double part) {
  if (values.empty()) return std::nan("");
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
}  // namespace symm::tool
