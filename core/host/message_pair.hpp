// The messages between this rank and one other, which may be this rank itself: what symm_send() and
// symm_recv() move, in order on each channel.
//
// Definitions
//   Pair       this rank and its peer. Each of the two has the peer's mailbox in its own control
//              segment, and its own mailbox in the segment of the peer.
//   Flow       the messages of one direction of a pair on one channel, numbered from 1.
//   Begun      a message to send has a number and a slot; a message to receive has met the one that
//              was sent.
//   Left       a message that fits into its slot or into the data area: its sender copies it and
//              has sent it.
//   Announced  a longer message, or one in symmetric memory that is not short: its slot says where
//              it is, and the sender waits.
//   Taken      a message is where the receiver's call wanted it.
//   Arrived    a message was read from its slot before a receive asked for it. A message that was
//              left is copied then.
//   Ahead      the first piece of an announced message that neither rank has mapped at the other:
//              the sender passes it at once, for which it would else wait.
//
// Invariants
//   I1. Every word has one writer and only grows: `number` of a slot by the number of slots each
//       time, `read`, `taken` and `wanted` by one for each slot, message and answer.
//   I2. A sender stores into slot k only if the peer has read slot k - slots, and into bytes of the
//       data area only if the peer has read the slot that they were last behind.
//   I3. A flow has at most `slots` messages that are begun and not taken. While one of them is
//       announced, the sender begins no other one in the flow.
//   I4. A receiver reads slots in order, and reads on also when no receive waits for what they
//       hold.
//   I5. Pieces follow in a flow only when the receiver has answered that it wants them, and so
//       has a receive that waits for them; but for the piece ahead, if most of the data area is
//       free.
//
// Steps: no message waits for the order of others.
//   1. A rank in a call with this peer reads all slots (I4). What nobody waits for has arrived: per
//      flow at most as many messages as there are slots (I3), none longer than most_left(), and
//      one piece ahead, of the last of them. So the receiver needs bounded memory, and slots and
//      data area become free (I2).
//   2. So a message is begun if its flow has room, whatever other flows do. The flow has room
//      once the receiver has taken the messages before it, which its program has asked for before.
//   3. An announced message needs a receive that waits, and nothing else: the receiver copies from
//      the sender's memory if that is mapped here, and else answers (`wanted`), with the place of
//      its own memory if that is symmetric. The sender copies there, or sends pieces through the
//      data area, which the receiver reads since it waits (I5). A message that has come ahead as a
//      whole needs no answer: the receiver tells that it is taken. From another machine the message
//      comes straight to its place, and the receiver sees how much of it has come.
//   4. Sides of one call begin independently of each other. So of two calls that wait for each
//      other, each goes on as far as the other has asked for, in whatever order they list sides.
//
// Numbers that are told late. `read` and `taken` are stored when a quarter of the slots is due;
// `read` also when a quarter of the data area was read, and `taken` at once where the sender waits
// for the very one: an announced message. A sender that finds no room has a full count of slots or
// messages before it; when the receiver has read or taken all of these, more than a quarter was
// due, and so was told. As for the data area: what was read and is not told, the bytes that are
// skipped at its end, once at most, and the next message are less than a quarter each, so the
// sender has room. On one machine each slot tells `read`, too: ranks that answer each other learn
// it from a line that goes there anyway, and begin the data area again, whose lines are in caches.
//
// What a rank may still touch after a call: nothing of the other one's memory. A receiver that
// copies tells `taken` when it is done, and a sender that copies then has its slot `placed` read.
// Calls that fail are another matter (Controls::throw_if_any_rank_aborted()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/futex.hpp"
#include "core/base/wait.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/message_port.hpp"

