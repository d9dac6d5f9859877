// A multicast object: one address on each rank, through which stores reach
// the blocks of all ranks and loads combine them. It is made in steps, and
// between any two of them all ranks must have done the one before, because
// the driver waits for devices that have not joined, and whoever imports
// late gets another object. Whatever fails anywhere, all ranks drop it.
#pragma once

#include <span>

#include "core/backend/backend.hpp"
#include "core/base/environment.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/kernels.hpp"

namespace symm::cuda {
class Multicast final : public Block {
 public:
  // Blocks must be a multiple of so many bytes. The least that the driver takes: what
  // it recommends may be hundreds of megabytes.
  static size_t granularity(const Device& device, int ranks);

  Multicast(std::shared_ptr<Device> device, int ranks, size_t bytes);
  ~Multicast() override;
  Multicast(Multicast&&) = delete;

  Fd create();                  // on rank 0: the object, to be handed out
  void join(const Fd& object);  // on all, rank 0 too: import it and add this rank's device
  // when all have joined: this rank's block becomes the device's part
  void bind(const Allocation& block);
  void map();  // when all have bound
  // when all have mapped, or given up: rank 0 lets go of what create() made
  void complete();

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
  // of the block, a reference of our own: it must not go before it is unbound
  CUmemGenericAllocationHandle memory_ = 0;
  CUdeviceptr address_ = 0;
};

// [collective] All the steps and votes, for blocks of which `bytes` are mapped on every
// rank. Null, on all ranks, if `trouble` is not empty on one of them or a step fails
// there: then *reason says why, and nothing is left.
std::shared_ptr<Multicast> make_multicast(const std::shared_ptr<Device>& device, int rank,
    int ranks, const Allocation& block, size_t bytes, const std::string& trouble,
    OutOfBand& out_of_band, std::string* reason);

// Whether a group's memories are given multicast addresses: off unless asked
// for, and refused on all ranks for any reason that one of them has. A pure
// function of what the ranks tell each other when the group is formed. What
// bears on it on one rank. Travels to all others, so plain data.
struct MulticastFacts {
  Uuid device{};
  int32_t asked = 0;  // by the group's configuration or SYMM_MULTICAST=1
  // by the environment: 1 + the place of the variable in the list of multicast.cpp; 0: by none
  int32_t forbidden = 0;
  int32_t has_calls = 0;  // the driver knows multicast
  int32_t supported = 0;  // and the device
};

using ReadVariable = std::function<const char*(Variable)>;  // environment()

// `asked` and `forbidden`. A variable that cannot be understood counts as a no.
MulticastFacts read_wish(bool config, const ReadVariable& read);
MulticastFacts multicast_facts(const Device& device, bool config, const ReadVariable& read);

// "": yes. Otherwise why not, the same for all ranks: "rank 2: NCCL_NVLS_ENABLE=0 is set".
std::string why_no_multicast(std::span<const MulticastFacts> ranks);
// Why a device would not, whoever asks.
std::string why_no_multicast(const MulticastFacts& facts);

// Multicast in a group: whether, for which memories,
// and where the multimem kernels find their operands.
class MulticastMemories {
 public:
  MulticastMemories(const TransportContext& context, std::shared_ptr<Device> device)
      : context_(context), device_(std::move(device)), facts_(static_cast<size_t>(context.size)) {}

  MulticastFacts& facts(int rank) { return facts_[static_cast<size_t>(rank)]; }
  const MulticastFacts& facts(int rank) const { return facts_[static_cast<size_t>(rank)]; }
  // All ranks' facts are here: decide, and load the kernels where there is multicast.
  void choose(Kernels& kernels);
  const std::string& why_not() const noexcept { return why_; }  // "": there is
  size_t unit() const noexcept { return unit_; }
  void add(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks,
      OutOfBand& out_of_band);

  // Where a multimem kernel finds an operand, or why it cannot.
  struct Place {
    uint64_t address = 0, memory = 0, offset = 0;
    std::string reason;
  };
  Place place(const char* operand, const void* pointer, size_t bytes) const;
  std::string why_no_multimem(const CollectiveCall& call) const;

 private:
  const TransportContext& context_;
  std::shared_ptr<Device> device_;
  std::vector<MulticastFacts> facts_;  // by group rank
  std::string why_ = "the group is not formed yet";
  std::string trouble_;  // of this rank, for the vote in every rendezvous
  size_t unit_ = 1;
};
}  // namespace symm::cuda
