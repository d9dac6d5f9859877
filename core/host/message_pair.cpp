// Reads the mailbox of one peer and writes this rank's mailbox there, one step at a time; the proof
// is in the header. Nothing here waits.
#include "core/host/message_pair.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/message_port.hpp"
#include "core/host/peer_memory.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
namespace {
using State = PostedSide::State;

// Copies that may be of no bytes, at no address.
void move_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}
}  // namespace

void MessagePair::Queue::push(PostedSide& one) noexcept {
  one.next = nullptr;
  (last != nullptr ? last->next : first) = &one;
  last = &one;
}

void MessagePair::Queue::remove(const PostedSide& one) noexcept {
  PostedSide* before = nullptr;
  for (PostedSide* at = first; at != nullptr; before = at, at = at->next) {
    if (at != &one) continue;
    (before != nullptr ? before->next : first) = one.next;
    if (last == &one) last = before;
    return;
  }
}

MessagePair::MessagePair(const Surroundings& around, int peer, bool same_process,
    const Mailbox& from, const Mailbox& to, Waiter& sleepers, const PeerMemory& memory)
    : around_(around),
      peer_(peer),
      same_process_(same_process),
      from_(from),
      to_(to),
      memory_(memory),
      sleepers_(sleepers),
      channels_(around.shape.channels),
      data_end_(around.shape.slots) {
  sending_.reserve(channels_.size());
  pulling_.reserve(channels_.size());
}

MessagePair::MessagePair(const Surroundings& around, int peer, MessagePort& port, Waiter& sleepers)
    : around_(around),
      peer_(peer),
      same_process_(false),
      from_(port.from()),
      to_(port.to()),
      port_(&port),
      memory_(0, {}),
      sleepers_(sleepers),
      channels_(around.shape.channels),
      data_end_(around.shape.slots) {
  sending_.reserve(channels_.size());
  pulling_.reserve(channels_.size());
}

// ---- sides of calls

void MessagePair::post(PostedSide& one) {
  const std::lock_guard lock(mutex_);
  Channel& channel = channels_[static_cast<size_t>(one.side->channel)];
  current_ = one.call;
  if (one.side->is_send) {
    if (port_ == nullptr) prefetch_for_write(&next_slot());
    const bool is_alone = channel.sends.first == nullptr;
    channel.sends.push(one);
    // Most messages are sent here, under one lock.
    if (is_alone) advance(channel);
    if (channel.sends.first != nullptr) note_sending(number_of(channel));
  } else {
    channel.receives.push(one);
    match(channel);
  }
  tell_all();
}

bool MessagePair::withdraw(PostedSide& one) {
  const std::lock_guard lock(mutex_);
  if (one.begun) return false;

  Channel& channel = channels_[static_cast<size_t>(one.side->channel)];
  (one.side->is_send ? channel.sends : channel.receives).remove(one);
  one.state.store(State::done, std::memory_order_release);
  return true;
}

void MessagePair::drop(PostedSide& one) {
  const std::lock_guard lock(mutex_);
  if (one.state == State::done) return;

  const auto channel = static_cast<uint16_t>(one.side->channel);
  Channel& both = channels_[channel];
  (one.side->is_send ? both.sends : both.receives).remove(one);
  if (one.state == State::pulling || one.state == State::coming) std::erase(pulling_, channel);
  // The caller has its memory back after this.
  if (one.state == State::in_parts || one.state == State::coming) port_->cut();
  one.state.store(State::done, std::memory_order_release);
}

// Nearly all looks of a wait find nothing, and cost no lock.
bool MessagePair::has_work() const noexcept {
  const uint32_t next = read_.load(std::memory_order_relaxed) + 1;
  return from_.slot(next).number.load(std::memory_order_acquire) == next ||
         work_.load(std::memory_order_relaxed) != 0;
}

void MessagePair::note_sending(uint16_t channel) {
  const bool is_known = std::find(sending_.begin(), sending_.end(), channel) != sending_.end();
  if (!is_known) sending_.push_back(channel);
}

