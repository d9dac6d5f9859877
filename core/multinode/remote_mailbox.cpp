// Sends what changes in this rank's mailbox at a rank of another machine, and stores what changes
// in that rank's mailbox here.
#include "core/multinode/remote_mailbox.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/mailbox.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/host/slices.hpp"

namespace symm::multinode {
using engine::Head;
using host::MessageSlot;
using host::Place;
using host::SlotKind;

namespace {
// The words that kSlotWord can name.
constexpr uint64_t kRead = 0;
constexpr uint64_t kTaken = 1;
constexpr uint64_t kWanted = 2;
// The bytes of a part, and the parts that are under way to a rank, at most: enough that a network
// is busy while the sender's thread is woken, and no more than one message that puts.
constexpr size_t kPart = size_t{256} << 10;
constexpr uint32_t kMostParts = kMessage / kPart;
}  // namespace

RemoteMailbox::RemoteMailbox(engine::Endpoint& endpoint, int peer, const host::MailboxShape& shape,
    Waiter& sleepers, std::atomic<uint32_t>& settles_later)
    : endpoint_(endpoint),
      peer_(peer),
      shape_(shape),
      sleepers_(sleepers),
      settles_later_(settles_later),
      lines_(new Line[2 * (shape.bytes() / host::kLine)]()),
      from_(lines_[0].bytes, shape),
      to_(lines_[static_cast<ptrdiff_t>(shape.bytes() / host::kLine)].bytes, shape),
      wanted_(shape.channels),
      parts_(shape.channels) {}

// ---- what this rank has written

void RemoteMailbox::tell_slot(uint32_t number) noexcept {
  const MessageSlot& slot = to_.slot(number);
  Head head{.kind = kSlot,
      .channel = slot.channel,
      .value = number,
      .call = static_cast<uint64_t>(slot.kind)};
  std::span<const std::byte> payload;
  if (slot.kind == SlotKind::inside) payload = {slot.contents, slot.bytes};
  if (slot.kind == SlotKind::announced) head.memory = slot.bytes;
  if (slot.kind == SlotKind::data) {
    head.offset = slot.get<uint64_t>();
    payload = {to_.data(head.offset), slot.bytes};
  }
  endpoint_.dispatch(peer_, head, payload, lines_);

  // Whoever has announced a message waits until it is taken.
  if (slot.kind == SlotKind::announced) return;
  settles_later_.fetch_add(1, std::memory_order_acq_rel);
}

void RemoteMailbox::tell_word(uint64_t which, uint16_t channel, uint32_t value) noexcept {
  const Head head{.kind = kSlotWord, .channel = channel, .offset = which, .value = value};
  endpoint_.dispatch(peer_, head, {}, nullptr);
}

void RemoteMailbox::tell_read() noexcept { tell_word(kRead, 0, to_.head().read.load()); }

void RemoteMailbox::tell_taken(uint16_t channel) noexcept {
  tell_word(kTaken, channel, to_.channel(channel).taken.load());
}

void RemoteMailbox::want(uint16_t channel, std::byte* to, size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Wanted& one = wanted_[channel];
    one.to = to;
    one.bytes = bytes;
    one.placed = 0;
    one.came.store(0, std::memory_order_relaxed);
  }
  tell_word(kWanted, channel, to_.channel(channel).wanted.load());
}

size_t RemoteMailbox::came(uint16_t channel) const noexcept {
  return wanted_[channel].came.load(std::memory_order_acquire);
}

// The engine lets go of `keep` when it does not read the part any more. A call does not end before
// that (has_sent_parts(), cut()), so this object is still there.
size_t RemoteMailbox::send_part(
    uint16_t channel, size_t offset, std::span<const std::byte> rest) noexcept {
  if (under_way_.load(std::memory_order_acquire) == kMostParts) return 0;

  const std::span part = rest.first(std::min(kPart, rest.size()));
  const auto gone = [this, channel](const std::byte*) { part_has_gone(channel); };
  // Without memory for the pointer, the part has gone at once.
  const auto keep = with_reserve([&] {
    under_way_.fetch_add(1, std::memory_order_relaxed);
    parts_[channel].fetch_add(1, std::memory_order_relaxed);
    return std::shared_ptr<const std::byte>(part.data(), gone);
  });
  const Head head{.kind = kSlotPart, .channel = channel, .offset = offset};
  endpoint_.dispatch(peer_, head, part, keep);
  return part.size();
}

