// What carries bytes between processes: one process's end of it. The message engine implements
// Sink and calls a Link under its lock.
#pragma once

#include <optional>

#include "core/base/little_endian.hpp"
#include "core/bootstrap/store.hpp"

namespace symm::engine {
// What each message begins with, and its one codec.
struct Head {
  uint16_t kind = 0, channel = 0;   // the group's own, as is what has no comment
  uint16_t source = 0, target = 0;  // ranks; the message engine's
  uint64_t group = 0;               // the message engine's
  uint64_t memory = 0, offset = 0;
  uint64_t bytes = 0;  // of the payload; the message engine's
  uint64_t value = 0;
  // how many messages of this group went from source to target before; the message engine's
  uint64_t sequence = 0;
  uint64_t call = 0;
};

using HeadBytes = std::array<std::byte, 64>;

inline void encode(const Head& head, HeadBytes& bytes) noexcept {
  size_t at = 0;
  const auto put = [&](auto... fields) {
    const auto one = [&](auto field) {
      for (size_t i = 0; i < sizeof field; ++i) {
        bytes[at++] = static_cast<std::byte>(field >> (8 * i));
      }
    };
    (one(fields), ...);
  };
  put(head.kind, head.channel, head.source, head.target);
  put(head.group, head.memory, head.offset, head.bytes, head.value, head.sequence, head.call);
}

inline std::optional<Head> decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != sizeof(HeadBytes)) return std::nullopt;
  Head head;
  Reader reader(bytes);
  reader.numbers(head.kind, head.channel, head.source, head.target);
  reader.numbers(
      head.group, head.memory, head.offset, head.bytes, head.value, head.sequence, head.call);
  return head;
}

// broken: it has ended, and may have moved a part
enum class Transfer { under_way, whole, broken };

// A message on its way. It lies where it is,
// untouched, until the sink was told that it was sent.
struct Envelope {
  class Sink* sink = nullptr;
  int line = -1;  // on which it goes
  Head head;
  HeadBytes bytes;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keep;
  bool owned = false;  // by the message engine, as is what follows
  std::atomic<Transfer> state = Transfer::under_way;
  struct Peer* peer = nullptr;  // null: its endpoint has gone
};

class Sink {
 public:
  // Where a payload goes; null: nowhere, the message is dropped. One arrived() follows
  // where it is not null, or there is no payload.
  virtual std::byte* place(const Head& head) noexcept = 0;
  virtual void arrived(const Head& head, Transfer ended) noexcept = 0;
  virtual void sent(Envelope& envelope, Transfer ended) noexcept = 0;
  virtual void lost(int line, const std::string& how) noexcept = 0;  // any number of times
 protected:
  ~Sink() = default;
};

class Link {
 public:
  // when it returns, nothing touches anybody's memory
  virtual ~Link() = default;
  virtual const std::string& name() const = 0;   // "ucx 1.13.1"
  virtual const std::string& where() const = 0;  // the same, and the path of the library
  virtual const Bytes& address() const = 0;
  // number of a new line to the process of this address
  virtual int connect(std::span<const std::byte> address) = 0;
  // under way: sent() will be told. Broken: lost() was
  virtual Transfer send(Envelope& envelope) noexcept = 0;
  virtual bool progress() noexcept = 0;  // false: nothing happened
  // a descriptor that becomes readable when there is something to do, or -1: there is already
  virtual int arm() noexcept = 0;
  // What is under way on the line, in both directions, ends broken, soon.
  virtual void close(int line) noexcept = 0;
};

// UCX: libucp.so.0, found at run time, never unloaded. Throws Error(unavailable): what
// was looked for, where, what to install.
std::unique_ptr<Link> open_ucx(Sink& sink);
}  // namespace symm::engine
