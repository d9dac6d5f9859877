// The pipeline: large messages in pieces, through scratch of bounded size, by stores
// alone, of which links carry more than of loads and stores together. A message is cut
// into parts, each owned by a rank, and each block, which knows nothing of the others
// of its launch, keeps step with the same block of every other rank. In step i it
//   1. stores piece i of what each other rank owns into a slot of that one's first stage,
//   2. waits for step i - 1 of all,
//   3. does what the owner does with piece i - 1 of its own, which came in that: it
//      combines it, or passes it on, to all who want it, straight into recv where that
//      is memory of the group, else into a slot of the second stage,
//   4. tells all of both,
//   5. and brings results i - 2, which came with it too, from the second stage to recv.
// So links have work while a block waits. Slots are used again after three
// steps. Who pushes piece i has heard of everybody's step i - 2, in which piece
// i - 3 was combined; who stores result i - 1 in that step, of everybody's step
// i - 1, before which result i - 4 was brought to recv. Operands may be private
// memory, and recv may be send: what is stored there was pushed in a step that
// has been heard of. Those that combine are in pipeline.cu, those that move in
// pipeline_move.cu. In an all-to-all everybody owns what it gets, and what may
// not be stored into its recv it brings there itself in part 3.
#pragma once

#include "kernels/collective.hpp"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
using PeerAnnouncement = ControlWords::FromPeers::PeerAnnouncement;

struct WorkGroup {
  const CollectiveArgs& args;
  const DeviceComm& comm;
  ControlWords& mine;
  int n, me;
  uint32_t index;
  Collective collective;
  bool moves;  // is, in a kernel, known when that is compiled

  __device__ WorkGroup(const CollectiveArgs& a, int ranks, bool only_moves)
      : args(a),
        comm(a.comm),
        mine(words_of(a.comm, a.comm.rank)),
        n(ranks),
        me(a.comm.rank),
        index(blockIdx.x),
        collective(static_cast<Collective>(a.collective)),
        moves(only_moves) {}

  __device__ bool exchanges() const { return moves && collective == Collective::alltoall; }
  // Does rank p get the results of the other owners? And mine?
  __device__ bool collects(int p) const {
    return exchanges() || is_delivered_to(collective, p, args.root);
  }
  __device__ bool wants(int p) const {
    return collects(p) || (p == me && collective != Collective::reduce);
  }

  struct Piece {
    uint64_t at;
    uint32_t bytes;
  };
  // Piece i of what a rank owns: of its block, or of the message; beyond the end it is empty.
  __device__ Piece piece(int owner, uint32_t i) const {
    auto part = static_cast<uint64_t>(traits(collective).cut_into_slices ? owner : 0);
    if (args.direct != 0) {
      if (owner != args.root) return {0, 0};  // who sends everything to everybody itself
      part = 0;
    } else if (args.spares_root != 0) {
      if (owner == args.root) return {0, 0};
      part = static_cast<uint64_t>(owner < args.root ? owner : owner - 1);
    }
    const uint64_t at = ((part * gridDim.x + index) * args.tiles + i) * args.tile;
    const uint64_t left = at < args.unit ? args.unit - at : 0;
    return {at, static_cast<uint32_t>(left < args.tile ? left : args.tile)};
  }
  // Where the block that has a rank's pieces begins in send, and in recv.
  __device__ uint64_t in_send(int owner) const {
    return collective == Collective::reduce_scatter || exchanges()
               ? static_cast<uint64_t>(owner) * args.unit
               : 0;
  }
  __device__ uint64_t in_recv(int owner) const {
    return collective == Collective::allgather || exchanges()
               ? static_cast<uint64_t>(owner) * args.unit
               : 0;
  }

  // In a stage of rank `owner`, of slots of `bytes`, that into which `source` stores.
  __device__ char* stage(int owner, int which, uint32_t slot, int source, uint64_t bytes) const {
    const uint64_t at = static_cast<uint64_t>(slot) * static_cast<uint64_t>(n - 1) +
                        slot_among<kMaxRanks>(owner, source);
    return reinterpret_cast<char*>(comm.stages[owner] + comm.stage[which] + at * bytes);
  }
  __device__ char* slot_of_piece(int owner, int which, uint32_t i, int source) const {
    return stage(owner, which, index * kPieceSlots + i % kPieceSlots, source, args.tile);
  }

  // Threads 0 .. n-1 each wait for one rank's counter; then the whole block goes on,
  // with everything that the rank stored before in view.
  __device__ bool await(const uint32_t (&words)[kMaxRanks], uint32_t target, uint32_t ranks) const {
    bool ok = true;
    const int p = static_cast<int>(threadIdx.x);
    if (p < n && (ranks >> p & 1U) != 0) ok = await_count(comm, &words[p], target, p, index);
    return __syncthreads_and(ok) != 0;
  }

