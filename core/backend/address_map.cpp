// The map of a group's mapped blocks, by address. Any thread may query it. It changes when
// a memory is added or removed.
#include "core/backend/address_map.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "core/backend/backend.hpp"

namespace symm {
namespace {
uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }
}  // namespace

void AddressMap::insert(
    const std::shared_ptr<const MemoryView>& view, const std::weak_ptr<Memory>& memory) {
  const std::unique_lock lock(mutex_);
  for (size_t rank = 0; rank < view->blocks.size(); ++rank) {
    if (view->blocks[rank] != nullptr) {
      intervals_[number(view->blocks[rank])].push_back({view, memory, static_cast<int>(rank)});
    }
  }
  if (view->adopted != nullptr) {
    adopted_.push_back({number(view->adopted->owners_address()), {view, memory, rank_}});
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
  std::erase_if(adopted_, [&](const auto& entry) { return entry.second.view->id == view.id; });
  views_.erase(view.id);
  changed();
}

AddressMap::Place AddressMap::place_of(uintptr_t address) const {
  if (const auto after = intervals_.upper_bound(address); after != intervals_.begin()) {
    const auto& [start, entries] = *std::prev(after);
    // Buffers at one address have one size, that of the block.
    if (address - start < entries.back().view->bytes) return {&entries.back(), address - start};
  }

  for (auto entry = adopted_.rbegin(); entry != adopted_.rend(); ++entry) {
    const MemoryView& view = *entry->second.view;
    const size_t offset = address - entry->first;
    // The owner may have mapped other memory at the address since.
    if (offset < view.bytes && view.adopted->still_at_owner()) return {&entry->second, offset};
  }

  return {};
}

AddressMap::Found AddressMap::find(const void* address) const {
  const std::shared_lock lock(mutex_);
  const auto [entry, offset] = place_of(number(address));
  if (entry == nullptr) return {};
  return {entry->memory.lock(), entry->rank, offset};
}

std::shared_ptr<const MemoryView> AddressMap::containing(
    const void* address, size_t bytes, size_t* offset) const {
  const std::shared_lock lock(mutex_);
  const auto [entry, at] = place_of(number(address));
  if (entry == nullptr || entry->rank != rank_) return nullptr;
  *offset = at;
  return bytes <= entry->view->bytes - at ? entry->view : nullptr;
}

std::shared_ptr<const MemoryView> AddressMap::numbered(uint64_t id) const {
  const std::shared_lock lock(mutex_);
  const auto found = views_.find(id);
  return found != views_.end() ? found->second : nullptr;
}
}  // namespace symm
