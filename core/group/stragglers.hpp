// Who of a revoked group may still write to the memory of the others. A rank that was
// stopped in the middle of a call goes on in it when it is resumed, whatever became of
// the group; only its death ends that for certain, or its own word that it is out of
// the call: that it left the group, or took part in making another when it knew that
// this one had failed. Until then no new group gets a buffer which it has mapped.
#pragma once

#include "core/mesh/mesh.hpp"

namespace symm {
class Group;
class PeerLink;

struct Straggler {
  int rank;  // in the group that was revoked
  PeerIdentity identity;
  std::shared_ptr<PeerLink> link;  // knows of its death
};

// Those of one group, which it outlives.
class Stragglers {
 public:
  // Of a group that is being formed. Throws std::bad_alloc.
  static std::shared_ptr<Stragglers> of(Group& group);
  // The group is formed: whoever is in it is a straggler of no
  // group of which it said that it had been revoked before.
  static void met(const Group& group) noexcept;
  // The latest groups of which all ranks of this process know that they are revoked.
  static void name_revoked(std::span<uint64_t> ids) noexcept;

  std::vector<Straggler> all();
  bool over() noexcept;  // none will come any more
  void group_goes() noexcept;

 private:
  using Process = decltype(PeerIdentity::process);
  std::mutex mutex_;
  uint64_t id_ = 0;
  Group* group_ = nullptr;        // while it lives
  std::vector<Straggler> known_;  // after that
  std::vector<Process> met_;      // when they knew that it was revoked
};
}  // namespace symm
