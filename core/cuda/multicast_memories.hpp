// Multicast in a group: whether there is any, for which memories, and where multimem kernels find
// their operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast_choice.hpp"
#include "kernels/collective_call.hpp"

namespace symm::cuda {
class MulticastMemories {
 public:
  MulticastMemories(const TransportContext& context, std::shared_ptr<Device> device)
      : context_(context), device_(std::move(device)), facts_(static_cast<size_t>(context.size)) {}

  MulticastFacts& facts(int rank) { return facts_[static_cast<size_t>(rank)]; }
  const MulticastFacts& facts(int rank) const { return facts_[static_cast<size_t>(rank)]; }

  // Called when the facts of all ranks are here: decides, and loads the kernels if there is
  // multicast.
  void choose(Kernels& kernels);
  // Why there is no multicast; "" if there is.
  const std::string& why_not() const noexcept { return why_; }
  size_t unit() const noexcept { return unit_; }

  // [collective] Gives a memory its multicast address, or the reason.
  void add(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks,
      OutOfBand& out_of_band);

  // The place where a multimem kernel finds an operand, or the reason why there is none.
  struct Operand {
    uint64_t address = 0;
    uint64_t memory = 0;
    uint64_t offset = 0;
    std::string reason;
  };
  Operand find(const char* name, const void* pointer, size_t bytes) const;
  std::string why_no_multimem(const CollectiveCall& call) const;

 private:
  std::string trouble_with(const Allocation& block) const;

  const TransportContext& context_;
  std::shared_ptr<Device> device_;
  // By group rank.
  std::vector<MulticastFacts> facts_;
  std::string why_ = "the group is not formed yet";
  // The failure of this rank, for the vote in every rendezvous.
  std::string trouble_;
  size_t unit_ = 1;
};
}  // namespace symm::cuda
