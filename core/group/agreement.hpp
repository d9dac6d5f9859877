// How the ranks of a group that live agree on which ranks live, also when the group is revoked and
// further ranks die meanwhile.
//
// Definitions
//   View      what a rank knows: which ranks are gone, which were late (they did not come before a
//             deadline), and a failure. A rank is left in a view if it is neither gone nor late.
//   Tell      a rank sends its view to every other rank that is not gone in it: when it begins, and
//             whenever its view has grown.
//   Hear      a rank learns of a death, or of the view of another, and merges it into its own.
//   Decide    a rank decides for its view when every other rank that is left in it has told it the
//             same view, and for another's view when it hears that this rank decided. It tells the
//             decision to every rank that is not gone, and is done: it tells no view any more.
//
// Invariants
//   I1  The view of a rank only grows until it decides.
//   I2  Messages from one rank to another arrive in the order in which they were sent.
//   I3  A death is never wrong: the kernel tells of it. A rank that is gone in a view is dead, or
//       has left, and a rank that has that view does not listen to it any more.
//
// Claim: as long as no deadline passes, no two ranks that live decide for different views. Let d0,
// d1, ... be the ranks that decide for V, in this order, and e0 the first that decides for W. Both
// d0 and e0 decide by what all that are left have told them. It cannot be that e0 is gone in V and
// d0 in W, since each would have died before the other decided. Say that e0 is left in V.
//   1. e0 told V to d0 before d0 decided. So W, for which e0 decides later, is larger than V (I1).
//   2. e0 decides for W when every rank left in W has told it W. Suppose that some of d0, d1, ...
//      are left in W, and let dk be the first of these: it told W, and did so before it decided.
//   3. dk is not d0, whose view was no larger than V until it decided. So dk decided because it
//      heard of the decision of an earlier dj, which is gone in W. But dk had told W by then, so
//      it did not listen to dj any more (I3): a contradiction.
//   4. So all of d0, d1, ... are gone in W, which means dead: none of them lives when W is decided
//      for. And while one of them lives, all that are left hear of V (I2).
//
// A rank may find a message of a later call when it has read all of this one (I2). It throws
// Overtaken, at once: had the sender decided in this call, it would have told so before.
//
// A deadline can be wrong. A rank that was late, and comes after all, hears that it was given up,
// and fails as the others do, unless all others had decided before their deadline.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
struct View {
  std::vector<bool> gone;  // by group rank: has died or left
  std::vector<bool> late;  // by group rank
  int by = -1;             // the rank whose failure it is; -1: there is none
  Failure failure;         // the worst of all; of equals the lowest rank's

  // Failures are not compared: a rank has one at most.
  bool operator==(const View& other) const {
    return gone == other.gone && late == other.late && by == other.by;
  }
};

// Other ranks are in a later call.
struct Overtaken : Error {
  explicit Overtaken(uint64_t later)
      : Error(Status::timeout, "the others are in a later call"), call(later) {}
  uint64_t call;
};

// The deadline of an agreement after a call whose own may be over: all have time to hear why it has
// failed.
Deadline deadline_to_hear(Deadline of_call) noexcept;
// A deadline before that of a call, for what one rank waits for and the others do not: so they hear
// in time why it has failed.
Deadline deadline_to_tell(Deadline of_call) noexcept;

// [collective over the living] Either all get one view, in which no rank is late, or all throw
// one Error(timeout), which names a rank that is late. `topic` is used for nothing else. Ranks
// that wait for this one elsewhere learn that it is in `call`.
View agree(Group& group, const Topic& topic, const Failure& mine, Deadline deadline,
    MessageCall call = MessageCall::group_shrink);
}  // namespace symm
