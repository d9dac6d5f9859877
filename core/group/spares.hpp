// Spares: newcomers that are connected with the ranks of a group before anybody dies, so that a
// group that takes them need not meet first.
//
// The living ranks of a group and its spares have a mesh of their own: the ranks first, in the
// order of the group, then the spares. A group of any of these is formed on that mesh, as a part
// of another group is. It keeps the spares that it has not taken, and so do groups that shrink()
// makes.
//
// A spare waits for what members tell it, on one topic:
//   ask      whether it is there. It answers, to that member, with the number of the question.
//   take     which rank it becomes of which group. The mesh ranks of that group come before.
//   release  that it is a newcomer again.
// It remembers nothing between two of these, so a member may die after any of them. If no member is
// left on the mesh, it is a newcomer again, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/group/ticket.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
inline constexpr int kMostSpares = 256;  // their numbers fit into a message of a growth

// The place of a spare in a group that is to be.
struct SpareCall {
  uint64_t id = 0;           // of the group
  RankOffer offer;           // without a place to meet in
  std::vector<int> members;  // the mesh ranks of the group
};

// The spares as a rank of the group knows them. The groups of this process that share them share
// one of these.
class Spares {
 public:
  // `first`: the mesh rank of the first spare.
  Spares(std::shared_ptr<Mesh> mesh, int first);

  const std::shared_ptr<Mesh>& mesh() const noexcept { return mesh_; }
  int first() const noexcept { return first_; }
  // The mesh ranks of those that live, and that no group has taken, as far as this process knows.
  std::vector<int> waiting() const;
  // Asks them, and returns the first `count` to answer; fewer if not so many do.
  std::vector<int> ask(size_t count, Deadline deadline) const;
  // Tells a spare its place. One that has gone meanwhile is told nothing.
  void offer(int spare, const SpareCall& call, Deadline deadline) const;
  // Those among `members` are ranks of a group now.
  void take(std::span<const int> members) noexcept;
  // All that wait are newcomers again.
  void release(Deadline deadline) const;

 private:
  const std::shared_ptr<Mesh> mesh_;
  const int first_;
  mutable std::mutex mutex_;
  std::vector<bool> taken_;  // by mesh rank
};

// What the ranks of a group know of its spares: none, or who they are, and the mesh rank of each
// rank of the group beside them; -1 for one that was gone when the spares came.
struct SparePlaces {
  std::shared_ptr<Spares> spares;
  std::vector<int> places;
};

// Waits, as a spare, for a place, and answers questions meanwhile. None if this process is a
// newcomer again. Throws Error(timeout).
std::optional<SpareCall> await_call(Mesh& mesh, int first, Deadline deadline);
}  // namespace symm
