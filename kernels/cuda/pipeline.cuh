// The pipeline: large messages in tiles, through scratch of bounded size. A tile has a slice for each rank. In the first stage
// ranks push their slices into the scratch of the slice's owner; in the second the owner combines them and pushes the result to
// those who want it, straight into their recv where that is memory of the group, else into their scratch. All collectives but an
// all-to-all, which goes by pieces.cu, are cases of this: those that combine are in pipeline.cu, those that move in
// pipeline_move.cu.
//
// The message is dealt out to work groups, which know nothing of each other. Three blocks work on a work group at the same
// time, one for each role, so that one pushes while another waits for its fence. Who does what when is said by counters of tiles,
// one word for each pair of ranks (args.hpp); slots are used again when their reader has said that it is done.
#pragma once

#include "kernels/collective.hpp"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
using Place = ControlWords::FromPeers::Place;

struct WorkGroup {
  const CollectiveArgs& args;
  const DeviceComm& comm;
  ControlWords& mine;
  int n, me;
  uint32_t index;
  uint32_t tiles;  // of this work group
  Collective collective;

  __device__ WorkGroup(const CollectiveArgs& a, int ranks, uint32_t i)
      : args(a), comm(a.comm), mine(words_of(a.comm, a.comm.rank)), n(ranks), me(a.comm.rank), index(i),
        collective(static_cast<Collective>(a.collective)) {
    const auto work_groups = static_cast<uint64_t>(a.work_groups);
    tiles = static_cast<uint32_t>(a.tiles > index ? (a.tiles - index + work_groups - 1) / work_groups : 0);
  }

  // Do I push slices to their owners?
  __device__ bool scatters() const {
    return collective == Collective::broadcast ? me == args.root && args.direct == 0 : collective != Collective::allgather;
  }
  // Does rank p get the results of the owners?
  __device__ bool collects(int p) const { return is_delivered_to(collective, p, args.root); }

  struct Range {
    uint64_t at;
    uint32_t bytes;
  };
  // Slice `owner` of tile j of this work group, in an operand.
  __device__ Range slice(uint32_t j, int owner) const {
    const uint64_t tile = index + uint64_t{j} * static_cast<uint64_t>(args.work_groups);
    const uint64_t c = args.tile;
    auto o = static_cast<uint64_t>(owner);
    auto parts = static_cast<uint64_t>(n);
    if (collective == Collective::broadcast && args.direct != 0) {
      if (owner != args.root) return {0, 0};  // which sends all of it to everybody
      const uint64_t at = tile * c;
      return {at, static_cast<uint32_t>(at < args.unit ? (args.unit - at < c ? args.unit - at : c) : 0)};
    }
    if (collective == Collective::broadcast) {
      // The root owns nothing: it sends each byte once, and the others pass it on.
      if (owner == args.root) return {0, 0};
      parts = static_cast<uint64_t>(n - 1);
      o = static_cast<uint64_t>(owner < args.root ? owner : owner - 1);
    }
    const bool cut_across = traits(collective).cut_into_slices;
    const uint64_t within = cut_across ? (tile * parts + o) * c : tile * c;
    const uint64_t bytes = within < args.unit ? (args.unit - within < c ? args.unit - within : c) : 0;
    return {cut_across || collective == Collective::allgather ? within : o * args.unit + within, static_cast<uint32_t>(bytes)};
  }
  // Where owner's result belongs in recv. An all-gather's comes from the owner's own operand.
  __device__ uint64_t place(const Range& of, int owner) const {
    return collective == Collective::allgather ? static_cast<uint64_t>(owner) * args.unit + of.at : of.at;
  }

  __device__ char* stage(int rank, int which, uint32_t slot, int source) const {
    const uint64_t at = (static_cast<uint64_t>(index) * kSlots + (slot & (kSlots - 1))) * static_cast<uint64_t>(n) +
                        static_cast<uint64_t>(source);
    return reinterpret_cast<char*>(comm.stages[rank] + comm.stage[which] + at * comm.stage_slot);
  }

  // Threads 0 .. n-1 each wait for one rank's counter; then the whole block goes on, with everything that the rank stored before
  // in view.
  __device__ bool await(const uint32_t (&words)[kMaxRanks], uint32_t target, uint32_t ranks) const {
    bool ok = true;
    const int p = static_cast<int>(threadIdx.x);
    if (p < n && (ranks >> p & 1U) != 0) ok = await_count(comm, &words[p], target, p, index);
    return __syncthreads_and(ok) != 0;
  }

  // Everything that this block did before is visible to whoever sees the counter.
  template <class Word> __device__ void announce(Word&& word_of, uint32_t value) const {
    __syncthreads();
    const int p = static_cast<int>(threadIdx.x);
    if (p < n) {
      fence_system();
      store_relaxed(&word_of(words_of(comm, p).from_peers), value);
    }
  }

