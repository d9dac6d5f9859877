// Makes the arguments of a kernel of the sides of a call: which side comes after which, where each
// is received, and which slots of the stages the receives have that need any.
#include "core/cuda/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/stream_order.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"

namespace symm::cuda {
namespace {
// Sides of one kind with one rank on one channel.
using FlowName = std::tuple<bool, int, int>;

FlowName flow_of(const MessageSide& side) { return {side.is_send, side.rank, side.channel}; }

Operation operation_of(std::span<const MessageSide> sides) {
  if (sides.size() > 1) return Operation::messages;
  return sides[0].is_send ? Operation::send : Operation::recv;
}

std::string place_of(size_t index) { return format("messages[%zu]: ", index); }

// The sides of a call, as kernels get them.
class SideList {
 public:
  SideList(const DeviceGroup& group, std::span<const MessageSide> sides) : group_(group) {
    list_.reserve(sides.size());
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].rank == group.context.rank) {
        add_own(sides, i);
      } else {
        add(sides[i]);
      }
    }
    require_pairs(sides.size());
    for (const auto& [name, flow] : flows_) {
      list_[flow.back()].is_last = 1;
    }
    divide_slots();
  }

  const std::vector<SideArgs>& list() const noexcept { return list_; }

  // Parts that are worth a block, and sides that wait for words.
  uint64_t work() const noexcept {
    uint64_t parts = 0;
    for (const SideArgs& side : list_) {
      parts += std::max<uint64_t>(1, divide_up(side.bytes, kMessagePart));
    }
    return parts;
  }

 private:
  void add(const MessageSide& side) {
    std::vector<uint16_t>& flow = flows_[flow_of(side)];
    SideArgs made{};
    made.data = address_of(side.data);
    made.bytes = side.bytes;
    made.number = static_cast<uint16_t>(flow.size());
    made.before = flow.size() < kPosts ? SideArgs::kNone : flow[flow.size() - kPosts];
    made.channel = static_cast<uint16_t>(side.channel);
    made.peer = static_cast<uint8_t>(side.rank);
    made.kind = side.is_send ? SideKind::send : SideKind::recv;

    if (!side.is_send && side.bytes != 0) {
      size_t offset = 0;
      const auto memory = group_.context.directory->containing(side.data, side.bytes, &offset);
      if (memory != nullptr) {
        made.memory = memory->id;
        made.offset = offset;
      } else {
        through_slots_.push_back(static_cast<uint16_t>(list_.size()));
      }
    }
    flow.push_back(static_cast<uint16_t>(list_.size()));
    list_.push_back(made);
  }

  // The first send of this rank to itself on a channel meets the first receive, and so on.
  void add_own(std::span<const MessageSide> sides, size_t index) {
    const MessageSide& side = sides[index];
    std::vector<size_t>& others = own_[{!side.is_send, side.channel}];
    if (others.empty()) {
      own_[{side.is_send, side.channel}].push_back(index);
      return;
    }

    const MessageSide& other = sides[others.front()];
    others.erase(others.begin());
    const MessageSide& send = side.is_send ? side : other;
    const MessageSide& recv = side.is_send ? other : side;
    if (send.bytes != recv.bytes) {
      throw Error(Status::mismatch,
          format("%srecv: rank %d sends %zu bytes on channel %d to itself, and has room for %zu",
              place_of(static_cast<size_t>(&recv - sides.data())).c_str(), send.rank, send.bytes,
              send.channel, recv.bytes));
    }
    SideArgs made{};
    made.data = address_of(send.data);
    made.bytes = send.bytes;
    made.offset = address_of(recv.data);
    made.peer = static_cast<uint8_t>(send.rank);
    made.kind = SideKind::copy;
    list_.push_back(made);
  }

  // A kernel that waited for a later one of its own rank would keep that one from beginning.
  void require_pairs(size_t sides) const {
    for (const auto& [flow, left] : own_) {
      if (left.empty()) continue;
      const auto [is_send, channel] = flow;
      throw Error(Status::invalid_argument,
          format("%s%s: rank %d is this rank, and on GPUs what it sends to itself is received in "
                 "the same symm_messages(); channel %d has one side only",
              sides > 1 ? place_of(left.front()).c_str() : "", is_send ? "send" : "recv",
              group_.context.rank, channel));
    }
  }

  void divide_slots() {
    if (through_slots_.empty()) return;
    const auto each = static_cast<uint32_t>(kMessageSlots / through_slots_.size());
    uint32_t first = 0;
    for (const uint16_t at : through_slots_) {
      list_[at].offset = SlotRange{first, each}.offset();
      first += each;
    }
  }

  const DeviceGroup& group_;
  std::vector<SideArgs> list_;
  // The places in the list of the sides of each flow, in their order.
  std::map<FlowName, std::vector<uint16_t>> flows_;
  // Sides of messages to this rank itself that have not met theirs yet, by kind and channel.
  std::map<std::pair<bool, int>, std::vector<size_t>> own_;
  std::vector<uint16_t> through_slots_;
};

