// Collectives in pieces (kernels/pieces.hpp): what each rank sends to each has a length and a
// place of its own, which only the two of them know, and perhaps not before their kernels run.
//
// Definitions.
//   A launch has one block for each work group (pipeline.cuh), which takes an equal part of every
//   piece: in one if the piece goes through slots, else in turns with the other blocks. So blocks
//   know nothing of each other.
//   Blocks beyond the work groups copy this rank's own piece meanwhile: in a block that stores to
//   other ranks it would wait for links.
//   The destination of a piece is where its receiver expects it, and how long it is to be. A
//   slot, of which each source has kSlots in the receiver's first stage, holds one chunk.
//
// Steps of a call.
//   1. Every rank posts to every other the destination of the piece that comes from that one.
//   2. A rank that has read a destination compares it with what it sends. It stores the pieces
//      that can go straight to their destinations, and announces that it has finished with them.
//   3. Other pieces (recv is private memory, or still holds what is to be sent, or the piece is
//      to be combined) go through slots, in steps: push a chunk to each rank, then take one from
//      each.
//   4. A rank leaves when all others have finished with it, which means that they have read what
//      it posted.
//
// Why slots are free, and steps go on.
//   1. A push of step k waits for takes of step k - kSlots, and a take of step k for pushes of
//      step k. So no rank waits for a later step of another.
//   2. A rank that pushes has read the receiver's destination of this call. That is posted when
//      the receiver's calls before have ended, whatever used the slots in them; so it is in the
//      pipeline, and in another group that works in the same stages.
//   3. Where an all-to-all is in place, what a rank sends in step k lies where it takes in step
//      k, and a barrier of the block is between both.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
using FromPeers = ControlWords::FromPeers;
using Destination = FromPeers::Pieces::Destination;

// The places of pieces, by rank.
struct PieceLayout {
  // The pieces of this rank's operands.
  PiecesArgs::Range send[kRoom];
  PiecesArgs::Range recv[kRoom];
  // The destination of this rank's piece, as mapped here; null: the piece goes through slots.
  char* to[kRoom];
  // The destination as its rank has posted it.
  uint64_t memory[kRoom];
  uint64_t offset[kRoom];
  uint64_t stride[kRoom];
};

struct Packs {
  uint64_t begin;
  uint64_t end;
};

struct Block : WorkGroup {
  const PiecesArgs& all;
  PieceLayout& layout;
  FromPeers::Pieces& theirs;
  uint64_t slot_packs;

  __device__ Block(const PiecesArgs& a, PieceLayout& shared)
      : WorkGroup(a.call, a.call.comm.size, true),
        all(a),
        layout(shared),
        theirs(mine.from_peers.pieces),
        slot_packs(comm.stage_slot / kPack) {}

  // This block's part of a piece of `packs` packs.
  __device__ Packs my_part(uint64_t packs) const {
    constexpr uint64_t kLeast = 512;
    const auto blocks = static_cast<uint64_t>(args.work_groups);
    const uint64_t each = packs < kLeast * blocks ? kLeast : (packs + blocks - 1) / blocks;
    const uint64_t begin = index * each < packs ? index * each : packs;
    return {begin, packs - begin < each ? packs : begin + each};
  }

  __device__ Packs chunk_of(const Packs& part, uint64_t step) const {
    const uint64_t begin =
        part.end - part.begin < step * slot_packs ? part.end : part.begin + step * slot_packs;
    return {begin, part.end - begin < slot_packs ? part.end : begin + slot_packs};
  }

  __device__ Packs part_of(const PiecesArgs::Range& piece) const {
    return my_part(Rows(all, piece.bytes).all);
  }

  __device__ uint32_t chunks_of(const PiecesArgs::Range& piece) const {
    const Packs part = part_of(piece);
    return static_cast<uint32_t>((part.end - part.begin + slot_packs - 1) / slot_packs);
  }

  // The slot in which `source` stores a chunk for `owner`, the `number`-th since the
  // group began.
  __device__ char* slot_of_chunk(int owner, uint32_t number, int source) const {
    return stage(owner, 0, index * kSlots + (number & (kSlots - 1)), source, comm.stage_slot);
  }

  // Whether recv is filled from slots.
  __device__ bool takes() const { return args.recv_memory == 0; }

  __device__ uint32_t chunks_to(int p) const {
    return p == me || layout.to[p] != nullptr ? 0 : chunks_of(layout.send[p]);
  }

  __device__ uint32_t chunks_from(int p) const {
    return p == me || !takes() ? 0 : chunks_of(layout.recv[p]);
  }
};

// ---- where this rank's pieces lie

