// The connections between all ranks of a root group and the groups split from it. There is one
// authenticated SEQPACKET socket to every other process (a mailbox, for ranks that are threads of
// this process), which stays open. It carries control messages with descriptors; when it closes,
// the peer has died. The monitor thread does all reading, and sorts messages into an inbox, so any
// number of threads can wait for different messages at once.
//
// Ranks in failures and messages are numbers in the group that a topic names, once that group is
// attached; before, they are mesh ranks. In a forked child a mesh cannot be used: its calls throw
// Error(invalid_handle) or do nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/revocation.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/wire.hpp"

namespace symm {
struct PeerIdentity {
  int64_t pid = 0;  // in this process's pid namespace; 0 if the peer is in another
  // Random, drawn once per process (and again in a forked child).
  std::array<std::byte, 16> process{};
  bool same_process = false;
  bool watched = false;  // a pidfd confirms its death; else its socket is the only sign
  std::string host{};    // the other machine, in which the pid counts; "": this one
};

// Kinds of messages that users of the mesh exchange, 16 to 63. The mesh has kinds of its own
// besides (wire.hpp).
enum class MessageKind : uint16_t {
  control = 16,      // group creation: control segment
  vote = 17,         // two-phase creation
  split = 18,        // colour and key
  segment = 19,      // rendezvous: block and pad
  out_of_band = 20,  // rendezvous: what a transport has to agree on
  agreement = 21,    // which ranks of a group live
  growth = 22,       // where the ranks of a group that grows meet
};

// The subject of a message. Sender and receiver must name equal topics.
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
  // A message from a rank of another host has no descriptors.
  Fd take_fd(size_t index) { return index < fds.size() ? std::move(fds[index]) : Fd(); }
};

inline constexpr size_t kMaxBody = wire::kMaxBody;
inline constexpr size_t kMaxFds = wire::kMaxFds;

class PeerEvents;
class PeerLink;
struct Arrival;

// Hears which ranks leave a group also after this rank has left it, and after the mesh is gone: the
// links to ranks that were in the group stay open as long as this lives.
class Followed {
 public:
  Followed(std::shared_ptr<PeerEvents> events, uint64_t group);
  Followed(Followed&&) = delete;
  ~Followed();

  // Whether `peer` (mesh rank) has left the group in good order.
  bool has_left(int peer) const;

 private:
  const std::shared_ptr<PeerEvents> events_;
  const uint64_t group_;
  const uint32_t generation_;
};

class Mesh {
 public:
  // Connects to all other ranks. Collective; on failure all ranks throw one error, that of the rank
  // to blame. Error(timeout) names all ranks that did not come, Error(mismatch) a rank that
  // disagrees on size or name.
  static std::shared_ptr<Mesh> connect(
      Store& store, int rank, int size, const std::string& name, Deadline deadline);
  // Makes the mesh of a rank that is not connected yet; Wireup connects it.
  Mesh(int rank, int size);
  Mesh(Mesh&&) = delete;
  ~Mesh();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  uint64_t nonce() const noexcept { return nonce_; }  // drawn by rank 0; the same on all ranks
  const PeerIdentity& peer(int rank) const;           // own rank allowed
  // The addresses of this host, in numbers, by which this rank and those of other hosts are
  // connected; that of loopback if there are no other hosts. None if these addresses are not known.
  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  uint64_t rejected_connections() const noexcept { return rejected_; }

  // Queues a message to `peer` (not self). Descriptors are duplicated. Throws Error(peer_failed),
  // Error(timeout).
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline deadline);
  // Waits for a message on `topic` from `peer`, and takes it. Exactly `body_size` bytes and
  // `fd_count` descriptors are accepted; anything else is a protocol error that fails the peer.
  // Throws Error(timeout), Error(peer_failed), or the failure of `revocation` (may be null).
  Message receive(int peer, const Topic& topic, size_t body_size, size_t fd_count,
      const Revocation* revocation, Deadline deadline);

  // The topic of a message that `peer` has sent in another exchange, with another tag, and that no
  // call has asked for. None if a message has come on `topic`.
  std::optional<Topic> other(int peer, const Topic& topic) const;

  // The first message on `topic` from one of `peers`, or the news that one of them is gone (then
  // there is no message). If neither is there, the news that one has sent a message of this kind
  // and group with a tag from `later` on, which is for a later call. Revocations do not matter.
  // Nothing at the deadline.
  struct News {
    int peer = -1;
    std::optional<Message> message;
    std::optional<uint64_t> later_tag;
  };
  std::optional<News> receive_any(std::span<const int> peers, const Topic& topic, uint64_t later,
      size_t body_size, Deadline deadline);
  // Whether `peer` can map what this rank has made.
  bool carries_descriptors(int peer) const;
  // Whether `peer` has died, or left `group`.
  bool is_gone(int peer, uint64_t group) const;
  // The link to a peer in another process; null if the peer has left `group`, or is dead for
  // certain.
  std::shared_ptr<PeerLink> link_if_in(int peer, uint64_t group) const;
  // To be called before the group is detached.
  std::shared_ptr<const Followed> follow(uint64_t group) const;

  // Tells `group`, whose ranks are `members` (mesh ranks, in group order), of deaths, departures
  // and aborts: from now on the mesh calls revocation->revoke() and depart() with *group* ranks.
  // Events that came before are replayed.
  void attach(uint64_t group, const std::vector<int>& members,
      const std::shared_ptr<Revocation>& revocation);
  // Tells the other members that this rank left `group`, drops the group's unread messages, and
  // forgets its revocation. Never waits.
  void detach(uint64_t group) noexcept;
  // Tells the other members why the group is revoked; their revocations take over status, rank, pid
  // and message. Never waits. If the group could not be attached here, all peers are told. A
  // failure without a rank is this rank's.
  void broadcast_failure(uint64_t group, const Failure& failure) noexcept;
  // Tells all peers, once, that this rank leaves all groups. Never waits.
  void say_bye() noexcept;

 private:
  friend class Wireup;
  bool in_child() const noexcept;
  void require_process() const;
  void require_peer(int peer) const;
  // `how`: the words that follow the peer's name in the message.
  Failure blame(Status status, int peer, const Topic& topic, const std::string& how) const;
  Message checked(int peer, const Topic& topic, Arrival arrival, size_t body_size, size_t fd_count);
  void post(int peer, wire::Type type, uint64_t group, const Failure* failure) noexcept;
  void pass_on_failure(uint64_t group) noexcept;

  const int rank_;
  const int size_;
  const uint32_t generation_;
  const std::shared_ptr<PeerEvents> events_;
  uint64_t nonce_ = 0;
  uint64_t cookie_ = 0;  // by which threads of this process find events_; 0: not entered
  uint64_t rejected_ = 0;
  std::string met_in_;  // the directory of sockets; "": all ranks are of this process
  std::vector<std::string> addresses_;
  std::atomic<bool> said_bye_{false};
};
}  // namespace symm