// Ends a step: wakes those who are to hear of it.
void MessagePair::tell_all() noexcept {
  const bool has_told = std::exchange(has_told_, false);
  if (has_told && port_ == nullptr) ring(to_.head().bell, sleepers_);
  if (std::exchange(has_news_, false)) tell_change(around_.news);
  work_.store(sending_.size() + pulling_.size(), std::memory_order_relaxed);
}

// Stores a word that the peer may wait for.
void MessagePair::tell(Word& word, uint32_t value) noexcept {
  symm::publish(word, value, {}, around_.fencing);
  has_told_ = true;
}

bool MessagePair::progress(const MessageCount& call) {
  if (!has_work()) return false;
  bool has_moved = false;
  std::string refusal;
  {
    const std::lock_guard lock(mutex_);
    current_ = &call;
    has_moved = read_slots();
    has_moved = send() || has_moved;
    has_moved = pull() || has_moved;
    tell_all();
    refusal = memory_.take_refusal();
  }
  if (!refusal.empty()) tell_refusal(refusal);
  return has_moved;
}

void MessagePair::tell_refusal(const std::string& refusal) const {
  log::write(log::Level::info,
      "long messages from %s in private memory go through memory of the group, since its own "
      "cannot be read: %s",
      around_.context.rank_name(peer_).c_str(), refusal.c_str());
}

// A side of another thread's call has gone on: that thread may be asleep, and is to look.
void MessagePair::moved(const PostedSide& one) noexcept {
  if (one.call != current_) has_news_ = true;
}

void MessagePair::end(PostedSide& one) noexcept {
  one.state.store(State::done, std::memory_order_release);
  one.held.reset();
  moved(one);
  // The call, and `one` with it, may be gone after this.
  one.call->left.fetch_sub(1, std::memory_order_acq_rel);
}

uint16_t MessagePair::number_of(const Channel& channel) const noexcept {
  return static_cast<uint16_t>(&channel - channels_.data());
}

// ---- memory that both ranks map

// The memory of a place, if it is mapped here and has so many bytes there.
std::shared_ptr<const MemoryView> MessagePair::reach(const Place& place, size_t bytes) const {
  if (place.memory == 0) return nullptr;
  std::shared_ptr<const MemoryView> view = around_.context.directory->numbered(place.memory);
  if (view == nullptr || place.offset > view->bytes || bytes > view->bytes - place.offset) {
    return nullptr;
  }
  return view->blocks[static_cast<size_t>(peer_)] != nullptr ? view : nullptr;
}

Place MessagePair::place_of(
    const std::byte* data, size_t bytes, std::shared_ptr<const MemoryView>& held) const {
  size_t offset = 0;
  held = around_.context.directory->containing(data, bytes, &offset);
  return held != nullptr ? Place{held->id, offset} : Place{};
}

// ---- receiving

bool MessagePair::read_slots() {
  bool has_read = false;
  for (;;) {
    const uint32_t next = read_.load(std::memory_order_relaxed) + 1;
    const MessageSlot& slot = from_.slot(next);
    if (slot.number.load(std::memory_order_acquire) != next) return has_read;

    if (port_ == nullptr) note_read(slot.read);
    read_slot(slot);
    has_read = true;
    const bool used_data = slot.kind == SlotKind::data || slot.kind == SlotKind::piece;
    if (used_data) data_untold_ += round_up(slot.bytes, kLine);
    read_.store(next, std::memory_order_relaxed);
    if (data_untold_ < around_.shape.data / 4 && next - read_told_ < quarter()) continue;

    read_told_ = next;
    data_untold_ = 0;
    tell(to_.head().read, next);
    if (port_ != nullptr) port_->tell_read();
  }
}

