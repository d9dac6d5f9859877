// What host and device code of the CUDA back end share: the
// layout of a rank's control block, and the arguments of the
// kernels. Plain data only; both compilers see the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/compare.hpp"

namespace symm::cuda {
inline constexpr int kMaxRanks = 16;
// of a push or LL kernel; each has an epoch of its own
inline constexpr int kMaxBlocks = 256;
// of the pipeline: blocks that keep step with one of each other rank
inline constexpr int kMaxWorkGroups = 128;
// of a kernel of pieces that wait for those of other ranks
inline constexpr int kPiecesBlocks = 42;
inline constexpr int kMultimemBlocks = 32;    // of a multimem kernel
inline constexpr int kBarrierChannels = 258;  // at least one more than groups have channels
inline constexpr uint32_t kPieceSlots = 3;    // pieces of one of its work groups under way
// chunks of one block of pieces.cu; a power of two, so that counters may wrap
inline constexpr uint32_t kSlots = 4;
inline constexpr uint32_t kPack = 16;     // bytes that one thread moves at a time
inline constexpr uint32_t kLlPacks = 32;  // LL places packs by so many (ll.cuh)
inline constexpr uint32_t kWarp = 32;
// bytes that a warp sends to one rank at a time, and with their marks (marked.cu)
inline constexpr uint32_t kMarkedTile = 2048;
// threads of its largest block, of which none are kept for tokens
inline constexpr int kMarkedBlock = 512;
// of a copy by the engine of a multiprocessor (bulk.cuh), ...
inline constexpr uint32_t kBulkBytes = 24576;
inline constexpr uint32_t kBulkStages = 4;  // ... of which a block has so many under way,
inline constexpr uint32_t kBulkShared = kBulkStages * kBulkBytes + 128;  // in so much shared memory
inline constexpr uint32_t kMarkedCells = kMarkedTile + kMarkedTile / kPack;

// The words of a control block. Only `from_peers` is written by other ranks, each word
// by one of them, and every word there only grows. The rest is this rank's own: kernels
// advance it, so that a captured graph can be replayed.
struct ControlWords {
  // Set by the host, and by a kernel that gives up: who
  // waits leaves when it looks here, after a thousand polls.
  uint32_t abort;
  uint32_t departed;  // bit r: rank r has left
  uint32_t failed;    // elects the thread that writes the error record
  uint32_t check_epoch;
  // Likewise, of any group that works in these stages: a late rank may still store
  // there what was meant for a kernel that gave up, so no other goes there any more.
  uint32_t spoilt;

  // calls of LL and push kernels so far, a copy for each block
  uint32_t epoch[kMaxBlocks];
  uint32_t pipeline_calls[kMaxWorkGroups];  // so far, of each work group, ...
  uint32_t pipeline_steps[kMaxWorkGroups];  // ... and steps in all of them
  // arrivals of each rank that a barrier waits for or has waited for
  uint32_t barrier_taken[kBarrierChannels][kMaxRanks];
  // Of kernels of pieces: calls so far; chunks that went
  // through slots so far, to each rank and from it.
  uint32_t calls[kPiecesBlocks];
  uint32_t pushed[kPiecesBlocks][kMaxRanks];
  uint32_t taken[kPiecesBlocks][kMaxRanks];
  // times that each block of multimem kernels has met those of the other ranks
  uint32_t multimem_met[kMultimemBlocks];

