// Which kernel a collective uses on GPUs, and how large a launch: a pure function of
// values that are equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
// Where one algorithm gives way to the next, in bytes per rank:
// equal on all ranks. The values, which were measured, are in
// core/backend/plan_table.txt, which also says how to override them.
struct Tuning {
  uint64_t ll_max = 0;  // types that cannot be pushed; a quarter of it for data movement
  uint64_t one_shot_max = 0;
  uint64_t scatter_max = 0;  // of a reduce-scatter by one hop
  uint64_t marked_max = 0;   // data movement
  uint64_t two_shot_max = 0;
  // what half of the scratch holds; larger messages go through it in chunks
  uint64_t two_shot_chunk = 0;
  uint64_t direct_max = 0;  // of a broadcast, times the ranks but two
  uint64_t relay_max = 0;   // of a broadcast above that by marks
  uint64_t reduce_max = 0;  // of a reduce to one of three ranks or more by two shots
  uint64_t engine_min = 0;  // of what moves where recvs lie alike
  int movers = 0;           // blocks of the pipeline that copy in bulk
  int threads = 0;          // of a block, while there are fewer than 128 blocks
  // threads of a kernel that may be launched before the one ahead of it has ended
  int early = 0;
  int work_groups = 0;  // of the pipeline, at most
  int width = 0;        // threads of its blocks
  // bytes that its scratch has for a piece, where it has all blocks
  uint64_t tile = 0;
  uint64_t wide = uint64_t{8} << 20;  // of scaled calls: their operands, wide
  int multiprocessors = 4096;         // that kernels get, at most
  int groups = 1;                     // whose kernels work on a device at a time
  // bytes between machines that take as long as it takes to begin
  uint64_t hop = 1;
};

// Sizes of the parts of a control block; equal on all ranks because
// size and tuning are. Stages and what is wide, which nobody
// touches but while a kernel of this rank's runs, may be those of
// another group's block, whose kernels take turns with this one's.
struct Layout {
  uint64_t ll, ll_slot, one_shot, one_shot_slot, two_shot, two_shot_slot, stage[2], stage_slot,
      memories, wide, bytes;
  uint64_t lent;  // bytes of that other block, or 0
};
Layout layout_of(int size, const Tuning& tuning, const Layout* lender = nullptr);
inline uint64_t scratch_bytes(const Layout& layout) { return layout.bytes - layout.ll; }
// `tuning` for scratch of at most so many bytes, or as little as there can be.
Tuning within_scratch(int size, Tuning tuning, uint64_t most);
// `tuning` for the stages of a group of as many ranks or more.
Tuning within_stages(int size, Tuning tuning, const Layout& lender, const Tuning& of_lender);

constexpr bool is_multimem(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::multimem_one_shot || algorithm == Algorithm::multimem_two_shot;
}

// Blocks of 512 threads, two for each multiprocessor, that a launch of a group
// of `size` ranks, so many of them `on_one` device, may have. Blocks wait for
// those of other ranks, and keep their place meanwhile. So some of every
// group's kernel must have room at a time: were one in the way of another
// here, and the other in its way on another rank, both would wait for ever.
// Some is enough, since what has come in ends and lets more in; so all groups
// but one share the device, and one part in 32 is left for the last, and for
// barriers. Of 132 multiprocessors two groups then have 128 blocks each.
//   Groups of two ranks take what would be theirs were there one group fewer, so that a
//   device may keep one group out, but never
// all of them go nowhere. Only where a group of two is at work is there no
// room for all, and one of two ranks is kept out by another of two only.
// Had nothing room everywhere, each group of two would be kept out on a
// device of its own, where two such groups are at least; as each is on two
// devices, these would be all the devices that have such groups, and each
// keeps out one of them: so groups of more ranks would be kept out nowhere.
int max_blocks_of(int multiprocessors, int size, int on_one, const Tuning& tuning);

// What is known of a group.
struct Facts {
  int size = 1;
  // of 512 threads, that surely fit onto the device beside those of other groups
  int max_blocks = 0;
  bool has_clusters = false;  // blocks can work in clusters, as all ranks know
  bool same_offsets = false;  // recvs that are symmetric memory lie alike on all ranks
};

struct PlanInput : CallSignature, Facts {
  // of algorithms for which operands have to lie in some way: why these do not
  std::string why_not;
};
// Is `why_not` asked for copy engines?
bool may_go_by_engine(const PlanInput& input, const Tuning& tuning);

// What a kernel is compiled for, each; the rest is decided inside.
enum class Arithmetic { none, any, bf16, f16, f32 };
inline constexpr size_t kArithmetics = static_cast<size_t>(Arithmetic::f32) + 1;
Arithmetic arithmetic_of(const CallSignature& call);

// Threads of a kernel: of the largest block, and at a time.
struct Room {
  int block, all;
};

// How rows are normalised: each by a cluster of blocks, or by one; 0 blocks: not at all.
struct RowShape {
  int cluster = 1, blocks = 0, threads = 0;
};
RowShape row_shape(uint64_t hidden, uint64_t rows, Room room, bool has_clusters);

struct KernelForm;  // a row of the table in plan.cpp

struct Plan {
  const KernelForm* form = nullptr;  // null: nothing to launch, but a copy where there is one rank
  Algorithm algorithm = Algorithm::automatic;
  int slices = 1;  // parts into which the work is divided among the ranks
  int blocks = 0;
  int threads = 0;
  int cluster = 1;           // blocks that work together
  int work_groups = 0;       // blocks of pieces.cu that wait for those of other ranks
  int movers = 0;            // blocks of pipeline_move.cu that copy in bulk, where the device can
  bool in_pieces = false;    // by a kernel of pieces
  bool direct = false;       // the root of a broadcast sends everything to everybody itself
  bool spares_root = false;  // who owns nothing of what is cut into slices
  uint64_t tile = 0;
  uint64_t tiles = 0;
  uint64_t part = UINT64_MAX;  // bytes of `unit` that a launch takes
};

Plan plan(const PlanInput& input, const Tuning& tuning);
// Why input.algorithm cannot be used, or "".
std::string refuse(const PlanInput& input, const Tuning& tuning);
std::string explain(const PlanInput& input, const Plan& chosen, const Tuning& tuning);

// The kernel of a plan that has a row, "symm_one_shot_bf16_8", and the number of the
// row. Algorithms have several rows.
std::string kernel_name(const PlanInput& input, const Plan& chosen);
inline constexpr size_t kKernelForms = 16;
size_t row_of(const Plan& chosen);
// All that a group of `size` may launch: those that need multicast, or the others.
std::vector<std::string> kernel_names(int size, bool multicast);
}  // namespace symm::cuda