__device__ bool lay_out(const Block& s) {
  bool ok = true;
  const int p = static_cast<int>(threadIdx.x);
  if (p < s.n) {
    s.layout.send[p] = s.all.send[p];
    s.layout.recv[p] = s.all.recv[p];
    if (s.all.counts[0].counts != 0) {
      ok = read_counts(s.all, p, 0, s.layout.send[p], s.index) &&
           read_counts(s.all, p, 1, s.layout.recv[p], s.index);
    }
  }
  return __syncthreads_and(ok) != 0;
}

// ---- destinations

// Posts to each rank the destination of the piece that comes from it.
__device__ void post(const Block& s, uint32_t call) {
  const int p = static_cast<int>(threadIdx.x);
  if (p >= s.n) return;

  FromPeers::Pieces& there = words_of(s.comm, p).from_peers.pieces;
  Destination& here = there.destination[s.index][s.me];
  store_relaxed(&here.memory, s.args.recv_memory);
  store_relaxed(&here.offset, s.args.recv_offset + s.layout.recv[p].at);
  store_relaxed(&here.bytes, s.layout.recv[p].bytes);
  store_relaxed(&here.row_bytes, s.all.row_bytes);
  store_relaxed(&here.row_stride, s.all.row_stride);
  store_relaxed(&here.detail, s.args.detail);
  store_relaxed(&here.count, s.args.count);

  // Publish them.
  store_release(&there.posted[s.index][s.me], call);
}

// Whether rank p expects what this rank sends to it. Reports a difference.
__device__ bool compare(const Block& s, int p, const Destination& expected) {
  const uint64_t detail = load_relaxed(&expected.detail);
  const uint64_t count = load_relaxed(&expected.count);
  if (detail != s.args.detail || count != s.args.count) {
    report(
        s.comm, WaitError::mismatch, p, s.index, 0, 0, detail, count, s.args.detail, s.args.count);
    return false;
  }

  const uint64_t bytes = load_relaxed(&expected.bytes);
  const uint64_t row = load_relaxed(&expected.row_bytes);
  const uint64_t sent = s.layout.send[p].bytes;
  if (bytes == sent && row == s.all.row_bytes) return true;

  const bool in_rows = bytes == sent;
  report(s.comm, WaitError::other_length, p, s.index, in_rows ? 1 : 0, 0,
      (in_rows ? row : bytes) / s.all.element, 0,
      (in_rows ? s.all.row_bytes : sent) / s.all.element);
  return false;
}

// Whether a piece lies within a memory, from `offset` on.
__device__ bool fits(
    const Rows& rows, uint64_t piece, uint64_t stride, uint64_t offset, uint64_t memory) {
  if (offset > memory || rows.bytes > memory - offset) return false;
  const uint64_t more = piece / rows.bytes - 1;
  return more == 0 || (stride != 0 && more <= (memory - offset - rows.bytes) / stride);
}

// Reads the destinations of this rank's pieces, and finds those that it can store to.
__device__ bool read_destinations(const Block& s, uint32_t call) {
  PieceLayout& layout = s.layout;
  bool ok = true;
  const int p = static_cast<int>(threadIdx.x);
  if (p < s.n) {
    const Destination& there = s.theirs.destination[s.index][p];
    ok =
        await_count(s.comm, &s.theirs.posted[s.index][p], call, p, s.index) && compare(s, p, there);
    layout.to[p] = nullptr;
    layout.memory[p] = p == s.me || layout.send[p].bytes == 0 ? 0 : load_relaxed(&there.memory);
    layout.offset[p] = load_relaxed(&there.offset);
    layout.stride[p] = load_relaxed(&there.row_stride);
  }
  if (__syncthreads_and(ok) == 0) return false;

  // All threads search the table at once.
  const auto* table = reinterpret_cast<const MemoryEntry*>(s.comm.memories);
  for (int i = static_cast<int>(threadIdx.x); i < s.comm.memory_count;
      i += static_cast<int>(blockDim.x)) {
    const uint64_t id = table[i].id;
    for (int r = 0; r < s.n && id != 0; ++r) {
      if (layout.memory[r] != id) continue;

      const uint64_t bytes = layout.send[r].bytes;
      if (fits(Rows(s.all, bytes), bytes, layout.stride[r], layout.offset[r], table[i].bytes)) {
        layout.to[r] = reinterpret_cast<char*>(table[i].block[r] + layout.offset[r]);
      }
    }
  }
  __syncthreads();

  if (p < s.n && layout.memory[p] != 0 && layout.to[p] == nullptr) {
    report(s.comm, WaitError::unknown_memory, p, s.index, 0, 0);
    ok = false;
  }
  return __syncthreads_and(ok) != 0;
}

// ---- the data

constexpr uint32_t kAtOnce = 4;

