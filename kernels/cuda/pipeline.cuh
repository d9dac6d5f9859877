// The pipeline: large messages go in chunks through scratch of bounded size, by stores alone, of
// which links carry more than of loads and stores together. The kernels that combine are in
// pipeline.cu, those that move in pipeline_move.cu.
//
// Definitions.
//   A message is cut into parts, each owned by a rank.
//   A work group is the blocks of one number on all ranks. They keep step with each other, and
//   know nothing of other blocks. What a rank owns in a work group is cut into chunks.
//   A rank's first stage has slots for the chunks that others push to it as their owner, and its
//   second stage slots for the results that owners store for it: kChunkSlots for each source and
//   work group. Chunk i, and its result, use slot i % kChunkSlots.
//
// In step i a block
//   1. pushes chunk i of what each other rank owns into a slot of that rank's first stage;
//   2. waits until all ranks have announced step i - 1;
//   3. does as the owner of chunk i - 1, which came in with that step: combines it, or passes it
//      on, and stores the result for all who want it, straight into recv where that is memory of
//      the group, else into a slot of the second stage;
//   4. announces step i, by which 1 and 3 come into view;
//   5. brings results i - 2, which came in with step i - 1, from the second stage to recv.
// So links have work while a block waits.
//
// Invariant: a slot is used again, three steps later, when its contents have been used.
//   First stage. A rank that pushes chunk i has waited, in part 2 of its step i - 1, for step
//   i - 2 of all ranks. In that step the owner combined chunk i - 3.
//   Second stage. A rank that stores result i - 1 has waited, in part 2 of its step i, for step
//   i - 1 of all ranks. Before that step, in part 5 of step i - 2, result i - 4 was brought to
//   recv.
//
// Operands may be private memory. And recv may be send: where a result is stored over what was
// to be sent, that was pushed in a step which the storing rank has waited for.
//
// In an all-to-all each rank owns what it receives. What others may not store into its recv it
// brings there itself, in part 3.
#pragma once

#include "kernels/collective.hpp"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
using PeerAnnouncement = ControlWords::FromPeers::PeerAnnouncement;

struct WorkGroup {
  const CollectiveArgs& args;
  const DeviceComm& comm;
  ControlWords& mine;
  int n;
  int me;
  uint32_t index;
  Collective collective;
  // Known when a kernel is compiled.
  bool moves;
  bool scans;

  __device__ WorkGroup(const CollectiveArgs& a, int ranks, bool only_moves, bool is_scan = false)
      : args(a),
        comm(a.comm),
        mine(words_of(a.comm, a.comm.rank)),
        n(ranks),
        me(a.comm.rank),
        index(blockIdx.x),
        collective(static_cast<Collective>(a.collective)),
        moves(only_moves),
        scans(is_scan) {}

  __device__ bool exchanges() const { return moves && collective == Collective::alltoall; }

  // Whether rank p gets the results of the other owners.
  __device__ bool collects(int p) const {
    return exchanges() || is_delivered_to(collective, p, args.root);
  }

  // Whether rank p gets the results of this rank.
  __device__ bool wants(int p) const {
    return collects(p) || (p == me && collective != Collective::reduce);
  }

  struct Chunk {
    uint64_t at;
    uint32_t bytes;
  };

  // Chunk i of what a rank owns in its block, or in the message. Beyond the end it is empty.
  __device__ Chunk chunk(int owner, uint32_t i) const {
    auto part = static_cast<uint64_t>(scans || traits(collective).cut_into_slices ? owner : 0);
    if (args.direct != 0) {
      // The root sends everything to all ranks itself.
      if (owner != args.root) return {0, 0};
      part = 0;
    } else if (args.spares_root != 0) {
      if (owner == args.root) return {0, 0};
      part = static_cast<uint64_t>(owner < args.root ? owner : owner - 1);
    }

    const uint64_t at = ((part * gridDim.x + index) * args.tiles + i) * args.tile;
    const uint64_t left = at < args.unit ? args.unit - at : 0;
    return {at, static_cast<uint32_t>(left < args.tile ? left : args.tile)};
  }

