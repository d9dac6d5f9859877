// Writes the rows. A reader that finds one number of changes before and after it has read a row,
// and an even one, has read a whole row.
#include "core/ipc/shares.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>

#include "core/base/layouts.hpp"
#include "core/base/page.hpp"
#include "core/base/per_process.hpp"
#include "core/ipc/token.hpp"
#include "symm/page.h"

namespace symm::ipc {
namespace {
using AllShares = PerProcess<Shares>;

constexpr size_t kWords = sizeof(symm_share_t) / sizeof(uint64_t);

// Writes all of a row but its first word, by whole words, since others may be reading it. Whoever
// has read one of them finds the number of changes odd, or higher.
void write_row(symm_share_t& row, const symm_share_t& value) noexcept {
  std::array<uint64_t, kWords> words{};
  std::memcpy(words.data(), &value, sizeof value);
  auto* const at = reinterpret_cast<uint64_t*>(&row);

  Page::set(row.changes, row.changes + 1);
  for (size_t i = 1; i < kWords; ++i) {
    std::atomic_ref(at[i]).store(words[i], std::memory_order_release);
  }
  Page::set(row.changes, row.changes + 1);
}
}  // namespace

Shares::Shares()
    : memory_("symm-shares", sizeof(symm_shares_t), "process"),
      shares_(*static_cast<symm_shares_t*>(memory_.at())) {
  for (uint32_t i = 0; i < SYMM_SHARES_ROWS; ++i) {
    free_[i] = SYMM_SHARES_ROWS - 1 - i;  // the first is taken first
  }
  shares_.version = layouts::library;
  Page::set(shares_.magic, magic_of(SYMM_SHARES_MAGIC, layouts::shares));
}

uint32_t Shares::take_place() noexcept {
  if (count_ != 0) return free_[--count_];
  Page::set(shares_.left_out, shares_.left_out + 1);
  return kNoPlace;
}

Shares::Row Shares::show(uint64_t kind, const Token& token, uint64_t bytes, std::string_view name,
    uint64_t version) noexcept {
  symm_share_t row{};
  row.kind = kind;
  std::memcpy(row.exporter, token.exporter.data(), sizeof row.exporter);
  row.block = token.block;
  row.offset = token.offset;
  row.range = token.bytes;
  row.bytes = bytes;
  row.version = version;
  row.exporter_pid = token.pid;
  row.since_ns = now_ns();
  std::memcpy(row.name, name.data(), std::min(name.size(), sizeof row.name - 1));

  try {
    Shares& shares = AllShares::current();
    const std::lock_guard lock(shares.mutex_);
    const uint32_t place = shares.take_place();
    if (place != kNoPlace) write_row(shares.shares_.rows[place], row);
    return {&shares, place};
  } catch (const std::exception&) {
    return {};  // there is no memory to show it in
  }
}

Shares::Row Shares::show_lease(const Token& token, uint64_t bytes) noexcept {
  return show(SYMM_SHARE_HELD, token, bytes, "", 0);
}

Shares::Row Shares::show_version(
    const Token& token, uint64_t bytes, std::string_view name, uint64_t version) noexcept {
  return show(SYMM_SHARE_PUBLISHED, token, bytes, name, version);
}

void Shares::give_back(uint32_t place) noexcept {
  const std::lock_guard lock(mutex_);
  if (place == kNoPlace) return Page::set(shares_.left_out, shares_.left_out - 1);
  write_row(shares_.rows[place], {});
  free_[count_++] = place;
}

// A forked child that drops a row of its parent must not write into its parent's memory.
Shares::Row::~Row() {
  if (owner_ != nullptr && owner_ == AllShares::existing()) owner_->give_back(place_);
}
}  // namespace symm::ipc