// Moves packs with kAtOnce loads under way before the first store.
template <class Load, class Store>
__device__ __forceinline__ void each_pack(const Packs& packs, Load&& load, Store&& store,
    uint64_t thread = threadIdx.x, uint64_t threads = blockDim.x) {
  for (uint64_t q = packs.begin + thread; q < packs.end; q += kAtOnce * threads) {
    uint4 v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * threads < packs.end) v[i] = load(q + i * threads);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * threads < packs.end) store(q + i * threads, v[i]);
    }
  }
}

// Stores a piece to its destination, as block number `block` of `blocks`. Does nothing if the
// piece goes through slots, or is there already.
__device__ void store_to_destination(const Block& s, const PiecesArgs::Range& piece, char* to,
    uint64_t row_stride, uint32_t block, uint32_t blocks) {
  const char* from = reinterpret_cast<const char*>(s.args.send) + piece.at;
  if (to == nullptr || to == from || piece.bytes == 0) return;

  // By turns of blocks, not a part each: what is under way at a time lies close together.
  const uint64_t first = uint64_t{block} * blockDim.x + threadIdx.x;
  const uint64_t stride = uint64_t{blocks} * blockDim.x;
  if (s.all.row_bytes == 0) {
    return push(from, piece.bytes, first, stride, 1, [&](int) { return to; });
  }

  const Rows rows(s.all, piece.bytes);
  each_pack(
      {0, rows.all}, [&](uint64_t q) { return rows.load(from, rows.bytes, q); },
      [&](uint64_t q, uint4 v) { rows.store(to, row_stride, q, v); }, first, stride);
}

template <class Receiver>
__device__ void push_chunk(const Block& s, int p, uint32_t step) {
  const PiecesArgs::Range& piece = s.layout.send[p];
  const char* from = reinterpret_cast<const char*>(s.args.send) + piece.at;
  const Rows rows(s.all, piece.bytes);
  const Packs packs = s.chunk_of(s.my_part(rows.all), step);
  auto* to = reinterpret_cast<uint4*>(s.slot_of_chunk(p, s.mine.pushed[s.index][p] + step, s.me)) -
             packs.begin;
  each_pack(
      packs, [&](uint64_t q) { return rows.load(from, Receiver::send_stride(s, rows), q); },
      [&](uint64_t q, uint4 v) { to[q] = v; });
}

// Keep and Combine are what a receiver does with the chunks of a step.
struct Keep {
  // A sender may store a piece straight to its destination.
  static constexpr bool kMayStore = true;

  static __device__ uint32_t own_chunks(const Block&) { return 0; }

  // Bytes from one row of send to the next: those of recv lie apart.
  static __device__ uint64_t send_stride(const Block&, const Rows& rows) { return rows.bytes; }

  static __device__ void take(const Block& s, uint32_t step) {
    const int first = s.first_of(step);
    for (int i = 0; i < s.n - 1; ++i) {
      const int p = s.another(i, first);
      if (step >= s.chunks_from(p)) continue;

      const PiecesArgs::Range& piece = s.layout.recv[p];
      const Rows rows(s.all, piece.bytes);
      const Packs packs = s.chunk_of(s.my_part(rows.all), step);
      const auto* from = reinterpret_cast<const uint4*>(
                             s.slot_of_chunk(s.me, s.mine.taken[s.index][p] + step, p)) -
                         packs.begin;
      char* to = reinterpret_cast<char*>(s.args.recv) + piece.at;
      each_pack(
          packs, [&](uint64_t q) { return from[q]; },
          [&](uint64_t q, uint4 v) { rows.store(to, s.all.row_stride, q, v); });
    }
  }
};

// All pieces for a rank are as long as its own.
template <class Arithmetic>
struct Combine {
  static constexpr bool kMayStore = false;

  static __device__ uint32_t own_chunks(const Block& s) { return s.chunks_of(s.layout.recv[s.me]); }

  // Those of recv lie one behind the other.
  static __device__ uint64_t send_stride(const Block& s, const Rows&) { return s.all.row_stride; }

  static __device__ void take(const Block& s, uint32_t step) {
    const PiecesArgs::Range& own = s.layout.send[s.me];
    const PiecesArgs::Range& piece = s.layout.recv[s.me];
    const char* send = reinterpret_cast<const char*>(s.args.send) + own.at;
    char* recv = reinterpret_cast<char*>(s.args.recv) + piece.at;
    const Rows rows(s.all, piece.bytes);
    const Packs packs = s.chunk_of(s.my_part(rows.all), step);

    for (uint64_t q = packs.begin + threadIdx.x; q < packs.end; q += blockDim.x) {
      const auto load = [&](int r) {
        if (r == s.me) return rows.load(send, s.all.row_stride, q);
        return reinterpret_cast<const uint4*>(
            s.slot_of_chunk(s.me, s.mine.taken[s.index][r] + step, r))[q - packs.begin];
      };
      rows.store(recv, rows.bytes, q, Arithmetic::run_loaded(load, s.n, s.args));
    }
  }
};