  // The offset of the block that has a rank's chunks in send, and in recv.
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

  // The slot into which `source` stores, in a stage of rank `owner` whose slots have `bytes`.
  __device__ char* stage(int owner, int which, uint32_t slot, int source, uint64_t bytes) const {
    const uint64_t at = static_cast<uint64_t>(slot) * static_cast<uint64_t>(n - 1) +
                        slot_among<kRoom>(owner, source);
    return reinterpret_cast<char*>(comm.stages[owner] + comm.stage[which] + at * bytes);
  }

  __device__ char* chunk_slot(int owner, int which, uint32_t i, int source) const {
    return stage(owner, which, index * kChunkSlots + i % kChunkSlots, source, args.tile);
  }

  // Threads 0 .. n-1 each wait for one rank's counter, those of `ranks` only. Then the whole
  // block goes on, with everything in view that the ranks stored before.
  __device__ bool await(
      const uint32_t (&words)[kRoom], uint32_t target, const RankSet& ranks) const {
    bool ok = true;
    const int p = static_cast<int>(threadIdx.x);
    if (p < n && ranks.has(p)) ok = await_count(comm, &words[p], target, p, index);
    return __syncthreads_and(ok) != 0;
  }

  // Makes everything that this block did before visible to whoever sees the counter.
  template <class Word>
  __device__ void announce(Word&& word_of, uint32_t value) const {
    __syncthreads();
    const int p = static_cast<int>(threadIdx.x);
    if (p < n) {
      fence_system();
      store_relaxed(&word_of(words_of(comm, p).from_peers), value);
    }
  }

  __device__ RankSet everybody() const { return RankSet::first(n); }

  // With which of the other ranks this block begins in a step. Blocks begin with different
  // ranks, so that at any time a rank sends to all others alike; in one order all blocks would
  // come to the same rank together.
  __device__ int first_of(uint32_t step) const {
    return static_cast<int>((index + step) % static_cast<uint32_t>(n - 1));
  }

  // The i-th of the other ranks, for i < n - 1, where a block begins with number `first`.
  __device__ int another(int i, int first) const {
    const int d = i + first < n - 1 ? i + first : i + first - (n - 1);
    return me + 1 + d < n ? me + 1 + d : me + 1 + d - n;
  }
};

struct Operands {
  // Each rank's recv as mapped here; null: private memory, whose results go to the rank's scratch.
  char* recv[kRoom];
  PeerAnnouncement announced[kRoom];
  // The destinations of a chunk, in the order in which this block stores; null: a
  // rank does not want it.
  char* to[kRoom];
};

constexpr uint32_t kAnnouncedWords = sizeof(PeerAnnouncement) / 8;

// Tells all ranks of this rank's call.
__device__ __forceinline__ void announce_call(const WorkGroup& s, uint32_t call) {
  const CollectiveArgs& a = s.args;
  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kAnnouncedWords;
      i += blockDim.x) {
    const uint32_t which = i % kAnnouncedWords;
    uint64_t word = a.recv_offset;
    if (which == 0) word = a.detail;
    if (which == 1) word = a.count;
    if (which == 2) word = a.recv_memory;

    const int p = static_cast<int>(i / kAnnouncedWords);
    auto& there = words_of(s.comm, p).from_peers.announced[s.index][s.me].cell[which];
    store_pairs(reinterpret_cast<uint4*>(there),
        {static_cast<uint32_t>(word), call, static_cast<uint32_t>(word >> 32), call});
  }
}

