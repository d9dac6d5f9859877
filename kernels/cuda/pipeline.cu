// SPDX-License-Identifier: Apache-2.0
//
// The pipeline: large messages in tiles, through scratch of bounded size. A tile has a slice for each rank. In the first stage ranks push their
// slices into the scratch of the slice's owner; in the second the owner combines them and pushes the result to those who want
// it, straight into their recv where that is memory of the group, else into their scratch. All six collectives are cases of this.
//
// The message is dealt out to stripes, which know nothing of each other. Up to three blocks work on a stripe at the same time, one
// for each role, so that one pushes while another waits for its fence. Who does what when is said by counters of tiles, one word for each
// pair of ranks (args.hpp); slots are used again when their reader has said that it is done.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/wait.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {

using Entry = ControlWords::FromPeers::Entry;

struct Stripe {
  const CollectiveArgs& args;
  const World& world;
  ControlWords& mine;
  int n, me;
  uint32_t index;
  uint64_t tiles;  // of this stripe
  Collective collective;

  __device__ Stripe(const CollectiveArgs& a, int ranks, uint32_t i)
      : args(a), world(a.world), mine(words_of(a.world, a.world.rank)), n(ranks), me(a.world.rank), index(i),
        collective(static_cast<Collective>(a.collective)) {
    const auto stripes = static_cast<uint64_t>(a.stripes);
    tiles = a.tiles > index ? (a.tiles - index + stripes - 1) / stripes : 0;
  }

  __device__ bool part_each() const { return collective == Collective::reduce_scatter || collective == Collective::alltoall; }
  // Do I push slices to their owners?
  __device__ bool scatters() const {
    return collective == Collective::broadcast ? me == args.root : collective != Collective::allgather;
  }
  // Does rank p get the results of the owners?
  __device__ bool collects(int p) const {
    if (collective == Collective::reduce) return p == args.root;
    if (collective == Collective::broadcast) return p != args.root;  // who has it all
    return !part_each();
  }

  struct Range {
    uint64_t at, bytes;
  };
  // Slice `owner` of tile j of this stripe, in an operand.
  __device__ Range slice(uint64_t j, int owner) const {
    const uint64_t tile = index + j * static_cast<uint64_t>(args.stripes);
    const uint64_t c = args.tile;
    auto o = static_cast<uint64_t>(owner);
    auto parts = static_cast<uint64_t>(n);
    if (collective == Collective::broadcast) {
      // The root owns nothing: it sends each byte once, and the others pass it on.
      if (owner == args.root) return {0, 0};
      parts = static_cast<uint64_t>(n - 1);
      o = static_cast<uint64_t>(owner < args.root ? owner : owner - 1);
    }
    const bool cut_across = collective == Collective::allreduce || collective == Collective::reduce || collective == Collective::broadcast;
    const uint64_t within = cut_across ? (tile * parts + o) * c : tile * c;
    const uint64_t bytes = within < args.unit ? (args.unit - within < c ? args.unit - within : c) : 0;
    return {cut_across || collective == Collective::allgather ? within : o * args.unit + within, bytes};
  }
  // Where owner's result belongs in recv. An all-gather's comes from the owner's own operand.
  __device__ uint64_t place(const Range& of, int owner) const {
    return collective == Collective::allgather ? static_cast<uint64_t>(owner) * args.unit + of.at : of.at;
  }

  __device__ char* stage(int rank, int which, uint32_t slot, int source) const {
    const uint64_t at = (static_cast<uint64_t>(index) * kSlots + (slot & (kSlots - 1))) * static_cast<uint64_t>(n) + static_cast<uint64_t>(source);
    return reinterpret_cast<char*>(world.control[rank] + world.stage[which] + at * world.stage_slot);
  }

  // Threads 0 .. n-1 each wait for one rank's counter; then the whole block goes on, with everything that the rank stored before in view.
  __device__ bool await(const uint32_t (&words)[kMaxRanks], uint32_t target, uint32_t ranks, Trail& trail) const {
    bool ok = true;
    const int p = static_cast<int>(threadIdx.x);
    if (p < n && (ranks >> p & 1U) != 0) {
      ok = await_count(world, trail, &words[p], target, p, index);
      fence_system();
    }
    return __syncthreads_and(ok) != 0;
  }

