// How those ranks of a group that live agree on who that is, also when the group is
// revoked and further ranks die meanwhile.
//
// Each rank has a view: who is gone, who did not come before a deadline, and a failure.
// It tells its view to all others that are in it; whenever it hears of a death or of a
// view with more in it, its own grows, and it tells again. When all that are left in
// its view have told it the same view, it decides for that, says so, and is done; a
// rank that hears of a decision makes it its own, and passes it on before it is done.
//
// Why no two ranks that live decide differently:
//   1. Views only grow, and what a rank sends to another arrives
//      in order. So when one decides for V, each rank that is
//      left in V had V, and its view can only become larger.
//   2. A rank with a larger view W decides only when all that are left in W have told
//      it W. Whoever decided for V, or took over that decision, tells the decision and
//      never W; so they all are gone in W, that is dead, and nobody who is left in W
//      listens to them any more: nobody among these takes over V.
//   3. So while anybody who decided for V lives, W is
//      not decided, and all that are left hear of V.
// A death is never wrong: the kernel tells of it. A deadline may be: a rank that is
// late and then does come finds that it was given up, and fails as the others do,
// unless all others had decided before their deadline.
#pragma once

#include "core/group/group.hpp"

namespace symm {
struct View {
  std::vector<bool> gone;  // by group rank: dead, or it left
  std::vector<bool> late;
  int by = -1;      // whose failure it is
  Failure failure;  // the worst of all, of equals that of the lowest rank
  bool operator==(const View& other) const {
    // a rank has one failure at most
    return gone == other.gone && late == other.late && by == other.by;
  }
};

// [collective over the living] All get the same view, in which nobody is late, or throw
// the same Error(timeout) that names those who are. `topic` is used for nothing else.
View agree(Group& group, const Topic& topic, const Failure& mine, Deadline deadline);
}  // namespace symm
