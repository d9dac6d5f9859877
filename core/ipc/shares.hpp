// What this process has published and holds, for symm top and symm doctor
// (capi/include/symm/page.h). Others read it at any moment, and the kernel takes it back with the
// process, so it never has to be repaired.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/base/page.hpp"
#include "core/ipc/token.hpp"
#include "symm/page.h"

namespace symm::ipc {
class Shares {
 public:
  Shares();

  // A row, which is there as long as this object. One that found no room is only counted.
  class Row {
   public:
    Row() = default;
    Row(Row&& other) noexcept { *this = std::move(other); }
    Row& operator=(Row&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~Row();

   private:
    friend class Shares;
    Row(Shares* owner, uint32_t place) : owner_(owner), place_(place) {}
    Shares* owner_ = nullptr;
    uint32_t place_ = 0;
  };

  // `bytes`: of the memory that the token names. Without memory for it, nothing is shown.
  static Row show_lease(const Token& token, uint64_t bytes) noexcept;
  static Row show_version(
      const Token& token, uint64_t bytes, std::string_view name, uint64_t version) noexcept;

 private:
  static constexpr uint32_t kNoPlace = SYMM_SHARES_ROWS;
  static Row show(uint64_t kind, const Token& token, uint64_t bytes, std::string_view name,
      uint64_t version) noexcept;
  uint32_t take_place() noexcept;
  void give_back(uint32_t place) noexcept;

  const PageMemory memory_;
  symm_shares_t& shares_;
  std::mutex mutex_;
  std::array<uint32_t, SYMM_SHARES_ROWS> free_{};  // the first `count_` of it
  uint32_t count_ = SYMM_SHARES_ROWS;
};
}  // namespace symm::ipc
