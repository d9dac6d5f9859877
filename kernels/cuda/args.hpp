// The structs that host and device code of the CUDA back end share: the layout of a rank's
// control block, and the arguments of the kernels. Plain data only, so both compilers see the
// same bytes. Addresses are uint64_t, and 0 means that there is none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/compare.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
inline constexpr int kMaxRanks = 72;
// Groups of at most this number of ranks are small. Large groups have kernels and structs of
// their own, in which there is room for kMaxRanks, so kernels of small groups keep their
// structs and registers. A file of kernels is compiled once more for large groups by a file
// large_*.cu. Every process loads these images with the others, even if its groups are small:
// to load one later, while kernels of another group wait, could stall.
inline constexpr int kSmallRanks = 16;
#ifdef SYMM_LARGE_GROUPS
#define SYMM_KERNEL(name) symm_large_##name
inline constexpr int kRoom = kMaxRanks;
#else
#define SYMM_KERNEL(name) symm_##name
inline constexpr int kRoom = kSmallRanks;
#endif

// A set of ranks: bit r % 32 of word r / 32 is rank r. That of a small group is one word.
template <int kRanks>
struct RankSetOf {
  static constexpr int kWords = (kRanks + 31) / 32;
  uint32_t word[kWords];

  static SYMM_HOST_DEVICE constexpr RankSetOf of(int rank) {
    RankSetOf set{};
    set.add(rank);
    return set;
  }
  static SYMM_HOST_DEVICE constexpr RankSetOf first(int ranks) {
    RankSetOf set{};
    if constexpr (kRanks < 32) {
      set.word[0] = (1U << ranks) - 1U;
    } else {
      for (int w = 0; w < kWords; ++w) {
        const int here = ranks - 32 * w;
        if (here > 0) set.word[w] = here < 32 ? (1U << here) - 1U : ~0U;
      }
    }
    return set;
  }
  SYMM_HOST_DEVICE constexpr bool has(int rank) const {
    return (word[kWords == 1 ? 0 : rank / 32] >> (kWords == 1 ? rank : rank % 32) & 1U) != 0;
  }
  SYMM_HOST_DEVICE constexpr void add(int rank) {
    word[kWords == 1 ? 0 : rank / 32] |= 1U << (kWords == 1 ? rank : rank % 32);
  }
  SYMM_HOST_DEVICE constexpr RankSetOf without(int rank) const {
    RankSetOf set = *this;
    set.word[kWords == 1 ? 0 : rank / 32] &= ~(1U << (kWords == 1 ? rank : rank % 32));
    return set;
  }
  SYMM_HOST_DEVICE constexpr bool is_empty() const {
    uint32_t any = 0;
    for (int w = 0; w < kWords; ++w) {
      any |= word[w];
    }
    return any == 0;
  }
};
using RankSet = RankSetOf<kRoom>;
// Blocks of a push or LL kernel; each has an epoch of its own.
inline constexpr int kMaxBlocks = 256;
// Blocks of the pipeline, each of which keeps step with one block of each other rank.
inline constexpr int kMaxWorkGroups = 128;
// Blocks of pieces.cu that wait for those of other ranks.
inline constexpr int kPiecesBlocks = 42;
inline constexpr int kMultimemBlocks = 32;
// At least one more than groups have channels.
inline constexpr int kBarrierChannels = 258;
// Chunks of the pipeline that a work group has under way.
inline constexpr uint32_t kChunkSlots = 3;
// Slots that one block of pieces.cu has for each other rank; a power of two, so that counters
// may wrap.
inline constexpr uint32_t kSlots = 4;
// Bytes that one thread moves at a time.
inline constexpr uint32_t kPack = 16;
// The number of packs that LL places together (ll.cuh).
inline constexpr uint32_t kLlPacks = 32;
inline constexpr uint32_t kWarp = 32;
// Threads of a kernel that has one for each rank of a group.
constexpr uint32_t rank_threads(int ranks) {
  return (static_cast<uint32_t>(ranks) + kWarp - 1) / kWarp * kWarp;
}
inline constexpr uint32_t kRankThreads = rank_threads(kRoom);
// Bytes of a tile, which a warp of marked.cu sends to one rank at a time, and of the cells of a
// tile, which hold the marks too.
inline constexpr uint32_t kMarkedTile = 2048;
inline constexpr uint32_t kMarkedCells = kMarkedTile + kMarkedTile / kPack;
// Threads of the largest block of marked.cu, of which none is kept for tokens.
inline constexpr int kMarkedBlock = 512;
// Copies by the engine of a multiprocessor (bulk.cuh): bytes of one copy, how many of them a
// block has under way, and the shared memory that these take.
inline constexpr uint32_t kBulkBytes = 24576;
inline constexpr uint32_t kBulkStages = 4;
inline constexpr uint32_t kBulkShared = kBulkStages * kBulkBytes + 128;

