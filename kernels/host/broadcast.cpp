// Broadcast. Data flows one way: the root waits for the others only before it overwrites what
// they may still read, and the others wait for the root only.
#include <cstddef>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
void broadcast_ll(const Execution& x) {
  const size_t bytes = bytes_of(x);
  if (x.rank == x.call.root) {
    x.sync.enter(x.send(), bytes);
    copy(x.recv(), x.send(), bytes, false);
  } else {
    x.sync.enter(nullptr, 0);
    copy(x.recv(), x.sync.await_entry(x.call.root), bytes, false);
  }
}

void broadcast_staged(const Execution& x) {
  const bool is_root = x.rank == x.call.root;
  publish_operand(x, is_root ? Part{true, false, kEveryRank} : Part{false, true, x.call.root},
      [&](Range chunk, size_t at) {
        copy_planned(x, x.recv() + chunk.begin, scratch_of(x, x.call.root) + at, chunk.size());
      });
  if (is_root) copy_planned(x, x.recv(), x.send(), bytes_of(x));
}

void broadcast_zero_copy(const Execution& x) {
  copy_planned(
      x, x.recv(), x.rank == x.call.root ? x.send() : x.peer_send[x.call.root], bytes_of(x));
  x.sync.arrive();
  if (x.rank == x.call.root) x.sync.await_all(x.size);  // they have read my operand
}
}  // namespace symm::host