  // Everything that this block did before is visible to whoever sees the counter.
  template <class Word>
  __device__ void announce(Word&& word_of, uint32_t value) const {
    __syncthreads();
    const int p = static_cast<int>(threadIdx.x);
    if (p < n) {
      fence_system();
      store_relaxed(&word_of(words_of(world, p).from_peers), value);
    }
  }

  __device__ uint32_t everybody() const { return (1U << n) - 1U; }
};

// ---- first role: push my slices to their owners

__device__ void scatter(const Stripe& s) {
  const CollectiveArgs& args = s.args;
  const uint32_t base = s.mine.scatter_base[s.index];
  const auto arrived = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.arrived[s.index][s.me]; };
  const auto* send = reinterpret_cast<const char*>(args.send);
  Trail trail;

  if (static_cast<int>(threadIdx.x) < s.n) {
    Entry& entry = words_of(s.world, static_cast<int>(threadIdx.x)).from_peers.entry[s.index][s.me];
    store_relaxed(&entry.memory, args.recv_memory);
    store_relaxed(&entry.offset, args.recv_offset);
    store_relaxed(&entry.detail, args.detail);
    store_relaxed(&entry.count, args.count);
  }
  if (!s.scatters()) {
    s.announce(arrived, base + static_cast<uint32_t>(s.tiles));
  } else {
    for (uint64_t j = 0; j < s.tiles; ++j) {
      const uint32_t now = base + static_cast<uint32_t>(j);
      if (!s.await(s.mine.from_peers.done[s.index], now + 1 - kSlots, s.everybody(), trail)) break;
      for (int d = 1; d < s.n; ++d) {
        const int p = s.me + d < s.n ? s.me + d : s.me + d - s.n;
        const Stripe::Range part = s.slice(j, p);
        auto* to = reinterpret_cast<uint4*>(s.stage(p, 0, now, s.me));
        const uint64_t packs = packs_of(part.bytes);
        // Four loads under way before the first store.
        uint64_t q = threadIdx.x;
        for (; q + 3 * blockDim.x < packs; q += 4 * blockDim.x) {
          uint4 v[4];
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) v[i] = load_pack(send + part.at, part.bytes, q + i * blockDim.x);
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) to[q + i * blockDim.x] = v[i];
        }
        for (; q < packs; q += blockDim.x) to[q] = load_pack(send + part.at, part.bytes, q);
      }
      s.announce(arrived, now + 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) s.mine.scatter_base[s.index] = base + static_cast<uint32_t>(s.tiles);
}

// ---- second role: combine my slice and push the result

struct Destinations {
  char* recv[kMaxRanks];  // where rank p's recv is mapped here; null: to its scratch
};

// What the peers said in their entries: the same call as mine? and where are their recvs?
__device__ bool read_entries(const Stripe& s, Destinations& to) {
  bool ok = true;
  const int p = static_cast<int>(threadIdx.x);
  if (p < s.n) {
    const Entry& entry = s.mine.from_peers.entry[s.index][p];
    const uint64_t memory = load_relaxed(&entry.memory);
    const uint64_t offset = load_relaxed(&entry.offset);
    const uint64_t detail = load_relaxed(&entry.detail);
    const uint64_t count = load_relaxed(&entry.count);
    to.recv[p] = nullptr;
    if (detail != s.args.detail || count != s.args.count) {
      report(s.world, Trouble::mismatch, p, s.index, 0, 0, detail, count, s.args.detail, s.args.count);
      ok = false;
    } else if (memory != 0 && s.collects(p)) {
      ok = false;
      const auto* table = reinterpret_cast<const MemoryEntry*>(s.world.memories);
      for (int i = 0; i < s.world.memory_count; ++i) {
        if (table[i].id != memory) continue;
        to.recv[p] = reinterpret_cast<char*>(table[i].block[p] + offset);
        ok = offset <= table[i].bytes;
        break;
      }
      if (!ok) report(s.world, Trouble::unknown_memory, p, s.index, 0, 0);
    }
  }
  return __syncthreads_and(ok) != 0;
}