// The words of a control block. Only `from_peers` is written by other ranks, each word by one
// of them, and every word there only grows. The rest is this rank's own: kernels advance it, so
// that a captured graph can be replayed.
template <int kRanks>
struct ControlWordsOf {
  // Set like `abort`, for all groups that work in these stages. A late rank may still store
  // there what was meant for a kernel that gave up, so no kernel uses the stages any more. This
  // word comes first, since a small group may work in the stages of a large one.
  uint32_t spoilt;
  // Set by a kernel that gives up or finds Told::abort, and later by the host too. A kernel that
  // waits looks here after every thousand polls, and leaves if it is set.
  uint32_t abort;
  // Elects the thread that writes the error record.
  uint32_t failed;
  uint32_t check_epoch;

  // Calls of LL and push kernels so far, one copy for each block.
  uint32_t epoch[kMaxBlocks];
  // Calls of each work group of the pipeline so far, and steps in all of them.
  uint32_t pipeline_calls[kMaxWorkGroups];
  uint32_t pipeline_steps[kMaxWorkGroups];
  // Arrivals of each rank that a barrier waits for or has waited for.
  uint32_t barrier_taken[kBarrierChannels][kRanks];
  // Calls of each block of pieces.cu so far, and the chunks that each block has passed through
  // slots so far, to each rank and from it.
  uint32_t calls[kPiecesBlocks];
  uint32_t pushed[kPiecesBlocks][kRanks];
  uint32_t taken[kPiecesBlocks][kRanks];
  // The number of times that each block of multimem kernels has met those of the other ranks.
  uint32_t multimem_met[kMultimemBlocks];

  struct FromPeers {
    uint32_t barrier[kBarrierChannels][kRanks];
    // Steps of the pipeline that the source has done, by work group and source.
    uint32_t steps[kMaxWorkGroups][kRanks];

    // The source's announcement of a call of the pipeline. `detail` and `count` must agree on
    // all ranks. Its recv lies `recv_offset` bytes from the start of its block of memory
    // `recv_memory`, which is 0 for private memory.
    struct PeerAnnouncement {
      uint64_t detail;
      uint64_t count;
      uint64_t recv_memory;
      uint64_t recv_offset;
    };
    // Each word of an announcement lies beside the number of its call, so the word is whole
    // when that number is there.
    struct alignas(16) AnnouncementCells {
      uint32_t cell[sizeof(PeerAnnouncement) / 8][4];
    };
    AnnouncementCells announced[kMaxWorkGroups][kRanks];

    // Words of pieces.cu, by block and source.
    struct Pieces {
      // The call whose destination is here.
      uint32_t posted[kPiecesBlocks][kRanks];
      // The call in which the source has read this rank's destination and has stored straight
      // into recv what it could.
      uint32_t finished[kPiecesBlocks][kRanks];
      // Chunks that are, or were, in slots here.
      uint32_t pushed[kPiecesBlocks][kRanks];
      // Chunks of this rank, in slots of the source, that the source is done with.
      uint32_t taken[kPiecesBlocks][kRanks];

      // Where the source expects the piece of this rank: `offset` bytes from the start of its
      // block of `memory`, which is 0 for private memory, in rows, `bytes` in all. `detail` and
      // `count` must agree on all ranks.
      struct Destination {
        uint64_t memory;
        uint64_t offset;
        uint64_t bytes;
        uint64_t row_bytes;
        uint64_t row_stride;
        uint64_t detail;
        uint64_t count;
      };
      Destination destination[kPiecesBlocks][kRanks];
    } pieces;

    // Words of multimem kernels, by block and source: how often the source has come to where
    // blocks meet; and what must agree, with where its operands lie.
    uint32_t met[kMultimemBlocks][kRanks];
    struct MultimemOperands {
      uint64_t detail;
      uint64_t count;
      uint64_t send_memory;
      uint64_t send_offset;
      uint64_t recv_memory;
      uint64_t recv_offset;
    };
    MultimemOperands operands[kMultimemBlocks][kRanks];

