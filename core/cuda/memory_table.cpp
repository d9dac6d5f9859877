// Writes where each memory of the group is mapped into tables that kernels read.
#include "core/cuda/memory_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/signal_pad.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
void MemoryTable::add(const MemoryView& memory) {
  MemoryEntryOf<kMaxRanks> added{};
  added.id = memory.id;
  added.bytes = memory.bytes;
  for (size_t rank = 0; rank < memory.blocks.size(); ++rank) {
    added.block[rank] = address_of(memory.blocks[rank]);
  }

  const std::lock_guard lock(mutex_);
  const auto free = std::find(ids_.begin(), ids_.end(), 0U);
  if (free == ids_.end()) {
    throw Error(Status::out_of_memory,
        format("a group on the CUDA back end has at most %d memories", kMaxMemories));
  }
  write(static_cast<size_t>(free - ids_.begin()), added);
}

void MemoryTable::erase(uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return;

  try {
    write(static_cast<size_t>(found - ids_.begin()), {});
  } catch (const std::exception&) {
    // The device is in error, so no kernel searches the table any more.
  }
}

void MemoryTable::write(size_t index, const MemoryEntryOf<kMaxRanks>& entry) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  // An entry begins alike in both kinds of groups; the blocks of more ranks follow.
  driver.require(driver.cuMemcpyAsync(address_ + index * entry_bytes_, address_of(&entry),
                     entry_bytes_, device_->stream()),
      "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
  ids_[index] = entry.id;
}

void write_addresses(const Device& device, const MemoryView& memory, int rank) {
  std::vector<std::byte*> tables(memory.blocks);
  tables.insert(tables.end(), memory.pads.begin(), memory.pads.end());

  const Driver& driver = device.driver();
  std::byte* const pad =
      memory.own_tables != nullptr ? memory.own_tables : memory.pads[static_cast<size_t>(rank)];
  const CUdeviceptr to = address_of(pad) + tables_offset(memory);
  driver.require(driver.cuMemcpyAsync(to, address_of(static_cast<void*>(tables.data())),
                     tables.size() * sizeof tables[0], device.stream()),
      "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(device.stream()), "cuStreamSynchronize");
}

DeviceTransport::Tables addresses_of(const MemoryView& memory, int rank) {
  std::byte* const pad = memory.pads[static_cast<size_t>(rank)];
  auto* const tables = reinterpret_cast<void* const*>(pad + tables_offset(memory));
  return {tables, tables + memory.blocks.size(), pad + taken_offset(memory)};
}
}  // namespace symm::cuda
