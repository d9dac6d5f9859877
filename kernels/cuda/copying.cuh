// Copies pieces that lie on a line, one behind the other, each as long as it costs
// (piece_units.hpp): what a block has of the line, tile after tile, by some threads for small
// pieces and by warps for units of the others. Whoever asks for it says where a piece is listed.
#pragma once

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/piece_units.hpp"

namespace symm::cuda {
// Some pieces of the list, one for each thread, and the cost of all of these up to the end of each.
struct Tile {
  ListedPiece piece[kCopyThreads];
  uint64_t end[kCopyThreads];
};

// Some neighbours of the threads of a block, by whom one thing is copied. A block has whole teams.
template <uint32_t kSize>
struct Team {
  static constexpr uint32_t kLanes = kSize;
  uint32_t lane = threadIdx.x % kSize;
  // Which of the block's teams, of how many.
  uint32_t index = threadIdx.x / kSize;
  uint32_t teams = blockDim.x / kSize;
};
// A team that copies a small piece.
using SmallTeam = Team<8>;
using Warp = Team<kWarp>;

// ---- copies by a team

// Loads of a lane that are under way before the first store.
constexpr uint32_t kAtOnce = 4;

template <class Word, class Team>
__device__ __forceinline__ void copy_words(
    char* to, const char* from, uint32_t words, const Team& team) {
  constexpr uint32_t kLanes = Team::kLanes;
  auto* const out = reinterpret_cast<Word*>(to);
  const auto* const in = reinterpret_cast<const Word*>(from);
  uint32_t q = team.lane;

  // A whole unit, with all loads under way before the first store.
  if constexpr (sizeof(Word) == kPack && kLanes == kWarp) {
    constexpr uint32_t kAll = kUnitBytes / kPack / kWarp;
#pragma unroll 1
    for (; q + (kAll - 1) * kLanes < words; q += kAll * kLanes) {
      Word v[kAll];
#pragma unroll
      for (uint32_t i = 0; i < kAll; ++i) {
        v[i] = in[q + i * kLanes];
      }
#pragma unroll
      for (uint32_t i = 0; i < kAll; ++i) {
        out[q + i * kLanes] = v[i];
      }
    }
  }

#pragma unroll 1
  for (; q < words; q += kAtOnce * kLanes) {
    Word v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * kLanes < words) v[i] = in[q + i * kLanes];
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * kLanes < words) out[q + i * kLanes] = v[i];
    }
  }
}

// Both sides are equally far from a multiple of the size of a word.
template <class Word, class Team>
__device__ __forceinline__ void copy_by(
    char* to, const char* from, uint32_t bytes, const Team& team) {
  constexpr uint32_t kWord = sizeof(Word);
  const uint32_t to_word = (kWord - reinterpret_cast<uintptr_t>(to) % kWord) % kWord;
  const uint32_t ahead = to_word < bytes ? to_word : bytes;
  const uint32_t words = (bytes - ahead) / kWord;
  const uint32_t behind = bytes - ahead - words * kWord;
  copy_words<Word>(to + ahead, from + ahead, words, team);

#pragma unroll 1
  for (uint32_t b = team.lane; b < ahead + behind; b += Team::kLanes) {
    const uint32_t at = b < ahead ? b : b + words * kWord;
    to[at] = from[at];
  }
}

template <class Team>
__device__ __forceinline__ void copy_stretch(
    char* to, const char* from, uint32_t bytes, const Team& team) {
  const uintptr_t differ = reinterpret_cast<uintptr_t>(to) ^ reinterpret_cast<uintptr_t>(from);
  if (differ % 16 == 0) return copy_by<uint4>(to, from, bytes, team);
  if (differ % 8 == 0) return copy_by<uint2>(to, from, bytes, team);
  if (differ % 4 == 0) return copy_by<uint32_t>(to, from, bytes, team);
  if (differ % 2 == 0) return copy_by<uint16_t>(to, from, bytes, team);
  copy_by<unsigned char>(to, from, bytes, team);
}

// Rows of less than kUnitBytes, a few thousand words in all.
template <class Word>
__device__ __forceinline__ void copy_rows_by(
    const ListedPiece& piece, char* to, const char* from, uint32_t rows, const Warp& team) {
  constexpr uint32_t kLanes = Warp::kLanes;
  const uint32_t of_row = static_cast<uint32_t>(piece.bytes) / sizeof(Word);
  const uint32_t all = rows * of_row;
  const auto place = [&](uint32_t q, uint64_t stride) {
    const uint32_t row = q / of_row;
    return row * stride + (q - row * of_row) * sizeof(Word);
  };

#pragma unroll 1
  for (uint32_t q = team.lane; q < all; q += kAtOnce * kLanes) {
    Word v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t n = q + i * kLanes;
      if (n < all) v[i] = *reinterpret_cast<const Word*>(from + place(n, piece.from_stride));
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t n = q + i * kLanes;
      if (n < all) *reinterpret_cast<Word*>(to + place(n, piece.to_stride)) = v[i];
    }
  }
}