  __device__ uint32_t everybody() const { return (1U << n) - 1U; }
  // The others whose recv I reach through their scratch.
  template <class Operands> __device__ uint32_t staged(const Operands& to) const {
    uint32_t ranks = 0;
    for (int p = 0; p < n; ++p)
      if (p != me && collects(p) && to.recv[p] == nullptr) ranks |= 1U << p;
    return ranks;
  }

  // The i-th of the other ranks, for i < n - 1. Where each block begins differs, so that at any time a rank sends to all others
  // alike; in one order they would all come to the same rank together.
  __device__ int first_of(uint32_t tile) const { return static_cast<int>((index + tile) % static_cast<uint32_t>(n - 1)); }
  __device__ int another(int i, int first) const {
    const int d = i + first < n - 1 ? i + first : i + first - (n - 1);
    return me + 1 + d < n ? me + 1 + d : me + 1 + d - n;
  }
};

struct Operands {  // of rank p, as mapped here; null: private memory, whose results go to its scratch
  const char* send[kMaxRanks];
  char* recv[kMaxRanks];
  Place place[kMaxRanks];
};

constexpr uint32_t kTold = sizeof(Place) / 8;

__device__ __forceinline__ void tell_entries(const WorkGroup& s, uint32_t call) {
  const CollectiveArgs& a = s.args;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kTold; i += blockDim.x) {
    const uint32_t which = i % kTold;
    const uint64_t word = which == 0   ? a.detail
                          : which == 1 ? a.count
                          : which == 2 ? a.send_memory
                          : which == 3 ? a.send_offset
                          : which == 4 ? a.recv_memory
                                       : a.recv_offset;
    auto& there = words_of(s.comm, static_cast<int>(i / kTold)).from_peers.told[s.index][s.me].cell[which];
    store_pairs(reinterpret_cast<uint4*>(there), {static_cast<uint32_t>(word), call, static_cast<uint32_t>(word >> 32), call});
  }
}

// Where an operand of `extent` bytes lies, if within a memory of `bytes`.
__device__ __forceinline__ char* find_in(uint64_t block, uint64_t bytes, uint64_t offset, uint64_t extent) {
  return offset <= bytes && extent <= bytes - offset ? reinterpret_cast<char*>(block + offset) : nullptr;
}

// What the peers said in their entries: the same call as mine? and where are their operands?
__device__ __forceinline__ bool read_entries(const WorkGroup& s, Operands& at, uint32_t call) {
  const CollectiveArgs& a = s.args;
  bool ok = true;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kTold && ok; i += blockDim.x) {
    const int p = static_cast<int>(i / kTold);
    const auto* cell = reinterpret_cast<const uint4*>(s.mine.from_peers.told[s.index][p].cell[i % kTold]);
    SpinState spin;
    uint4 v = load_pairs(cell);
    while (ok && (v.y != call || v.w != call)) {
      ok = keep_waiting(s.comm, spin, p, s.index, call, v.y);
      v = load_pairs(cell);
    }
    reinterpret_cast<uint64_t*>(&at.place[p])[i % kTold] = v.x | static_cast<uint64_t>(v.z) << 32;
  }
  if (__syncthreads_and(ok) == 0) return false;
  const OperandBytes extent = operand_bytes(s.collective, a.unit, s.n);
  const int p = static_cast<int>(threadIdx.x);
  bool found = true;
  if (p < s.n) {
    Place& place = at.place[p];
    ok = place.detail == a.detail && place.count == a.count;
    if (!ok) report(s.comm, WaitError::mismatch, p, s.index, 0, 0, place.detail, place.count, a.detail, a.count);
    if (!s.collects(p)) place.recv_memory = 0;
    at.send[p] = nullptr;
    at.recv[p] = nullptr;
    if (place.send_memory == a.send_memory) at.send[p] = find_in(a.send_block[p], a.send_bytes, place.send_offset, extent.send);
    if (place.recv_memory == a.recv_memory) at.recv[p] = find_in(a.recv_block[p], a.recv_bytes, place.recv_offset, extent.recv);
    if (place.send_memory == 0) at.send[p] = nullptr;
    if (place.recv_memory == 0) at.recv[p] = nullptr;
    found = (place.send_memory == 0 || at.send[p] != nullptr) && (place.recv_memory == 0 || at.recv[p] != nullptr);
  }
  if (__syncthreads_and(ok) == 0) return false;
  if (__syncthreads_and(found) != 0) return true;
  // All threads search the table at once. What will be read or stored there has to fit.
  const auto* table = reinterpret_cast<const MemoryEntry*>(s.comm.memories);
  for (int i = static_cast<int>(threadIdx.x); i < s.comm.memory_count; i += static_cast<int>(blockDim.x)) {
    const MemoryEntry& memory = table[i];
    for (int r = 0; r < s.n && memory.id != 0; ++r) {
      const Place& place = at.place[r];
      if (place.send_memory == memory.id) at.send[r] = find_in(memory.block[r], memory.bytes, place.send_offset, extent.send);
      if (place.recv_memory == memory.id) at.recv[r] = find_in(memory.block[r], memory.bytes, place.recv_offset, extent.recv);
    }
  }
  __syncthreads();
  if (p < s.n &&
      ((at.place[p].send_memory != 0 && at.send[p] == nullptr) || (at.place[p].recv_memory != 0 && at.recv[p] == nullptr))) {
    report(s.comm, WaitError::unknown_memory, p, s.index, 0, 0);
    ok = false;
  }
  return __syncthreads_and(ok) != 0;
}

