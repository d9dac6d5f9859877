// A round of an exchange of neighbours: each rank puts pieces into blocks of its neighbours, by
// lists that stay. One launch starts the round, another one finishes it.
//
// Definitions
//   Begun      the last round that a rank has started, in a word at each of its neighbours.
//   There      the last round of which a rank has put all pieces for a neighbour, in a word at it.
//   Segment    what one block puts to one neighbour. The host divides the pieces for each neighbour
//              among blocks by what they cost (piece_units.hpp), the same for start and finish.
//   Put        the last round in which a segment was put, in a word of this rank.
//
// Steps of round k
//   1. start: the first block tells all neighbours begun = k.
//   2. start: each block puts its segments for neighbours of which it has seen begun = k, for which
//      it looks a few times. It leaves the others to the finish.
//   3. finish: each block puts the segments that are left, as their neighbours begin the round.
//   4. The block that puts the last segment for a neighbour tells it there = k.
//   5. finish: the last block to end waits for there = k of each neighbour.
//
// Why a halo may be read between the finish of round k and the start of round k + 1, and what is
// put must stay from start to finish only
//   1. A rank stores into blocks of a neighbour in round k when it has seen that it has begun the
//      round. That one says so in its own start, which its stream runs behind all that has read the
//      halo.
//   2. There = k is released behind all pieces of round k: each block has met, and its first thread
//      fences before it counts its segment and after it has counted the last one.
//   3. The finish of a rank ends when all its blocks have put their segments, so nobody reads the
//      sources any more, and all pieces of its neighbours have come.
//
// Why each segment is put once in a round: its block alone reads and writes its word `put`, and the
// host orders the two launches.
//
// No circle of waits: a start waits for nobody, so once all ranks have launched the start of round
// k behind the finish of round k - 1, all begun = k come, then all pieces, then all there = k. A
// block waits for the starts of other ranks only, and the last one of a rank for pieces, when all
// others have ended: so nothing depends on how many have room on the device. A block goes on with
// whichever neighbour comes first: no neighbour waits for another one of this rank.
//
// The device counts the rounds, so graphs may be replayed between other calls. A start before the
// last round is finished, or a finish without a start, is reported, and nothing is put.
#include "kernels/cuda/copying.cuh"
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;

namespace {
// Looks of a start for a neighbour that has not begun the round: as long as it takes to launch a
// kernel.
constexpr uint32_t kLooks = 16;

struct Round {
  const ExchangeArgs& args;
  const DeviceComm& comm;
  uint32_t number;