// Reads what the peers have announced. They must make the same call as this rank, and all of a
// recv that will be stored into must lie in the memory that its rank names. Long, since a kernel is
// not divided: that can change what stays in registers.
__device__ __forceinline__ bool read_announcements(
    const WorkGroup& s, Operands& at, uint32_t call) {
  const CollectiveArgs& a = s.args;
  bool ok = true;

  for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(s.n) * kAnnouncedWords && ok;
      i += blockDim.x) {
    const int p = static_cast<int>(i / kAnnouncedWords);
    const auto* cell = reinterpret_cast<const uint4*>(
        s.mine.from_peers.announced[s.index][p].cell[i % kAnnouncedWords]);
    SpinState spin;
    uint4 v = load_pairs(cell);
    while (ok && (v.y != call || v.w != call)) {
      ok = keep_waiting(s.comm, spin, p, s.index, call, v.y);
      v = load_pairs(cell);
    }
    reinterpret_cast<uint64_t*>(&at.announced[p])[i % kAnnouncedWords] =
        v.x | static_cast<uint64_t>(v.z) << 32;
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
    PeerAnnouncement& peer = at.announced[p];
    ok = peer.detail == a.detail && peer.count == a.count;
    if (!ok) {
      report(s.comm, WaitError::mismatch, p, s.index, 0, 0, peer.detail, peer.count, a.detail,
          a.count);
    }
    if (!s.collects(p)) peer.recv_memory = 0;
    at.recv[p] = nullptr;
    if constexpr (CollectiveArgs::kKnowsRecv) {
      const bool is_known = peer.recv_memory != 0 && peer.recv_memory == a.recv_memory;
      at.recv[p] = is_known ? find_in(a.recv_block[p], a.recv_bytes, peer.recv_offset) : nullptr;
    }
    found = peer.recv_memory == 0 || at.recv[p] != nullptr;
  }
  if (__syncthreads_and(ok) == 0) return false;
  if (__syncthreads_and(found) != 0) return true;

  // All threads search the table at once.
  const auto* table = reinterpret_cast<const MemoryEntry*>(s.comm.memories);
  for (int i = static_cast<int>(threadIdx.x); i < s.comm.memory_count;
      i += static_cast<int>(blockDim.x)) {
    const MemoryEntry& memory = table[i];
    for (int r = 0; r < s.n && memory.id != 0; ++r) {
      if (at.announced[r].recv_memory == memory.id) {
        at.recv[r] = find_in(memory.block[r], memory.bytes, at.announced[r].recv_offset);
      }
    }
  }
  __syncthreads();

  if (p < s.n && at.announced[p].recv_memory != 0 && at.recv[p] == nullptr) {
    report(s.comm, WaitError::unknown_memory, p, s.index, 0, 0);
    ok = false;
  }
  return __syncthreads_and(ok) != 0;
}

// Stores packs first, first + stride, ... of a message to n places, of which some may be null.
// kAtOnce loads are under way before the first store. Nearly always the operands are aligned, and
// then no question is asked for each pack. Loads and stores are streaming ones, whose data leaves
// the cache first: an all-gather of 64 MB takes 2 us less.
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

// A chunk on its way.
struct Transfer {
  const char* from;
  char* to;
  uint32_t bytes;
};

// Copies `count` chunks of at most `most` bytes, which transfer(i) returns. The chunks of a large
// group are shorter than a block has threads, so threads have packs of several chunks at a time.
template <class Transfers>
__device__ __forceinline__ void copy_chunks(int count, uint64_t most, Transfers&& transfer) {
  const auto packs = static_cast<uint32_t>(packs_of(most));
  for (uint32_t item = threadIdx.x; item < static_cast<uint32_t>(count) * packs;
      item += blockDim.x) {
    const uint32_t i = item / packs;
    const uint32_t q = item - i * packs;
    const Transfer one = transfer(static_cast<int>(i));
    if (q >= packs_of(one.bytes)) continue;
    store_pack(one.to, one.bytes, q, load_pack(one.from, one.bytes, q));
  }
}

// Pushes chunk i of what each other rank combines.
__device__ __forceinline__ void push_to_owners(const WorkGroup& s, uint32_t i) {
  const int first = s.first_of(i);
  const auto transfer = [&](int d) {
    const int p = s.another(d, first);
    const WorkGroup::Chunk chunk = s.chunk(p, i);
    return Transfer{reinterpret_cast<const char*>(s.args.send) + s.in_send(p) + chunk.at,
        s.chunk_slot(p, 0, i, s.me), chunk.bytes};
  };

  if constexpr (kRoom > kSmallRanks) {
    copy_chunks(s.n - 1, s.args.tile, transfer);
  } else {
    for (int d = 0; d < s.n - 1; ++d) {
      const Transfer one = transfer(d);
      push_part(one.from, one.to, one.bytes);
    }
  }
}

