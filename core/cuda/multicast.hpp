// A multicast object: one address on each rank, through which stores reach the blocks of all ranks
// and loads combine them. It is made in steps. All ranks must have done one step before any does
// the next, because the driver waits for devices that have not joined, and a rank that imports late
// gets another object. If a step fails on any rank, all ranks drop the object.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/backend/backend.hpp"
#include "core/base/fd.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
class Multicast final : public Block {
 public:
  // The size of a block must be a multiple of this. It is the least that the driver accepts:
  // the value that it recommends may be hundreds of megabytes.
  static size_t granularity(const Device& device, int ranks);

  Multicast(std::shared_ptr<Device> device, int ranks, size_t bytes);
  ~Multicast() override;
  Multicast(Multicast&&) = delete;

  // The calls below are the steps of a creation, in their order.
  //
  // On rank 0: makes the object, to be handed out.
  Fd create();
  // On all ranks, rank 0 too: imports the object and adds this rank's device.
  void join(const Fd& object);
  // When all have joined: makes this rank's block the device's part of the object.
  void bind(const Allocation& block);
  // When all have bound: maps the object.
  void map();
  // When all have mapped, or given up: rank 0 releases what create() made.
  void complete();

  std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  size_t size() const noexcept override { return bytes_; }

 private:
  const Driver& driver() const noexcept { return device_->driver(); }

  std::shared_ptr<Device> device_;
  int ranks_;
  size_t bytes_;
  bool has_created_ = false;
  bool has_object_ = false;
  bool has_memory_ = false;
  bool is_bound_ = false;
  bool is_reserved_ = false;
  bool is_mapped_ = false;
  CUmemGenericAllocationHandle created_ = 0;
  // The object as imported.
  CUmemGenericAllocationHandle object_ = 0;
  // A reference to the block's memory, which must not go before it is unbound.
  CUmemGenericAllocationHandle memory_ = 0;
  CUdeviceptr address_ = 0;
};

// [collective] Does all the steps and votes, for blocks of which `bytes` are mapped on every rank.
// Null, on all ranks, if `trouble` is not empty on one of them or if a step fails there: then
// *reason says why, and nothing is left.
std::shared_ptr<Multicast> make_multicast(const std::shared_ptr<Device>& device, int rank,
    int ranks, const Allocation& block, size_t bytes, const std::string& trouble,
    OutOfBand& out_of_band, std::string* reason);
}  // namespace symm::cuda
