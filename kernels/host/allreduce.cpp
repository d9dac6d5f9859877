// All-reduce, and reduce, which is the same with one taker. In the order of message size; two_shot_staged.cpp has the last.
#include "kernels/host/publish.hpp"

namespace symm::host {
namespace {
bool is_root(const Execution& x) { return x.rank == x.call.root; }

// The whole operand rides in the entry line: one hop, and no scratch.
void ll(const Execution& x, bool wanted) {
  const size_t bytes = bytes_of(x);
  x.sync.enter(x.send(), bytes);
  if (!wanted) return;
  Sources sources(x.size);
  for (int peer = 0; peer < x.size; ++peer) sources[peer] = entered_operand(x, peer);
  reduce_into(x, sources.data(), x.recv(), bytes);
}

// Every rank publishes its operand in its own scratch, and every taker combines all of them: one hop, size times the arithmetic.
void one_shot(const Execution& x, Part part) {
  Sources sources(x.size);
  publish_operand(x, part, [&](Range chunk, size_t at) {
    for (int peer = 0; peer < x.size; ++peer) sources[peer] = scratch_of(x, peer) + at;
    sources[x.rank] = x.send() + chunk.begin;
    reduce_into(x, sources.data(), x.recv() + chunk.begin, chunk.size());
  });
}

// Zero copy: each rank combines its slice of everybody's operand and stores it to `takers` results. In place this is safe, since
// a slice is read and written by its owner only.
void two_shot(const Execution& x, int first_taker, int takers) {
  const Range mine = slice(bytes_of(x), x.rank, x.size);
  Reduction reduction = reduction_of(x, x.peer_send, mine.size());
  reduction.source_offset = mine.begin;
  reduction.destinations = x.peer_recv + first_taker;
  reduction.destination_count = takers;
  reduction.destination_offset = mine.begin;
  reduce(reduction);
  leave_together(x);
}
}  // namespace

void allreduce_ll(const Execution& x) { ll(x, true); }
void allreduce_one_shot(const Execution& x) { one_shot(x, {}); }
void allreduce_two_shot(const Execution& x) { two_shot(x, 0, x.size); }

void reduce_ll(const Execution& x) { ll(x, is_root(x)); }
void reduce_one_shot(const Execution& x) {
  one_shot(x, is_root(x) ? Part{false, true, kEveryRank} : Part{true, false, x.call.root});
}
void reduce_two_shot(const Execution& x) { two_shot(x, x.call.root, 1); }
}  // namespace symm::host
