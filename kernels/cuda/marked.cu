// Marked: data that is its own flag, for any bits; all-gather, all-to-all and broadcast.
//
// Definitions.
//   A free cell holds words of all ones (push.cuh). Where the message has such a word, another
//   word is sent in its place, and a mark of one word, which goes with every four packs of a
//   thread, says which words these were: 68 bytes are sent for 64. So there is no fence, no
//   barrier, and no address of another rank's operand.
//   A tile is what a warp moves to one rank: four packs and their mark for each thread. A block
//   has the same tiles on every rank, for all ranks, and waits for the blocks of its number on the
//   others alone; so blocks that have come onto the devices end without the rest.
//
// A warp sends some tiles ahead of the tile for which it waits, and no more, so that what comes in
// meanwhile is taken (2 GPUs, 8 MB for each rank: 28.1 us instead of 29.8). Each part of an
// operand is read and written by one thread, so an all-to-all may be in place.
#include "kernels/collective.hpp"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Packs of a thread in a tile, as far apart as a warp has threads.
constexpr uint32_t kPacks = kMarkedTile / kWarp / kPack;

// The packs that a thread has of a tile.
struct Share {
  uint4 pack[kPacks];
};

__device__ __forceinline__ uint32_t pack_of(uint32_t tile, uint32_t i) {
  return (tile * kPacks + i) * kWarp + threadIdx.x % kWarp;
}

// A tile's cells in a slot: the packs of all threads, then their marks.
__device__ __forceinline__ uint4* cell(char* slot, uint32_t tile, uint32_t i) {
  return reinterpret_cast<uint4*>(slot + uint64_t{tile} * kMarkedCells) + i * kWarp +
         threadIdx.x % kWarp;
}

__device__ __forceinline__ uint32_t* mark_cell(char* slot, uint32_t tile) {
  return reinterpret_cast<uint32_t*>(cell(slot, tile, kPacks) - threadIdx.x % kWarp) +
         threadIdx.x % kWarp;
}

// Whether the tile is whole and aligned. Nearly all tiles are, and then packs need no
// test of their own.
__device__ __forceinline__ bool is_whole(const char* part, uint32_t bytes, uint32_t tile) {
  return is_aligned(part) && (tile + 1) * kMarkedTile <= bytes;
}

__device__ __forceinline__ void load(
    Share& share, const char* part, uint32_t bytes, uint32_t tile) {
  if (is_whole(part, bytes, tile)) {
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      share.pack[i] = reinterpret_cast<const uint4*>(part)[pack_of(tile, i)];
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      const uint32_t q = pack_of(tile, i);
      share.pack[i] = q < packs_of(bytes) ? load_pack(part, bytes, q) : uint4{0, 0, 0, 0};
    }
  }
}

__device__ __forceinline__ void store(
    char* part, uint32_t bytes, uint32_t tile, const Share& share) {
  if (is_whole(part, bytes, tile)) {
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      reinterpret_cast<uint4*>(part)[pack_of(tile, i)] = share.pack[i];
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      const uint32_t q = pack_of(tile, i);
      if (q < packs_of(bytes)) store_pack(part, bytes, q, share.pack[i]);
    }
  }
}

__device__ __forceinline__ void hide(uint32_t& word, uint32_t& mark, uint32_t bit) {
  if (word != kFree) return;
  word = ~kFree;
  mark |= bit;
}

__device__ __forceinline__ void send(char* slot, uint32_t packs, uint32_t tile, Share share) {
  uint32_t mark = 0;
#pragma unroll
  for (uint32_t i = 0; i < kPacks; ++i) {
    uint4& v = share.pack[i];
    hide(v.x, mark, 1U << 4 * i);
    hide(v.y, mark, 2U << 4 * i);
    hide(v.z, mark, 4U << 4 * i);
    hide(v.w, mark, 8U << 4 * i);
    if (pack_of(tile, i) < packs) store_relaxed(cell(slot, tile, i), v);
  }

  if (pack_of(tile, 0) < packs) store_relaxed(mark_cell(slot, tile), mark);
}

__device__ __forceinline__ void show(uint32_t& word, uint32_t mark, uint32_t bit) {
  if ((mark & bit) != 0) word = kFree;
}