// A block takes as much of a multiprocessor as two of those that `max_blocks` counts.
unsigned blocks_for(const DeviceGroup& group, uint64_t work) {
  const int most = std::clamp(group.facts.max_blocks / 2, 1, group.tuning.work_groups);
  return static_cast<unsigned>(std::min(work, static_cast<uint64_t>(most)));
}

void launch_lists(const DeviceGroup& group, std::span<const SideArgs> sides, CUstream stream) {
  const CUfunction kernel = group.kernels.find("symm_list_messages");
  const CUdeviceptr list = group.words_of_messages() + offsetof(MessageWords, list);
  for (size_t at = 0; at < sides.size(); at += kSidesInside) {
    const std::span part = sides.subspan(at, std::min<size_t>(kSidesInside, sides.size() - at));
    ListArgs args{list + at * sizeof(SideArgs), part.size(), {}};
    std::copy(part.begin(), part.end(), args.side);
    group.kernels.launch(kernel, {1, kSidesInside, stream}, args);
  }
}
}  // namespace

void Messages::pass(std::span<MessageSide> sides, uint64_t timeout_ms, void* on) {
  if (timeout_ms == Deadline::kNow) {
    throw Error(Status::invalid_argument,
        "options.timeout_ms: SYMM_TIMEOUT_NOW looks whether a message has come, which a call on a "
        "stream does not know");
  }
  if (sides.empty()) return;
  if (sides.size() > kMostSides) {
    throw Error(Status::unsupported,
        format("count: a call of messages on GPUs has at most %u of them, not %zu", kMostSides,
            sides.size()));
  }
  const SideList made(group_, sides);
  const std::span<const SideArgs> list = made.list();
  const CUstream stream = stream_of(on);

  const ContextGuard current(*group_.device);
  const TimedLock turn(group_.order.turn(), timeout_ms, "messages");
  group_.context.revocation->throw_if_revoked();
  const StreamOrder::CallStream ordered = group_.order.before(stream);
  try {
    launch(list, made.work(), operation_of(sides), timeout_ms, stream);
  } catch (...) {
    // Later calls come behind the part that was issued.
    group_.order.after(ordered);
    throw;
  }
  group_.order.after(ordered);

  // All lengths agree, or the call fails.
  for (MessageSide& side : sides) {
    if (!side.is_send) side.received = side.bytes;
  }
}

void Messages::launch(std::span<const SideArgs> list, uint64_t work, Operation operation,
    uint64_t timeout_ms, CUstream stream) {
  const CUfunction kernel = group_.kernel("symm_pass_messages", "symm_large_pass_messages");
  const bool is_listed = list.size() > kSidesInside;
  if (is_listed) launch_lists(group_, list, stream);
  group_.in_room([&]<int kRanks>() {
    MessagesArgsOf<kRanks> args{};
    args.comm = group_.comm_of<kRanks>(timeout_ms, static_cast<uint32_t>(operation));
    args.words = group_.layout.messages;
    args.slot = group_.layout.message_slot;
    args.count = static_cast<uint32_t>(list.size());
    args.is_listed = is_listed ? 1 : 0;
    if (!is_listed) std::copy(list.begin(), list.end(), args.side);
    constexpr unsigned kThreads = 512;
    group_.kernels.launch(kernel, {blocks_for(group_, work), kThreads, stream}, args);
  });
}
}  // namespace symm::cuda