void MessagePair::read_slot(const MessageSlot& slot) {
  const uint16_t number = slot.channel;
  if (number >= channels_.size()) refuse_mailbox("a channel");
  Channel& channel = channels_[number];

  const SlotKind kind = slot.kind;
  const uint64_t bytes = slot.bytes;
  switch (kind) {
    case SlotKind::inside:
      if (bytes > MessageSlot::kInside) refuse_mailbox("a length");
      return arrive(channel, {kind, bytes, {}, slot.contents});
    case SlotKind::data:
      return arrive(channel, {kind, bytes, {}, data_of(slot, bytes, around_.shape.most_left())});
    case SlotKind::announced:
      return arrive(channel, {kind, bytes, slot.get<Announced>(), nullptr});
    case SlotKind::piece:
      return take_piece(channel, data_of(slot, bytes, around_.shape.most_piece()), bytes);
    case SlotKind::placed: return take_piece(channel, nullptr, bytes);
  }
  refuse_mailbox("a slot");
}

const std::byte* MessagePair::data_of(const MessageSlot& slot, uint64_t bytes, size_t most) const {
  const auto offset = slot.get<uint64_t>();
  const size_t all = around_.shape.data;
  if (bytes > most || offset > all || bytes > all - offset) refuse_mailbox("a length");
  return from_.data(offset);
}

void MessagePair::arrive(Channel& channel, const Told& told) {
  const PostedSide* const next = channel.receives.first;
  if (next != nullptr && next->state == State::waits && channel.arrived.empty()) {
    return meet(channel, told);
  }

  Arrived one{told, {}};
  if (told.contents != nullptr) one.contents.assign(told.contents, told.contents + told.bytes);
  channel.arrived.push_back(std::move(one));
}

// Gives messages that have arrived to the receives that wait for them. A message that is refused
// stays.
void MessagePair::match(Channel& channel) {
  while (!channel.arrived.empty() && channel.receives.first != nullptr &&
         channel.receives.first->state == State::waits) {
    const Arrived& next = channel.arrived.front();
    Told told = next.told;
    if (told.contents != nullptr) told.contents = next.contents.data();
    meet(channel, told);
    channel.arrived.pop_front();
  }
}

void MessagePair::meet(Channel& channel, const Told& told) {
  PostedSide& one = *channel.receives.first;
  one.begun.store(true, std::memory_order_release);
  if (told.bytes > one.side->bytes) refuse_length(channel, told.bytes, one.side->bytes);

  one.side->received = told.bytes;
  if (told.kind == SlotKind::announced) return begin_long(channel, one, told.announced);
  move_bytes(one.side->data, told.contents, told.bytes);
  finish_receive(channel);
}

// A message that is still with its sender: this rank copies it, or asks for it.
void MessagePair::begin_long(Channel& channel, PostedSide& one, const Announced& announced) {
  const size_t bytes = one.side->received;
  if (port_ != nullptr) return ask_for(channel, one);

  const Place& place = announced.place;
  Place destination;
  one.held = reach(place, bytes);
  if (one.held != nullptr) {
    one.from = one.held->blocks[static_cast<size_t>(peer_)] + place.offset;
  } else {
    const bool reads = announced.header != 0 && memory_.may_be_read();
    if (!same_process_) destination = place_of(one.side->data, bytes, one.held);
    if (place.memory == 0 && (same_process_ || (reads && one.held == nullptr))) {
      one.from =
          reinterpret_cast<const std::byte*>(place.offset);  // NOLINT(performance-no-int-to-ptr)
      one.header = same_process_ ? 0 : announced.header;
    }
  }

  moved(one);
  if (one.from != nullptr) {
    one.state.store(State::pulling, std::memory_order_release);
    one.copies = true;
    pulling_.push_back(number_of(channel));
    return;
  }
  answer(channel, one, destination);
}

// Tells the sender that the message is wanted, and where.
void MessagePair::answer(Channel& channel, PostedSide& one, const Place& place) {
  one.state.store(State::expecting, std::memory_order_release);
  ChannelWords& words = to_.channel(number_of(channel));
  words.place = place;
  tell(words.wanted, ++channel.answered);
}