__device__ __forceinline__ bool receive(const DeviceComm& comm, Share& share, char* slot,
    uint32_t packs, uint32_t tile, int source, uint32_t epoch) {
  if (pack_of(tile, 0) >= packs) return true;

  SpinState spin;
  while (true) {
    const uint32_t mark = load_relaxed(mark_cell(slot, tile));
    bool all = mark != kFree;
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      if (pack_of(tile, i) < packs) share.pack[i] = load_relaxed(cell(slot, tile, i));
    }
#pragma unroll
    for (uint32_t i = 0; i < kPacks; ++i) {
      all = all && (pack_of(tile, i) >= packs || is_there(share.pack[i]));
    }

    if (all) {
      if (mark == 0) break;
#pragma unroll
      for (uint32_t i = 0; i < kPacks; ++i) {
        uint4& v = share.pack[i];
        show(v.x, mark, 1U << 4 * i);
        show(v.y, mark, 2U << 4 * i);
        show(v.z, mark, 4U << 4 * i);
        show(v.w, mark, 8U << 4 * i);
      }
      break;
    }
    if (!keep_waiting(comm, spin, source, blockIdx.x, epoch, 0)) return false;
  }

#pragma unroll
  for (uint32_t i = 0; i < kPacks; ++i) {
    if (pack_of(tile, i) < packs) free_cell(cell(slot, tile, i));
  }
  store_relaxed(mark_cell(slot, tile), kFree);
  return true;
}

// The slots for the tiles of a call, which are in one half of the scratch.
struct Slots {
  const DeviceComm& comm;
  uint64_t half;

  __device__ Slots(const DeviceComm& all, uint32_t epoch)
      : comm(all),
        half(all.one_shot + static_cast<uint64_t>(epoch & 1U) *
                                static_cast<uint64_t>(all.size - 1) * all.one_shot_slot) {}

  __device__ char* of(int owner, int source) const {
    return reinterpret_cast<char*>(
        comm.control[owner] + half + slot_among<kRoom>(owner, source) * comm.one_shot_slot);
  }
};

// In a broadcast the last warp of the first block exchanges tokens: without them, a rank that
// sends nothing would let the others run ahead of it. The last warp of a block has no tiles,
// unless the block is as large as blocks get.
__device__ __forceinline__ bool has_tiles() {
  return blockDim.x >= kMarkedBlock || threadIdx.x + kWarp < blockDim.x;
}

__device__ __forceinline__ uint32_t warps_with_tiles() {
  return (blockDim.x - (blockDim.x < kMarkedBlock ? kWarp : 0)) / kWarp;
}
}  // namespace

// The largest block that is launched has 512 threads, and two of them have room on a
// multiprocessor, as shape_marked() has it. Long, since a kernel is not divided: that can change
// what stays in registers.
extern "C" __global__ void __launch_bounds__(512, 2)
    SYMM_KERNEL(marked)(const __grid_constant__ CollectiveArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;

  const auto collective = static_cast<Collective>(args.collective);
  const bool part_each = traits(collective).send_per_rank;
  // By its name, since more than one collective has the trait, and this kernel has no register
  // left for that.
  const bool broadcast = collective == Collective::broadcast;
  const int n = comm.size;
  const int me = comm.rank;
  const auto others = static_cast<uint32_t>(n - 1);
  const auto* send_from = reinterpret_cast<const char*>(args.send);
  auto* recv_to = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const uint32_t tiles = (unit + kMarkedTile - 1) / kMarkedTile;
  const uint32_t epoch = current_epoch(comm);

  // An item is one of this block's tiles to and from one of the other ranks. Neighbouring items
  // are with different ranks.
  const auto tile_of = [&](uint32_t item) { return blockIdx.x + item / others * gridDim.x; };
  const auto peer_of = [&](uint32_t item) {
    const int p = me + 1 + static_cast<int>(item % others);
    return p < n ? p : p - n;
  };
  const uint32_t send_part = part_each ? unit : 0;
  const uint32_t recv_part = broadcast ? 0 : unit;
  const auto in_send = [&](int p) { return send_from + static_cast<uint64_t>(p) * send_part; };
  const auto in_recv = [&](int p) { return recv_to + static_cast<uint64_t>(p) * recv_part; };
  const bool works = !broadcast || has_tiles();
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t warps = broadcast ? warps_with_tiles() : blockDim.x / kWarp;

  const bool keeps = (!broadcast || me == args.root) && in_send(me) != in_recv(me);
  const bool sends = works && (!broadcast || me == args.root) && tile_of(warp) < tiles;
  Share share;
  // The first tile is loaded together with the epoch.
  if (sends) load(share, in_send(peer_of(warp)), unit, tile_of(warp));
  const Slots slots(comm, epoch);
  bool ok = !broadcast ||
            exchange_tokens(args, slots.half, comm.one_shot_slot, epoch, blockDim.x - kWarp);

  // A warp sends 1 + others / warps turns ahead: the turns in which two ranks have the items
  // between them differ by no more.
  const uint32_t ahead = warps * (1 + others / warps);
  for (uint32_t item = warp; works && ok; item += warps) {
    if (const uint32_t tile = tile_of(item); sends && tile < tiles) {
      if (item != warp) load(share, in_send(peer_of(item)), unit, tile);
      send(slots.of(peer_of(item), me), packs, tile, share);
      if (item % others == 0 && keeps) {
        if (part_each) load(share, in_send(me), unit, tile);
        store(in_recv(me), unit, tile, share);
      }
    }
    if (item < ahead) continue;

    const uint32_t tile = tile_of(item - ahead);
    const int p = peer_of(item - ahead);
    if (tile >= tiles) break;
    if (broadcast && p != args.root) continue;
    ok = receive(comm, share, slots.of(me, p), packs, tile, p, epoch);
    if (ok) store(in_recv(p), unit, tile, share);
  }

  // A thread hears from one rank only, all threads of a block from all ranks.
  __syncthreads();
  end_epoch(comm, epoch);
}