// Packs first, first + stride, ... of a message, to n places, of which some may be null. Four loads under way before the first
// store; and where nothing is in bytes, which is nearly always, no question for each pack. What passes goes first from the cache:
// an all-gather of 64 MB takes 2 us less.
template <class To>
__device__ __forceinline__ void push(const char* from, uint64_t bytes, uint64_t first, uint64_t stride, int n, To&& to) {
  bool aligned = is_aligned(from);
  for (int d = 0; d < n; ++d) aligned = aligned && is_aligned(to(d));
  const uint64_t whole = aligned ? bytes / kPack : 0;
  const uint64_t packs = packs_of(bytes);
  constexpr uint32_t kAtOnce = 4;
  for (uint64_t q = first; q < whole; q += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i)
      if (q + i * stride < whole) v[i] = __ldcs(reinterpret_cast<const uint4*>(from) + q + i * stride);
    for (int d = 0; d < n; ++d) {
      auto* there = reinterpret_cast<uint4*>(to(d));
      if (there == nullptr) continue;
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i)
        if (q + i * stride < whole) __stcs(there + q + i * stride, v[i]);
    }
  }
  for (uint64_t q = whole + first; q < packs; q += stride) {
    const uint4 v = load_pack(from, bytes, q);
    for (int d = 0; d < n; ++d)
      if (to(d) != nullptr) store_pack(to(d), bytes, q, v);
  }
}
__device__ __forceinline__ void push_part(const char* from, char* to, uint32_t bytes) {
  push(from, bytes, threadIdx.x, blockDim.x, 1, [&](int) { return to; });
}

// ---- first role: push my slices to their owners

__device__ __forceinline__ void scatter_to_slots(const WorkGroup& s, uint32_t base) {
  const auto arrived = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.arrived[s.index][s.me]; };
  const auto* send = reinterpret_cast<const char*>(s.args.send);
  for (uint32_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + j;
    if (!s.await(s.mine.from_peers.done[s.index], now + 1 - kSlots, s.everybody())) break;
    const int first = s.first_of(j);
    for (int i = 0; i < s.n - 1; ++i) {
      const int p = s.another(i, first);
      const WorkGroup::Range part = s.slice(j, p);
      push_part(send + part.at, s.stage(p, 0, now, s.me), part.bytes);
    }
    s.announce(arrived, now + 1);
  }
}

// ---- second role: what the owner does with its slice

// `tile(j, now)` does it for one tile. `moves`: nobody's slots depend on when I am done with a tile, if I reach all recvs and
// all reach mine; then I need not say it, which takes a fence, before the last. `at_once`: nothing is pushed to me.
template <class Tile>
__device__ __forceinline__ void own(const WorkGroup& s, const Operands& to, bool moves, bool at_once, Tile&& tile) {
  const uint32_t base = s.mine.reduce_base[s.index];
  const auto done = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.done[s.index][s.me]; };
  bool ok = true;
  const uint32_t staged = s.staged(to);
  for (uint32_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + j;
    // All of them, and myself: a push of mine may still read what I am about to overwrite.
    if (!at_once) {
      ok = s.await(s.mine.from_peers.arrived[s.index], now + 1, s.everybody());
      if (!ok) break;
    }
    if (staged != 0) {
      ok = s.await(s.mine.from_peers.copied[s.index], now + 1 - kSlots, staged);
      if (!ok) break;
    }
    tile(j, now);
    if (j + 1 == s.tiles || !moves || staged != 0 || s.args.copies_out != 0) s.announce(done, now + 1);
  }
  const uint32_t end = base + s.tiles;
  // recv is complete when all owners have delivered; if they deliver to scratch, a block of the third role waits for them.
  if (ok && s.args.copies_out == 0) s.await(s.mine.from_peers.done[s.index], end, s.everybody());
  __syncthreads();
  if (threadIdx.x == 0) s.mine.reduce_base[s.index] = end;
}