// A message of another machine, which comes straight to its place.
void MessagePair::ask_for(Channel& channel, PostedSide& one) {
  const uint16_t number = number_of(channel);
  one.state.store(State::coming, std::memory_order_release);
  moved(one);
  pulling_.push_back(number);
  to_.channel(number).wanted.store(++channel.answered, std::memory_order_seq_cst);
  port_->want(number, one.side->data, one.side->received);
}

// `from`: the next piece of the message; null: the sender has copied all of it here.
void MessagePair::take_piece(Channel& channel, const std::byte* from, uint64_t bytes) {
  PostedSide* const one = channel.receives.first;
  if (one == nullptr || one->state != State::expecting) refuse_mailbox("a piece");

  const size_t missing = one->side->received - one->moved;
  if (bytes == 0 || bytes > missing || (from == nullptr && bytes != missing)) {
    refuse_mailbox("a length");
  }
  if (from != nullptr) std::memcpy(one->side->data + one->moved, from, bytes);
  one->moved += bytes;
  if (bytes < missing) return;

  finish_receive(channel);
  match(channel);
}

bool MessagePair::pull() {
  bool any = false;
  for (size_t i = 0; i < pulling_.size();) {
    Channel& channel = channels_[pulling_[i]];
    PostedSide& one = *channel.receives.first;
    const size_t all = one.side->received;
    const size_t before = one.moved;
    if (one.state == State::coming) {
      one.moved = port_->came(pulling_[i]);
    } else if (!pull_some(one)) {
      pulling_.erase(pulling_.begin() + static_cast<ptrdiff_t>(i));
      answer(channel, one, {});
      any = true;
      continue;
    }

    any = any || one.moved != before;
    if (one.moved < all) {
      ++i;
      continue;
    }
    pulling_.erase(pulling_.begin() + static_cast<ptrdiff_t>(i));
    finish_receive(channel);
    match(channel);
  }
  return any;
}

// Copies the next part of a message from where it is. False: it cannot be read there, and is to come
// in pieces, from its start.
bool MessagePair::pull_some(PostedSide& one) {
  const size_t all = one.side->received;
  const size_t bytes = std::min(kStep, all - one.moved);
  std::byte* const to = one.side->data + one.moved;
  if (one.header == 0) {
    copy(to, one.from + one.moved, bytes, is_nontemporal(all));
  } else if (!memory_.read(
                 {to, bytes}, reinterpret_cast<uintptr_t>(one.from + one.moved), one.header)) {
    one.moved = 0;
    one.copies = false;
    return false;
  }
  one.moved += bytes;
  return true;
}

void MessagePair::finish_receive(Channel& channel) {
  PostedSide& one = *channel.receives.first;
  const bool was_announced = one.state != State::waits;
  channel.receives.remove(one);
  end(one);

  ++channel.taken;
  if (was_announced || channel.taken - channel.taken_told >= quarter()) {
    channel.taken_told = channel.taken;
    tell(to_.channel(number_of(channel)).taken, channel.taken);
    if (port_ != nullptr) port_->tell_taken(number_of(channel));
  }
}

// ---- sending

bool MessagePair::send() {
  bool any = false;
  for (size_t i = 0; i < sending_.size();) {
    Channel& channel = channels_[sending_[i]];
    any = advance(channel) || any;
    if (channel.sends.first != nullptr) {
      ++i;
      continue;
    }
    sending_.erase(sending_.begin() + static_cast<ptrdiff_t>(i));
  }
  return any;
}

// Goes on with the first sides of a flow. Returns whether any has moved.
bool MessagePair::advance(Channel& channel) {
  bool any = false;
  while (channel.sends.first != nullptr) {
    PostedSide& one = *channel.sends.first;
    bool goes_on = false;
    switch (one.state) {
      case State::waits: goes_on = begin(channel, one); break;
      case State::announced: goes_on = await_answer(channel, one); break;
      // A step of a long copy ends the turn, so that other channels and peers have theirs.
      case State::placing: return place(channel, one) || any;
      case State::in_parts: return send_part(channel, one) || any;
      case State::in_pieces: goes_on = cut(channel, one); break;
      default: break;
    }
    if (!goes_on) return any;
    any = true;
  }
  return any;
}