    // Words of symm_check, which carry their flag with them, by the parity of the call.
    struct Check {
      uint64_t word[8];
    } check[2][kRanks];
  } from_peers;
};
using ControlWords = ControlWordsOf<kRoom>;

// Why a kernel gave up.
enum class WaitError : uint32_t {
  none = 0,
  timeout = 1,
  departed = 2,
  mismatch = 3,
  unknown_memory = 4,
  other_place = 5,
  aborted = 6,  // another kernel gave up, and has said why
  other_length = 7,
  beyond_capacity = 8,
  spoilt = 9,
  bad_piece = 10,
  other_message = 11,
  out_of_turn = 12
};

// What a piece of a list that the device reads must not be.
enum class PieceRule : uint32_t { from = 0, to = 1, to_stride = 2, count = 3 };

inline constexpr uint32_t kOperationBits = 8;

// Lies in host memory that the device can write. `state` becomes 1 after the rest was written.
struct ErrorRecord {
  uint32_t state;
  // WaitError.
  uint32_t trouble;
  // Operation, or the number of a collective, in the low kOperationBits; above them the number of
  // the call's tag in the group's table, or 0. Kernels pass it on as it is.
  uint32_t operation;
  int32_t peer;
  // The channel of a barrier or signal; the block or work group of a collective.
  uint32_t channel;
  uint32_t expected;
  uint32_t seen;
  uint32_t reserved;
  // By `trouble`:
  // - a mismatch: `detail` and `count` of both ranks;
  // - a wait for a word: Compare, the value, the address of the word, and what the word was;
  // - other_length: elements that this rank sends, -, that the peer expects, -; if `expected` is
  //   1, those of rows; if it is 2, elements that the peer sends, -, that this rank expects, -;
  // - beyond_capacity: elements, the capacity, where the block begins, -; of the block of rank
  //   `peer`, in recv if `expected` is 1, else in send;
  // - bad_piece: which piece, where it begins (or its stride), the bytes that it reaches (or those
  //   of a row), those of the side; `expected` is the PieceRule that is broken, and `seen` 0 if the
  //   pieces are a list, 1 if they are pages, 2 if the number of the page is in a table. A count:
  //   the number that was read, -, the number that there may be, -.
  // - other_message: bytes that are sent, bytes that are expected, -, -.
  // Of messages, `expected` is place_in_record() of the side, and `seen` is 1 if it has begun. Of
  // exchanges, `expected` is the round, and `channel` 1 if the neighbour has begun it.
  uint64_t my_detail;
  uint64_t my_count;
  uint64_t peer_detail;
  uint64_t peer_count;
};

// What the host tells kernels that wait. It stores these words in the page of the error record,
// kToldAt bytes behind it, and never needs the driver for that: while a thread copies between
// pageable memory and the null stream, the driver begins no copy of another thread, and the work
// that it waits for may be a kernel that waits for these words. All of them only grow.
template <int kRanks>
struct ToldOf {
  // Not 0: kernels are to leave.
  uint32_t abort;
  // The ranks that have left.
  RankSetOf<kRanks> departed;
};
using Told = ToldOf<kRoom>;
inline constexpr uint32_t kToldAt = 1024;
static_assert(sizeof(ErrorRecord) <= kToldAt);

// The operation that was under way, for messages: the number of a collective, or one of these.
enum class Operation : uint32_t {
  barrier = 16,
  wait_signal = 17,
  wait_value = 18,
  put_pieces = 19,
  get_pieces = 20,
  send = 21,
  recv = 22,
  messages = 23,
  exchange_start = 24,
  exchange_finish = 25,
  wait_ready = 26
};

// A memory of the group in this rank's table, which kernels search for the memories that peers
// name.
template <int kRanks>
struct MemoryEntryOf {
  // 0: the entry is free.
  uint64_t id;
  uint64_t bytes;
  uint64_t block[kRanks];
};
using MemoryEntry = MemoryEntryOf<kRoom>;
inline constexpr int kMaxMemories = 256;