void RemoteMailbox::part_has_gone(uint16_t channel) noexcept {
  under_way_.fetch_sub(1, std::memory_order_seq_cst);
  parts_[channel].fetch_sub(1, std::memory_order_seq_cst);
  ring(from_.head().bell, sleepers_);
}

bool RemoteMailbox::has_sent_parts(uint16_t channel) const noexcept {
  return parts_[channel].load(std::memory_order_acquire) == 0;
}

void RemoteMailbox::cut() noexcept { endpoint_.cut(peer_); }

// ---- what the peer has written. Its messages are checked: they come from another machine. The
// pair checks what it reads in the mailbox.

std::byte* RemoteMailbox::place(const Head& head) noexcept {
  switch (head.kind) {
    case kSlot: return place_of_slot(head);
    case kSlotPart: return place_of_part(head);
    default: return nullptr;
  }
}

std::byte* RemoteMailbox::place_of_slot(const Head& head) const noexcept {
  switch (static_cast<SlotKind>(head.call)) {
    case SlotKind::inside:
      if (head.bytes > MessageSlot::kInside) return nullptr;
      return from_.slot(static_cast<uint32_t>(head.value)).contents;
    case SlotKind::data:
      if (head.offset > shape_.data || head.bytes > shape_.data - head.offset) return nullptr;
      return from_.data(head.offset);
    default: return nullptr;
  }
}

std::byte* RemoteMailbox::place_of_part(const Head& head) noexcept {
  if (head.channel >= shape_.channels) return nullptr;
  const std::lock_guard lock(mutex_);
  Wanted& one = wanted_[head.channel];
  const bool is_inside = head.offset <= one.bytes && head.bytes <= one.bytes - head.offset;
  if (one.to == nullptr || !is_inside || head.bytes > one.bytes - one.placed) return nullptr;
  one.placed += head.bytes;
  return one.to + head.offset;
}

void RemoteMailbox::arrived(const Head& head) noexcept {
  switch (head.kind) {
    case kSlot: slot_arrived(head); break;
    case kSlotWord: word_arrived(head); break;
    default: part_arrived(head); break;
  }
  ring(from_.head().bell, sleepers_);
}

void RemoteMailbox::slot_arrived(const Head& head) noexcept {
  const auto number = static_cast<uint32_t>(head.value);
  MessageSlot& slot = from_.slot(number);
  slot.kind = static_cast<SlotKind>(head.call);
  slot.channel = head.channel;
  slot.bytes = slot.kind == SlotKind::announced ? head.memory : head.bytes;
  if (slot.kind == SlotKind::data) slot.put(head.offset);
  if (slot.kind == SlotKind::announced) slot.put(Place{});
  slot.number.store(number, std::memory_order_seq_cst);
}

void RemoteMailbox::word_arrived(const Head& head) noexcept {
  if (head.channel >= shape_.channels) return;
  const auto value = static_cast<uint32_t>(head.value);
  host::ChannelWords& words = from_.channel(head.channel);
  switch (head.offset) {
    case kRead: from_.head().read.store(value, std::memory_order_seq_cst); break;
    case kTaken: words.taken.store(value, std::memory_order_seq_cst); break;
    case kWanted: words.wanted.store(value, std::memory_order_seq_cst); break;
    default: break;
  }
}

// A part of no bytes has had no place, and may be for any channel.
void RemoteMailbox::part_arrived(const Head& head) noexcept {
  if (head.bytes == 0) return;
  const std::lock_guard lock(mutex_);
  Wanted& one = wanted_[head.channel];
  const size_t came = one.came.load(std::memory_order_relaxed) + head.bytes;
  if (came == one.bytes) one.to = nullptr;
  one.came.store(came, std::memory_order_seq_cst);
}
}  // namespace symm::multinode
