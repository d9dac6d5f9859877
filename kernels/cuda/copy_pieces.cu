// Copies the pieces of a list between two places: rows of equal length, or pages by their numbers.
// The list is among the arguments, in pinned memory of the host, or in memory of the device, which
// may have written it just before.
//
// Definitions.
//   The pieces lie on a line one behind the other, each as long as it costs (piece_units.hpp). Each
//   block has a share of the line, which begins and ends at a multiple of kUnitCost: a long piece
//   belongs to many blocks. Unit k of a piece that is not small lies on the line from kUnitCost * k
//   behind the beginning of its piece on.
//   A point is a multiple of kUnitCost on the line.
//
// Why each byte is copied, and once.
//   1. A unit is kUnitCost long, so exactly one point lies in it. Each point lies in the share of
//      exactly one block, where one warp copies the unit in which the point lies.
//   2. A small piece begins in the share of exactly one block, where one group of lanes copies it.
//   3. All blocks compute the same line. Who gives the list does not write it meanwhile.
//
// No block waits for another one, so nothing depends on how many have room on the device at a time.
// The blocks of a cluster do, which come onto the device together.
#include "kernels/cuda/piece_units.hpp"
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;

namespace {
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
using Group = Team<8>;
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
  __device__ explicit BulkMover(const CopyPiecesArgs& args) : is_usable_(args.in_bulk != 0) {
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

  // Everything is in view of the first lane then.
  __device__ void finish() {
    if (!is_usable_ || threadIdx.x % kWarp != 0) return;
    store_last();
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
  __device__ explicit BulkMover(const CopyPiecesArgs&) {}
  __device__ bool takes(uint64_t, const char*, const char*, uint32_t) const { return false; }
  __device__ void copy(char*, const char*, uint32_t) {}
  __device__ void finish() {}
};
#endif

__device__ __forceinline__ void copy_unit(const CopyPiecesArgs& args, const ListedPiece& piece,
    uint64_t unit, const Warp& team, BulkMover& bulk) {
  char* to = reinterpret_cast<char*>(args.to + piece.to);
  const char* from = reinterpret_cast<const char*>(args.from + piece.from);
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

// ---- the list

__device__ __forceinline__ const uint64_t* numbers_of(
    const CopyPiecesArgs& args, uint64_t at, uint32_t bit) {
  return (args.travels & bit) != 0 ? args.listed + at : reinterpret_cast<const uint64_t*>(at);
}

// Where a piece is listed, unless the pieces are pages.
__device__ __forceinline__ const uint64_t* listed_at(const CopyPiecesArgs& args, uint64_t i) {
  constexpr uint64_t kNumbers = sizeof(ListedPiece) / sizeof(uint64_t);
  return numbers_of(args, args.pieces, kPiecesTravel) + kNumbers * i;
}

__device__ __forceinline__ ListedPiece given_piece(const CopyPiecesArgs& args, uint64_t i) {
  if (args.page_bytes == 0) {
    const uint64_t* const at = listed_at(args, i);
    return {at[0], at[1], at[2], at[3], at[4], at[5]};
  }
  const auto page = [&](uint64_t table, uint32_t bit) {
    const bool counts_up = table == 0 && (args.travels & bit) == 0;
    return symm::bounded_product(counts_up ? i : numbers_of(args, table, bit)[i], args.page_bytes);
  };
  return {page(args.from_table, kFromTableTravels), page(args.to_table, kToTableTravels),
      args.page_bytes, 1, 0, 0};
}

// Which rule a piece breaks, of which there must be one.
__device__ PieceRule broken_rule(const CopyPiecesArgs& args, const ListedPiece& piece) {
  if (!symm::lies_within(piece, symm::read_of(piece), args.from_bytes)) return PieceRule::from;
  if (!symm::lies_within(piece, symm::written_of(piece), args.to_bytes)) return PieceRule::to;
  return PieceRule::to_stride;
}

__device__ __noinline__ void report_piece(
    const CopyPiecesArgs& args, const ListedPiece& piece, uint64_t i) {
  const PieceRule rule = broken_rule(args, piece);
  const bool of_from = rule == PieceRule::from;
  const symm::RowPlaces rows = of_from ? symm::read_of(piece) : symm::written_of(piece);
  uint64_t at = rows.at;
  uint64_t reach = symm::reach_of(piece, rows);
  if (rule == PieceRule::to_stride) {
    at = piece.to_stride;
    reach = piece.bytes;
  }

  const uint64_t table = of_from ? args.from_table : args.to_table;
  const uint32_t bit = of_from ? kFromTableTravels : kToTableTravels;
  const bool is_in_table = table != 0 || (args.travels & bit) != 0;
  const uint32_t of_pages = is_in_table ? 2 : 1;
  report(args.comm, WaitError::bad_piece, args.peer, 0, static_cast<uint32_t>(rule),
      args.page_bytes == 0 ? 0 : of_pages, reach, of_from ? args.from_bytes : args.to_bytes, i, at);
}

// Finds a piece as it is copied: without bytes if it breaks a rule, which has been reported. Not
// inlined, for registers.
__device__ __forceinline__ void load_piece(
    const CopyPiecesArgs& args, uint64_t i, ListedPiece& loaded) {
  ListedPiece piece = given_piece(args, i);
  if (args.checks != 0 && piece.bytes != 0 &&
      (!symm::lies_within(piece, symm::read_of(piece), args.from_bytes) ||
          !symm::lies_within(piece, symm::written_of(piece), args.to_bytes) ||
          symm::overlaps_itself(piece))) {
    report_piece(args, piece, i);
    piece.bytes = 0;
  }
  loaded = joined(piece);
}

// The number of pieces; 0 if more are there than may be, which has been reported.
__device__ uint64_t count_of(const CopyPiecesArgs& args) {
  if (args.count_at == 0) return args.count;
  const uint64_t count = *reinterpret_cast<const uint64_t*>(args.count_at);
  if (count <= args.count) return count;

  if (threadIdx.x == 0) {
    report(args.comm, WaitError::bad_piece, args.peer, 0, static_cast<uint32_t>(PieceRule::count),
        0, args.count, 0, count, 0);
  }
  return 0;
}

// ---- the line

// Makes of numbers, one for each thread, the sums of all up to each. All threads have met.
__device__ void add_up(uint64_t* numbers) {
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
  CostShare share;
  uint64_t piece;
  uint64_t end;
  uint64_t ahead;
};

// Walks through a list whose costs nobody has added up: each thread adds up those of as many pieces
// as the others do. Takes as long as it takes a block to read all of the list.
__device__ Walk walk_of_sums(const CopyPiecesArgs& args, uint64_t count, Tile& tile) {
  const uint64_t each = parts_of(count, blockDim.x);
  const uint64_t begin = each * threadIdx.x < count ? each * threadIdx.x : count;
  const uint64_t end = count - begin < each ? count : begin + each;
  uint64_t sum = 0;
#pragma unroll 1
  for (uint64_t i = begin; i < end; ++i) {
    constexpr uint64_t kAhead = 8;
    if (i + kAhead < end) prefetch(listed_at(args, i + kAhead));
    load_piece(args, i, tile.piece[threadIdx.x]);
    sum += cost_of(tile.piece[threadIdx.x]);
  }
  tile.end[threadIdx.x] = sum;
  __syncthreads();
  add_up(tile.end);

  Walk walk{share_of(tile.end[blockDim.x - 1], gridDim.x, blockIdx.x), count, count, 0};
  if (walk.share.begin < walk.share.end) {
    const uint32_t slice = first_beyond(tile.end, walk.share.begin);
    walk.piece = each * slice;
    walk.ahead = slice == 0 ? 0 : tile.end[slice - 1];
  }
  // The sums give way to the pieces' own.
  __syncthreads();
  return walk;
}

// Where the list is one tile, its share is not known yet, and is as long as can be.
__device__ Walk walk_of(const CopyPiecesArgs& args, uint64_t count, Tile& tile) {
  if (args.cost != 0) {
    const CostShare share = share_of(args.cost * count, gridDim.x, blockIdx.x);
    const uint64_t piece = share.begin / args.cost;
    return {share, piece, parts_of(share.end, args.cost), piece * args.cost};
  }
  if (args.starts != 0) {
    const auto* const start = reinterpret_cast<const PieceStart*>(args.starts) + blockIdx.x;
    return {share_of(args.total, gridDim.x, blockIdx.x), start[0].piece, start[1].piece + 1,
        start[0].ahead};
  }
  if (count > blockDim.x) return walk_of_sums(args, count, tile);
  return {{0, ~uint64_t{0}}, 0, count, 0};
}

// Copies what the block has of a tile, which begins on the line at `ahead`.
__device__ void copy_tile(const CopyPiecesArgs& args, const Tile& tile, uint64_t ahead,
    const CostShare& share, BulkMover& bulk) {
  const auto begin_of = [&](uint32_t i) { return i == 0 ? 0 : tile.end[i - 1]; };
  const Group group;
#pragma unroll 1
  for (uint32_t i = group.index; i < blockDim.x; i += group.teams) {
    const ListedPiece& piece = tile.piece[i];
    const uint64_t at = ahead + begin_of(i);
    if (!is_small(piece) || at < share.begin || at >= share.end) continue;
    copy_stretch(reinterpret_cast<char*>(args.to + piece.to),
        reinterpret_cast<const char*>(args.from + piece.from), static_cast<uint32_t>(piece.bytes),
        group);
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
    copy_unit(args, tile.piece[i], (point - ahead - begin_of(i)) / kUnitCost, warp, bulk);
  }
}

__device__ void copy_share(const CopyPiecesArgs& args, Tile& tile) {
  const uint64_t count = count_of(args);
  Walk walk = walk_of(args, count, tile);
  const bool is_one_tile = walk.share.end == ~uint64_t{0};
  BulkMover bulk(args);

  while (walk.piece < walk.end && walk.ahead < walk.share.end) {
    const uint64_t i = walk.piece + threadIdx.x;
    ListedPiece& piece = tile.piece[threadIdx.x];
    piece = {};
    if (i < walk.end) load_piece(args, i, piece);
    // On a line of equal costs a piece that is not copied has its place, too.
    const uint64_t equal = i < walk.end ? args.cost : 0;
    tile.end[threadIdx.x] = args.cost != 0 ? equal : cost_of(piece);
    __syncthreads();
    add_up(tile.end);

    const uint64_t cost = tile.end[blockDim.x - 1];
    if (is_one_tile) walk.share = share_of(cost, gridDim.x, blockIdx.x);
    copy_tile(args, tile, walk.ahead, walk.share, bulk);
    walk.piece += blockDim.x;
    walk.ahead += cost;
    // The tile is read until here.
    __syncthreads();
  }
  bulk.finish();
}
}  // namespace

extern "C" __global__ void __launch_bounds__(kCopyThreads, 2)
    SYMM_KERNEL(copy_pieces)(const __grid_constant__ CopyPiecesArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  SYMM_SHARED(Tile, tile);
  copy_share(args, tile);

  if (args.signal == 0) return;
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  if (args.is_cluster != 0) {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
  }
#endif
  // A piece that was not copied has made the group's kernels leave, and is not signalled.
  if (blockIdx.x == 0 && threadIdx.x == 0 &&
      load_relaxed(&words_of(args.comm, args.comm.rank).abort) == 0) {
    write_release(args.signal, args.kind, args.value);
  }
}