  __device__ explicit Round(const ExchangeArgs& given) : args(given), comm(given.comm), number(0) {
    number = words().round + (args.finishes != 0 ? 0 : 1);
  }
  __device__ ExchangeWords& words() const { return *reinterpret_cast<ExchangeWords*>(args.words); }
  __device__ ExchangeNeighbor& neighbor(uint32_t i) const {
    return reinterpret_cast<ExchangeNeighbor*>(args.neighbors)[i];
  }
  __device__ ExchangeSegment& segment(uint32_t i) const {
    return reinterpret_cast<ExchangeSegment*>(args.segments)[i];
  }
  // The segments of this block.
  __device__ uint32_t first() const {
    return reinterpret_cast<const uint32_t*>(args.first_segment)[blockIdx.x];
  }
  __device__ uint32_t last() const {
    return reinterpret_cast<const uint32_t*>(args.first_segment)[blockIdx.x + 1];
  }
};

__device__ const uint32_t* word(uint64_t at) { return reinterpret_cast<const uint32_t*>(at); }

// Whether it is the turn of this launch. Each thread answers alike.
__device__ bool is_in_turn(const Round& round) {
  const ExchangeWords& words = round.words();
  const bool is_started = words.over != words.round;
  const bool finishes = round.args.finishes != 0;
  if (is_started == finishes) return true;
  if (threadIdx.x == 0) {
    report(round.comm, WaitError::out_of_turn, round.comm.rank, 0, round.number, words.over);
  }
  return false;
}

__device__ void tell_begun(const Round& round) {
  if (blockIdx.x != 0) return;
  for (uint32_t i = threadIdx.x; i < round.args.neighbor_count; i += blockDim.x) {
    store_release(reinterpret_cast<uint32_t*>(round.neighbor(i).begun_at), round.number);
  }
}

// Called by one thread.
__device__ bool has_begun(const Round& round, const ExchangeNeighbor& neighbor) {
  return static_cast<int32_t>(load_acquire(word(neighbor.begun_here)) - round.number) >= 0;
}

// Called when the block has met.
__device__ void tell_put(const Round& round, ExchangeSegment& segment) {
  segment.put = round.number;
  ExchangeNeighbor& neighbor = round.neighbor(segment.neighbor);
  fence_system();
  if (claim(&neighbor.put) + 1 != neighbor.segments) return;
  fence_system();
  store_relaxed(&neighbor.put, 0U);
  store_release(reinterpret_cast<uint32_t*>(neighbor.there_at), round.number);
}

__device__ void put(const Round& round, ExchangeSegment& segment, Tile& tile, BulkMover& bulk) {
  const auto* const pieces = reinterpret_cast<const ListedPiece*>(round.args.pieces);
  copy_walk({0, 0}, 0,
      {{segment.begin, segment.end}, segment.piece, segment.piece_end, segment.ahead}, tile, bulk,
      [&](uint64_t i, ListedPiece& piece) { piece = pieces[i]; });
  __syncthreads();
  if (threadIdx.x == 0) tell_put(round, segment);
  // The word of the segment is read by all threads.
  __syncthreads();
}

// Puts the segments of this block whose neighbours have begun the round. Returns the first of the
// others, or last() if there is none; `has_put`: whether anything was put. All threads come here.
__device__ uint32_t put_where_ready(
    const Round& round, Tile& tile, BulkMover& bulk, bool& has_put) {
  uint32_t late = round.last();
  has_put = false;
  for (uint32_t i = round.first(); i < round.last(); ++i) {
    ExchangeSegment& segment = round.segment(i);
    if (segment.put == round.number) continue;
    const bool is_ready = threadIdx.x != 0 || has_begun(round, round.neighbor(segment.neighbor));
    if (__syncthreads_and(is_ready) != 0) {
      put(round, segment, tile, bulk);
      has_put = true;
    } else if (late == round.last()) {
      late = i;
    }
  }
  return late;
}

// False: the kernel has to leave.
__device__ bool put_all(const Round& round, Tile& tile, BulkMover& bulk) {
  SpinState spin;
  uint32_t awaited = round.last();
  for (uint32_t looks = 0;; ++looks) {
    bool has_put;
    const uint32_t late = put_where_ready(round, tile, bulk, has_put);
    if (late == round.last()) return true;
    if (round.args.finishes == 0) {
      if (looks == kLooks) return true;
      continue;
    }

    // Another neighbour has left at another time.
    if (late != awaited) spin.left = false;
    awaited = late;
    bool ok = true;
    if (threadIdx.x == 0 && !has_put) {
      const ExchangeNeighbor& neighbor = round.neighbor(round.segment(late).neighbor);
      ok = keep_waiting(round.comm, spin, neighbor.rank, 0, round.number,
          load_relaxed(word(neighbor.begun_here)));
    }
    if (__syncthreads_and(ok) == 0) return false;
  }
}

// Whether all other blocks of the launch have come here before. All threads come here.
__device__ bool is_last(const Round& round) {
  // All threads have read which round it is.
  __syncthreads();
  const bool is_it = threadIdx.x != 0 || claim(&round.words().ended) + 1 == round.args.blocks;
  return __syncthreads_and(is_it) != 0;
}

// False: the kernel has to leave.
__device__ bool await_all(const Round& round) {
  bool ok = true;
  for (uint32_t i = threadIdx.x; ok && i < round.args.neighbor_count; i += blockDim.x) {
    const ExchangeNeighbor& neighbor = round.neighbor(i);
    ok = await_count(round.comm, word(neighbor.there_here), round.number, neighbor.rank, 1);
  }
  return __syncthreads_and(ok) != 0;
}

// Called by one thread, when all is done.
__device__ void count(const Round& round) {
  ExchangeWords& words = round.words();
  words.ended = 0;
  if (round.args.finishes != 0) {
    words.over = round.number;
  } else {
    words.round = round.number;
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(kCopyThreads, 2)
    SYMM_KERNEL(exchange_round)(const __grid_constant__ ExchangeArgs args) {
  begin();
  if (args.comm.size == 0) return;

  const Round round(args);
  if (!is_in_turn(round)) return;
  if (args.finishes == 0) tell_begun(round);

  SYMM_SHARED(Tile, tile);
  BulkMover bulk(args.in_bulk != 0);
  if (!put_all(round, tile, bulk)) return;
  if (!is_last(round)) return;
  if (args.finishes != 0 && !await_all(round)) return;
  if (threadIdx.x == 0) count(round);
}