// The slot of rank `owner` into which `source` stores: a rank has slots for the others only. A
// group has at most `kRanks` ranks.
template <int kRanks>
SYMM_HOST_DEVICE constexpr uint64_t slot_among(int owner, int source) {
  if (kRanks == 2) return 0;
  return static_cast<uint64_t>(source > owner ? source - 1 : source);
}

// Where a control block has its slots and stages, and the bytes of a slot there: offsets from the
// beginning of the block, equal on all ranks.
struct ScratchPlaces {
  // ll[parity][source].
  uint64_t ll;
  uint64_t ll_slot;
  // One shot and two shots use the same memory: one_shot[parity][source] and
  // two_shot[parity][first, second][source], for the other ranks (slot_among()).
  uint64_t one_shot;
  uint64_t one_shot_slot;
  uint64_t two_shot;
  uint64_t two_shot_slot;
  // The first and the second stage, stage[work group][slot][source], for the other ranks; and
  // the bytes of a slot of pieces.cu there.
  uint64_t stage[2];
  uint64_t stage_slot;
};

// Part of every kernel's arguments: the group as this rank sees it.
template <int kRanks>
struct DeviceCommOf : ScratchPlaces {
  int32_t rank;
  int32_t size;
  // UINT64_MAX: there is no deadline.
  uint64_t timeout_ns;
  // ErrorRecord*.
  uint64_t record;
  // Every rank's control block, which begins with its ControlWords.
  uint64_t control[kRanks];
  // Every rank's control block that has its stages: `control`, or the blocks of a group that
  // lends its stages.
  uint64_t stages[kRanks];
  // MemoryEntry*, this rank's own table.
  uint64_t memories;
  int32_t memory_count;
  // The operation, by its number in ErrorRecord.
  uint32_t operation;
};
using DeviceComm = DeviceCommOf<kRoom>;

template <int kRanks>
struct BarrierArgsOf {
  DeviceCommOf<kRanks> comm;
  // The ranks that take part.
  RankSetOf<kRanks> ranks;
  uint32_t channel;
};
using BarrierArgs = BarrierArgsOf<kRoom>;

// The change of a word: a value is added to it, or stored to all 8 or the low 4 bytes of it.
enum class WriteKind : uint32_t { add = 0, store64 = 1, store32 = 2 };
struct WriteArgs {
  uint64_t word;
  uint64_t value;
  WriteKind kind;
  // A word of 4 bytes, or 0. If it is not 0 when the kernel runs, nothing is written.
  uint64_t unless;
  // Not 0: the word of 4 bytes that has the value when the kernel runs.
  uint64_t value_at = 0;
};

// A word of 4 or 8 bytes that is changed, and where what it was goes, or 0.
struct AtomicArgs {
  uint64_t word;
  uint64_t fetched;
  uint64_t value;
  uint64_t compare;
  AtomicOp op;
  uint32_t bytes;
};

// A word of this rank that is waited for until it compares with `value` as `compare` says.
struct WordWait {
  uint64_t word;
  uint64_t value;
  // The rank that writes it; -1: no rank in particular.
  int32_t peer;
  uint32_t channel;
  Compare compare;
  // Bytes of the word, 4 or 8.
  uint32_t bytes;
};
template <int kRanks>
struct WaitWordArgsOf {
  DeviceCommOf<kRanks> comm;
  // Not 0: the word of `wait` counts signals, the word at this address those that were taken,
  // and one signal more is to be taken.
  uint64_t taken;
  WordWait wait;
  // Not 0: the word of 4 bytes that has the value when the kernel runs.
  uint64_t value_at = 0;
  // 1: the word, of 4 bytes, only grows and may wrap, and is to reach the value.
  uint32_t wraps = 0;
  // A word of 4 bytes, or 0. If it is not 0 when the kernel runs, no signal is taken.
  uint64_t unless = 0;
};
using WaitWordArgs = WaitWordArgsOf<kRoom>;
inline constexpr uint32_t kMaxWaits = 64;
template <int kRanks>
struct WaitWordsArgsOf {
  DeviceCommOf<kRanks> comm;
  uint32_t count;
  // 1: one of the words is enough; 0: all are waited for.
  uint32_t any;
  WordWait wait[kMaxWaits];
};
using WaitWordsArgs = WaitWordsArgsOf<kRoom>;
static_assert(sizeof(WaitWordsArgsOf<kMaxRanks>) <= 4096, "what a kernel's arguments may be");

