// What one rank tells another one about the messages between them (symm_send(), symm_recv()). The
// mailbox of `source` at `owner` lies in the owner's control segment, and `source` alone writes it.
// core/host/messages.hpp has the protocol, and its proof.
//
// A peer does not trust what it reads here: no index and no size is used before a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/futex.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
// The numbers and sizes of a group's mailboxes, equal on all ranks.
struct MailboxShape {
  uint32_t count = 0;     // mailboxes of a rank: one for each rank of the machine
  uint32_t slots = 0;     // a power of two, so that numbers of slots may wrap
  uint32_t channels = 0;  // of the group
  size_t data = 0;        // bytes behind the slots, for what does not fit into one

  // `ranks`: the largest number of ranks on one machine. The mailboxes of one rank together stay
  // well inside a cache of the second level, unless there are very many.
  static MailboxShape of(int ranks, int channels);

  size_t bytes() const noexcept;
  size_t all_bytes() const noexcept { return count * bytes(); }
  // The longest message that its sender copies and leaves.
  size_t most_left() const noexcept;
  // The longest piece of a message that goes through the mailbox.
  size_t most_piece() const noexcept { return data / 4; }
};

// The contents of a slot.
enum class SlotKind : uint16_t {
  inside = 1,     // a message that lies in the slot itself
  data = 2,       // a message that lies in the data area
  announced = 3,  // a message that is still with its sender, at a Place
  piece = 4,      // the next piece of the announced message of the channel, in the data area
  placed = 5      // the announced message of the channel is where the receiver wanted it
};

// Where bytes are in symmetric memory: on which rank follows from the direction. Memory 0: in no
// symmetric memory; in an announcement within a machine, the offset is an address then.
struct Place {
  uint64_t memory = 0;
  uint64_t offset = 0;
};

// What a slot holds of a message that is announced.
struct Announced {
  Place place{};
  // Where the sender has mapped the header of its control segment, by which its process is known if
  // the receiver reads its memory. 0: it is not to be read.
  uint64_t header = 0;
};

struct alignas(kLine) MessageSlot {
  static constexpr size_t kInside = 44;
  Word number;  // of the slot, counted from 1; stored last
  SlotKind kind;
  uint16_t channel;
  uint64_t bytes;               // of the message, or of the piece
  uint32_t read;                // as MailboxHead::read, on one machine
  std::byte contents[kInside];  // the message, its Place, or its offset in the data area

  template <class Part>
  void put(const Part& part) noexcept {
    static_assert(sizeof part <= kInside);
    std::memcpy(contents, &part, sizeof part);
  }
  template <class Part>
  Part get() const noexcept {
    static_assert(sizeof(Part) <= kInside);
    Part part;
    std::memcpy(&part, contents, sizeof part);
    return part;
  }
};
static_assert(sizeof(MessageSlot) == kLine);

// What the source of the mailbox tells the owner of one channel, about messages of the owner to it.
struct ChannelWords {
  Word taken;   // messages that are where the source's calls wanted them
  Word wanted;  // the number of the announced message for which `place` waits
  Place place;  // stored before `wanted`
  uint64_t unused;
};
static_assert(sizeof(ChannelWords) == kLine / 2);

struct alignas(kLine) MailboxHead {
  Word bell;  // rung when anything of the mailbox has changed and the owner sleeps
  Word read;  // slots of the owner's mailbox at the source that the source has read
};
static_assert(sizeof(MailboxHead) == kLine);

class Mailbox {
 public:
  Mailbox() = default;
  Mailbox(std::byte* base, const MailboxShape& shape) : base_(base), shape_(shape) {}

  MailboxHead& head() const { return *at<MailboxHead>(0); }
  ChannelWords& channel(size_t channel) const { return at<ChannelWords>(kLine)[channel]; }
  MessageSlot& slot(uint32_t number) const {
    return at<MessageSlot>(slots())[number & (shape_.slots - 1)];
  }
  std::byte* data(size_t offset) const {
    return base_ + slots() + shape_.slots * sizeof(MessageSlot) + offset;
  }

 private:
  size_t slots() const noexcept {
    return kLine + round_up(shape_.channels * sizeof(ChannelWords), kLine);
  }
  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_ = nullptr;
  MailboxShape shape_{};
};
}  // namespace symm::host
