// The tables by which kernels find the memories of a group: symm's by their number, in a table
// in this rank's control block; the user's by the addresses in a signal pad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
class MemoryTable {
 public:
  // `is_large`: the entries are those of a large group.
  MemoryTable(std::shared_ptr<Device> device, CUdeviceptr address, bool is_large)
      : device_(std::move(device)),
        address_(address),
        entry_bytes_(
            is_large ? sizeof(MemoryEntryOf<kMaxRanks>) : sizeof(MemoryEntryOf<kSmallRanks>)),
        ids_(static_cast<size_t>(kMaxMemories)) {}

  // Throws Error(out_of_memory) if the table is full.
  void add(const MemoryView& memory);
  void erase(uint64_t id) noexcept;

 private:
  // Writes as much of the entry as the group's entries have.
  void write(size_t index, const MemoryEntryOf<kMaxRanks>& entry);

  std::shared_ptr<Device> device_;
  CUdeviceptr address_;
  size_t entry_bytes_;
  std::mutex mutex_;
  // The numbers of the memories in the table, by entry.
  std::vector<uint64_t> ids_;
};

// Writes the addresses of all ranks' blocks and pads behind the words of this rank's pad
// (signal_pad.hpp). The device's context must be current.
void write_addresses(const Device& device, const MemoryView& memory, int rank);

// The addresses of the tables of a memory.
DeviceTransport::Tables addresses_of(const MemoryView& memory, int rank);
}  // namespace symm::cuda