bool MessagePair::begin(Channel& channel, PostedSide& one) {
  const Word& taken = from_.channel(number_of(channel)).taken;
  if (channel.has_announced) {
    if (!reached(taken, channel.announced)) return false;
    channel.has_announced = false;
  }
  const uint32_t under_way = channel.begun - taken.load(std::memory_order_acquire);
  if (under_way >= around_.shape.slots || !has_slot()) return false;

  const size_t bytes = one.side->bytes;
  MessageSlot& slot = next_slot();
  const bool is_pulled = bytes >= kPulledAtLeast && port_ == nullptr;
  const Place place = is_pulled ? place_of(one.side->data, bytes, one.held) : Place{};
  if (bytes > around_.shape.most_left() || one.held != nullptr) {
    announce(channel, one, place);
    return true;
  }

  SlotKind kind = SlotKind::inside;
  if (bytes <= MessageSlot::kInside) {
    move_bytes(slot.contents, one.side->data, bytes);
  } else {
    size_t offset = 0;
    if (!reserve(bytes, offset)) return false;
    copy_to_peer(to_.data(offset), one.side->data, bytes, false);
    slot.put(uint64_t{offset});
    kind = SlotKind::data;
  }

  one.begun.store(true, std::memory_order_release);
  ++channel.begun;
  publish(slot, kind, channel, bytes);
  finish_send(channel);
  return true;
}

// `place`: that of the message in symmetric memory.
void MessagePair::announce(Channel& channel, PostedSide& one, const Place& place) {
  Announced announced{place};
  if (one.held == nullptr && port_ == nullptr) {
    announced.place.offset = reinterpret_cast<uintptr_t>(one.side->data);
    if (around_.pull != 0 && one.side->bytes >= around_.pull) announced.header = around_.header;
  }

  one.state.store(State::announced, std::memory_order_release);
  one.begun.store(true, std::memory_order_release);
  one.number = ++channel.begun;
  channel.announced = one.number;
  channel.has_announced = true;
  moved(one);

  MessageSlot& slot = next_slot();
  slot.put(announced);
  publish(slot, SlotKind::announced, channel, one.side->bytes);
}

// The peer has taken an announced message, or has said where it wants it.
bool MessagePair::await_answer(Channel& channel, PostedSide& one) {
  const ChannelWords& words = from_.channel(number_of(channel));
  if (reached(words.taken, one.number)) {
    finish_send(channel);
    return true;
  }
  if (!reached(words.wanted, channel.answers + 1)) return false;

  ++channel.answers;
  moved(one);
  if (port_ != nullptr) {
    one.state.store(State::in_parts, std::memory_order_release);
    return true;
  }

  const Place place = words.place;
  one.held = reach(place, one.side->bytes);
  const State next = one.held != nullptr ? State::placing : State::in_pieces;
  one.state.store(next, std::memory_order_release);
  if (one.held != nullptr) {
    one.to = one.held->blocks[static_cast<size_t>(peer_)] + place.offset;
  }
  return true;
}

// A message to another machine, which ends when the peer has told that it is taken.
bool MessagePair::send_part(Channel& channel, PostedSide& one) {
  const uint16_t number = number_of(channel);
  const std::span<const std::byte> all(one.side->data, one.side->bytes);
  if (one.moved < all.size()) {
    const size_t bytes = port_->send_part(number, one.moved, all.subspan(one.moved));
    one.moved += bytes;
    return bytes != 0;
  }

  if (!reached(from_.channel(number).taken, one.number) || !port_->has_sent_parts(number)) {
    return false;
  }
  finish_send(channel);
  return true;
}