  struct FromPeers {
    uint32_t barrier[kBarrierChannels][kMaxRanks];
    // of the pipeline, by work group and source, that the source has done
    uint32_t steps[kMaxWorkGroups][kMaxRanks];
    // What the source says of the call: what must agree, and where
    // its recv lies, the number of the memory, 0 for private memory,
    // and bytes from the start of its block. Each word is beside the
    // number of the call, so that it is whole when that is there.
    struct PeerAnnouncement {
      uint64_t detail, count;
      uint64_t recv_memory, recv_offset;
    };
    struct alignas(16) ToldCells {
      uint32_t cell[sizeof(PeerAnnouncement) / 8][4];
    } told[kMaxWorkGroups][kMaxRanks];
    // Kernels of pieces, by block and source.
    struct Pieces {
      uint32_t posted[kPiecesBlocks][kMaxRanks];  // the call whose entry is here
      // and in which the source has read this rank's, and stored what it could
      uint32_t finished[kPiecesBlocks][kMaxRanks];
      uint32_t pushed[kPiecesBlocks][kMaxRanks];  // chunks that are, or were, in slots here
      // and of this rank's there that the source is done with
      uint32_t taken[kPiecesBlocks][kMaxRanks];
      struct Entry {
        uint64_t memory, offset;  // as in PeerAnnouncement, where the piece from this rank belongs
        uint64_t bytes;           // of the piece
        uint64_t row_bytes, row_stride;
        uint64_t detail, count;
      } entry[kPiecesBlocks][kMaxRanks];
    } pieces;
    // Of multimem kernels, by block and source: how often the source has come to where
    // blocks meet; what must agree, and where its operands lie.
    uint32_t met[kMultimemBlocks][kMaxRanks];
    struct Place {
      uint64_t detail, count;
      uint64_t send_memory, send_offset, recv_memory, recv_offset;
    };
    Place place[kMultimemBlocks][kMaxRanks];
    struct Check {  // flag in data, by parity of the call
      uint64_t word[8];
    } check[2][kMaxRanks];
  } from_peers;
};

// Why a kernel gave up.
enum class WaitError : uint32_t {
  none = 0,
  timeout = 1,
  departed = 2,
  mismatch = 3,
  unknown_memory = 4,
  other_place = 5,
  aborted = 6,  // by somebody else, who has said why
  other_length = 7,
  beyond_capacity = 8,
  spoilt = 9
};

// In host memory that the device can write. `state` becomes 1 after the rest was written.
struct ErrorRecord {
  uint32_t state;
  uint32_t trouble;
  uint32_t operation;  // Operation
  int32_t peer;
  uint32_t channel;  // of a barrier or signal; block or work group of a collective
  uint32_t expected;
  uint32_t seen;
  uint32_t reserved;
  // Of a mismatch; of a wait for words: Compare, value, address of the word, what it
  // was; of another length, where `expected` is 1 if it is that of rows: elements that
  // I send, -, that the peer expects, -; of a block of rank `peer`, of send or where
  // `expected` is 1 of recv, beyond capacity: elements, capacity, where it begins, -.
  uint64_t my_detail, my_count, peer_detail, peer_count;
};

// What was under way, for messages: a collective's number, or one of these.
enum class Operation : uint32_t { barrier = 16, wait_signal = 17, wait_value = 18 };

// A memory of the group in this rank's table, which the
// pipeline searches for the memories that peers name.
struct MemoryEntry {
  uint64_t id;  // 0: free
  uint64_t bytes;
  uint64_t block[kMaxRanks];
};
inline constexpr int kMaxMemories = 256;

// A rank has slots of the others only; which of them
// `source` stores to. `kRanks`: at most so many.
template <int kRanks>
SYMM_HOST_DEVICE constexpr uint64_t slot_among(int owner, int source) {
  return kRanks == 2 ? 0 : static_cast<uint64_t>(source > owner ? source - 1 : source);
}

// Part of every kernel's arguments: the group as this rank sees it.
struct DeviceComm {
  int32_t rank;
  int32_t size;
  uint64_t timeout_ns;          // UINT64_MAX: never
  uint64_t record;              // ErrorRecord*
  uint64_t control[kMaxRanks];  // every rank's control block; the words come first
  // and that which has its stages: the same, or that of a group which lends them
  uint64_t stages[kMaxRanks];
  // Offsets in the control block, and sizes of the slots there. Equal on all ranks.
  uint64_t ll, ll_slot;  // ll[parity][source]
  // The same memory: one_shot[parity][source], two_shot[parity][first, second][source],
  // of the other ranks (slot_among()).
  uint64_t one_shot, one_shot_slot, two_shot, two_shot_slot;
  // first and second: stage[work group][slot][source], of the other ranks; bytes of a chunk
  uint64_t stage[2], stage_slot;
  uint64_t memories;  // MemoryEntry*, this rank's own table
  int32_t memory_count;
  uint32_t operation;  // Operation or collective
};

struct BarrierArgs {
  DeviceComm comm;
  uint32_t ranks;  // bit r: rank r takes part
  uint32_t channel;
};

// What a word is to become: add to it, or store all 8 or the low 4 bytes of it.
enum class WriteKind : uint32_t { add = 0, store64 = 1, store32 = 2 };
struct WriteArgs {
  uint64_t word;
  uint64_t value;
  WriteKind kind;
};

// A word of this rank that is waited for, until it compares with `value` as said.
struct WordWait {
  uint64_t word;
  uint64_t value;
  int32_t peer;  // who writes it; -1: nobody in particular
  uint32_t channel;
  Compare compare;
  uint32_t bytes;  // of the word, 4 or 8
};
struct WaitWordArgs {
  DeviceComm comm;
  // not 0: the word counts signals, and this one counts those taken; one more is to be
  uint64_t taken;
  WordWait wait;
};
inline constexpr uint32_t kMaxWaits = 64;
struct WaitWordsArgs {
  DeviceComm comm;
  uint32_t count;
  uint32_t any;  // 0: all
  WordWait wait[kMaxWaits];
};
static_assert(sizeof(WaitWordsArgs) <= 4096, "what a kernel's arguments may be");

struct CheckArgs {
  DeviceComm comm;
  uint64_t detail, count;
  uint64_t memory, offset;  // of recv, where all have to lie alike; else 0
};

// Calls of all ranks, {detail, count} by rank, at `said`:
// tell this rank's there, or compare all with it.
struct ComparisonArgs {
  DeviceComm comm;
  uint64_t detail, count, said;
  uint32_t tells;
};

// As Conversion of kernels/scaled_call.hpp. The
// factor is at `pointer`, an f32, unless that is 0.
struct ConvertArgs {
  uint64_t from, to;
  uint64_t count, blocks, stride;
  uint64_t pointer;
  double factor;
  int32_t from_dtype, to_dtype;
};

// A collective. `unit` is count * element size.
struct CollectiveArgs {
  DeviceComm comm;
  uint64_t send, recv;
  uint64_t unit;
  int32_t collective;
  int32_t dtype;
  int32_t op;
  int32_t root;
  // The pipeline's.
  uint64_t send_memory, send_offset, recv_memory, recv_offset;  // as in Place
  uint64_t detail, count;
  // Of the memories of my operands, where they are mapped
  // here: most often those of the others are in the same.
  uint64_t recv_bytes;
  uint64_t send_block[kMaxRanks], recv_block[kMaxRanks];
  uint64_t tile;        // bytes of a piece of what a rank owns
  uint64_t tiles;       // pieces of a work group's part of that
  int32_t work_groups;  // of pieces.cu
  int32_t movers;       // of pipeline_move.cu: blocks that copy in bulk; 0: none can
  int32_t direct;       // 1: the root of a broadcast sends everything to everybody itself
  int32_t spares_root;  // 1: the root owns nothing
  int32_t copies_out;   // 1: recv is private memory, and results are brought there from scratch
  // The multimem kernels': addresses through which all
  // ranks' operands are reached; recv's of two shots only.
  uint64_t send_multicast, recv_multicast;
};

// An all-reduce of rows with RMSNorm (kernels/rmsnorm.hpp),
// or RMSNorm alone of `call.send`, which is summed already.
// Addresses, 0: none. The kernel keeps a row in registers.
inline constexpr uint32_t kRowPacks = 2;  // of a thread
inline constexpr int kRowThreads = 1024;  // at most, of all blocks that have a row
struct RmsNormArgs {
  CollectiveArgs call;  // `unit` is that of all rows
  uint64_t residual_in, residual_out, norm_out, weight, quant_out, scale_in, scale_out;
  uint32_t rows, hidden;
  float epsilon, weight_offset;
  int32_t weight_dtype;
  int32_t scale_kind;
};
static_assert(sizeof(RmsNormArgs) <= 4096, "what a kernel's arguments may be");

// Operands that lie at call.send_block, by rank, combined; floats from the sums of
// ranks before them on, or of so many that others go on from there.
struct CombineArgs {
  CollectiveArgs call;  // an average is that of call.comm.size ranks
  int32_t operands;     // 0: a launch to make it ready
  int32_t unrounded;    // 1: what is stored is as wide as it is added
  uint64_t before;      // such sums, or 0
};

// A collective in pieces (kernels/pieces.hpp), of which `call` has no `unit` and
// nothing of tiles; its recv_memory is 0, too, where nobody may store into recv.
struct PiecesArgs {
  CollectiveArgs call;
  struct Range {
    uint64_t at, bytes;
  } send[kMaxRanks], recv[kMaxRanks];
  uint64_t row_bytes, row_stride;
  // of send and recv in device memory, instead of ranges, where `counts` is not 0; in elements
  struct Counts {
    uint64_t counts, displacements, capacity;
  } counts[2];
  uint32_t element;  // bytes
};

// Pieces on their way between machines: from send to `slots`, one for each rank, or
// from these to recv. Pieces whose counts are on the device go from byte `at` on as far
// as a slot takes, behind a pack that says how long they are in all.
struct StageArgs {
  PiecesArgs pieces;
  uint64_t slots, slot, at;
  uint32_t takes;
};
static_assert(sizeof(StageArgs) <= 4096, "what a kernel's arguments may be");
}  // namespace symm::cuda
