// Multicast in a group: whether, for which memories, and where the multimem kernels find their operands.
#pragma once

#include "core/backend/backend.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast_choice.hpp"

namespace symm::cuda {
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
  void add(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks, OutOfBand& out_of_band);

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
