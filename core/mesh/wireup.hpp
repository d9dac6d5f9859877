// Makes a mesh, in these steps:
//   1. introduce: the ranks publish who they are;
//   2. open: a rank makes a socket for the ranks that must connect to it;
//   3. join: threads find each other by the process's list, processes by sockets;
//   4. the commit vote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/hello_listener.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/wire.hpp"
#include "core/mesh/wireup_records.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/secure_listener.hpp"
#include "core/socket/socket.hpp"

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
  // Whether the rank can be met by a socket in a directory.
  bool on_this_machine(int rank) const { return identity(rank).machine == identity(rank_).machine; }
  bool joined(int rank) const;
  std::vector<std::string> find_addresses() const;
  // Throws if a rank is known to have failed: by its vote, by its record in the store, or because
  // its process is gone.
  void look_for_failures();
  // The failure that the rank left in the store, else that it died.
  Error died(int rank, const std::string& how);

  Store& store_;
  const int rank_;
  const int size_;
  const uint64_t name_hash_;
  const Deadline deadline_;
  WireupRecords records_;
  const std::shared_ptr<Mesh> mesh_;
  PeerEvents& events_;
  std::vector<wire::Identity> identities_;  // by rank; one whose `size` is 0 is not known yet
  std::string directory_;                   // the directory of sockets
  // The directory, if the store has none: the first rank of this machine makes it.
  std::unique_ptr<SharedDirectory> made_;
  std::unique_ptr<HelloListener> listener_;       // for ranks of this machine
  std::shared_ptr<SecureListener> tcp_listener_;  // for ranks of other machines
  // Given up before the vote, so that a rank that has run out of descriptors can vote so.
  PeerFd spare_;
};
}  // namespace symm