template <int kRanks>
struct CheckArgsOf {
  DeviceCommOf<kRanks> comm;
  uint64_t detail;
  uint64_t count;
  // Where recv lies, if it has to lie alike on all ranks; else 0.
  uint64_t memory;
  uint64_t offset;
};
using CheckArgs = CheckArgsOf<kRoom>;

// The calls of all ranks, {detail, count} by rank, at `said`.
template <int kRanks>
struct ComparisonArgsOf {
  DeviceCommOf<kRanks> comm;
  uint64_t detail;
  uint64_t count;
  uint64_t said;
  // 1: store this rank's call there; 0: compare all calls with it.
  uint32_t tells;
};
using ComparisonArgs = ComparisonArgsOf<kRoom>;

// A Conversion (kernels/scaled_call.hpp). The factor is the f32 at `pointer`, or `factor` if
// that is 0.
struct ConvertArgs {
  uint64_t from;
  uint64_t to;
  uint64_t count;
  uint64_t blocks;
  uint64_t stride;
  uint64_t pointer;
  double factor;
  int32_t from_dtype;
  int32_t to_dtype;
};

// The steps of a call with a quantised wire (kernels/wire_call.hpp).
struct WireEncodeArgs {
  uint64_t from;
  uint64_t to;
  uint64_t count;
  uint64_t blocks;
  uint64_t stride;
  uint64_t total;
  uint32_t group;
  int32_t dtype;
  int32_t wire_dtype;
};

struct WireSumArgs {
  uint64_t from;
  uint64_t to;
  uint64_t of;
  uint64_t count;
  uint32_t group;
  int32_t wire_dtype;
  int32_t sources;
  uint32_t averages;
  uint32_t in_tree;
};

struct WireDecodeArgs {
  uint64_t from;
  uint64_t to;
  uint64_t count;
  uint64_t total;
  uint32_t group;
  int32_t dtype;
  int32_t wire_dtype;
};

// A piece of a list, with the bytes of symm_piece_t.
struct ListedPiece {
  uint64_t from;
  uint64_t to;
  uint64_t bytes;
  uint64_t rows;
  uint64_t from_stride;
  uint64_t to_stride;
};

// Where a block begins with a list: the piece, and the cost of those ahead of it.
struct PieceStart {
  uint64_t piece;
  uint64_t ahead;
};

inline constexpr unsigned kCopyThreads = 256;
// Bytes of shared memory, beside its own, with which its blocks copy in bulk, and those of the
// shortest row that they copy so.
inline constexpr uint32_t kCopyShared = 66560;
inline constexpr uint64_t kBulkRow = 64 << 10;
// Numbers of a short list that travel with the arguments: those of 48 pieces.
inline constexpr uint32_t kListedNumbers = 288;

// The pieces that a kernel copies between two places (copy_pieces.cu).
template <int kRanks>
struct CopyPiecesArgsOf {
  DeviceCommOf<kRanks> comm;
  // The rank whose block is one of the sides.
  int32_t peer;
  // 1: nobody has checked the pieces yet.
  uint32_t checks;
  uint64_t to;
  uint64_t from;
  // Bytes of the sides; UINT64_MAX: not known.
  uint64_t to_bytes;
  uint64_t from_bytes;
  // 0: `pieces` counts.
  uint64_t page_bytes;
  // ListedPiece*, and uint64_t* with the numbers of pages, or 0. A list or a table that travels
  // with the arguments is at this number of `listed`, and its bit of `travels` is set.
  uint64_t pieces;
  uint64_t from_table;
  uint64_t to_table;
  uint32_t travels;
  // 1: the blocks are one cluster.
  uint32_t is_cluster;
  uint64_t count;
  // uint64_t* with the number of pieces, `count` at most; 0: it is `count`.
  uint64_t count_at;
  // What each piece costs; 0: they differ. Then `starts`, if it is not 0, has a PieceStart for each
  // block and one more, of the last piece, and `total` is the cost of all.
  uint64_t cost;
  uint64_t starts;
  uint64_t total;
  // The word of the signal, which one block or cluster writes; 0: none.
  uint64_t signal;
  uint64_t value;
  WriteKind kind;
  // 1: the blocks have kCopyShared bytes of shared memory.
  uint32_t in_bulk;
  uint64_t listed[kListedNumbers];
};
using CopyPiecesArgs = CopyPiecesArgsOf<kRoom>;
static_assert(sizeof(CopyPiecesArgsOf<kMaxRanks>) <= 4096, "what a kernel's arguments may be");
// Bits of CopyPiecesArgsOf::travels.
inline constexpr uint32_t kPiecesTravel = 1;
inline constexpr uint32_t kFromTableTravels = 2;
inline constexpr uint32_t kToTableTravels = 4;

