// The book of exported blocks: their tokens, leases and quarantine. Used with the exporter's
// lock held; it sends nothing and waits for nothing.
#include "core/ipc/export.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/borrowed.hpp"
#include "core/backend/provider.hpp"
#include "core/base/error.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include "symm/symm.h"

namespace symm::ipc {
namespace {
constexpr Regions kWhole{0, kRegions - 1};
}  // namespace

void Withdrawn::add(uint64_t offset, uint64_t bytes, uint64_t before) {
  const uint64_t end = offset + bytes;
  auto at = ranges_.lower_bound(offset);
  if (at != ranges_.begin() && std::prev(at)->second.end > offset) --at;
  while (at != ranges_.end() && at->first < end) {
    const uint64_t start = at->first;
    const Range range = at->second;
    at = ranges_.erase(at);
    if (start < offset) ranges_[start] = {offset, range.before};
    if (range.end > end) at = ranges_.insert_or_assign(end, range).first;
  }
  ranges_[offset] = {end, before};
}

bool Withdrawn::covers(const Lease& lease, uint64_t number) const {
  auto at = ranges_.upper_bound(lease.offset);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < lease.offset + lease.bytes; ++at) {
    if (at->second.end > lease.offset && number < at->second.before) return true;
  }
  return false;
}

Export& Exports::add(std::shared_ptr<Block> memory, const Provider& provider, int device,
    std::vector<Export::Part> parts, bool with_slot) {
  Export made;
  made.id = last_id_ + 1;
  made.secret = random_id();
  made.provider = &provider;
  made.kind = provider.kind();
  made.device = device;
  made.gpu = provider.gpu(device);
  made.bytes = memory->size();
  const BlockExtent extent = memory->share().extent;
  made.mapped_bytes = extent.mapped;
  made.on_host = extent.on_host != 0;
  made.memory = std::move(memory);
  made.is_borrowed = symm::is_borrowed(made.memory.get()) || any_is_borrowed(parts);
  made.parts = std::move(parts);
  made.valid_from = next_number();
  const uint64_t id = made.id;
  const std::byte* const data = made.memory->data();
  decltype(exports_) one;  // so that both know it, or neither
  Export& added = one.emplace(id, std::move(made)).first->second;
  exports_.reserve(exports_.size() + 1);
  if (added.is_table()) tables_.insert(id);
  by_address_[data] = id;
  exports_.merge(one);

  ++last_id_;
  if (with_slot) take_slot(added);
  return added;
}

bool Exports::any_is_borrowed(std::span<const Export::Part> parts) noexcept {
  return std::any_of(parts.begin(), parts.end(), [this](const Export::Part& part) {
    const Export* const block = find(part.block);
    return block != nullptr && block->is_borrowed;
  });
}

// Whether memory that nobody keeps for importers is gone.
bool Exports::was_freed(const Export& exported) noexcept {
  if (!exported.is_borrowed) return false;
  if (!exported.is_table()) return !exported.memory || !exported.memory->still_at_owner();
  return std::any_of(exported.parts.begin(), exported.parts.end(), [this](const auto& part) {
    const Export* const block = find(part.block);
    return block == nullptr || was_freed(*block);
  });
}

// Tokens of the block that had the slot before have lower numbers than those that get it now.
void Exports::take_slot(Export& exported) {
  if (exported.slot != kNoSlot || exported.is_borrowed) return;
  if (!free_slots_.empty()) {
    exported.slot = free_slots_.back();
    free_slots_.pop_back();
  } else if (used_slots_ < kSlots) {
    exported.slot = used_slots_++;
  } else {
    return;
  }
  board_.publish(exported.slot, kWhole, next_number());
}

Export* Exports::find(uint64_t id) noexcept {
  const auto found = exports_.find(id);
  return found == exports_.end() ? nullptr : &found->second;
}

Export* Exports::find(const std::byte* data) noexcept {
  const auto found = by_address_.find(data);
  return found == by_address_.end() ? nullptr : find(found->second);
}

const Export* Exports::shown_at(const std::byte* pointer, uint64_t* offset) const {
  for (const auto& [id, exported] : exports_) {
    const std::shared_ptr<Block> shown = exported.for_reading.lock();
    if (!shown || pointer < shown->data() || pointer >= shown->data() + shown->size()) continue;
    *offset = static_cast<uint64_t>(pointer - shown->data());
    return &exported;
  }
  return nullptr;
}

uint64_t Exports::next_number() noexcept {
  board_.newest.store(++last_number_, std::memory_order_release);
  return last_number_;
}

