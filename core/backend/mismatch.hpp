// Which of the calls that ranks make at one time is right, and which rank is to blame.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace symm {
// Two places in a list of calls that differ: of the right call, and of the one to blame.
struct Mismatch {
  size_t right;
  size_t wrong;
};

// `calls` has one call for each rank, in the order of the ranks. The call that most ranks make is
// right, in a tie that of the lowest rank, and the lowest rank that makes another call is to blame.
// So ranks that see the same calls find the same mismatch. Nothing if all calls are equal.
template <class Call>
std::optional<Mismatch> mismatch_among(const std::vector<Call>& calls) {
  const auto like = [&](const Call& call) { return std::count(calls.begin(), calls.end(), call); };
  const auto right = std::max_element(
      calls.begin(), calls.end(), [&](const Call& a, const Call& b) { return like(a) < like(b); });
  const auto wrong =
      std::find_if(calls.begin(), calls.end(), [&](const Call& call) { return call != *right; });
  if (wrong == calls.end()) return std::nullopt;
  return Mismatch{
      static_cast<size_t>(right - calls.begin()), static_cast<size_t>(wrong - calls.begin())};
}
}  // namespace symm
