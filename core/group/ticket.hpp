// Tickets: plain bytes with which a process comes to a group that it is to join. And how it comes:
// what it and a member of the group say to each other before they meet as ranks.
//
// A newcomer waits in a shared directory of its own (directory.hpp), beside those in which groups
// of this user meet, with a listening socket inside. The name of the directory begins with the
// pool's number, so members need to know nothing else to find it, and it costs them nothing until
// they look. The pool is the group that was created first: it is the same for the groups that
// shrink() and grow() make of it, so a ticket stays good for these.
//
// A member that looks for newcomers connects, and asks. A newcomer answers one member at a time. It
// is offered a rank, or the connection ends: then it goes on waiting. The newcomer keeps the
// connection open until the group is formed, or has failed to form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/peer_fd.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/socket.hpp"

namespace symm {
inline constexpr size_t kTicketBytes = 512;
inline constexpr size_t kOfferFixed = 76;  // bytes of a RankOffer as it travels, but for its texts

struct Ticket {
  uint64_t pool = 0;
  uint64_t until_ns = 0;  // by process::boot_time_ns(); 0: for as long as the machine runs
  std::string parent;     // the directory of the directories of newcomers
  std::string group;      // the group's name, for messages
};

// A ticket for the processes of this user on this machine, good for `lifetime_ms`; 0: for ever.
Bytes make_ticket(uint64_t pool, const std::string& group, uint64_t lifetime_ms);
// Throws Error: invalid_argument if the bytes are no ticket, or one that has expired; unsupported
// if another version of symm has made it; unavailable if it is for another machine or user.
Ticket read_ticket(std::span<const std::byte> bytes);

// The rank that a newcomer gets, and what it has to know of its group. Or its place as a spare
// (spares.hpp): then rank and size are those of the mesh of ranks and spares.
struct RankOffer {
  int32_t rank = 0;
  int32_t size = 0;
  int32_t asker = 0;         // the rank of the member that offers it
  int32_t first_spare = -1;  // on the mesh of ranks and spares; -1: the newcomer is to be a rank
  int32_t backend = 0;       // the kind, of BackendKind
  int32_t channels = 0;      // this and what follows: as the group's configuration
  uint64_t deadline_ms = 0;  // of the formation
  uint64_t pool = 0;
  uint64_t flags = 0;
  uint64_t scratch_bytes = 0;
  uint64_t create_timeout_ms = 0;
  uint64_t timeout_ms = 0;
  std::string place;  // the shared directory in which the ranks meet
  std::string name;
};

// An offer as it travels. read_offer() returns false if it makes no sense; it leaves unread what
// follows.
void write_offer(Writer& out, const RankOffer& offer);
bool read_offer(Reader& in, RankOffer& offer);

// An offer, and the connection by which it came.
struct Accepted {
  RankOffer offer;
  PeerFd member;
  // Whether the member has ended the connection, or its process has ended.
  bool is_over() const;
};

// A newcomer that waits. It can be found as long as this lives.
class Newcomer {
 public:
  explicit Newcomer(const Ticket& ticket);

  // Waits for an offer. Throws Error(timeout).
  Accepted await_offer(Deadline deadline);

 private:
  // Answers the member that has connected, and hears what it offers; false if it offers nothing.
  bool answer(PeerFd& member, RankOffer& offer, Deadline deadline) const;

  const uint64_t pool_;
  const std::unique_ptr<SharedDirectory> place_;
  Listener listener_;
};

// The newcomers of a pool, as a member finds them.
class Newcomers {
 public:
  // Finds those that wait now.
  explicit Newcomers(uint64_t pool);

  // Waits until `count` of them have answered: those that have waited for longest of those that
  // answer. One that does not answer keeps nobody waiting. False at the deadline.
  bool gather(size_t count, Deadline deadline);
  size_t gathered() const noexcept { return ready_.size(); }

  // One that answered, to be offered rank `rank`.
  struct Ready {
    std::string name;  // of its directory
    PeerFd socket;
    int64_t pid = 0;
    int rank = -1;
  };
  std::vector<Ready>& ready() noexcept { return ready_; }
  // A newcomer that has gone meanwhile hears nothing; require_there() finds it.
  void offer(const Ready& newcomer, const RankOffer& offer) const;
  // Throws Error(peer_failed) if one of those that were offered a rank is gone.
  void require_there() const;

 private:
  void call();
  bool hear(Ready& newcomer);

  const uint64_t pool_;
  const std::string parent_;
  std::vector<Ready> asked_;
  std::vector<Ready> ready_;
};
}  // namespace symm
