// A call in chunks, made of plain calls of one chunk each, between which words are written or
// awaited: an all-gather tells its rank, chunk by chunk, what has come, and a reduction waits for
// each chunk of its operand until the rank says that it is there.
//
// - All-gather: this rank's own part is copied. In step s = 1, 2, ... each rank then gets the part
//   of rank + s, while rank - s gets its own: each chunk of it by one all-to-all of pieces in which
//   all other pieces are empty. So parts come in the order that symm.h promises, a rank sends to
//   one rank at a time, and gets from one.
// - All-reduce: one all-reduce for each chunk.
// - Reduce-scatter: one reduce-scatter of pieces for chunk c of all blocks, in which each piece is
//   a chunk.
//
// Ranks must make the same plain calls. How many there are follows from the count and the bytes of
// a chunk, so a number made of both is in the signature of each of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm {
// What is done between the plain calls: copy(to, from, bytes); tell(index), which writes the word
// of a chunk that has come; and await(index), which waits for the word of a chunk.
template <class Copy, class Tell, class Await>
struct ChunkSteps {
  const Copy& copy;
  const Tell& tell;
  const Await& await;
};
template <class Copy, class Tell, class Await>
ChunkSteps(const Copy&, const Tell&, const Await&) -> ChunkSteps<Copy, Tell, Await>;

class ChunkedCall {
 public:
  ChunkedCall(const CollectiveCall& call, int rank, int size)
      : call_(call),
        rank_(static_cast<size_t>(rank)),
        ranks_(static_cast<size_t>(size)),
        chunks_(call.words.chunks_of(call.unit())),
        gathers_(call.collective == Collective::allgather) {
    if (call.collective == Collective::allreduce) return;
    pieces_.send.resize(ranks_);
    pieces_.recv.resize(ranks_);
  }
  ChunkedCall(ChunkedCall&&) = delete;

  // The first of the plain calls, and none is larger. Its pieces are those of this object.
  CollectiveCall plain_call() {
    if (gathers_) return exchange(ranks_ == 1 ? 0 : 1, 0);
    return reduction(0);
  }

  // The beginning of a plan's reason, for people.
  std::string why() const {
    return text(chunks_, chunks_ == 1 ? " chunk of " : " chunks of ", call_.words.chunk_bytes,
        " bytes", call_.collective == Collective::allreduce ? "" : " for each rank",
        gathers_ ? ", the ranks after this one in turn: " : ": ");
  }

  // Calls run(CollectiveCall) and, between those, the steps. A call of nothing is run, too: ranks
  // may have to agree on it.
  template <class Steps, class Run>
  void run(const Steps& steps, const Run& run) {
    if (gathers_) {
      gather(steps, run);
    } else {
      reduce(steps, run);
    }
  }

 private:
  template <class Steps, class Run>
  void gather(const Steps& steps, const Run& run) {
    if (chunks_ == 0 || ranks_ == 1) run(exchange(0, 0));
    for (size_t c = 0; c < chunks_; ++c) {
      const auto* const from = static_cast<const std::byte*>(call_.send) + at(c);
      std::byte* const to = static_cast<std::byte*>(call_.recv) + rank_ * call_.unit() + at(c);
      if (to != from) steps.copy(to, from, bytes(c));
      steps.tell(rank_ * chunks_ + c);
    }

    for (size_t step = 1; step < ranks_; ++step) {
      for (size_t c = 0; c < chunks_; ++c) {
        run(exchange(step, c));
        steps.tell((rank_ + step) % ranks_ * chunks_ + c);
      }
    }
  }

  template <class Steps, class Run>
  void reduce(const Steps& steps, const Run& run) {
    const size_t blocks = call_.collective == Collective::allreduce ? 1 : ranks_;
    for (size_t c = 0; c < chunks_; ++c) {
      for (size_t block = 0; block < blocks; ++block) {
        steps.await(block * chunks_ + c);
      }
      run(reduction(c));
    }
    if (chunks_ == 0) run(reduction(0));
  }

  // Chunk c of the part of rank + step comes here, and that of this rank goes to rank - step. In
  // step 0 nothing moves.
  CollectiveCall exchange(size_t step, size_t c) {
    CollectiveCall plain = plain_of(Collective::alltoallv);
    plain.algorithm = Algorithm::automatic;
    std::fill(pieces_.send.begin(), pieces_.send.end(), Piece{});
    std::fill(pieces_.recv.begin(), pieces_.recv.end(), Piece{});
    const size_t moved = step == 0 ? 0 : bytes(c);
    const size_t from = (rank_ + step) % ranks_;
    pieces_.send[(rank_ + ranks_ - step) % ranks_] = {at(c), moved};
    pieces_.recv[from] = {from * call_.unit() + at(c), moved};
    pieces_.send_bytes = at(c) + moved;
    pieces_.recv_bytes = from * call_.unit() + at(c) + moved;
    plain.count = 0;
    plain.pieces = &pieces_;
    return plain;
  }

  CollectiveCall reduction(size_t c) {
    if (call_.collective == Collective::allreduce) {
      CollectiveCall plain = plain_of(Collective::allreduce);
      plain.count = bytes(c) / size_of(call_.dtype);
      plain.send = static_cast<const std::byte*>(call_.send) + at(c);
      plain.recv = static_cast<std::byte*>(call_.recv) + at(c);
      return plain;
    }

    CollectiveCall plain = plain_of(Collective::reduce_scatterv);
    for (size_t rank = 0; rank < ranks_; ++rank) {
      pieces_.send[rank] = {rank * call_.unit() + at(c), bytes(c)};
      pieces_.recv[rank] = {0, bytes(c)};
    }
    pieces_.send_bytes = pieces_.send.back().at + bytes(c);
    pieces_.recv_bytes = bytes(c);
    plain.recv = static_cast<std::byte*>(call_.recv) + at(c);
    plain.count = 0;
    plain.pieces = &pieces_;
    return plain;
  }

  CollectiveCall plain_of(Collective collective) const {
    CollectiveCall plain = call_;
    plain.collective = collective;
    plain.words = {};
    return plain;
  }

  // Where a chunk begins in its block, and its bytes.
  size_t at(size_t c) const noexcept { return c * call_.words.chunk_bytes; }
  size_t bytes(size_t c) const noexcept {
    return std::min(call_.words.chunk_bytes, call_.unit() - at(c));
  }

  const CollectiveCall& call_;
  const size_t rank_;
  const size_t ranks_;
  const size_t chunks_;  // of a block
  const bool gathers_;
  Pieces pieces_;  // of the last plain call
};
}  // namespace symm
