// SPDX-License-Identifier: Apache-2.0
#include "core/address_map.hpp"

#include <algorithm>
#include <mutex>

namespace symm {
namespace {

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

void AddressMap::insert(const std::shared_ptr<const MemoryView>& view, const std::weak_ptr<Memory>& memory) {
  const std::unique_lock lock(mutex_);
  for (size_t rank = 0; rank < view->blocks.size(); ++rank) {
    intervals_[number(view->blocks[rank])].push_back({view, memory, static_cast<int>(rank)});
  }
  views_[view->id] = view;
  changed();
}

void AddressMap::erase(const MemoryView& view) noexcept {
  const std::unique_lock lock(mutex_);
  for (const std::byte* block : view.blocks) {
    const auto found = intervals_.find(number(block));
    if (found == intervals_.end()) continue;
    std::erase_if(found->second, [&](const Entry& entry) { return entry.view->id == view.id; });
    if (found->second.empty()) intervals_.erase(found);
  }
  views_.erase(view.id);
  changed();
}

const AddressMap::Entry* AddressMap::entry_at(uintptr_t address) const {
  auto after = intervals_.upper_bound(address);
  if (after == intervals_.begin()) return nullptr;
  const auto& [start, entries] = *std::prev(after);
  // Buffers at one address have one size, that of the block.
  return address - start < entries.back().view->bytes ? &entries.back() : nullptr;
}

AddressMap::Found AddressMap::find(const void* address) const {
  const std::shared_lock lock(mutex_);
  const Entry* entry = entry_at(number(address));
  if (entry == nullptr) return {};
  return {entry->memory.lock(), entry->rank, number(address) - number(entry->view->blocks[static_cast<size_t>(entry->rank)])};
}

std::shared_ptr<const MemoryView> AddressMap::containing(const void* address, size_t bytes, size_t* offset) const {
  const std::shared_lock lock(mutex_);
  const Entry* entry = entry_at(number(address));
  if (entry == nullptr || entry->rank != rank_) return nullptr;
  *offset = number(address) - number(entry->view->blocks[static_cast<size_t>(entry->rank)]);
  return bytes <= entry->view->bytes - *offset ? entry->view : nullptr;
}

std::shared_ptr<const MemoryView> AddressMap::numbered(uint64_t id) const {
  const std::shared_lock lock(mutex_);
  const auto found = views_.find(id);
  return found != views_.end() ? found->second : nullptr;
}

}  // namespace symm
