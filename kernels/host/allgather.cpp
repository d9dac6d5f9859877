#include "kernels/host/publish.hpp"

namespace symm::host {
void allgather_ll(const Execution& x) {
  const size_t block = bytes_of(x);
  x.sync.enter(x.send(), block);
  for (int peer = 0; peer < x.size; ++peer)
    copy(x.recv() + block * static_cast<size_t>(peer), entered_operand(x, peer), block, false);
}

void allgather_staged(const Execution& x) {
  publish_operand(x, Part{}, [&](Range chunk, size_t at) {
    std::byte* to = x.recv() + chunk.begin;
    for (int peer = 0; peer < x.size; ++peer, to += bytes_of(x))
      copy_planned(x, to, peer == x.rank ? x.send() + chunk.begin : scratch_of(x, peer) + at, chunk.size());
  });
}

// Each rank reads from the others, rather than writing to them: the result ends up in the cache of who wants it. Starting after
// itself, so that not all read from one rank at a time. In place nobody writes to the block that others read.
void allgather_zero_copy(const Execution& x) {
  const size_t block = bytes_of(x);
  for (int step = 0; step < x.size; ++step) {
    const auto peer = static_cast<size_t>((int64_t{x.rank} + step) % x.size);
    copy_planned(x, x.recv() + block * peer, peer == static_cast<size_t>(x.rank) ? x.send() : x.peer_send[peer], block);
  }
  leave_together(x);
}
}  // namespace symm::host
