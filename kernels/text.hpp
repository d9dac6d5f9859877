// Texts that are put together from words and numbers.
#pragma once

#include <string>
#include <type_traits>

namespace symm {
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string all;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      all += std::to_string(part);
    } else {
      all += part;
    }
  };
  (add(parts), ...);
  return all;
}
}  // namespace symm
