// The making of a mesh, top to bottom: introduce (who are the ranks),
// open (a socket for those who must connect to us), join (threads by
// the process's list, processes by sockets), and the commit vote.
#pragma once

#include "core/mesh/hello_listener.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/wireup_records.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/secure_listener.hpp"

namespace symm {
class Wireup {
 public:
  Wireup(Store& store, int rank, int size, const std::string& name, Deadline deadline);
  std::shared_ptr<Mesh> run();

 private:
  using Kind = WireupRecords::Kind;

  void introduce();
  wire::Identity describe_self() const;
  void check(int rank, const wire::Identity& identity) const;

  void open();
  void enter_directory();

  void join();
  void join_thread(int rank);
  void join_by_dialling(int rank);
  void join_by_accepting();
  bool admit(const wire::Hello& hello, PeerFd& socket);
  void listen_to_machines();
  void join_machine(int rank, uint16_t port);
  Bytes hello() const;
  void join_process(int rank, PeerFd socket, PeerProcess process);

  const wire::Identity& identity(int rank) const { return identities_[static_cast<size_t>(rank)]; }
  bool same_process(int rank) const { return identity(rank).process == identity(rank_).process; }
  // can meet by a socket
  bool near(int rank) const { return identity(rank).machine == identity(rank_).machine; }
  bool joined(int rank) const;
  // Throws if some rank is known to have failed: by its vote, by its record in the
  // store, or because its process is gone.
  void look_for_failures();
  Error died(int rank, const std::string& how);  // or its failure, if it left one in the store

  Store& store_;
  const int rank_;
  const int size_;
  const uint64_t name_hash_;
  const Deadline deadline_;
  WireupRecords records_;
  const std::shared_ptr<Mesh> mesh_;
  PeerEvents& events_;
  std::vector<wire::Identity> identities_;  // size 0: not known yet
  std::string directory_;
  // by the first rank of this machine, because the store has none
  std::unique_ptr<SharedDirectory> made_;
  std::unique_ptr<HelloListener> listener_;
  std::shared_ptr<SecureListener> of_machines_;
  PeerFd spare_;  // a descriptor for the vote, in which a rank that has run out of them says so
};

// The last step of making a mesh: each rank tells all others how connecting went, so
// that it went well on all or on none. Returns the worst of all, the same on all ranks;
// status ok if all are well. Never throws for what others did. Those that are in
// `group`, which is to be made of all, are told of a failure as one that came first.
Failure commit_vote(PeerEvents& events, WireupRecords& records, int rank, int size, uint64_t group,
    const Failure& mine, Deadline deadline);
}  // namespace symm