  // Everything that this block did before is visible to whoever sees the counter.
  template <class Word>
  __device__ void announce(Word&& word_of, uint32_t value) const {
    __syncthreads();
    const int p = static_cast<int>(threadIdx.x);
    if (p < n) {
      fence_system();
      store_relaxed(&word_of(words_of(comm, p).from_peers), value);
    }
  }

  __device__ uint32_t everybody() const { return (1U << n) - 1U; }
  // The i-th of the other ranks, for i < n - 1. Where each block
  // begins differs, so that at any time a rank sends to all others
  // alike; in one order they would all come to the same rank together.
  __device__ int first_of(uint32_t step) const {
    return static_cast<int>((index + step) % static_cast<uint32_t>(n - 1));
  }
  __device__ int another(int i, int first) const {
    const int d = i + first < n - 1 ? i + first : i + first - (n - 1);
    return me + 1 + d < n ? me + 1 + d : me + 1 + d - n;
  }
};

// recv of rank p, as mapped here; null: private memory, whose results go to its scratch
struct Operands {
  char* recv[kMaxRanks];
  PeerAnnouncement told[kMaxRanks];
  char* to[kMaxRanks];  // where a piece goes; null: it is not wanted there
};

constexpr uint32_t kTold = sizeof(PeerAnnouncement) / 8;

__device__ __forceinline__ void tell_entries(const WorkGroup& s, uint32_t call) {
  const CollectiveArgs& a = s.args;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kTold; i += blockDim.x) {
    const uint32_t which = i % kTold;
    const uint64_t word = which == 0   ? a.detail
                          : which == 1 ? a.count
                          : which == 2 ? a.recv_memory
                                       : a.recv_offset;
    auto& there =
        words_of(s.comm, static_cast<int>(i / kTold)).from_peers.told[s.index][s.me].cell[which];
    store_pairs(reinterpret_cast<uint4*>(there),
        {static_cast<uint32_t>(word), call, static_cast<uint32_t>(word >> 32), call});
  }
}

// What the peers said: the same call as mine? and where is their recv, of which all
// that will be stored has to be in its memory?
__device__ __forceinline__ bool read_entries(const WorkGroup& s, Operands& at, uint32_t call) {
  const CollectiveArgs& a = s.args;
  bool ok = true;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kTold && ok; i += blockDim.x) {
    const int p = static_cast<int>(i / kTold);
    const auto* cell =
        reinterpret_cast<const uint4*>(s.mine.from_peers.told[s.index][p].cell[i % kTold]);
    SpinState spin;
    uint4 v = load_pairs(cell);
    while (ok && (v.y != call || v.w != call)) {
      ok = keep_waiting(s.comm, spin, p, s.index, call, v.y);
      v = load_pairs(cell);
    }
    reinterpret_cast<uint64_t*>(&at.told[p])[i % kTold] = v.x | static_cast<uint64_t>(v.z) << 32;
  }
  if (__syncthreads_and(ok) == 0) return false;
  const uint64_t extent = operand_bytes(s.collective, a.unit, s.n).recv;
  const auto find_in = [&](uint64_t block, uint64_t bytes, uint64_t offset) {
    return offset <= bytes && extent <= bytes - offset ? reinterpret_cast<char*>(block + offset)
                                                       : nullptr;
  };
  const int p = static_cast<int>(threadIdx.x);
  bool found = true;
  if (p < s.n) {
    PeerAnnouncement& told = at.told[p];
    ok = told.detail == a.detail && told.count == a.count;
    if (!ok) {
      report(s.comm, WaitError::mismatch, p, s.index, 0, 0, told.detail, told.count, a.detail,
          a.count);
    }
    if (!s.collects(p)) told.recv_memory = 0;
    const bool is_known = told.recv_memory != 0 && told.recv_memory == a.recv_memory;
    at.recv[p] = is_known ? find_in(a.recv_block[p], a.recv_bytes, told.recv_offset) : nullptr;
    found = told.recv_memory == 0 || at.recv[p] != nullptr;
  }
  if (__syncthreads_and(ok) == 0) return false;
  if (__syncthreads_and(found) != 0) return true;
  // All threads search the table at once.
  const auto* table = reinterpret_cast<const MemoryEntry*>(s.comm.memories);
  for (int i = static_cast<int>(threadIdx.x); i < s.comm.memory_count;
      i += static_cast<int>(blockDim.x)) {
    const MemoryEntry& memory = table[i];
    for (int r = 0; r < s.n && memory.id != 0; ++r) {
      if (at.told[r].recv_memory == memory.id) {
        at.recv[r] = find_in(memory.block[r], memory.bytes, at.told[r].recv_offset);
      }
    }
  }
  __syncthreads();
  if (p < s.n && at.told[p].recv_memory != 0 && at.recv[p] == nullptr) {
    report(s.comm, WaitError::unknown_memory, p, s.index, 0, 0);
    ok = false;
  }
  return __syncthreads_and(ok) != 0;
}

