// All-gather and all-to-all: each rank sends a block to every rank, in an all-gather one block
// for all, in an all-to-all one for each.
#include <cstddef>
#include <cstdint>

#include "kernels/collective.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
namespace {
// Offset of this rank's block in the operand that each rank sends.
size_t block_for_me(const Execution& x) noexcept {
  return traits(x.call.collective).send_per_rank ? bytes_of(x) * static_cast<size_t>(x.rank) : 0;
}
}  // namespace

void blocks_ll(const Execution& x) {
  const size_t block = bytes_of(x);
  const size_t mine = block_for_me(x);
  x.sync.enter(x.send(), operand_bytes(x.call.collective, block, x.size).send);
  for (int peer = 0; peer < x.size; ++peer) {
    copy(x.recv() + block * static_cast<size_t>(peer), entered_operand(x, peer) + mine, block,
        false);
  }
}

// The operation may be in place: a chunk of recv is written after that chunk of send
// was published.
void blocks_staged(const Execution& x) {
  const auto take = [&](Range chunk, size_t at) {
    std::byte* to = x.recv() + chunk.begin;
    const std::byte* const mine = x.send() + block_for_me(x) + chunk.begin;
    for (int peer = 0; peer < x.size; ++peer, to += bytes_of(x)) {
      copy_planned(x, to, peer == x.rank ? mine : scratch_of(x, peer) + at, chunk.size());
    }
  };

  if (traits(x.call.collective).send_per_rank) {
    publish_blocks(x, take);
  } else {
    publish_operand(x, Part{}, take);
  }
}

// Each rank reads from the others, rather than writing to them, so that the result ends up in
// the cache of the rank that wants it. It begins with the rank after itself, so that not all
// ranks read from one at a time. In an all-gather in place no rank writes to the block that
// others read. An all-to-all is out of place on all ranks, because a rank's recv must not be
// memory that others still read.
void blocks_zero_copy(const Execution& x) {
  const size_t block = bytes_of(x);
  const size_t mine = block_for_me(x);
  for (int step = 0; step < x.size; ++step) {
    const auto peer = static_cast<size_t>((int64_t{x.rank} + step) % x.size);
    const std::byte* operand = peer == static_cast<size_t>(x.rank) ? x.send() : x.peer_send[peer];
    copy_planned(x, x.recv() + block * peer, operand + mine, block);
  }
  leave_together(x);
}
}  // namespace symm::host