// ---- a launch

// Blocks come onto the device in the order of their numbers, and each waits for the block of the
// same number on other ranks only. So where not all of them have room at a time, those that have
// come in still end, and let others in.

__device__ __forceinline__ void announce_steps(const WorkGroup& s, uint32_t steps) {
  s.announce(
      [&](ControlWords::FromPeers& words) -> uint32_t& { return words.steps[s.index][s.me]; },
      steps);
}

__device__ __forceinline__ bool await_steps(const WorkGroup& s, uint32_t steps) {
  return s.await(s.mine.from_peers.steps[s.index], steps, s.everybody());
}

// `at_once(operands)` does the whole call where it can, and returns true then, on all ranks
// alike. `push(operands, i)` is part 1 of a step, for chunk i. `own(operands, i)` is part 3, for
// chunk i, which goes to operands.to. Long, since a kernel is not divided: that can change what
// stays in registers.
template <class AtOnce, class Push, class Own>
__device__ __forceinline__ void run(const WorkGroup& s, AtOnce&& at_once, Push&& push, Own&& own) {
  SYMM_SHARED(Operands, operands);
  const uint32_t call = s.mine.pipeline_calls[s.index] + 1;
  const uint32_t base = s.mine.pipeline_steps[s.index];
  announce_call(s, call);
  if (__syncthreads_and(may_use_stages(s.comm, s.index)) == 0 ||
      !read_announcements(s, operands, call)) {
    return;
  }

  const auto chunks = static_cast<uint32_t>(s.args.tiles);
  uint32_t steps = 1;
  if (at_once(operands)) {
    announce_steps(s, base + 1);
    if (!await_steps(s, base + 1)) return;
  } else {
    auto* recv = reinterpret_cast<char*>(s.args.recv);
    const bool copies_out = s.args.copies_out != 0;
    for (uint32_t i = 0; i < chunks + 2; ++i) {
      if (i < chunks) push(operands, i);

      const bool owns = i > 0 && i <= chunks;
      if (const int d = static_cast<int>(threadIdx.x); owns && d < s.n) {
        const int p = d == 0 ? s.me : s.another(d - 1, s.first_of(i));
        char* const there = p == s.me ? recv : operands.recv[p];
        if (!s.wants(p)) {
          operands.to[d] = nullptr;
        } else if (there != nullptr) {
          operands.to[d] = there + s.in_recv(s.me) + s.chunk(s.me, i - 1).at;
        } else {
          operands.to[d] = s.chunk_slot(p, 1, i - 1, s.me);
        }
      }
      if (i > 0 && !await_steps(s, base + i)) return;
      if (owns) own(operands, i - 1);
      if (i <= chunks) announce_steps(s, base + i + 1);

      if constexpr (kRoom <= kSmallRanks) {
        for (int owner = 0; copies_out && i > 1 && owner < s.n; ++owner) {
          const WorkGroup::Chunk chunk = s.chunk(owner, i - 2);
          if (owner != s.me) {
            push_part(s.chunk_slot(s.me, 1, i - 2, owner), recv + s.in_recv(owner) + chunk.at,
                chunk.bytes);
          }
        }
      } else if (copies_out && i > 1) {
        copy_chunks(s.n - 1, s.args.tile, [&](int other) {
          const int owner = other < s.me ? other : other + 1;
          const WorkGroup::Chunk chunk = s.chunk(owner, i - 2);
          return Transfer{
              s.chunk_slot(s.me, 1, i - 2, owner), recv + s.in_recv(owner) + chunk.at, chunk.bytes};
        });
      }
    }
    steps = chunks + 1;
  }

  if (threadIdx.x == 0) {
    s.mine.pipeline_calls[s.index] = call;
    s.mine.pipeline_steps[s.index] = base + steps;
  }
}
}  // namespace symm::cuda