// Packs first, first + stride, ... of a message, to n places, of which some may be
// null. kAtOnce loads under way before the first store; and where nothing is in bytes,
// which is nearly always, no question for each pack. What passes goes first from the
// cache: an all-gather of 64 MB takes 2 us less.
constexpr uint32_t kAtOnce = 4;
template <class To>
__device__ __forceinline__ void push(
    const char* from, uint64_t bytes, uint64_t first, uint64_t stride, int n, To&& to) {
  bool aligned = is_aligned(from);
  for (int d = 0; d < n; ++d) {
    aligned = aligned && is_aligned(to(d));
  }
  const uint64_t whole = aligned ? bytes / kPack : 0;
  const uint64_t packs = packs_of(bytes);
  for (uint64_t q = first; q < whole; q += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * stride < whole) {
        v[i] = __ldcs(reinterpret_cast<const uint4*>(from) + q + i * stride);
      }
    }
    for (int d = 0; d < n; ++d) {
      auto* there = reinterpret_cast<uint4*>(to(d));
      if (there == nullptr) continue;
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        if (q + i * stride < whole) __stcs(there + q + i * stride, v[i]);
      }
    }
  }
  for (uint64_t q = whole + first; q < packs; q += stride) {
    const uint4 v = load_pack(from, bytes, q);
    for (int d = 0; d < n; ++d) {
      if (to(d) != nullptr) store_pack(to(d), bytes, q, v);
    }
  }
}
__device__ __forceinline__ void push_part(const char* from, char* to, uint32_t bytes) {
  push(from, bytes, threadIdx.x, blockDim.x, 1, [&](int) { return to; });
}

// ---- a launch

// Blocks come onto the device in the order of their numbers, and each waits for the
// same block of other ranks only. So where not all of them have room at a time, those
// that have come in still end, and let others in.

__device__ __forceinline__ void announce_steps(const WorkGroup& s, uint32_t steps) {
  s.announce(
      [&](ControlWords::FromPeers& words) -> uint32_t& { return words.steps[s.index][s.me]; },
      steps);
}
__device__ __forceinline__ bool await_steps(const WorkGroup& s, uint32_t steps) {
  return s.await(s.mine.from_peers.steps[s.index], steps, s.everybody());
}

// `at_once(operands)` does all of it where it can, and returns true, on all ranks
// alike. `push(operands, i)` is the first part of a step, and `own(operands, i)` the
// third, of piece i, which goes to operands.to.
template <class AtOnce, class Push, class Own>
__device__ __forceinline__ void run(const WorkGroup& s, AtOnce&& at_once, Push&& push, Own&& own) {
  SYMM_SHARED(Operands, operands);
  const uint32_t call = s.mine.pipeline_calls[s.index] + 1;
  const uint32_t base = s.mine.pipeline_steps[s.index];
  tell_entries(s, call);
  if (__syncthreads_and(may_use_stages(s.comm, s.index)) == 0 || !read_entries(s, operands, call)) {
    return;
  }
  const auto pieces = static_cast<uint32_t>(s.args.tiles);
  uint32_t steps = 1;
  if (at_once(operands)) {
    announce_steps(s, base + 1);
    if (!await_steps(s, base + 1)) return;
  } else {
    auto* recv = reinterpret_cast<char*>(s.args.recv);
    const bool copies_out = s.args.copies_out != 0;
    for (uint32_t i = 0; i < pieces + 2; ++i) {
      if (i < pieces) push(operands, i);
      const bool owns = i > 0 && i <= pieces;
      if (const int d = static_cast<int>(threadIdx.x); owns && d < s.n) {
        const int p = d == 0 ? s.me : s.another(d - 1, s.first_of(i));
        char* const there = p == s.me ? recv : operands.recv[p];
        operands.to[d] = !s.wants(p)        ? nullptr
                         : there != nullptr ? there + s.in_recv(s.me) + s.piece(s.me, i - 1).at
                                            : s.slot_of_piece(p, 1, i - 1, s.me);
      }
      if (i > 0 && !await_steps(s, base + i)) return;
      if (owns) own(operands, i - 1);
      if (i <= pieces) announce_steps(s, base + i + 1);
      for (int owner = 0; copies_out && i > 1 && owner < s.n; ++owner) {
        const WorkGroup::Piece its = s.piece(owner, i - 2);
        if (owner != s.me) {
          push_part(
              s.slot_of_piece(s.me, 1, i - 2, owner), recv + s.in_recv(owner) + its.at, its.bytes);
        }
      }
    }
    steps = pieces + 1;
  }
  if (threadIdx.x == 0) {
    s.mine.pipeline_calls[s.index] = call;
    s.mine.pipeline_steps[s.index] = base + steps;
  }
}
}  // namespace symm::cuda