bool MessagePair::place(Channel& channel, PostedSide& one) {
  const size_t all = one.side->bytes;
  const size_t bytes = std::min(kStep, all - one.moved);
  copy_to_peer(one.to + one.moved, one.side->data + one.moved, bytes, is_nontemporal(all));
  one.moved += bytes;
  if (one.moved < all) return true;
  if (!has_slot()) return bytes != 0;

  publish(next_slot(), SlotKind::placed, channel, all);
  finish_send(channel);
  return true;
}

bool MessagePair::cut(Channel& channel, PostedSide& one) {
  const size_t bytes = std::min(around_.shape.most_piece(), one.side->bytes - one.moved);
  size_t offset = 0;
  if (!has_slot() || !reserve(bytes, offset)) return false;

  copy_to_peer(to_.data(offset), one.side->data + one.moved, bytes, false);
  one.moved += bytes;
  MessageSlot& slot = next_slot();
  slot.put(uint64_t{offset});
  publish(slot, SlotKind::piece, channel, bytes);
  if (one.moved == one.side->bytes) finish_send(channel);
  return true;
}

void MessagePair::finish_send(Channel& channel) {
  PostedSide& one = *channel.sends.first;
  channel.sends.remove(one);
  end(one);
}

// Looks how far the peer has read. data_end_ has the entry of the last slot that was read: the slot
// that would overwrite it is not sent before this.
bool MessagePair::has_slot() noexcept {
  note_read(from_.head().read.load(std::memory_order_acquire));
  return sent_ - free_until_ < around_.shape.slots;
}

// `read`: how many slots the peer has read, which may be an old number.
void MessagePair::note_read(uint32_t read) noexcept {
  const uint32_t more = read - free_until_;
  if (more == 0 || more > sent_ - free_until_) return;
  free_until_ = read;
  // reserve() may have begun the area again since that slot was sent.
  data_read_ = std::max(data_read_, data_end_[read & (around_.shape.slots - 1)]);
}

// Reserves bytes in a row of the data area for the next slot. False: the peer has not read enough.
// When all has been read, the area is used from its start again, whose lines are still in caches.
bool MessagePair::reserve(size_t bytes, size_t& offset) noexcept {
  const size_t all = around_.shape.data;
  if (data_read_ == data_used_) {
    data_used_ = round_up(data_used_, all);
    data_read_ = data_used_;
  }
  const size_t at = data_used_ % all;
  const size_t skipped = at + bytes > all ? all - at : 0;
  const uint64_t until = data_used_ + skipped + round_up(bytes, kLine);
  if (until - data_read_ > all) return false;

  offset = skipped != 0 ? 0 : at;
  data_used_ = until;
  return true;
}

void MessagePair::publish(
    MessageSlot& slot, SlotKind kind, const Channel& channel, uint64_t bytes) noexcept {
  slot.kind = kind;
  if (port_ == nullptr) {
    read_told_ = read_.load(std::memory_order_relaxed);
    data_untold_ = 0;
    slot.read = read_told_;
  }
  slot.channel = number_of(channel);
  slot.bytes = bytes;
  ++sent_;
  data_end_[sent_ & (around_.shape.slots - 1)] = data_used_;
  tell(slot.number, sent_);
  if (port_ != nullptr) port_->tell_slot(sent_);
}

// ---- refusals, after which the group is revoked

void MessagePair::refuse_mailbox(const char* what) const {
  throw Error(around_.context.blame(peer_, Status::peer_failed,
      format("recv: the mailbox of rank %d holds %s that no sender writes", peer_, what)));
}

void MessagePair::refuse_length(const Channel& channel, uint64_t bytes, size_t room) const {
  throw Error(around_.context.blame(around_.context.rank, Status::mismatch,
      format("recv: rank %d sends %lu bytes on channel %d to rank %d, which has room for %zu",
          peer_, bytes, number_of(channel), around_.context.rank, room)));
}
}  // namespace symm::host