// Exchanges of neighbours (exchange.cu). What a rank keeps of one lies in memory of its device:
// these words, and behind them the neighbours, the segments, the first segment of each block and
// one more, and the pieces.
struct ExchangeWords {
  // The last round that was started, and the last one that was finished.
  uint32_t round;
  uint32_t over;
  // Blocks of the launch that have ended.
  uint32_t ended;
};
struct ExchangeNeighbor {
  // uint32_t*, the last round that the neighbour has begun, and of which it has put all: here, and
  // what this rank tells it there.
  uint64_t begun_here;
  uint64_t there_here;
  uint64_t begun_at;
  uint64_t there_at;
  int32_t rank;
  // Segments with pieces for the neighbour, and those that were put in this round.
  uint32_t segments;
  uint32_t put;
};
// What one block puts to one neighbour: a part of the line of the pieces for that neighbour.
struct ExchangeSegment {
  uint64_t begin;
  uint64_t end;
  // The pieces in which it lies, and the cost of all on the line ahead of them.
  uint64_t piece;
  uint64_t piece_end;
  uint64_t ahead;
  uint32_t neighbor;
  // The last round in which it was put.
  uint32_t put;
};

template <int kRanks>
struct ExchangeArgsOf {
  DeviceCommOf<kRanks> comm;
  // ExchangeWords*, ExchangeNeighbor*, ExchangeSegment*, uint32_t*, and ListedPiece*, whose places
  // are addresses.
  uint64_t words;
  uint64_t neighbors;
  uint64_t segments;
  uint64_t first_segment;
  uint64_t pieces;
  uint32_t neighbor_count;
  // Those among which the segments are divided: all of the launch.
  uint32_t blocks;
  // 1: the round is finished, 0: it is started.
  uint32_t finishes;
  // 1: the blocks have kCopyShared bytes of shared memory.
  uint32_t in_bulk;
};
using ExchangeArgs = ExchangeArgsOf<kRoom>;

// A collective. `unit` is count * element size.
template <int kRanks>
struct CollectiveArgsOf {
  DeviceCommOf<kRanks> comm;
  uint64_t send;
  uint64_t recv;
  uint64_t unit;
  int32_t collective;
  int32_t dtype;
  int32_t op;
  int32_t root;
  // For the pipeline, and for multimem kernels: the memories that operands lie in, 0 for private
  // memory, and the offsets there.
  uint64_t send_memory;
  uint64_t send_offset;
  uint64_t recv_memory;
  uint64_t recv_offset;
  uint64_t detail;
  uint64_t count;
  // The bytes of recv's memory, and where that is mapped here, by rank: the operands of the others
  // are most often in the same memory. Kernels of large groups look in the table of memories, since
  // their arguments have no room for that.
  uint64_t recv_bytes;
  static constexpr bool kKnowsRecv = kRanks <= kSmallRanks;
  uint64_t recv_block[kKnowsRecv ? kRanks : 1];
  // Bytes of a chunk of what a rank owns, and chunks of a work group's part of that.
  uint64_t tile;
  uint64_t tiles;
  // Blocks of pieces.cu that wait for those of other ranks.
  int32_t work_groups;
  // Blocks of pipeline_move.cu that copy in bulk; 0: none can.
  int32_t movers;
  // 1: the root of a broadcast sends everything to all ranks itself.
  int32_t direct;
  // 1: the root owns nothing.
  int32_t spares_root;
  // 1: recv is private memory, and results are brought there from scratch.
  int32_t copies_out;
  // 1: floats are combined in tree order.
  int32_t in_tree;
  // For multimem kernels: addresses by which all ranks' operands are reached; recv's for two
  // shots only.
  uint64_t send_multicast;
  uint64_t recv_multicast;
  // For the hybrid cube mesh: the ranks of one quad, as bits, and the partner of rank r in bits 4r
  // to 4r + 3.
  uint32_t quad;
  uint32_t partners;
};
using CollectiveArgs = CollectiveArgsOf<kRoom>;

