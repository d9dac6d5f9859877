#include "kernels/host/publish.hpp"

namespace symm::host {
void reduce_scatter_ll(const Execution& x) {
  const size_t block = bytes_of(x);
  x.sync.enter(x.send(), block * static_cast<size_t>(x.size));
  Sources sources(x.size);
  for (int peer = 0; peer < x.size; ++peer) sources[peer] = entered_operand(x, peer) + block * static_cast<size_t>(x.rank);
  reduce_into(x, sources.data(), x.recv(), block);
}

void reduce_scatter_staged(const Execution& x) {
  Sources sources(x.size);
  publish_blocks(x, [&](Range chunk, size_t at) {
    for (int peer = 0; peer < x.size; ++peer) sources[peer] = scratch_of(x, peer) + at;
    sources[x.rank] = x.send() + bytes_of(x) * static_cast<size_t>(x.rank) + chunk.begin;
    reduce_into(x, sources.data(), x.recv() + chunk.begin, chunk.size());
  });
}

// Every rank reads its block of everybody's operand. In place it writes to its own block, which nobody else reads.
void reduce_scatter_zero_copy(const Execution& x) {
  const size_t block = bytes_of(x);
  std::byte* to = x.recv();
  Reduction reduction = reduction_of(x, x.peer_send, block);
  reduction.source_offset = block * static_cast<size_t>(x.rank);
  reduction.destinations = &to;
  reduction.destination_count = 1;
  reduce(reduction);
  leave_together(x);
}
}  // namespace symm::host
