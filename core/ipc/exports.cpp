// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/exports.hpp"

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

bool Withdrawn::covers(const Piece& piece, uint64_t number) const {
  auto at = ranges_.upper_bound(piece.offset);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < piece.offset + piece.bytes; ++at) {
    if (at->second.end > piece.offset && number < at->second.before) return true;
  }
  return false;
}

ExportedBlock& Exports::add(std::shared_ptr<Block> memory, const Provider& provider, int device) {
  ExportedBlock block;
  block.id = last_block_ + 1;
  block.secret = random_id();
  block.kind = provider.kind();
  block.device = device;
  block.gpu = provider.gpu(device);
  block.bytes = memory->size();
  block.mapped_bytes = memory->share().extent.mapped;
  block.block = std::move(memory);
  block.valid_from = next_number();
  if (!free_slots_.empty()) {
    block.slot = free_slots_.back();
    free_slots_.pop_back();
  } else if (used_slots_ < kSlots) {
    block.slot = used_slots_++;
  }
  ExportedBlock& added = blocks_.emplace(block.id, std::move(block)).first->second;
  ++last_block_;
  publish(added, kWhole, added.valid_from);
  return added;
}

ExportedBlock* Exports::find(uint64_t id) noexcept {
  const auto found = blocks_.find(id);
  return found == blocks_.end() ? nullptr : &found->second;
}

void Exports::publish(const ExportedBlock& block, Regions regions, uint64_t valid_from) noexcept {
  if (block.slot == kNoSlot) return;
  for (uint64_t i = regions.first; i <= regions.last; ++i) {
    board_.valid_from[block.slot][i].store(valid_from, std::memory_order_seq_cst);
  }
}

uint64_t Exports::next_number() noexcept {
  board_.newest.store(++last_number_, std::memory_order_release);
  return last_number_;
}

uint64_t Exports::number(ExportedBlock& block, uint64_t hold_ms, uint64_t hold_imports) {
  if (hold_ms == 0) return last_number_;
  const uint64_t number = next_number();
  next_number();  // no other token has the number of a held one
  block.holds.emplace(number, ExportedBlock::Hold{Deadline::after_ms(hold_ms), hold_imports});
  return number;
}

ExportedBlock& Exports::require_valid(const Token& token) {
  ExportedBlock* block = find(token.block);
  const char* over = "token: the memory was released by its owner";
  if (block == nullptr) {
    if (token.block == 0 || token.block > last_block_)
      throw Error(Status::invalid_argument, "token: it is forged: no such block");
    throw Error(Status::invalid_handle, over);
  }
  if (!same_secret(block->secret, token.secret)) {
    throw Error(Status::invalid_argument, "token: it is forged: its secret is wrong");
  }
  if (token.number > last_number_) throw Error(Status::invalid_argument, "token: it is forged: its number is of the future");
  if (token.offset + token.bytes > block->bytes) throw Error(Status::invalid_argument, "token: it is forged: no such piece");
  const auto hold = block->holds.find(token.number);
  if (block->released && (hold == block->holds.end() || hold->second.until.expired())) throw Error(Status::invalid_handle, over);
  if (token.number < block->valid_from || block->withdrawn.covers({token.block, token.offset, token.bytes}, token.number)) {
    throw Error(Status::invalid_handle, "token: the memory was withdrawn by its owner");
  }
  return *block;
}

void Exports::leased(const Piece& piece, uint64_t number) {
  ExportedBlock* block = find(piece.block);
  if (block == nullptr) return;
  ++block->leases;
  const auto hold = block->holds.find(number);
  if (hold != block->holds.end() && hold->second.imports != 0 && --hold->second.imports == 0) block->holds.erase(hold);
}

void Exports::ended(const Piece& piece) noexcept {
  ExportedBlock* block = find(piece.block);
  if (block != nullptr && block->leases > 0) --block->leases;
}

void Exports::quarantine(const Piece& piece) noexcept {
  if (ExportedBlock* block = find(piece.block)) block->quarantined = true;
}

void Exports::withdraw(ExportedBlock& block, uint64_t offset, uint64_t bytes) {
  const uint64_t before = next_number();
  if (bytes == block.bytes) {
    block.valid_from = before;
    block.withdrawn.clear();
    block.holds.clear();
  } else {
    block.withdrawn.add(offset, bytes, before);
  }
  publish(block, regions_of(block.bytes, offset, bytes), before);
}

void Exports::release(ExportedBlock& block) {
  block.released = true;
  publish(block, kWhole, kVoid);
  unsettled_.emplace(block.id, false);
}

void Exports::each_in_limbo(const std::function<void(const ExportedBlock&)>& visit) const {
  for (const auto& [id, told] : unsettled_) visit(blocks_.at(id));
}

Freed Exports::settle(std::vector<std::shared_ptr<Block>>& garbage, std::vector<uint64_t>& retired) {
  Freed freed;
  for (auto at = unsettled_.begin(); at != unsettled_.end();) {
    ExportedBlock& block = blocks_.at(at->first);
    std::erase_if(block.holds, [](const auto& hold) { return hold.second.until.expired(); });
    if (!block.holds.empty()) {
      ++at;
      continue;
    }
    if (block.block) garbage.push_back(std::move(block.block));
    if (!at->second) retired.push_back(block.id);
    at->second = true;
    if (block.leases != 0) {
      ++at;
      continue;
    }
    ++freed.blocks;
    freed.bytes += block.bytes;
    if (block.slot != kNoSlot) free_slots_.push_back(block.slot);
    blocks_.erase(at->first);
    at = unsettled_.erase(at);
  }
  return freed;
}

}  // namespace symm::ipc
