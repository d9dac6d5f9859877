#include "kernels/host/publish.hpp"

namespace symm::host {
void alltoall_ll(const Execution& x) {
  const size_t block = bytes_of(x);
  x.sync.enter(x.send(), block * static_cast<size_t>(x.size));
  for (int peer = 0; peer < x.size; ++peer)
    copy(x.recv() + block * static_cast<size_t>(peer), entered_operand(x, peer) + block * static_cast<size_t>(x.rank), block,
        false);
}

// In place, a chunk of recv is written after it went out as send.
void alltoall_staged(const Execution& x) {
  publish_blocks(x, [&](Range chunk, size_t at) {
    for (int peer = 0; peer < x.size; ++peer) {
      const size_t in_block = bytes_of(x) * static_cast<size_t>(peer) + chunk.begin;
      copy_planned(x, x.recv() + in_block, peer == x.rank ? x.send() + in_block : scratch_of(x, peer) + at, chunk.size());
    }
  });
}

// Out of place on all ranks only: my recv must not be what others still read.
void alltoall_zero_copy(const Execution& x) {
  const size_t block = bytes_of(x);
  for (int step = 0; step < x.size; ++step) {
    const auto peer = static_cast<size_t>((int64_t{x.rank} + step) % x.size);
    const std::byte* operand = peer == static_cast<size_t>(x.rank) ? x.send() : x.peer_send[peer];
    copy_planned(x, x.recv() + block * peer, operand + block * static_cast<size_t>(x.rank), block);
  }
  leave_together(x);
}
}  // namespace symm::host
