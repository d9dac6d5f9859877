// Stragglers: ranks of a revoked group that may still write to the memory of the others. A rank
// that was stopped in the middle of a call goes on in that call when it is resumed, whatever
// became of the group. Only its death ends the call for certain, or its own message that it is
// out of the call: it left the group, or took part in making another one when it knew that this
// one had failed. Until then no new group gets a buffer that a straggler has mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/mesh/mesh.hpp"

namespace symm {
class Group;
class PeerLink;

struct Straggler {
  int rank;    // in the group that was revoked
  int member;  // its mesh rank
  PeerIdentity identity;
  std::shared_ptr<PeerLink> link;  // knows whether it is dead
};

// The stragglers of one group. The object outlives the group.
class Stragglers {
 public:
  // Returns the stragglers of a group that is being formed. Throws std::bad_alloc.
  static std::shared_ptr<Stragglers> of(Group& group);
  // To be called when a group is formed. A rank of it is no longer a straggler of the groups that
  // it named as revoked.
  static void met(const Group& group) noexcept;
  // Writes the ids of the latest groups in which no rank of this process makes a call any more: all
  // of its ranks there know the group to be revoked, or have left it.
  static void name_revoked(std::span<uint64_t> ids) noexcept;

  std::vector<Straggler> all();
  bool over() noexcept;  // the group is gone, and has no straggler
  void group_goes() noexcept;

 private:
  using Process = decltype(PeerIdentity::process);
  std::mutex mutex_;
  uint64_t id_ = 0;
  Group* group_ = nullptr;        // the group, while it lives
  std::vector<Straggler> known_;  // its stragglers, as last looked for
  // Tells who of them leaves the group later than this rank. Null while the group lives, and if
  // there is no straggler.
  std::shared_ptr<const Followed> followed_;
  std::vector<Process> met_;  // processes that named it as revoked when they formed another
};
}  // namespace symm