__device__ __forceinline__ void copy_rows(
    const ListedPiece& piece, char* to, const char* from, uint32_t rows, const Warp& team) {
  const uint64_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) |
                       piece.bytes | piece.from_stride | piece.to_stride;
  if (all % 16 == 0) return copy_rows_by<uint4>(piece, to, from, rows, team);
  if (all % 8 == 0) return copy_rows_by<uint2>(piece, to, from, rows, team);
  if (all % 4 == 0) return copy_rows_by<uint32_t>(piece, to, from, rows, team);
  if (all % 2 == 0) return copy_rows_by<uint16_t>(piece, to, from, rows, team);
  copy_rows_by<unsigned char>(piece, to, from, rows, team);
}

// ---- copies in bulk

// Copies whole units of long rows by the engine that each multiprocessor has for that (bulk.cuh),
// on behalf of one warp, whose first lane calls it. While a unit is loaded into one of two stages,
// the unit before it is stored from the other one.
#if __CUDA_ARCH__ >= 900
struct BulkStages {
  alignas(128) char stage[2][kUnitBytes];
  uint64_t loaded[2];
};
static_assert(sizeof(BulkStages) * (kCopyThreads / kWarp) <= kCopyShared);

class BulkMover {
 public:
  __device__ explicit BulkMover(bool is_usable) : is_usable_(is_usable) {
    if (!is_usable_ || threadIdx.x % kWarp != 0) return;
    for (uint64_t& loaded : stages().loaded) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&loaded)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }

  // Whether it takes a unit, which all lanes ask.
  __device__ bool takes(uint64_t row, const char* to, const char* from, uint32_t bytes) const {
    return is_usable_ && row >= kBulkRow && is_aligned(to) && is_aligned(from) &&
           bytes % kPack == 0;
  }

  __device__ void copy(char* to, const char* from, uint32_t bytes) {
    if (threadIdx.x % kWarp != 0) return;
    const uint32_t at = units_ & 1U;
    const uint32_t loaded = shared(&stages().loaded[at]);
    // Waits until the last copy out of this stage, the last that was issued, has read it.
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(loaded), "r"(bytes)
        : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared(stages().stage[at])),
        "l"(from), "r"(bytes), "r"(loaded)
        : "memory");
    store_last();
    to_ = to;
    bytes_ = bytes;
    ++units_;
  }

  // Everything is in view of the first lane then. Other copies may follow.
  __device__ void finish() {
    if (!is_usable_ || threadIdx.x % kWarp != 0) return;
    store_last();
    bytes_ = 0;
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

 private:
  static __device__ uint32_t shared(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  }

  static __device__ BulkStages& stages() {
    extern __shared__ BulkStages all[];
    return all[threadIdx.x / kWarp];
  }

  // Stores the unit that was loaded last, if there is one.
  __device__ void store_last() {
    if (bytes_ == 0) return;
    const uint32_t last = units_ - 1;
    uint32_t is_loaded = 0;
    while (is_loaded == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, "
          "0, p; }"
          : "=r"(is_loaded)
          : "r"(shared(&stages().loaded[last & 1U])), "r"(last >> 1U & 1U)
          : "memory");
    }
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to_),
        "r"(shared(stages().stage[last & 1U])), "r"(bytes_)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }

  bool is_usable_;
  uint32_t units_ = 0;
  // The unit that was loaded last, but not stored yet.
  uint32_t bytes_ = 0;
  char* to_ = nullptr;
};
#else
struct BulkMover {
  __device__ explicit BulkMover(bool) {}
  __device__ bool takes(uint64_t, const char*, const char*, uint32_t) const { return false; }
  __device__ void copy(char*, const char*, uint32_t) {}
  __device__ void finish() {}
};
#endif

// The places of pieces count from these addresses.
struct PieceBases {
  uint64_t to;
  uint64_t from;
};