template <class Arithmetic, int kRanks>
__device__ void reduce_tile(const Stripe& s, const Destinations& to, uint64_t j, uint32_t now) {
  const CollectiveArgs& args = s.args;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const Stripe::Range part = s.slice(j, s.me);
  const uint64_t packs = packs_of(part.bytes);

  if (s.collective == Collective::alltoall) {
    for (int r = 0; r < s.n; ++r) {
      // The slot of this tile from rank r, or my own block; each of the same size.
      const uint64_t within = part.at - static_cast<uint64_t>(s.me) * args.unit;
      char* place = recv + static_cast<uint64_t>(r) * args.unit + within;
      const auto* slot = reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, r));
      for (uint64_t q = threadIdx.x; q < packs; q += blockDim.x) {
        store_pack(place, part.bytes, q, r == s.me ? load_pack(send + part.at, part.bytes, q) : slot[q]);
      }
    }
    return;
  }

  if (s.collective == Collective::broadcast && s.me == args.root) {
    if (send == recv) return;
    const uint64_t bytes = static_cast<uint64_t>(s.n - 1) * args.tile;
    const uint64_t at = (s.index + j * static_cast<uint64_t>(args.stripes)) * bytes;
    const uint64_t here = args.unit - at < bytes ? args.unit - at : bytes;
    for (uint64_t q = threadIdx.x; q < packs_of(here); q += blockDim.x) store_pack(recv + at, here, q, load_pack(send + at, here, q));
    return;
  }

  const bool combines = s.collective == Collective::allreduce || s.collective == Collective::reduce || s.collective == Collective::reduce_scatter;
  const int source = s.collective == Collective::broadcast ? args.root : s.me;
  const bool local = s.collective == Collective::reduce_scatter;  // the result is for me alone, at the start of recv
  const uint64_t place = local ? part.at - static_cast<uint64_t>(s.me) * args.unit : s.place(part, s.me);
  // As many packs at once as the registers hold, so that loads of several are under way.
  constexpr uint32_t kAtOnce = kRanks <= 2 ? 4 : kRanks <= 4 ? 2 : 1;
  for (uint64_t q = threadIdx.x; q < packs; q += kAtOnce * blockDim.x) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      if (combines) {
#pragma unroll
        for (int r = 0; r < kRanks; ++r) {
          if (r >= s.n) continue;
          if (r == s.me) v[u][r] = load_pack(send + part.at, part.bytes, at);
          else v[u][r] = reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, r))[at];
        }
      } else {
        v[u][0] = source == s.me ? load_pack(send + part.at, part.bytes, at) : reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, source))[at];
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      const uint4 result = combines ? Arithmetic::run(v[u], s.n, args) : v[u][0];
      if (local) {
        store_pack(recv + place, part.bytes, at, result);
        continue;
      }
#pragma unroll
      for (int d = 0; d < kRanks; ++d) {
        if (d >= s.n) continue;
        const int p = s.me + d < s.n ? s.me + d : s.me + d - s.n;
        if (!s.collects(p)) continue;
        if (p == s.me) store_pack(recv + place, part.bytes, at, result);
        else if (to.recv[p] != nullptr) store_pack(to.recv[p] + place, part.bytes, at, result);
        else reinterpret_cast<uint4*>(s.stage(p, 1, now, s.me))[at] = result;
      }
    }
  }
}

