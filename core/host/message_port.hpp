// How a pair's words get to a peer that does not share memory with this rank: a rank on another
// machine. Ranks of one machine read each other's mailboxes, and need no port.
//
// Each end of a port has two mailboxes. The thread that receives writes one of them for the peer,
// and this rank writes the other one, from which the port sends. So a pair reads and writes
// mailboxes whichever peer it has, and says besides what it has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/host/mailbox.hpp"

namespace symm::host {
// All calls are made under the lock of the pair. All but cut() return at once.
class MessagePort {
 public:
  virtual ~MessagePort() = default;
  virtual const MailboxShape& shape() const noexcept = 0;
  virtual Mailbox from() const noexcept = 0;
  virtual Mailbox to() const noexcept = 0;

  // Words and slots of to() that have another value now.
  virtual void tell_slot(uint32_t number) noexcept = 0;
  virtual void tell_read() noexcept = 0;
  virtual void tell_taken(uint16_t channel) noexcept = 0;

  // Asks for the announced message of a channel, which goes to `to` as it comes. Nothing goes there
  // any more when all of it has come, or after cut().
  virtual void want(uint16_t channel, std::byte* to, size_t bytes) noexcept = 0;
  // The bytes of that message that have come.
  virtual size_t came(uint16_t channel) const noexcept = 0;

  // Sends the next part of the announced message of a channel, of which `rest` is left, from
  // `offset` on. Returns the bytes of the part; 0: so many parts of all channels are under way that
  // this one has to wait, and the bell of from() is rung when one of them has gone.
  virtual size_t send_part(
      uint16_t channel, size_t offset, std::span<const std::byte> rest) noexcept = 0;
  // Whether no part of that message is under way, so that nobody reads its memory any more.
  virtual bool has_sent_parts(uint16_t channel) const noexcept = 0;
  // When this returns, nothing goes to the peer or comes from it any more.
  virtual void cut() noexcept = 0;

 protected:
  MessagePort() = default;
};
}  // namespace symm::host
