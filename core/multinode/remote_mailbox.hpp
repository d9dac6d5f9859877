// The messages of symm_send() and symm_recv() to and from one rank of another machine: the
// mailboxes at this end, and what the message engine carries of them.
//
// The protocol and its proof are those of a pair of one machine (core/host/message_pair.hpp). What
// the proof asks of mailboxes holds here, too:
//   1. A word of the mailbox at the other end takes the values that it had here, in their order:
//      arrived() is called in the order in which messages were sent.
//   2. The contents of a slot are there before its number, which arrived() stores last. Contents go
//      to their place as they come, perhaps before messages that were sent earlier have arrived.
//      They overwrite nothing that is still read: the sender has the word that the slot, and the
//      bytes of the data area, were read before.
//   3. What the mailbox here sends from stays as it is until it has arrived, for the same reason.
//
// A long message goes in parts, straight from the memory of one call to that of the other. The
// sender keeps a few under way, so that other messages for the rank find their way between them,
// and a group that fails has little to wait for. The sender's call ends when the receiver has told
// that the message is taken, and no part is read any more. The receiver's ends when all bytes have
// come: no more than these have a place, so none is written any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/message_port.hpp"
#include "kernels/host/slices.hpp"

namespace symm::multinode {
class RemoteMailbox final : public host::MessagePort {
 public:
  // `sleepers` counts the threads of this rank that sleep until messages come. `settles_later`
  // counts what has gone to the peer and need not have arrived.
  RemoteMailbox(engine::Endpoint& endpoint, int peer, const host::MailboxShape& shape,
      Waiter& sleepers, std::atomic<uint32_t>& settles_later);

  const host::MailboxShape& shape() const noexcept override { return shape_; }
  host::Mailbox from() const noexcept override { return from_; }
  host::Mailbox to() const noexcept override { return to_; }
  void tell_slot(uint32_t number) noexcept override;
  void tell_read() noexcept override;
  void tell_taken(uint16_t channel) noexcept override;
  void want(uint16_t channel, std::byte* to, size_t bytes) noexcept override;
  size_t came(uint16_t channel) const noexcept override;
  size_t send_part(
      uint16_t channel, size_t offset, std::span<const std::byte> rest) noexcept override;
  bool has_sent_parts(uint16_t channel) const noexcept override;
  void cut() noexcept override;

  // What an engine::Receiver is asked, of a message of the kinds kSlot, kSlotWord and kSlotPart.
  std::byte* place(const engine::Head& head) noexcept;
  void arrived(const engine::Head& head) noexcept;

 private:
  struct alignas(host::kLine) Line {
    std::byte bytes[host::kLine];
  };
  // A message of a channel that is received in parts. Under the mutex, but for `came`.
  struct Wanted {
    std::byte* to = nullptr;  // null: none is awaited
    size_t bytes = 0;
    size_t placed = 0;  // bytes that have come or are coming
    std::atomic<size_t> came{0};
  };
  void tell_word(uint64_t which, uint16_t channel, uint32_t value) noexcept;
  void part_has_gone(uint16_t channel) noexcept;
  std::byte* place_of_slot(const engine::Head& head) const noexcept;
  std::byte* place_of_part(const engine::Head& head) noexcept;
  void slot_arrived(const engine::Head& head) noexcept;
  void word_arrived(const engine::Head& head) noexcept;
  void part_arrived(const engine::Head& head) noexcept;

  engine::Endpoint& endpoint_;
  const int peer_;
  const host::MailboxShape shape_;
  Waiter& sleepers_;
  std::atomic<uint32_t>& settles_later_;
  // A message that is under way keeps what it is sent from.
  std::shared_ptr<Line[]> lines_;
  const host::Mailbox from_;
  const host::Mailbox to_;
  std::mutex mutex_;  // no call is made while it is held
  std::vector<Wanted> wanted_;
  std::atomic<uint32_t> under_way_{0};        // parts
  std::vector<std::atomic<uint32_t>> parts_;  // those of each channel
};
}  // namespace symm::multinode
