#include "core/cuda/multicast_memories.hpp"
#include "core/cuda/multicast.hpp"
#include "kernels/cuda/plan.hpp"

namespace symm::cuda {
// All ranks' facts are here. What fails on this rank alone must wait for a vote, and a rendezvous has one.
void MulticastMemories::choose(Kernels& kernels) {
  why_ = context_.machines.count > 1 ? "the group is on several machines" : why_no_multicast(facts_);
  if (!why_.empty()) return;
  try {
    unit_ = Multicast::granularity(*device_, context_.size);
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    for (const std::string& name : kernel_names(context_.size, true)) kernels.load(name);
    kernels.make_ready();
  } catch (const Error& error) { trouble_ = error.what(); }
}

void MulticastMemories::add(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks, OutOfBand& out_of_band) {
  memory.why_no_multicast = why_;
  if (!why_.empty()) return;
  const auto allocation = [&](size_t rank) -> const Allocation& { return static_cast<const Allocation&>(*blocks[rank]); };
  const Allocation& mine = allocation(static_cast<size_t>(context_.rank));
  size_t bytes = mine.mapped();
  for (size_t rank = 0; rank < blocks.size(); ++rank) bytes = std::min(bytes, allocation(rank).mapped());
  std::string trouble = trouble_;
  const BlockExtent extent = mine.extent();
  if (trouble.empty() && extent.on_host != 0) trouble = "its block is memory of the host";
  if (trouble.empty() && extent.offset != 0) trouble = "its block begins inside an adopted allocation";
  if (trouble.empty() && mine.mapped() % unit_ != 0)
    trouble = format("its block of %zu bytes is no multiple of %zu; allocate it on a group with multicast", mine.mapped(), unit_);
  const auto made =
      make_multicast(device_, context_.rank, context_.size, mine, bytes, trouble, out_of_band, &memory.why_no_multicast);
  if (!made) return;
  memory.multicast = made->data();
  memory.owned.insert(memory.owned.begin(), made);
}

MulticastMemories::Place MulticastMemories::place(const char* operand, const void* pointer, size_t bytes) const {
  Place place;
  size_t offset = 0;
  const auto memory = context_.directory->containing(pointer, bytes, &offset);
  if (!memory) {
    place.reason = format("%s is not in this rank's block of a memory of the group", operand);
  } else if (memory->multicast == nullptr) {
    place.reason = format("%s has no multicast address: %s", operand, memory->why_no_multicast.c_str());
  } else if (offset % kPack != 0) {
    place.reason = format("%s lies at byte %zu of its memory, which is no multiple of %u", operand, offset, kPack);
  } else {
    place.address = reinterpret_cast<uintptr_t>(memory->multicast) + offset;
    place.memory = memory->id;
    place.offset = offset;
  }
  return place;
}

std::string MulticastMemories::why_no_multimem(const CollectiveCall& call) const {
  const size_t bytes = call.unit();
  if (context_.size == 1 || bytes == 0) return "";
  if (std::string reason = place("send", call.send, bytes).reason; !reason.empty()) return reason;
  if (call.algorithm == Algorithm::multimem_two_shot) return place("recv", call.recv, bytes).reason;
  return call.recv == call.send ? "not in place: other ranks may still be loading from send" : "";
}
}  // namespace symm::cuda