// A kernel of RMSNorm keeps a row in registers: at most kRowPacks packs of it in each thread,
// and kRowThreads threads in all blocks that have a row.
inline constexpr uint32_t kRowPacks = 2;
inline constexpr int kRowThreads = 1024;
// An all-reduce of rows with RMSNorm (kernels/rmsnorm.hpp), or RMSNorm alone of `call.send`,
// which is summed already. `call.unit` is that of all rows.
template <int kRanks>
struct RmsNormArgsOf {
  CollectiveArgsOf<kRanks> call;
  uint64_t residual_in;
  uint64_t residual_out;
  uint64_t norm_out;
  uint64_t weight;
  uint64_t quant_out;
  uint64_t scale_in;
  uint64_t scale_out;
  uint32_t rows;
  uint32_t hidden;
  float epsilon;
  float weight_offset;
  int32_t weight_dtype;
  int32_t scale_kind;
};
using RmsNormArgs = RmsNormArgsOf<kRoom>;
static_assert(sizeof(RmsNormArgs) <= 4096, "what a kernel's arguments may be");

// Operands are combined in their order or as a tree. In their order sums of floats may start from
// those of the ranks before them, or be left for others to go on from. An average is that of
// call.comm.size ranks.
template <int kRanks>
struct CombineArgsOf {
  CollectiveArgsOf<kRanks> call;
  // 0: a launch that makes the kernel ready.
  int32_t operands;
  // 1: sums are stored as wide as they are added.
  int32_t unrounded;
  // The unrounded sums to begin with.
  uint64_t before;
  uint64_t operand[kRanks];
};
using CombineArgs = CombineArgsOf<kRoom>;

// A piece of an operand, in bytes; and where the device reads the lengths and places of pieces.
struct PieceRange {
  uint64_t at;
  uint64_t bytes;
};
struct PieceCounts {
  uint64_t counts;
  uint64_t displacements;
  uint64_t capacity;
};

// A collective in pieces (kernels/pieces.hpp). `call` has no `unit` and no tiles, and its
// recv_memory is 0, too, where no rank may store into recv.
template <int kRanks>
struct PiecesArgsOf {
  CollectiveArgsOf<kRanks> call;
  using Range = PieceRange;
  Range send[kRanks];
  Range recv[kRanks];
  uint64_t row_bytes;
  uint64_t row_stride;
  // For send and for recv, in elements, if `counts` is not 0. Then there are no ranges.
  using Counts = PieceCounts;
  Counts counts[2];
  // Bytes of an element.
  uint32_t element;
};
using PiecesArgs = PiecesArgsOf<kRoom>;

// Pieces on their way between machines: from send to `slots`, of `slot` bytes, one for each
// rank; or, if `takes` is 1, from these to recv. A piece whose count is on the device goes from
// byte `at` on as far as a slot takes, behind a pack that says how long it is in all.
template <int kRanks>
struct StageArgsOf {
  PiecesArgsOf<kRanks> pieces;
  uint64_t slots;
  uint64_t slot;
  uint64_t at;
  uint32_t takes;
};
using StageArgs = StageArgsOf<kRoom>;
static_assert(sizeof(StageArgsOf<kMaxRanks>) <= 4096, "what a kernel's arguments may be");

// ---- messages (messages.cu)

// Sides of messages in a launch, at most, and those that have room in its arguments. A longer list
// is brought to the control block first.
inline constexpr uint32_t kMostSides = 1024;
inline constexpr uint32_t kSidesInside = 64;
// Slots of the stages through which messages go that are not stored straight to where they are
// received: one at least for each receive of a launch.
inline constexpr uint32_t kMessageSlots = kMostSides;
// Messages of a flow, which are those from one rank to another on a channel, that the receiver has
// told its sender of before they are over. A power of two, so that numbers may wrap.
inline constexpr uint32_t kPosts = 4;
// Bytes of a message that are worth a block of their own. A block stores as many at a time.
inline constexpr uint32_t kMessagePart = 65536;

enum class SideKind : uint8_t {
  send = 0,
  recv = 1,
  copy = 2  // from this rank to itself
};

struct SideArgs {
  static constexpr uint16_t kNone = 0xFFFF;