// A broadcast to two ranks or more that is passed on: the root sends each tile to one of them, the
// tile's owner, which sends it to the others. So each link carries the message once. Each turn has
// one tile of every owner. A warp receives its rank's own tile of a turn before those of the
// others, so a tile never waits for one of a later turn. Long, since a kernel is not divided: that
// can change what stays in registers.
extern "C" __global__ void __launch_bounds__(512, 2)
    SYMM_KERNEL(marked_passed_on)(const __grid_constant__ CollectiveArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;

  const int me = comm.rank;
  const int root = args.root;
  const auto owners = static_cast<uint32_t>(comm.size - 1);
  const auto* send_from = reinterpret_cast<const char*>(args.send);
  auto* recv_to = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const uint32_t tiles = (unit + kMarkedTile - 1) / kMarkedTile;
  const uint32_t epoch = current_epoch(comm);
  const Slots slots(comm, epoch);

  const auto rank_of = [&](uint32_t owner) {
    return static_cast<int>(owner) < root ? static_cast<int>(owner) : static_cast<int>(owner) + 1;
  };
  // This rank as an owner, unless it is the root.
  const auto mine = static_cast<uint32_t>(me < root ? me : me - 1);
  const auto another = [&](uint32_t d) { return mine + d < owners ? mine + d : mine + d - owners; };
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t warps = warps_with_tiles();
  const auto turn_of = [&](uint32_t item) { return blockIdx.x + item / owners * gridDim.x; };
  // A turn's tile uses the cells of number `turn` in its slot, so far before those of its own
  // number.
  const auto back = [&](uint32_t turn, uint32_t tile) {
    return uint64_t{tile - turn} * kMarkedCells;
  };

  if (me == root && has_tiles()) {
    for (uint32_t item = warp; turn_of(item) * owners < tiles; item += warps) {
      const uint32_t turn = turn_of(item);
      const uint32_t owner = (item + turn) % owners;
      const uint32_t tile = turn * owners + owner;
      Share share;
      load(share, send_from, unit, tile);
      send(slots.of(rank_of(owner), me) - back(turn, tile), packs, tile, share);
      if (send_from != recv_to) store(recv_to, unit, tile, share);
    }
  }

  const bool ok = exchange_tokens(args, slots.half, comm.one_shot_slot, epoch, blockDim.x - kWarp);
  const bool gets = ok && has_tiles() && me != root;
  for (uint32_t item = warp; gets && turn_of(item) * owners < tiles; item += warps) {
    const uint32_t turn = turn_of(item);
    const uint32_t owner = another(item % owners);
    const uint32_t tile = turn * owners + owner;
    const int source = owner == mine ? root : rank_of(owner);
    Share share;
    if (!receive(
            comm, share, slots.of(me, source) - back(turn, tile), packs, tile, source, epoch)) {
      break;
    }
    for (uint32_t d = 1; owner == mine && d < owners; ++d) {
      send(slots.of(rank_of(another(d)), me) - back(turn, tile), packs, tile, share);
    }
    store(recv_to, unit, tile, share);
  }

  // The root hears from others by tokens only.
  __syncthreads();
  end_epoch(comm, epoch);
}
