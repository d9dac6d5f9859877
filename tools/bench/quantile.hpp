#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace symm::tool {
// The smallest value that at least this part of all does not exceed; NaN without values.
inline double quantile(std::vector<double> values, double part) {
  if (values.empty()) return std::nan("");
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
}  // namespace symm::tool