__device__ __forceinline__ void copy_unit(const PieceBases& bases, const ListedPiece& piece,
    uint64_t unit, const Warp& team, BulkMover& bulk) {
  char* to = reinterpret_cast<char*>(bases.to + piece.to);
  const char* from = reinterpret_cast<const char*>(bases.from + piece.from);
  const PieceUnits units = units_of(piece);

  if (units.rows_each != 0) {
    const uint64_t row = unit * units.rows_each;
    const uint64_t left = piece.rows - row;
    return copy_rows(piece, to + row * piece.to_stride, from + row * piece.from_stride,
        static_cast<uint32_t>(left < units.rows_each ? left : units.rows_each), team);
  }

  const uint64_t row = piece.rows == 1 ? 0 : unit / units.per_row;
  const uint64_t at = (unit - row * units.per_row) * kUnitBytes;
  const uint64_t left = piece.bytes - at;
  const auto bytes = static_cast<uint32_t>(left < kUnitBytes ? left : kUnitBytes);
  to += row * piece.to_stride + at;
  from += row * piece.from_stride + at;
  if (bulk.takes(piece.bytes, to, from, bytes)) return bulk.copy(to, from, bytes);
  copy_stretch(to, from, bytes, team);
}

// ---- the line

// Makes of numbers, one for each thread, the sums of all up to each. All threads have met.
static __device__ void add_up(uint64_t* numbers) {
  const uint32_t thread = threadIdx.x;
  for (uint32_t step = 1; step < blockDim.x; step *= 2) {
    const uint64_t before = thread >= step ? numbers[thread - step] : 0;
    __syncthreads();
    numbers[thread] += before;
    __syncthreads();
  }
}

// The first of the sums that is greater than `at`, which one of them is.
__device__ __forceinline__ uint32_t first_beyond(const uint64_t* sums, uint64_t at) {
  uint32_t low = 0;
  uint32_t high = blockDim.x - 1;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (sums[middle] > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// A block's share of the line, and the pieces among which it lies, with the cost of all ahead of
// them. No more pieces are read than these: the list may be in memory of the host.
struct Walk {
  // One that ends at ~0: the line is one tile, whose cost tells the share.
  CostShare share;
  uint64_t piece;
  uint64_t end;
  uint64_t ahead;
};

// Copies what the block has of a tile, which begins on the line at `ahead`.
static __device__ void copy_tile(const PieceBases& bases, const Tile& tile, uint64_t ahead,
    const CostShare& share, BulkMover& bulk) {
  const auto begin_of = [&](uint32_t i) { return i == 0 ? 0 : tile.end[i - 1]; };
  const SmallTeam team;
#pragma unroll 1
  for (uint32_t i = team.index; i < blockDim.x; i += team.teams) {
    const ListedPiece& piece = tile.piece[i];
    const uint64_t at = ahead + begin_of(i);
    if (!is_small(piece) || at < share.begin || at >= share.end) continue;
    copy_stretch(reinterpret_cast<char*>(bases.to + piece.to),
        reinterpret_cast<const char*>(bases.from + piece.from), static_cast<uint32_t>(piece.bytes),
        team);
  }

  const Warp warp;
  const uint64_t behind = ahead + tile.end[blockDim.x - 1];
  const uint64_t begin = parts_of(ahead < share.begin ? share.begin : ahead, kUnitCost) * kUnitCost;
  const uint64_t end = behind < share.end ? behind : share.end;
#pragma unroll 1
  for (uint64_t point = begin + warp.index * kUnitCost; point < end;
      point += warp.teams * kUnitCost) {
    const uint32_t i = first_beyond(tile.end, point - ahead);
    if (is_small(tile.piece[i])) continue;
    copy_unit(bases, tile.piece[i], (point - ahead - begin_of(i)) / kUnitCost, warp, bulk);
  }
}

// Copies the pieces of a walk. `load` finds a piece as it is copied; `cost`: what each of them
// costs, or 0 if they differ.
template <class Load>
__device__ __forceinline__ void copy_walk(const PieceBases& bases, uint64_t cost, Walk walk,
    Tile& tile, BulkMover& bulk, const Load& load) {
  const bool is_one_tile = walk.share.end == ~uint64_t{0};
  while (walk.piece < walk.end && walk.ahead < walk.share.end) {
    const uint64_t i = walk.piece + threadIdx.x;
    ListedPiece& piece = tile.piece[threadIdx.x];
    piece = {};
    if (i < walk.end) load(i, piece);
    // On a line of equal costs a piece that is not copied has its place, too.
    const uint64_t equal = i < walk.end ? cost : 0;
    tile.end[threadIdx.x] = cost != 0 ? equal : cost_of(piece);
    __syncthreads();
    add_up(tile.end);

    const uint64_t of_tile = tile.end[blockDim.x - 1];
    if (is_one_tile) walk.share = share_of(of_tile, gridDim.x, blockIdx.x);
    copy_tile(bases, tile, walk.ahead, walk.share, bulk);
    walk.piece += blockDim.x;
    walk.ahead += of_tile;
    // The tile is read until here.
    __syncthreads();
  }
  bulk.finish();
}
}  // namespace symm::cuda
