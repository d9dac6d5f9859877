// The connections between all ranks of a root group and the groups split from
// it: one authenticated SEQPACKET socket to every other process (a mailbox,
// for ranks that are threads of this process), kept open for life. It carries
// control messages with descriptors, and its closing is how death is noticed.
// All reading is done by the monitor thread, which sorts messages into an
// inbox, so any number of threads can wait for different messages at once.
//
// Ranks in failures and messages are numbers in the group that a topic names, once that
// group is attached; before, they are mesh ranks. In a forked child a mesh is of no
// use: its calls throw Error(invalid_handle) or do nothing.
#pragma once

#include <optional>

#include "core/mesh/wire.hpp"

namespace symm {
struct PeerIdentity {
  int64_t pid = 0;  // as seen from here; 0 if in a foreign pid namespace
  // random, drawn once per process (and again in a forked child)
  std::array<std::byte, 16> process{};
  bool same_process = false;
  bool watched = false;  // a pidfd confirms its death; otherwise its socket is the only sign
  std::string host{};    // of another machine, where the pid counts
};

// Kinds of messages that users of the mesh exchange, 16 ..
// 63; the mesh has kinds of its own besides (wire.hpp).
enum class MessageKind : uint16_t {
  control = 16,      // group creation: control segment
  vote = 17,         // two-phase creation
  split = 18,        // colour and key
  segment = 19,      // rendezvous: block and pad
  out_of_band = 20,  // rendezvous: what a transport has to agree on
  agreement = 21,    // who of a group lives
};

// What a message is about; sender and receiver must name the same.
struct Topic {
  MessageKind kind{};
  uint64_t group = 0;
  uint64_t tag = 0;
  uint64_t sequence = 0;
  auto operator<=>(
      const Topic&) const = default;  // NOLINT(modernize-use-nullptr): false alarm of clang-tidy 14
};

struct Message {
  Bytes body;
  std::vector<Fd> fds;
};

inline constexpr size_t kMaxBody = wire::kMaxBody;
inline constexpr size_t kMaxFds = wire::kMaxFds;

class PeerEvents;
class PeerLink;
struct Arrival;

class Mesh {
 public:
  // Connect to all other ranks. Collective; on failure all ranks throw the same error,
  // that of the rank to blame. Error(timeout) names all ranks that did not come,
  // Error(mismatch) a rank that disagrees on size or name.
  static std::shared_ptr<Mesh> connect(
      Store& store, int rank, int size, const std::string& name, Deadline deadline);
  // Of a rank that is connected to nobody yet; Wireup does that.
  Mesh(int rank, int size);
  Mesh(Mesh&&) = delete;
  ~Mesh();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  uint64_t nonce() const noexcept { return nonce_; }  // drawn by rank 0; the same on all ranks
  const PeerIdentity& peer(int rank) const;           // own rank allowed
  uint64_t rejected_connections() const noexcept { return rejected_; }

  // Queue a message to `peer` (not self). Descriptors are duplicated. Throws
  // Error(peer_failed), Error(timeout).
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline deadline);
  // Take the message on `topic` from `peer`, waiting for it. Exactly
  // `body_size` bytes and `fd_count` descriptors are accepted, anything
  // else is a protocol error that fails the peer. Throws Error(timeout),
  // Error(peer_failed), or the failure of `revocation` (may be null).
  Message receive(int peer, const Topic& topic, size_t body_size, size_t fd_count,
      const Revocation* revocation, Deadline deadline);

  // What `peer` has sent in another exchange with a tag of its own, and nobody has
  // asked for, while nothing has come on `topic`.
  std::optional<Topic> other(int peer, const Topic& topic) const;

  // What comes first: a message on `topic` from one of `peers`, or that one of them is
  // gone (no message). Revocations do not matter. Nothing at the deadline.
  struct News {
    int peer = -1;
    std::optional<Message> message;
  };
  std::optional<News> receive_any(
      std::span<const int> peers, const Topic& topic, size_t body_size, Deadline deadline);
  // Can `peer` map what this rank has made?
  bool carries_descriptors(int peer) const;
  // Has `peer` died, or left `group`?
  bool is_gone(int peer, uint64_t group) const;
  // The link to a process that has not left `group` and is
  // not known for certain to be dead; null if it has, or is.
  std::shared_ptr<PeerLink> link_if_in(int peer, uint64_t group) const;

  // Let `group`, whose ranks are `members` (mesh ranks, in
  // group order), hear of deaths, departures and aborts: from
  // now on the mesh calls revocation->revoke()/depart() with
  // *group* ranks. Events that came before are replayed.
  void attach(uint64_t group, const std::vector<int>& members,
      const std::shared_ptr<Revocation>& revocation);
  // Tell the other members that this rank left `group`, drop its unread messages,
  // forget its revocation. Never waits.
  void detach(uint64_t group) noexcept;
  // Tell the other members why the group is revoked; their revocation takes over
  // status, rank, pid and message. Never waits. All peers are told of a group that
  // could not be attached here; a failure without a rank is this rank's.
  void broadcast_failure(uint64_t group, const Failure& failure) noexcept;
  // To all peers, once; never waits.
  void say_bye() noexcept;

 private:
  friend class Wireup;
  bool in_child() const noexcept;
  void require_process() const;
  void require_peer(int peer) const;
  // "how": what follows its name
  Failure blame(Status status, int peer, const Topic& topic, const std::string& how) const;
  Message checked(int peer, const Topic& topic, Arrival arrival, size_t body_size, size_t fd_count);
  void post(int peer, wire::Type type, uint64_t group, const Failure* failure) noexcept;
  void pass_on_failure(uint64_t group) noexcept;

  const int rank_;
  const int size_;
  const uint32_t generation_;
  const std::shared_ptr<PeerEvents> events_;
  uint64_t nonce_ = 0;
  uint64_t cookie_ = 0;  // by which threads of this process find events_; 0: they do not
  uint64_t rejected_ = 0;
  std::string met_in_;  // a directory; "": they are all of this process
  std::atomic<bool> said_bye_{false};
};
}  // namespace symm