  // The message, or the room for it.
  uint64_t data;
  uint64_t bytes;
  // Where the room is: the number of its memory and the offset in this rank's block, or 0 and the
  // slots through which the message comes, as `offset` for SlotRange. To copy: 0 and the address.
  uint64_t memory;
  uint64_t offset;
  // The place among the sides of the same kind, peer and channel in the launch, from 0 on.
  uint16_t number;
  // The side that is kPosts before this one there, or kNone.
  uint16_t before;
  uint16_t channel;
  uint8_t peer;
  SideKind kind : 4;
  // No side there comes after this one.
  uint8_t is_last : 4;
};
static_assert(sizeof(SideArgs) == 40);

struct SlotRange {
  uint32_t first;
  uint32_t count;

  static SYMM_HOST_DEVICE constexpr SlotRange of(uint64_t offset) {
    return {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)};
  }
  SYMM_HOST_DEVICE constexpr uint64_t offset() const {
    return static_cast<uint64_t>(count) << 32 | first;
  }
};

// ErrorRecord::expected of a side.
SYMM_HOST_DEVICE constexpr uint32_t place_in_record(uint32_t side, SideKind kind) {
  return side << 1 | (kind == SideKind::recv ? 1U : 0U);
}

// The words of one rank about both flows between it and a peer on a channel. The peer writes
// `post` and `arrived`; kernels of this rank write the rest.
struct alignas(64) MessageFlow {
  // Where the peer wants the message of this number: at `offset` in its block of `memory`, or, if
  // that is 0, through slots, whose chunks it tells by `tag`.
  struct Post {
    uint64_t bytes;
    uint64_t memory;
    uint64_t offset;
    uint32_t tag;
    uint32_t number;
  };
  // The message of this number has left the peer, all of it.
  struct Arrival {
    uint64_t bytes;
    uint32_t number;
    uint32_t unused;
  };
  Post post[kPosts];
  Arrival arrived[kPosts];
  // Messages to the peer, and from it, in all launches before.
  uint32_t sent;
  uint32_t received;
};

// The words of a rank for messages with all others. Behind them lie taken[peer][kMessageSlots],
// 64 bits each, and MessageFlow[channel][peer].
struct MessageWords {
  // Blocks of the launch that have ended, and tags in all launches before.
  uint32_t finished;
  uint32_t tags;
  // Blocks that have done their part of a side.
  uint32_t done[kMostSides];
  SideArgs list[kMostSides];
  // chunk_word() of what was stored last into each slot here, written by the sender to whom the
  // slot was given.
  uint64_t filled[kMessageSlots];
};

// A chunk of a message, counted from 0. No other chunk has its word, unless 2^32 tags lie between.
SYMM_HOST_DEVICE constexpr uint64_t chunk_word(uint32_t tag, uint32_t chunk) {
  return static_cast<uint64_t>(tag) << 32 | (chunk + 1);
}

// Where words of messages lie, from the MessageWords of a rank of a group of `size` ranks on.
SYMM_HOST_DEVICE constexpr uint64_t taken_at(uint64_t words, int peer) {
  return words + sizeof(MessageWords) +
         static_cast<uint64_t>(peer) * kMessageSlots * sizeof(uint64_t);
}
SYMM_HOST_DEVICE constexpr uint64_t flow_at(uint64_t words, int size, uint32_t channel, int peer) {
  const uint64_t flows = (taken_at(words, size) + alignof(MessageFlow) - 1) / alignof(MessageFlow) *
                         alignof(MessageFlow);
  return flows + (static_cast<uint64_t>(channel) * static_cast<uint64_t>(size) +
                     static_cast<uint64_t>(peer)) *
                     sizeof(MessageFlow);
}

template <int kRanks>
struct MessagesArgsOf {
  DeviceCommOf<kRanks> comm;
  // Where MessageWords lie in control blocks, and the bytes of a slot in the stages.
  uint64_t words;
  uint64_t slot;
  uint32_t count;
  // 1: the sides are in MessageWords::list.
  uint32_t is_listed;
  SideArgs side[kSidesInside];
};
using MessagesArgs = MessagesArgsOf<kRoom>;
static_assert(sizeof(MessagesArgsOf<kMaxRanks>) <= 4096, "what a kernel's arguments may be");

// Sides on their way to a list, at the address `list`.
struct ListArgs {
  uint64_t list;
  uint64_t count;
  SideArgs side[kSidesInside];
};
}  // namespace symm::cuda
