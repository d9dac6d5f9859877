// Loops over all combinations of some lists, which would otherwise be a pyramid.
#pragma once

#include <cstddef>
#include <tuple>

#include <gtest/gtest.h>

namespace support {
// Calls `body` with each combination of a value of each list. The values of the last list follow
// each other fastest. Ends early after a fatal failure.
template <size_t kFixed = 0, class... Lists, class Body, class... Values>
void for_each_combination(
    const std::tuple<Lists...>& lists, const Body& body, const Values&... values) {
  if constexpr (kFixed == sizeof...(Lists)) {
    body(values...);
  } else {
    for (const auto& value : std::get<kFixed>(lists)) {
      for_each_combination<kFixed + 1>(lists, body, values..., value);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}
}  // namespace support
