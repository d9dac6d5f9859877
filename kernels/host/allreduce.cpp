// All-reduce; reduce, an all-reduce whose result one rank takes; reduce-scatter, of whose
// result each rank takes its block; and scans, all-reduces of the ranks up to a rank's own.
// The algorithms are in the order of message size; the one for the largest messages is in
// two_shot_staged.cpp.
#include <cstddef>

#include "kernels/collective.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
bool is_root(const Execution& x) { return x.rank == x.call.root; }

// This rank's block in the operands of a reduce-scatter.
Range my_block(const Execution& x) {
  const size_t begin = bytes_of(x) * static_cast<size_t>(x.rank);
  return {begin, begin + bytes_of(x)};
}

// The whole operand, of `operand_bytes` bytes, is in the entry line: one hop, and no scratch.
// If `wanted`, this rank takes the part of the result that begins at `at`.
void ll(const Execution& x, size_t operand_bytes, size_t at, bool wanted) {
  x.sync.enter(x.send(), operand_bytes);
  if (!wanted) return;
  Sources sources(x.size);
  const int operands = ranks_combined(x.call.collective, x.rank, x.size);
  for (int peer = 0; peer < operands; ++peer) {
    sources[peer] = entered_operand(x, peer) + at;
  }
  reduce_into(x, sources.data(), x.recv(), bytes_of(x));
}

// Every rank publishes its operand, or each rank's block of it, in its own scratch, and every
// taker combines all of them: one hop, size times the arithmetic. A taker reads its own
// operand, `mine`, where it is.
auto combine_published(const Execution& x, Sources& sources, const std::byte* mine) {
  return [&x, &sources, mine](Range chunk, size_t at) {
    for (int peer = 0; peer < x.size; ++peer) {
      sources[peer] = scratch_of(x, peer) + at;
    }
    sources[x.rank] = mine + chunk.begin;
    reduce_into(x, sources.data(), x.recv() + chunk.begin, chunk.size());
  };
}

void one_shot(const Execution& x, Part part) {
  Sources sources(x.size);
  publish_operand(x, part, combine_published(x, sources, x.send()));
}

// Zero copy: each rank combines its part of all ranks' operands and stores it at `at`
// of the results of `takers` ranks. An operation in place is safe, since a part is read
// and written by its owner only.
void zero_copy(const Execution& x, Range mine, std::byte* const* results, int takers, size_t at) {
  Reduction reduction = reduction_of(x, x.peer_send, mine.size());
  reduction.source_offset = mine.begin;
  reduction.destinations = results;
  reduction.destination_count = takers;
  reduction.destination_offset = at;
  reduce(reduction);
  leave_together(x);
}

void two_shot(const Execution& x, int first_taker, int takers) {
  const Range mine = slice(bytes_of(x), x.rank, x.size);
  zero_copy(x, mine, x.peer_recv + first_taker, takers, mine.begin);
}
}  // namespace

void allreduce_ll(const Execution& x) { ll(x, bytes_of(x), 0, true); }

void allreduce_one_shot(const Execution& x) { one_shot(x, {}); }

void allreduce_two_shot(const Execution& x) { two_shot(x, 0, x.size); }

void reduce_ll(const Execution& x) { ll(x, bytes_of(x), 0, is_root(x)); }

void reduce_one_shot(const Execution& x) {
  one_shot(x, is_root(x) ? Part{false, true, kEveryRank} : Part{true, false, x.call.root});
}

void reduce_two_shot(const Execution& x) { two_shot(x, x.call.root, 1); }

void reduce_scatter_ll(const Execution& x) {
  ll(x, bytes_of(x) * static_cast<size_t>(x.size), my_block(x).begin, true);
}

void reduce_scatter_staged(const Execution& x) {
  Sources sources(x.size);
  publish_blocks(x, combine_published(x, sources, x.send() + my_block(x).begin));
}

// Each rank makes its slice of all ranks' results. In place that is safe, too: an element is read
// before it is written, by the rank that does both.
void scan_zero_copy(const Execution& x) {
  const Range mine = slice(bytes_of(x), x.rank, x.size);
  Reduction slices = reduction_of(x.call, x.peer_send, x.size, x.size, mine.size());
  slices.source_offset = mine.begin;
  slices.destinations = x.peer_recv;
  slices.destination_count = x.size;
  slices.destination_offset = mine.begin;
  reduce_prefixes(slices, x.call.collective == Collective::exscan);
  leave_together(x);
}

void reduce_scatter_zero_copy(const Execution& x) {
  std::byte* const to = x.recv();
  zero_copy(x, my_block(x), &to, 1, 0);
}
}  // namespace symm::host