namespace symm::host {
// What a call that passes messages waits for. Any thread of the rank that finds slots may end a
// side of it.
struct MessageCount {
  std::atomic<size_t> left{0};
};

// A side of a message, from the time at which its call begins until it is done. Under the lock of
// its pair.
struct PostedSide {
  enum class State : uint8_t {
    waits,      // not begun
    announced,  // send: the peer is to take it, or to answer
    placing,    // send: this rank copies it to the peer's memory
    in_pieces,  // send: this rank copies it to the data area
    in_parts,   // send: it goes to another machine, straight from its place
    pulling,    // recv: this rank copies it from the peer's memory
    expecting,  // recv: the peer sends pieces, or copies it here
    coming,     // recv: from another machine, straight to its place
    done
  };
  MessageSide* side = nullptr;
  MessageCount* call = nullptr;
  PostedSide* next = nullptr;
  // Its own call reads these two without the lock.
  std::atomic<State> state{State::waits};
  std::atomic<bool> begun{false};
  bool copies = false;  // recv: this rank copies from memory that the peer's caller owns
  uint32_t number = 0;
  size_t moved = 0;
  size_t ahead = 0;  // send: bytes of the piece that has gone ahead
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::shared_ptr<const MemoryView> held;  // keeps mapped what is copied from or to
};

class MessagePair {
 public:
  // What the pair uses of its rank; it stays.
  struct Surroundings {
    const TransportContext& context;
    const MailboxShape& shape;
    size_t llc_bytes;  // of the cache of the last level
    Word& news;        // grows when a thread has gone on with a side of another thread's call
    Fencing fencing;   // of the words that a peer of this machine may wait for
  };
  // `from`: the mailbox that the peer writes, in this rank's segment. `to`: the one that this rank
  // writes, in the segment of the peer, whose threads that sleep `sleepers` counts.
  MessagePair(const Surroundings& around, int peer, bool same_process, const Mailbox& from,
      const Mailbox& to, Waiter& sleepers);
  // A peer on another machine.
  MessagePair(const Surroundings& around, int peer, MessagePort& port, Waiter& sleepers);
  MessagePair(MessagePair&&) = delete;

  // Throws Error(mismatch) if a message that has arrived is longer than the room for it.
  void post(PostedSide& one);
  // Takes a side that has not begun out of its flow. False: it has begun, and stays.
  bool withdraw(PostedSide& one);
  // Takes out a side of a group that has failed, whatever its state.
  void drop(PostedSide& one);

  // Goes as far as the peer permits without waiting, but moves no more than kStep bytes of a long
  // message at a time. `call`: that of this thread. Returns whether anything has moved. Throws what
  // post() throws, and Error(peer_failed) if the mailbox holds what no sender writes.
  bool progress(const MessageCount& call);

  int peer() const noexcept { return peer_; }
  const Word& bell() const noexcept { return from_.head().bell; }

 private:
  static constexpr size_t kStep = size_t{256} << 10;
  // From so many bytes on, a message in symmetric memory stays there until the peer copies it: to
  // wait for that takes less than to copy twice.
  static constexpr size_t kPulledAtLeast = size_t{4} << 10;

  // Sides of one flow in their order.
  struct Queue {
    PostedSide* first = nullptr;
    PostedSide* last = nullptr;
    void push(PostedSide& one) noexcept;
    void remove(const PostedSide& one) noexcept;
  };
  // A message as its slot tells of it.
  struct Told {
    SlotKind kind{};
    uint64_t bytes = 0;
    Place place{};                        // of one that is announced
    const std::byte* contents = nullptr;  // of one that was left, or the piece that came ahead
    size_t ahead = 0;                     // bytes of that piece
  };
  struct Arrived {
    Told told;
    std::vector<std::byte> contents;
  };
  // Both flows of the pair on one channel.
  struct Channel {
    Queue sends;
    uint32_t begun = 0;
    uint32_t announced = 0;  // number of the last message that was announced; see has_announced
    bool has_announced = false;
    uint32_t answers = 0;  // of the peer, that this rank has seen

    Queue receives;
    uint32_t taken = 0;
    uint32_t taken_told = 0;
    uint32_t answered = 0;  // answers of this rank
    std::list<Arrived> arrived;
  };

