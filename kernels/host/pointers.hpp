// One pointer per rank, without an allocation for the usual number of ranks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace symm::host {
template <class T> class Pointers {
 public:
  explicit Pointers(int count) : many_(count > kFew ? std::make_unique<T*[]>(static_cast<size_t>(count)) : nullptr) {}

  T*& operator[](int index) noexcept { return data()[index]; }
  T** data() noexcept { return many_ ? many_.get() : few_.data(); }
 private:
  static constexpr int kFew = 32;
  std::array<T*, kFew> few_;
  std::unique_ptr<T*[]> many_;
};

using Sources = Pointers<const std::byte>;
using Destinations = Pointers<std::byte>;
}  // namespace symm::host
