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
#include "kernels/cuda/copying.cuh"
#include "kernels/cuda/piece_units.hpp"
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;

namespace {
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

__device__ void copy_share(const CopyPiecesArgs& args, Tile& tile) {
  const uint64_t count = count_of(args);
  const Walk walk = walk_of(args, count, tile);
  BulkMover bulk(args.in_bulk != 0);
  copy_walk({args.to, args.from}, args.cost, walk, tile, bulk,
      [&](uint64_t i, ListedPiece& piece) { load_piece(args, i, piece); });
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
