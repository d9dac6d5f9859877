// SPDX-License-Identifier: Apache-2.0
//
// The mesh of one rank: what it knows of each peer and group, and what to do when something arrives. Events come from the monitor
// thread (sockets) or from the sending rank's thread (ranks of this process). No lock is held while a revocation, a log callback
// or another mesh is called.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "core/mesh/inbox.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"

namespace symm {

class MeshImpl final : public Mesh, public std::enable_shared_from_this<MeshImpl> {
 public:
  MeshImpl(int rank, int size);
  ~MeshImpl() override;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(peers_.size()); }
  uint64_t nonce() const noexcept override { return nonce_; }
  const PeerIdentity& peer(int rank) const override { return peers_.at(static_cast<size_t>(rank)).identity; }
  uint64_t rejected_connections() const noexcept override { return rejected_; }
  bool confirmed_dead(int rank) const noexcept override;
  void send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline) override;
  Message receive(int peer, const Topic& topic, size_t body_size, size_t fd_count, const Revocation* revocation,
                  Deadline deadline) override;
  void attach(uint64_t group, std::vector<int> members, std::shared_ptr<Revocation> revocation) override;
  void detach(uint64_t group) noexcept override;
  void broadcast_failure(uint64_t group, const Failure& failure) noexcept override;

  // Connecting (mesh_connect.cpp), on the connecting thread.
  void enter_process();  // makes this mesh known to other threads
  uint64_t cookie() const noexcept { return cookie_; }
  void set_nonce(uint64_t nonce) noexcept { nonce_ = nonce; }
  void set_rejected(uint64_t count) noexcept { rejected_ = count; }
  void join_self(PeerIdentity identity);
  void join_local(int peer, PeerIdentity identity, std::weak_ptr<MeshImpl> mesh);
  void join_remote(int peer, PeerIdentity identity, PeerFd socket, PeerProcess process);
  bool joined(int peer) const;
  bool gone(int peer) const;
  void send_verdict(int peer, const Failure& verdict) noexcept;
  // The verdict of `peer`, or nothing if it has gone without, or has not come before the deadline.
  std::optional<Failure> wait_verdict(int peer, Deadline deadline);
  std::optional<Failure> bad_verdict() const;  // of any peer so far
  void say_bye() noexcept;                     // to all peers, once; never waits

  // Events.
  void on_packet(int source, const wire::Packet& packet, std::vector<Fd> fds, bool fds_lost);
  void on_message(int source, const Topic& topic, Arrival arrival);
  void on_leave(int source, uint64_t group);
  void on_bye(int source);
  void on_failure(int source, uint64_t group, Failure failure);
  void on_verdict(int source, Failure verdict);
  void on_gone(int source, const std::string& how);  // unless it said bye, it failed
  void on_confirmed_dead(int source, const std::string& manner);

 private:
  enum class State {
    absent,
    here,
    left,
    failed
  };
  struct Early {  // news of a group that is not attached yet
    uint64_t group;
    std::optional<Failure> failure;  // else the peer left it
  };
  struct Peer {
    PeerIdentity identity;
    State state = State::absent;
    std::string how;  // it failed: "died: its connection closed"
    bool confirmed_dead = false;
    std::shared_ptr<PeerLink> link;
    std::weak_ptr<MeshImpl> local;
    std::optional<Failure> verdict;
    std::deque<Early> early;
  };
  struct Attached {
    std::vector<int> members;
    std::vector<bool> left;  // by group rank
    std::shared_ptr<Revocation> revocation;
    int index_of(int mesh_rank) const noexcept;  // -1 if no member
  };
  struct Notice {  // what to tell a revocation once no lock is held
    std::shared_ptr<Revocation> revocation;
    std::optional<Failure> failure;  // else `rank` departed
    int rank;
    int64_t pid;
  };

  Peer& at(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& at(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  bool in_child() const noexcept;
  void require_process() const;
  void require_peer(int peer) const;
  void changed() noexcept;
  static void give(std::vector<Notice> notices);
  int rank_in(uint64_t group, int peer) const;                          // lock held
  Failure describe_failure(int peer, int as_rank) const;                // lock held
  std::optional<Failure> trouble_with(int peer, uint64_t group) const;  // lock held
  void pass_on_failure(uint64_t group) noexcept;
  void note_early(int source, Early early);  // lock held
  bool is_closed(uint64_t group) const;      // lock held
  void tell(int peer, wire::Type type, uint64_t group, const Failure* failure) noexcept;
  template <class Look>
  bool wait(const Revocation* revocation, Deadline deadline, Look look);

  const int rank_;
  const uint32_t generation_;
  uint64_t nonce_ = 0;
  uint64_t cookie_ = 0;
  uint64_t rejected_ = 0;
  std::atomic<bool> said_bye_{false};
  Word changes_{0};  // grows with every event; receivers sleep on it
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::map<uint64_t, Attached> groups_;
  std::deque<uint64_t> closed_;  // groups that were detached lately: what still comes for them is dropped
  Inbox inbox_;
};

std::string name_of_peer(int rank, int64_t pid);  // "rank 3 (pid 4711)"

}  // namespace symm
