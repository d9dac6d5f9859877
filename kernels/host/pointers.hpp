// A pointer into each rank's operand, without an allocation for the usual number of ranks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace symm::host {
class Sources {
  using Source = const std::byte*;

 public:
  explicit Sources(int count)
      : many_(count > kFew ? std::make_unique<Source[]>(static_cast<size_t>(count)) : nullptr) {}

  Source& operator[](int index) noexcept { return data()[index]; }
  Source* data() noexcept { return many_ ? many_.get() : few_.data(); }

 private:
  static constexpr int kFew = 32;
  std::array<Source, kFew> few_;
  std::unique_ptr<Source[]> many_;
};
}  // namespace symm::host