template <class Arithmetic, int kRanks>
__device__ void reduce(const Stripe& s) {
  __shared__ Destinations to;
  const uint32_t base = s.mine.reduce_base[s.index];
  const auto done = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.done[s.index][s.me]; };
  const auto copied = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.copied[s.index][s.me]; };
  Trail trail;
  bool ok = true;
  uint32_t staged = 0;  // ranks whose recv I reach through their scratch
  for (uint64_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + static_cast<uint32_t>(j);
    // All of them, and myself: a push of mine may still read what I am about to overwrite.
    ok = s.await(s.mine.from_peers.arrived[s.index], now + 1, s.everybody(), trail);
    if (!ok) break;
    if (j == 0) {
      ok = read_entries(s, to);
      if (!ok) break;
      for (int p = 0; p < s.n; ++p) {
        if (p != s.me && s.collects(p) && to.recv[p] == nullptr) staged |= 1U << p;
      }
    }
    if (staged != 0) {
      ok = s.await(s.mine.from_peers.copied[s.index], now + 1 - kSlots, staged, trail);
      if (!ok) break;
    }
    reduce_tile<Arithmetic, kRanks>(s, to, j, now);
    s.announce(done, now + 1);
  }
  const uint32_t end = base + static_cast<uint32_t>(s.tiles);
  // Where a block of the third role copies the results, it says so itself.
  if (ok && s.args.gathers == 0) {
    s.announce(copied, end);
    // recv is complete when all owners have delivered.
    s.await(s.mine.from_peers.done[s.index], end, s.everybody(), trail);
  }
  __syncthreads();
  if (threadIdx.x == 0) s.mine.reduce_base[s.index] = end;
}

// ---- third role: bring results from my scratch to recv

__device__ void gather(const Stripe& s) {
  const CollectiveArgs& args = s.args;
  const uint32_t base = s.mine.gather_base[s.index];
  const auto copied = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.copied[s.index][s.me]; };
  auto* recv = reinterpret_cast<char*>(args.recv);
  Trail trail;
  for (uint64_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + static_cast<uint32_t>(j);
    if (!s.await(s.mine.from_peers.done[s.index], now + 1, s.everybody(), trail)) break;
    for (int owner = 0; owner < s.n; ++owner) {
      if (owner == s.me) continue;
      const Stripe::Range part = s.slice(j, owner);
      const auto* from = reinterpret_cast<const uint4*>(s.stage(s.me, 1, now, owner));
      const uint64_t place = s.place(part, owner);
      for (uint64_t q = threadIdx.x; q < packs_of(part.bytes); q += blockDim.x) store_pack(recv + place, part.bytes, q, from[q]);
    }
    s.announce(copied, now + 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) s.mine.gather_base[s.index] = base + static_cast<uint32_t>(s.tiles);
}

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  if (args.world.size == 0) return;  // a launch to make it ready
  const auto stripes = static_cast<uint32_t>(args.stripes);
  const uint32_t role = blockIdx.x / stripes;
  const Stripe stripe(args, kRanks <= 8 ? kRanks : args.world.size, blockIdx.x % stripes);
  if (role == 0) {
    scatter(stripe);
  } else if (role == 1) {
    reduce<Arithmetic, kRanks>(stripe);
    if (args.gathers == 0 && threadIdx.x == 0) stripe.mine.gather_base[stripe.index] += static_cast<uint32_t>(stripe.tiles);
  } else {
    gather(stripe);
  }
}

}  // namespace

// Two blocks of 512 on each multiprocessor, guaranteed by the second number: the roles of a stripe wait for each other, here and on the
// other ranks, so a launch must fit onto the device as a whole.
#define SYMM_PIPELINE(name, arithmetic, ranks)                                                                                    \
  extern "C" __global__ void __launch_bounds__(512, 2) symm_pipeline_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                                                                    \
  }
#define SYMM_PIPELINE_ALL(name, arithmetic) \
  SYMM_PIPELINE(name, arithmetic, 2)        \
  SYMM_PIPELINE(name, arithmetic, 4)        \
  SYMM_PIPELINE(name, arithmetic, 8)        \
  SYMM_PIPELINE(name, arithmetic, 16)
SYMM_PIPELINE_ALL(bf16, Hot<Bf16>)
SYMM_PIPELINE_ALL(f16, Hot<F16>)
SYMM_PIPELINE_ALL(f32, Hot<Whole<float>>)
SYMM_PIPELINE_ALL(any, Any)