uint64_t Exports::number(Export& exported, const ExportOptions& options) {
  const bool is_held = options.hold_ms != 0;
  if (!is_held && options.channels == 0) return last_number_;
  while (!exported.holds.empty() && exported.holds.begin()->second.until.expired()) {
    exported.holds.erase(exported.holds.begin());
  }
  const uint64_t number = next_number();
  next_number();  // no other token has the number of one that is held, or has a pad
  if (!is_held) return number;
  const Export::Hold hold{Deadline::after_ms(options.hold_ms), options.hold_imports};
  with_parts(exported.id, [&](Export& each) { each.holds.emplace(number, hold); });
  return number;
}

Token Exports::make_token(
    Export& exported, uint64_t offset, uint64_t bytes, const ExportOptions& options) {
  std::shared_ptr<OwnedPad> pad;
  if (options.channels != 0) {
    const uint64_t fence_bytes = options.fence_bytes != 0 ? options.fence_bytes : bytes;
    pad = std::make_shared<OwnedPad>(offset, PadShape{options.channels, bytes, fence_bytes});
  }

  take_slot(exported);
  exported.is_withdrawn = false;
  Token token;
  token.backend = static_cast<uint16_t>(exported.kind);
  token.is_bundle = exported.is_table();
  token.gpu = exported.gpu;
  token.exporter = exporter_;
  token.secret = exported.secret;
  token.block = exported.id;
  token.number = number(exported, options);
  token.offset = offset;
  token.bytes = bytes;
  // Imports that are counted ask, and those that get a pad.
  const bool must_ask = options.hold_imports != 0 || pad;
  token.slot = must_ask ? kNoSlot : exported.slot;
  if (pad) {
    std::erase_if(exported.pads, [](const auto& entry) { return entry.second->is_over(); });
    exported.pads.emplace(token.number, std::move(pad));
  }
  return token;
}

std::shared_ptr<OwnedPad> Exports::pad_of(const Token& token) {
  const Export& exported = require_valid(token);
  const auto found = exported.pads.find(token.number);
  return found == exported.pads.end() ? nullptr : found->second;
}

// A pad whose token has ended stays as long as somebody may put by it, for the fences.
void Exports::end_pads(Export& exported, uint64_t offset, uint64_t bytes) {
  std::erase_if(exported.pads, [&](const auto& entry) {
    if (entry.second->overlaps(offset, bytes)) entry.second->end();
    return entry.second->is_over();
  });
}

Export& Exports::require_valid(const Token& token) {
  if (token.exporter != exporter_) {
    throw Error(Status::invalid_argument, "token: it is of another exporter");
  }

  Export* exported = find(token.block);
  const char* over = "token: the memory was released by its owner";
  if (exported == nullptr) {
    if (token.block == 0 || token.block > last_id_) {
      throw Error(Status::invalid_argument, "token: it is forged: no such block");
    }
    throw Error(Status::invalid_handle, over);
  }

  if (!same_secret(exported->secret, token.secret)) {
    throw Error(Status::invalid_argument, "token: it is forged: its secret is wrong");
  }

  if (token.is_bundle != exported->is_table()) {
    throw Error(Status::invalid_argument, "token: it is forged: a bundle, or none");
  }

  if (token.number > last_number_) {
    throw Error(Status::invalid_argument, "token: it is forged: its number was never issued");
  }

  if (token.offset + token.bytes > exported->bytes) {
    throw Error(Status::invalid_argument, "token: it is forged: no such piece");
  }

  const auto hold = exported->holds.find(token.number);
  if (exported->released && (hold == exported->holds.end() || hold->second.until.expired())) {
    throw Error(Status::invalid_handle, over);
  }

  if (was_freed(*exported)) throw Error(Status::invalid_handle, over);

  if (token.number < exported->valid_from ||
      exported->withdrawn.covers({token.block, token.offset, token.bytes}, token.number)) {
    throw Error(Status::invalid_handle, "token: the memory was withdrawn by its owner");
  }

  return *exported;
}

// Does something to an export, and to the blocks of a bundle if it is the table of one.
template <class Change>
void Exports::with_parts(uint64_t id, const Change& change) {
  Export* const exported = find(id);
  if (exported == nullptr) return;
  change(*exported);
  for (const Export::Part& part : exported->parts) {
    if (Export* const block = find(part.block)) change(*block);
  }
}

void Exports::leased(const Lease& lease, uint64_t number) {
  with_parts(lease.block, [&](Export& exported) {
    ++exported.leases;
    const auto hold = exported.holds.find(number);
    if (hold == exported.holds.end() || hold->second.imports == 0) return;
    --hold->second.imports;
    if (hold->second.imports == 0) exported.holds.erase(hold);
  });
}

void Exports::ended(const Lease& lease) noexcept {
  with_parts(lease.block, [](Export& exported) {
    if (exported.leases > 0) --exported.leases;
  });
}

void Exports::quarantine(const Lease& lease) noexcept {
  with_parts(lease.block, [](Export& exported) { exported.quarantined = true; });
}

