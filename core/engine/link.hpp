// A link carries bytes between processes; an object is one process's end. The message engine
// implements Sink, and calls a Link while it holds its own lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/little_endian.hpp"
#include "core/bootstrap/store.hpp"

namespace symm::engine {
// A number that a process draws, and tells the ranks of its groups over the mesh. Messages for this
// process bear it: those of a stranger, who speaks the engine's language but does not know the
// number, are dropped. Whoever can read the network can read it, too.
using Key = std::array<std::byte, 16>;

// The head of a message, and its one codec (encode(), decode()). The message engine fills in
// `source`, `target`, `group`, `bytes`, `sequence` and `key`; the other fields are the group's own.
struct Head {
  uint16_t kind = 0;
  uint16_t channel = 0;
  // Ranks of the group.
  uint16_t source = 0;
  uint16_t target = 0;
  uint64_t group = 0;
  uint64_t memory = 0;
  uint64_t offset = 0;
  // The bytes of the payload.
  uint64_t bytes = 0;
  uint64_t value = 0;
  // The messages of this group that went from source to target before.
  uint64_t sequence = 0;
  uint64_t call = 0;
  // The key of the process of `target`.
  Key key{};
};

using HeadBytes = std::array<std::byte, 80>;

inline void encode(const Head& head, HeadBytes& bytes) noexcept {
  size_t at = 0;
  const auto put_one = [&](auto field) {
    for (size_t i = 0; i < sizeof field; ++i) {
      bytes[at++] = static_cast<std::byte>(field >> (8 * i));
    }
  };
  const auto put = [&](auto... fields) { (put_one(fields), ...); };

  put(head.kind, head.channel, head.source, head.target);
  put(head.group, head.memory, head.offset, head.bytes, head.value, head.sequence, head.call);
  std::copy(head.key.begin(), head.key.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

inline std::optional<Head> decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != sizeof(HeadBytes)) return std::nullopt;

  Head head;
  Reader reader(bytes);
  reader.numbers(head.kind, head.channel, head.source, head.target);
  reader.numbers(
      head.group, head.memory, head.offset, head.bytes, head.value, head.sequence, head.call);
  head.key = reader.bytes<Key>();
  return head;
}

// The state of a message. A broken transfer has ended, and may have moved a part of
// the message.
enum class Transfer { under_way, whole, broken };

// A message on its way. The object stays where it is, untouched, until Sink::sent() is called.
struct Envelope {
  class Sink* sink = nullptr;
  // The number of the line on which the message goes.
  int line = -1;
  Head head;
  HeadBytes bytes;
  std::span<const std::byte> payload;
  // Keeps the payload until the message was sent.
  std::shared_ptr<const void> keep;
  // The fields below belong to the message engine. `owned`: the message engine
  // deletes the object.
  bool owned = false;
  std::atomic<Transfer> state = Transfer::under_way;
  // Null: the endpoint of the peer has gone.
  struct Peer* peer = nullptr;
};

class Sink {
 public:
  // Returns where a payload goes; null: the message is dropped. One call of arrived() follows
  // if the place is not null, or if there is no payload, in which case place() is not called.
  virtual std::byte* place(const Head& head) noexcept = 0;
  virtual void arrived(const Head& head, Transfer ended) noexcept = 0;
  virtual void sent(Envelope& envelope, Transfer ended) noexcept = 0;
  // The line is broken, for this reason. Called any number of times.
  virtual void lost(int line, const std::string& reason) noexcept = 0;

 protected:
  ~Sink() = default;
};

class Link {
 public:
  // When the destructor returns, the link touches no memory of a message any more.
  virtual ~Link() = default;
  // "ucx 1.13.1".
  virtual const std::string& name() const = 0;
  // The name, and the path of the library.
  virtual const std::string& where() const = 0;
  virtual const Bytes& address() const = 0;

  // Opens a line to the process of this address, and returns its number.
  virtual int connect(std::span<const std::byte> address) = 0;
  // If the result is under_way, Sink::sent() will be called; if it is broken, Sink::lost() was.
  virtual Transfer send(Envelope& envelope) noexcept = 0;
  // False: nothing happened.
  virtual bool progress() noexcept = 0;
  // Returns a descriptor that becomes readable when there is work; -1 if there is work already.
  virtual int arm() noexcept = 0;
  // Messages under way on the line, in both directions, end broken, soon.
  virtual void close(int line) noexcept = 0;
};

// Opens UCX: libucp.so.0, found at run time, never unloaded. UCX listens on these network
// interfaces alone, and uses RDMA devices besides; without interfaces, or if the user chose
// devices, it chooses by itself. Throws Error(unavailable), which says what was looked for, where,
// and what to install.
std::unique_ptr<Link> open_ucx(Sink& sink, const std::vector<std::string>& interfaces);
// Whether this process has a libucp.so.0, or finds one where open_ucx() looks.
bool ucx_is_installed();
// Opens symm's own connections, which listen on these addresses of this machine; without any, on
// the one that outside_address() returns. Throws Error(unavailable) without libsodium, or if the
// secret of this user's jobs cannot be read.
std::unique_ptr<Link> open_secure(Sink& sink, const std::vector<std::string>& addresses);
// The ports of RDMA devices that the kernel lists in this directory, such as "mlx5_0:1".
std::vector<std::string> rdma_devices(const std::string& directory = "/sys/class/infiniband");
// The value of UCX_NET_DEVICES for these interfaces and these RDMA devices; "" without interfaces.
std::string ucx_devices(
    const std::vector<std::string>& interfaces, const std::vector<std::string>& rdma);
}  // namespace symm::engine
