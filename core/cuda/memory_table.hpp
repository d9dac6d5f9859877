// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/device.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {

// The memories of a group, in this rank's control block, where kernels look up those that peers name.
class MemoryTable {
 public:
  MemoryTable(std::shared_ptr<Device> device, CUdeviceptr address)
      : device_(std::move(device)), address_(address), entries_(static_cast<size_t>(kMaxMemories)) {}
  void add(const MemoryEntry& entry);
  void erase(uint64_t id) noexcept;

 private:
  void write(size_t index, const MemoryEntry& entry);
  std::shared_ptr<Device> device_;
  CUdeviceptr address_;
  std::mutex mutex_;
  std::vector<MemoryEntry> entries_;
};

}  // namespace symm::cuda