// ---- without scratch, by all blocks of a work group

// What all ranks see alike: whether it is done so. The third block is told if it is to help, since it may come when what ranks
// were told is another call's.
__device__ __forceinline__ bool is_at_once(const WorkGroup& s, bool can, bool helped, uint32_t role, uint32_t call) {
  if (role == 1 && threadIdx.x == 0) store_relaxed(&s.mine.help[s.index], uint64_t{call} << 1 | (can && helped ? 1U : 0U));
  return can;
}

// What the third block has heard now.
__device__ __forceinline__ uint64_t hear_of_help(const WorkGroup& s) {
  SYMM_SHARED(uint64_t, heard);
  if (threadIdx.x == 0) {
    SpinState spin;
    const uint64_t before = s.mine.help_heard[s.index];
    while ((heard = load_relaxed(&s.mine.help[s.index])) == before && keep_waiting(s.comm, spin, s.me, s.index, 0, 0)) {}
    s.mine.help_heard[s.index] = heard;
  }
  __syncthreads();
  return heard;
}

// Nobody reads my send any more, and my recv is complete; and all blocks have read what they were told.
__device__ __forceinline__ void finish_at_once(const WorkGroup& s, uint32_t role, uint32_t call) {
  s.announce([&](ControlWords::FromPeers& words) -> uint32_t& { return words.finished[s.index][role][s.me]; }, call);
  s.await(s.mine.from_peers.finished[s.index][role], call, s.everybody());
}

// ---- third role: bring results from my scratch to recv

__device__ __forceinline__ void copy_out(const WorkGroup& s) {
  const CollectiveArgs& args = s.args;
  const uint32_t base = s.mine.copy_out_base[s.index];
  const auto copied = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.copied[s.index][s.me]; };
  auto* recv = reinterpret_cast<char*>(args.recv);
  for (uint32_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + j;
    if (!s.await(s.mine.from_peers.done[s.index], now + 1, s.everybody())) break;
    for (int owner = 0; owner < s.n; ++owner) {
      if (owner == s.me) continue;
      const WorkGroup::Range part = s.slice(j, owner);
      const auto* from = reinterpret_cast<const uint4*>(s.stage(s.me, 1, now, owner));
      const uint64_t place = s.place(part, owner);
      for (uint32_t q = threadIdx.x; q < packs_of(part.bytes); q += blockDim.x) store_pack(recv + place, part.bytes, q, from[q]);
    }
    s.announce(copied, now + 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) s.mine.copy_out_base[s.index] = base + s.tiles;
}

// ---- a launch: the blocks of the first work group, those of the second, and so on

// Blocks come onto the device in the order of their numbers, and those of a work group wait for each other only, on all ranks. So
// where not all of them have room at a time, those that have come in still end, and let others in.
constexpr uint32_t kRoles = 3;

// `first` and `second` are those roles, with the operands that are memory of the group; `at_once(operands, role, call)` does all
// of it by itself, as one of the blocks of the work group, and returns true, where it can.
template <class AtOnce, class First, class Second>
__device__ __forceinline__ void run(const WorkGroup& s, uint32_t role, AtOnce&& at_once, First&& first, Second&& second) {
  SYMM_SHARED(Operands, operands);
  uint32_t call = s.mine.pipeline_calls[s.index] + 1;
  const uint32_t base = s.mine.scatter_base[s.index];
  if (role == 0) tell_entries(s, call);
  if (__syncthreads_and(may_use_stages(s.comm, s.index)) == 0) return;
  if (role == 2) {
    if (s.args.copies_out != 0) copy_out(s);
    const uint64_t heard = hear_of_help(s);
    if ((heard & 1U) == 0) return;
    call = static_cast<uint32_t>(heard >> 1);
  }
  if (!read_entries(s, operands, call)) return;
  const bool done = at_once(operands, role, call);
  if (role == 0) {
    // Nobody will push to my second stage in this call, so all of it counts as copied.
    const int p = static_cast<int>(threadIdx.x);
    if (!done && s.args.copies_out == 0 && p < s.n)
      store_relaxed(&words_of(s.comm, p).from_peers.copied[s.index][s.me], base + s.tiles);
    if (!done) first(operands, base);
    __syncthreads();
    if (threadIdx.x == 0 && !done) s.mine.scatter_base[s.index] = base + s.tiles;
    return;
  }
  if (role == 1 && !done) second(operands);
  if (role != 1 || threadIdx.x != 0) return;
  s.mine.pipeline_calls[s.index] = call;
  if (!done && s.args.copies_out == 0) s.mine.copy_out_base[s.index] += s.tiles;
}
}  // namespace symm::cuda
