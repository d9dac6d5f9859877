// Finds the memory of a group that maps an address, and the rank whose block it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"

namespace symm {
class Memory;

class AddressMap final : public MemoryDirectory {
 public:
  explicit AddressMap(const int& rank) : rank_(rank) {}

  void insert(const std::shared_ptr<const MemoryView>& view, const std::weak_ptr<Memory>& memory);
  void erase(const MemoryView& view) noexcept;

  struct Found {
    std::shared_ptr<Memory> memory;
    int rank = 0;
    size_t offset = 0;
  };
  // Finds a block of any rank. `memory` is null if no block contains the address.
  Found find(const void* address) const;

  std::shared_ptr<const MemoryView> containing(
      const void* address, size_t bytes, size_t* offset) const override;
  std::shared_ptr<const MemoryView> numbered(uint64_t id) const override;

 private:
  struct Entry {
    std::shared_ptr<const MemoryView> view;
    std::weak_ptr<Memory> memory;
    int rank;
  };
  // The entry of an address, and how far into the block it is.
  struct Place {
    const Entry* entry = nullptr;
    size_t offset = 0;
  };
  Place place_of(uintptr_t address) const;

  const int& rank_;
  mutable std::shared_mutex mutex_;
  // The blocks by the start of their mapping. A buffer that went through two rendezvous of one
  // group has two memories at one address: the newest is found.
  std::map<uintptr_t, std::vector<Entry>> intervals_;
  // Adopted memory by its owner's addresses, which may overlap: the newest is found.
  std::vector<std::pair<uintptr_t, Entry>> adopted_;
  std::unordered_map<uint64_t, std::shared_ptr<const MemoryView>> views_;
};
}  // namespace symm
