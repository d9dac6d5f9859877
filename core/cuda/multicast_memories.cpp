// Decides whether a group has multicast, gives its memories multicast addresses, and finds
// operands by them.
#include "core/cuda/multicast_memories.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast.hpp"
#include "core/cuda/multicast_choice.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
// A failure of this rank alone must wait for a vote, and a rendezvous has one.
void MulticastMemories::choose(Kernels& kernels) {
  why_ =
      context_.machines.count > 1 ? "the group is on several machines" : why_no_multicast(facts_);
  if (why_.empty() && context_.size > kSmallRanks) {
    why_ = format("the group has more than %d ranks", kSmallRanks);
  }
  // The object is handed out by its descriptor.
  if (why_.empty() && context_.machines.spans_hosts(context_.rank)) {
    why_ = "the group spans several hosts of an NVLink domain";
  }
  if (!why_.empty()) return;

  try {
    unit_ = Multicast::granularity(*device_, context_.size);
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    for (const std::string& name : kernel_names({.size = context_.size}, true)) {
      kernels.load(name);
    }
    kernels.make_ready();
  } catch (const Error& error) {
    trouble_ = error.what();
  }
}

void MulticastMemories::add(
    MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks, OutOfBand& out_of_band) {
  memory.why_no_multicast = why_;
  if (!why_.empty()) return;

  const auto allocation = [&](size_t rank) -> const Allocation& {
    return static_cast<const Allocation&>(*blocks[rank]);
  };
  const Allocation& mine = allocation(static_cast<size_t>(context_.rank));
  size_t bytes = mine.mapped();
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    bytes = std::min(bytes, allocation(rank).mapped());
  }

  const auto made = make_multicast(device_, context_.rank, context_.size, mine, bytes,
      trouble_with(mine), out_of_band, &memory.why_no_multicast);
  if (!made) return;
  memory.multicast = made->data();
  memory.owned.insert(memory.owned.begin(), made);
}

std::string MulticastMemories::trouble_with(const Allocation& block) const {
  if (!trouble_.empty()) return trouble_;

  const BlockExtent extent = block.extent();
  if (extent.on_host != 0) return "its block is memory of the host";
  if (extent.offset != 0) return "its block begins inside an adopted allocation";
  if (block.parts() != 1) return "its block lies in several adopted allocations";
  if (block.mapped() % unit_ != 0) {
    return format(
        "its block of %zu bytes is not a multiple of %zu; allocate it on a group with multicast",
        block.mapped(), unit_);
  }
  return "";
}

MulticastMemories::Operand MulticastMemories::find(
    const char* name, const void* pointer, size_t bytes) const {
  Operand operand;
  size_t offset = 0;
  const auto memory = context_.directory->containing(pointer, bytes, &offset);

  if (!memory) {
    operand.reason = format("%s is not in this rank's block of a memory of the group", name);
  } else if (memory->multicast == nullptr) {
    operand.reason =
        format("%s has no multicast address: %s", name, memory->why_no_multicast.c_str());
  } else if (offset % kPack != 0) {
    operand.reason = format(
        "%s lies at byte %zu of its memory, which is not a multiple of %u", name, offset, kPack);
  } else {
    operand.address = reinterpret_cast<uintptr_t>(memory->multicast) + offset;
    operand.memory = memory->id;
    operand.offset = offset;
  }
  return operand;
}

std::string MulticastMemories::why_no_multimem(const CollectiveCall& call) const {
  const size_t bytes = call.unit();
  if (context_.size == 1 || bytes == 0) return "";
  if (std::string reason = find("send", call.send, bytes).reason; !reason.empty()) return reason;
  if (call.algorithm == Algorithm::multimem_two_shot) return find("recv", call.recv, bytes).reason;
  return call.recv == call.send ? "not in place: other ranks may still be loading from send" : "";
}
}  // namespace symm::cuda
