// SPDX-License-Identifier: Apache-2.0
//
// The making of a mesh, top to bottom: introduce (who are the ranks), open (a socket for those who must connect to us), join
// (threads by the process's list, processes by sockets), vote. A rank that fails says so under every key that the others may be
// waiting for, so none of them waits for its deadline.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mesh/mesh_impl.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/socket.hpp"

namespace symm {

class Wireup {
 public:
  Wireup(Store& store, int rank, int size, const std::string& name, Deadline deadline);
  std::shared_ptr<Mesh> run();

 private:
  enum class Record {
    identity,
    address,
    verdict
  };
  std::string key(Record record, int rank) const;
  void publish(Record record, const wire::Buffer& packet);
  Bytes read(Record record, int rank, Deadline deadline);
  // Another rank's record. Throws its failure if it failed, Error(timeout) naming all ranks that are missing.
  wire::Packet fetch(Record record, int rank);
  // Throws if some rank is known to have failed: by its vote, by its record in the store, or because its process is gone.
  void look_for_failures(const std::vector<int>& awaited);
  std::optional<Failure> failure_in_store(int rank, Deadline deadline);
  Failure failure_of(const wire::Packet& packet, int rank) const;
  [[noreturn]] void throw_missing(std::vector<int> missing) const;

  void introduce();
  wire::Identity describe_self() const;
  void check(int rank, const wire::Identity& identity) const;
  bool same_process(int rank) const;

  void open();
  void enter_directory();

  void join();
  void join_thread(int rank);
  void join_by_dialling(int rank);
  void join_by_accepting();
  void accept_waiting();
  bool take_hello(PeerFd& socket);  // false: not yet
  void refuse() noexcept { ++rejected_; }

  void leave_reason(const Failure& failure);
  Failure vote(const Failure& mine);
  Failure hear(int rank, Deadline deadline);

  Store& store_;
  const int rank_;
  const int size_;
  const uint64_t name_hash_;
  const Deadline deadline_;
  const uint64_t allowed_ms_;
  const std::shared_ptr<MeshImpl> mesh_;
  std::vector<wire::Identity> identities_;
  std::vector<bool> known_;
  bool published_[2] = {false, false};
  std::string directory_;
  std::optional<SharedDirectory> made_;  // by rank 0, because the store has none
  std::unique_ptr<Listener> listener_;
  std::list<PeerFd> pending_;  // accepted, and silent so far
  uint64_t rejected_ = 0;
};

// Of two failures the one nearer to the cause: a rank that ran out of something explains a rank that is missing. Among equals,
// the lowest rank.
const Failure& worse(const Failure& a, const Failure& b) noexcept;

}  // namespace symm