  // ---- receiving
  bool read_slots();
  void read_slot(const MessageSlot& slot);
  const std::byte* data_of(const MessageSlot& slot, uint64_t bytes, size_t most) const;
  void arrive(Channel& channel, const Told& told);
  void match(Channel& channel);
  void meet(Channel& channel, const Told& told);
  void begin_long(Channel& channel, PostedSide& one, const Told& told);
  void ask_for(Channel& channel, PostedSide& one);
  void take_piece(Channel& channel, const std::byte* from, uint64_t bytes);
  void keep_ahead(Channel& channel, const std::byte* from, uint64_t bytes);
  bool pull();
  void finish_receive(Channel& channel);
  uint16_t number_of(const Channel& channel) const noexcept;

  // ---- sending
  bool send();
  bool advance(Channel& channel);
  bool begin(Channel& channel, PostedSide& one);
  void announce(Channel& channel, PostedSide& one, Place place);
  bool await_answer(Channel& channel, PostedSide& one);
  bool send_ahead(Channel& channel, PostedSide& one);
  bool send_piece(Channel& channel, PostedSide& one, size_t bytes);
  bool send_part(Channel& channel, PostedSide& one);
  bool place(Channel& channel, PostedSide& one);
  bool cut(Channel& channel, PostedSide& one);
  void finish_send(Channel& channel);
  bool has_slot() noexcept;
  void note_read(uint32_t read) noexcept;
  bool reserve(size_t bytes, size_t& offset) noexcept;
  MessageSlot& next_slot() const noexcept { return to_.slot(sent_ + 1); }
  void publish(MessageSlot& slot, SlotKind kind, const Channel& channel, uint64_t bytes) noexcept;

  std::shared_ptr<const MemoryView> reach(const Place& place, size_t bytes) const;
  Place place_of(
      const std::byte* data, size_t bytes, std::shared_ptr<const MemoryView>& held) const;
  bool is_nontemporal(size_t bytes) const noexcept { return bytes > around_.llc_bytes / 2; }
  bool has_work() const noexcept;
  void note_sending(uint16_t channel);
  void tell_all() noexcept;
  void tell(Word& word, uint32_t value) noexcept;
  void moved(const PostedSide& one) noexcept;
  void end(PostedSide& one) noexcept;
  uint32_t quarter() const noexcept { return around_.shape.slots / 4; }
  [[noreturn]] void refuse_mailbox(const char* what) const;
  [[noreturn]] void refuse_length(const Channel& channel, uint64_t bytes, size_t room) const;

  const Surroundings around_;
  const int peer_;
  const bool same_process_;
  const Mailbox from_;
  const Mailbox to_;
  MessagePort* const port_ = nullptr;  // null: the peer is on this machine
  Waiter& sleepers_;

  std::mutex mutex_;
  std::vector<Channel> channels_;
  std::vector<uint16_t> sending_;  // channels that have sides to send
  std::vector<uint16_t> pulling_;  // channels of which a message is copied here, or comes here

  // Slots of the peer. This and `work_` are read without the lock, by a thread that looks whether
  // there is anything to do.
  std::atomic<uint32_t> read_{0};
  std::atomic<size_t> work_{0};  // channels that have something to send or copy
  uint32_t read_told_ = 0;
  size_t data_untold_ = 0;  // bytes of the data area behind slots that were read since

  uint32_t sent_ = 0;               // slots of this rank
  uint32_t free_until_ = 0;         // slots that the peer is known to have read
  std::vector<uint64_t> data_end_;  // by slot: the end of the data area that it has used
  uint64_t data_used_ = 0;          // bytes of the data area that were ever used
  uint64_t data_read_ = 0;          // and those that the peer has read

  const MessageCount* current_ = nullptr;  // during progress() and post()
  bool has_told_ = false;                  // the peer is to hear of something
  bool has_news_ = false;                  // another thread of this rank is
};
}  // namespace symm::host
