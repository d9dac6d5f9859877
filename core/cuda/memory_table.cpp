// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory_table.hpp"

#include <algorithm>

namespace symm::cuda {

void MemoryTable::add(const MemoryEntry& entry) {
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(entries_.begin(), entries_.end(), [](const MemoryEntry& known) { return known.id == 0; });
  if (free == entries_.end())
    throw Error(Status::out_of_memory, format("a group on the CUDA back end has at most %d memories", kMaxMemories));
  write(static_cast<size_t>(free - entries_.begin()), entry);
}

void MemoryTable::erase(uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const MemoryEntry& known) { return known.id == id; });
  if (found == entries_.end()) return;
  try {
    write(static_cast<size_t>(found - entries_.begin()), {});
  } catch (const Error&) {  // then the device is in error, and nobody looks there any more
  }
}

void MemoryTable::write(size_t index, const MemoryEntry& entry) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  driver.require(driver.cuMemcpyAsync(address_ + index * sizeof entry, address_of(&entry), sizeof entry, device_->stream()),
                 "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
  entries_[index] = entry;
}

}  // namespace symm::cuda
