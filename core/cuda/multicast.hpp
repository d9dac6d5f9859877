// A multicast object: one address on each rank, through which stores reach the blocks of all ranks and loads combine them. It is
// made in steps, and between any two of them all ranks must have done the one before, because the driver waits for devices
// that have not joined, and whoever imports late gets another object. Whatever fails anywhere, all ranks drop it.
#pragma once

#include "core/cuda/allocation.hpp"

namespace symm::cuda {
class Multicast final : public Block {
 public:
  // Blocks must be a multiple of so many bytes. The least that the driver takes: what it recommends may be hundreds of megabytes.
  static size_t granularity(const Device& device, int ranks);

  Multicast(std::shared_ptr<Device> device, int ranks, size_t bytes);
  ~Multicast() override;
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  Fd create();                         // on rank 0: the object, to be handed out
  void join(const Fd& object);         // on all, rank 0 too: import it and add this rank's device
  void bind(const Allocation& block);  // when all have joined: this rank's block becomes the device's part
  void map();                          // when all have bound
  void complete();                     // when all have mapped, or given up: rank 0 lets go of what create() made

  std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  size_t size() const noexcept override { return bytes_; }
 private:
  const Driver& driver() const noexcept { return device_->driver(); }

  std::shared_ptr<Device> device_;
  int ranks_;
  size_t bytes_;
  bool has_created_ = false, has_object_ = false, has_memory_ = false;
  bool is_bound_ = false, is_reserved_ = false, is_mapped_ = false;
  CUmemGenericAllocationHandle created_ = 0;
  CUmemGenericAllocationHandle object_ = 0;  // as imported
  CUmemGenericAllocationHandle memory_ = 0;  // of the block, a reference of our own: it must not go before it is unbound
  CUdeviceptr address_ = 0;
};

// [collective] All the steps and votes, for blocks of which `bytes` are mapped on every rank. Null, on all ranks, if `trouble` is
// not empty on one of them or a step fails there: then *reason says why, and nothing is left.
std::shared_ptr<Multicast> make_multicast(const std::shared_ptr<Device>& device, int rank, int ranks, const Allocation& block,
    size_t bytes, const std::string& trouble, OutOfBand& out_of_band, std::string* reason);
}  // namespace symm::cuda