std::vector<Lease> Exports::bundles_with(const Lease& range) const {
  std::vector<Lease> found;
  for (const uint64_t id : tables_) {
    const Export& table = exports_.at(id);
    const bool has_part =
        std::any_of(table.parts.begin(), table.parts.end(), [&](const Export::Part& part) {
          return range.overlaps({part.block, part.offset, part.bytes});
        });
    if (has_part) found.push_back({id, 0, table.bytes});
  }
  return found;
}

Export* Exports::find_table(std::span<const std::byte> bytes) noexcept {
  for (const uint64_t id : tables_) {
    Export& table = exports_.at(id);
    if (!table.released && table.bytes == bytes.size() &&
        std::memcmp(table.memory->data(), bytes.data(), bytes.size()) == 0) {
      return &table;
    }
  }
  return nullptr;
}

// The token of a bundle ends as a whole, and its table with it: the next bundle has another one.
void Exports::end(Export& table, uint64_t before) {
  table.valid_from = before;
  table.withdrawn.clear();
  table.holds.clear();
  table.is_withdrawn = true;
  if (!table.released) release(table);
}

void Exports::withdraw(Export& exported, uint64_t offset, uint64_t bytes) {
  const uint64_t before = next_number();
  if (exported.is_table()) return end(exported, before);
  end_pads(exported, offset, bytes);
  for (const Lease& bundle : bundles_with({exported.id, offset, bytes})) {
    end(exports_.at(bundle.block), before);
  }
  if (bytes == exported.bytes) {
    exported.valid_from = before;
    exported.withdrawn.clear();
    exported.holds.clear();
    exported.is_withdrawn = true;
  } else {
    exported.withdrawn.add(offset, bytes, before);
  }
  board_.publish(exported.slot, regions_of(exported.bytes, offset, bytes), before);
}

void Exports::release(Export& exported) {
  by_address_.erase(exported.memory->data());
  exported.released = true;
  end_pads(exported, 0, exported.bytes);
  board_.publish(exported.slot, kWhole, kVoid);
  unsettled_.emplace(exported.id, false);
  if (exported.is_table()) return;
  for (const Lease& bundle : bundles_with({exported.id, 0, exported.bytes})) {
    Export& table = exports_.at(bundle.block);
    if (!table.released) release(table);
  }
}

Exports::Freed Exports::settle(
    std::vector<std::shared_ptr<Block>>& garbage, std::vector<Retired>& retired) {
  Freed freed;
  for (auto at = unsettled_.begin(); at != unsettled_.end();) {
    Export& exported = exports_.at(at->first);
    std::erase_if(exported.holds, [](const auto& hold) { return hold.second.until.expired(); });
    if (!exported.holds.empty()) {
      for (const auto& [number, hold] : exported.holds) {
        freed.next = std::min(freed.next, hold.until);
      }
      ++at;
      continue;
    }
    if (exported.memory) garbage.push_back(std::move(exported.memory));
    if (!at->second) retired.push_back({exported.id, exported.is_withdrawn});
    at->second = true;
    if (exported.leases != 0) {
      ++at;
      continue;
    }
    if (exported.is_table()) {
      tables_.erase(exported.id);
    } else {
      ++freed.blocks;
      freed.bytes += exported.bytes;
    }
    if (exported.slot != kNoSlot) free_slots_.push_back(exported.slot);
    exports_.erase(at->first);
    at = unsettled_.erase(at);
  }

  return freed;
}

void Exports::add_to(symm_ipc_stats_t& stats) const noexcept {
  for (const auto& [id, exported] : exports_) {
    if (exported.is_table()) continue;  // its blocks count
    const bool importable = !exported.released || !exported.holds.empty();
    stats.exported_blocks += importable ? 1 : 0;
    stats.exported_bytes += importable ? exported.bytes : 0;
    stats.leased_blocks += exported.leases != 0 ? 1 : 0;
    stats.limbo_blocks += exported.released ? 1 : 0;
    stats.limbo_bytes += exported.released ? exported.bytes : 0;
    stats.quarantined_blocks += exported.quarantined ? 1 : 0;
    stats.quarantined_bytes += exported.quarantined ? exported.bytes : 0;
  }
}

size_t Exports::in_limbo() const {
  return static_cast<size_t>(std::count_if(unsettled_.begin(), unsettled_.end(),
      [this](const auto& entry) { return !exports_.at(entry.first).is_table(); }));
}

void Exports::add_to(symm_ipc_collect_stats_t& report) const {
  for (const auto& [id, told] : unsettled_) {
    const Export& exported = exports_.at(id);
    report.limbo_blocks += exported.is_table() ? 0 : 1;
    report.limbo_bytes += exported.is_table() ? 0 : exported.bytes;
  }
}
}  // namespace symm::ipc