// Long, since a kernel is not divided: that can change what stays in registers.
template <class Receiver>
__device__ __forceinline__ void exchange(const Block& s, uint32_t call) {
  const int p = static_cast<int>(threadIdx.x);
  const bool is_peer = p < s.n && p != s.me;
  const RankSet others = s.everybody().without(s.me);

  if constexpr (Receiver::kMayStore) {
    for (int i = 0; i < s.n - 1; ++i) {
      const int r = s.another(i, s.first_of(0));
      store_to_destination(s, s.layout.send[r], s.layout.to[r], s.layout.stride[r], s.index,
          static_cast<uint32_t>(s.args.work_groups));
    }
  }
  s.announce(
      [&](FromPeers& words) -> uint32_t& { return words.pieces.finished[s.index][s.me]; }, call);

  // Chunks to and from this thread's peer in this call, and in the calls before.
  const uint32_t push = is_peer ? s.chunks_to(p) : 0;
  const uint32_t take = is_peer ? s.chunks_from(p) : 0;
  const uint32_t pushed = is_peer ? s.mine.pushed[s.index][p] : 0;
  const uint32_t taken = is_peer ? s.mine.taken[s.index][p] : 0;

  // Steps of this call.
  uint32_t pushes = 0;
  uint32_t takes = Receiver::own_chunks(s);
  for (int r = 0; r < s.n; ++r) {
    pushes = pushes < s.chunks_to(r) ? s.chunks_to(r) : pushes;
    takes = takes < s.chunks_from(r) ? s.chunks_from(r) : takes;
  }

  bool ok = true;
  for (uint32_t step = 0; step < pushes || step < takes; ++step) {
    if (step < pushes) {
      const uint32_t now = pushed + (step < push ? step + 1 : push);
      ok = s.await(s.theirs.taken[s.index], now - kSlots, others);
      if (!ok) break;

      const int first = s.first_of(step);
      for (int i = 0; i < s.n - 1; ++i) {
        const int r = s.another(i, first);
        if (step < s.chunks_to(r)) push_chunk<Receiver>(s, r, step);
      }
      s.announce(
          [&](FromPeers& words) -> uint32_t& { return words.pieces.pushed[s.index][s.me]; }, now);
    }
    if (step < takes) {
      const uint32_t now = taken + (step < take ? step + 1 : take);
      ok = s.await(s.theirs.pushed[s.index], now, others);
      if (!ok) break;

      Receiver::take(s, step);
      s.announce(
          [&](FromPeers& words) -> uint32_t& { return words.pieces.taken[s.index][s.me]; }, now);
    }
  }

  if (!ok || !s.await(s.theirs.finished[s.index], call, others)) return;
  if (is_peer) {
    s.mine.pushed[s.index][p] = pushed + push;
    s.mine.taken[s.index][p] = taken + take;
  }
  if (threadIdx.x == 0) s.mine.calls[s.index] = call;
}

template <class Receiver>
__device__ __forceinline__ void run(const PiecesArgs& args) {
  begin();
  if (args.call.comm.size == 0) return;  // a launch to make it ready

  SYMM_SHARED(PieceLayout, layout);
  const Block s(args, layout);
  if (!lay_out(s)) return;

  const auto work_groups = static_cast<uint32_t>(args.call.work_groups);
  if (s.index >= work_groups) {
    return store_to_destination(s, layout.send[s.me],
        reinterpret_cast<char*>(args.call.recv) + layout.recv[s.me].at, args.row_stride,
        s.index - work_groups, gridDim.x - work_groups);
  }

  // Without further blocks the work groups copy this rank's own piece.
  if (gridDim.x == work_groups && Receiver::kMayStore) {
    store_to_destination(s, layout.send[s.me],
        reinterpret_cast<char*>(args.call.recv) + layout.recv[s.me].at, args.row_stride, s.index,
        work_groups);
  }

  // Blocks beyond the work groups have no such word.
  const uint32_t call = s.mine.calls[s.index] + 1;
  post(s, call);
  if (__syncthreads_and(may_use_stages(s.comm, s.index)) == 0) return;
  if (read_destinations(s, call)) exchange<Receiver>(s, call);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(512, 1)
    SYMM_KERNEL(pieces_move)(const __grid_constant__ PiecesArgs a) {
  run<Keep>(a);
}

#define SYMM_PIECES(name, arithmetic)                                           \
  extern "C" __global__ void __launch_bounds__(512, 1)                          \
      SYMM_KERNEL(pieces_reduce_##name)(const __grid_constant__ PiecesArgs a) { \
    run<Combine<arithmetic>>(a);                                                \
  }
SYMM_FOR_ARITHMETICS_ONLY(SYMM_PIECES)
