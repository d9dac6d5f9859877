// The functions that give a launch its blocks, threads and slices, for the rows of
// plan_forms.cpp.
#include "kernels/cuda/plan_shapes.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/plan_limits.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
uint64_t packs_of(const PlanInput& input) { return divide_up(input.unit(), kPack); }

// Threads that each block of a call has for tokens in which not all ranks wait for all: with a
// root, or of a scan. Only those of the first block are used.
int token_threads(const PlanInput& input) {
  const CollectiveTraits what = traits(input.collective);
  return what.has_root() || what.of_prefix ? static_cast<int>(kWarp) : 0;
}

// The multiprocessors that a launch may fill: two of the `max_blocks` have room on one.
int multiprocessors_of(int max_blocks) { return std::max(1, max_blocks / 2); }

// The number of blocks of `width` threads that a launch may have, `on_multiprocessor` of whose
// threads have room on one multiprocessor.
int most_blocks(const Facts& facts, int max_blocks, int width, int on_multiprocessor) {
  const int multiprocessors = multiprocessors_of(max_blocks);
  const int fitting =
      facts.shares_device ? multiprocessors : multiprocessors * on_multiprocessor / width;
  return std::clamp(fitting, 1, kMaxBlocks);
}

// One pack a thread, while blocks are to be had: small blocks spread the work over more
// multiprocessors. `room` is that of one multiprocessor. Each block has `tokens` threads more.
void shape(Plan& plan, const Facts& facts, uint64_t packs, int max_blocks, int threads,
    ThreadRoom room, int tokens = 0) {
  const auto blocks_of = [&](int width) { return divide_up(packs, static_cast<uint64_t>(width)); };
  const auto limit_of = [&](int width) {
    return static_cast<uint64_t>(most_blocks(facts, max_blocks, width + tokens, room.all));
  };

  const int most = room.block - tokens;
  threads = std::min(threads, most);
  const int width = blocks_of(threads) > limit_of(threads) ? most : threads;
  plan.threads = width + tokens;
  plan.blocks = static_cast<int>(std::min(blocks_of(width), limit_of(width)));
}

// Divides the call into as few launches of equal length as possible, each of at most
// `most` bytes.
void set_part(Plan& plan, const PlanInput& input, uint64_t most) {
  const uint64_t launches = divide_up(input.unit(), most);
  plan.part = round_up(divide_up(input.unit(), launches), kLine);
}

// `warps` at work on tiles with marks. If blocks have to be as large as they get, none of their
// threads is kept for tokens.
void shape_tiles(Plan& plan, const PlanInput& input, uint64_t warps, uint64_t most_blocks) {
  constexpr int kThreads = 128;
  const int blocks = std::min(input.max_blocks, 128);
  const ThreadRoom room{kMarkedBlock, 2 * kMarkedBlock};

  shape(plan, input, warps * kWarp, blocks, kThreads, room, token_threads(input));
  if (plan.threads == room.block) shape(plan, input, warps * kWarp, blocks, kThreads, room);
  plan.blocks = static_cast<int>(std::min(static_cast<uint64_t>(plan.blocks), most_blocks));
}

// Bytes of the longest chunks of the pipeline that were worth while.
uint64_t longest_chunk(bool few_blocks, bool is_cut, bool is_medium_reduce) {
  if (few_blocks) return (is_cut ? 88 : 176) * kKi;
  return (is_medium_reduce ? 11 : 44) * kKi;
}
}  // namespace

void shape_ll(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  const int tokens = token_threads(input);
  const int block = std::min(tuning.threads + tokens, 256);
  const ThreadRoom room{block, input.size <= 4 ? 512 : 256};
  shape(plan, input, packs_of(input), input.max_blocks, tuning.threads, room, tokens);
}

void shape_one_shot(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  const ThreadRoom room{512, input.size <= 4 ? 1024 : 512};
  shape(plan, input, packs_of(input), input.max_blocks, tuning.threads, room);
}

void shape_one_shot_ahead(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  shape_one_shot(plan, input, tuning);
  set_part(plan, input, ahead_part(input, tuning));
  plan.tile = input.unit();
}

// As many blocks a row as have room, since a row's way is from a multiprocessor over the link
// and back; but at least four warps a block, since all warps of a row meet twice.
RowShape row_shape(uint64_t hidden, uint64_t rows, ThreadRoom room, bool has_clusters, int most) {
  const uint64_t units = divide_up(hidden, kNormUnit);
  const uint64_t whole_warps = round_up(units, units > 512 ? 2 * kWarp : kWarp);
  const auto row_threads = static_cast<int>(std::min<uint64_t>(kRowThreads, whole_warps));

  RowShape shape;
  for (const int cluster : {8, 4, 2, 1}) {
    const int threads = row_threads / cluster;
    const bool is_possible =
        row_threads % (cluster * static_cast<int>(kWarp)) == 0 && threads <= room.block;
    if (!is_possible || (cluster > 1 && (!has_clusters || threads < 128))) continue;

    const int blocks = std::min({kMaxBlocks, most, room.all / threads});
    const int clusters = blocks / cluster;
    if (cluster > 1 && clusters == 0) continue;

    const auto limit = static_cast<uint64_t>(std::max(1, clusters));
    shape = {cluster, static_cast<int>(std::min(rows, limit)) * cluster, threads};
    if (rows <= limit) break;
  }
  return shape;
}

RowShape shape_of_rows(const PlanInput& input) {
  const auto hidden = static_cast<uint64_t>(input.root);
  const int of_multiprocessor = input.size <= 2 ? 1024 : 512;
  const int multiprocessors = multiprocessors_of(input.max_blocks);
  return row_shape(hidden, input.count / hidden,
      {of_multiprocessor, multiprocessors * of_multiprocessor}, input.has_clusters,
      input.shares_device ? multiprocessors : kMaxBlocks);
}

void shape_rmsnorm(Plan& plan, const PlanInput& input, const Tuning&) {
  const RowShape rows = shape_of_rows(input);
  plan.blocks = rows.blocks;
  plan.threads = rows.threads;
  plan.cluster = rows.cluster;
}

void shape_two_shot(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  plan.slices = input.size;
  plan.tile = two_shot_chunk_bytes(input.size, tuning);
  plan.tiles = divide_up(input.unit(), plan.tile);

  const uint64_t chunk_packs = divide_up(std::min<uint64_t>(input.unit(), plan.tile), kPack);
  const uint64_t slice_packs = divide_up(chunk_packs, static_cast<uint64_t>(input.size));
  const ThreadRoom room = input.size <= 4 ? ThreadRoom{512, 512} : ThreadRoom{256, 256};
  shape(plan, input, slice_packs, input.max_blocks, tuning.threads, room);
}

void shape_two_shot_reduce(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  // Rounds of a chunk, so that chunks of equal length have three at least.
  constexpr uint64_t kLeastRounds = 5;
  plan.slices = input.size - 1;
  const uint64_t packs = divide_up(packs_of(input), others(input.size));
  const uint64_t cells = ahead_part(input, tuning) / kPack;

  // With more threads all is under way to the owners before the first results are.
  const int room = input.size <= 4 ? 384 : 256;
  shape(plan, input, packs, input.max_blocks, tuning.threads, {room, room});

  const auto at_once = [&] {
    return static_cast<uint64_t>(plan.blocks) * static_cast<uint64_t>(plan.threads);
  };
  const uint64_t most = cells / kLeastRounds;
  if (round_up(packs, at_once()) > cells && at_once() > most) {
    plan.threads = static_cast<int>(std::min(static_cast<uint64_t>(plan.threads), most));
    plan.blocks = static_cast<int>(most / static_cast<uint64_t>(plan.threads));
  }

  const uint64_t chunk = cells / at_once() * at_once();
  plan.tiles = divide_up(packs, chunk);
  plan.tile = std::min(input.unit(), chunk * kPack * others(input.size));
}

// As many warps as there are tiles for the other ranks, and whole tiles a block: more blocks
// were slower (8 MB 32 us instead of 30.7). With 2 ranks at most 1024 warps, which have equally
// many tiles (8 MB 28.1 us instead of 29.8 with 2048).
void shape_marked(Plan& plan, const PlanInput& input, const Tuning&) {
  const uint64_t tiles = divide_up(input.unit(), kMarkedTile);
  uint64_t warps = tiles * others(input.size);
  if (input.size == 2) {
    const uint64_t tiles_each = divide_up(warps, 1024);
    warps = divide_up(warps, tiles_each);
  }
  shape_tiles(plan, input, warps, tiles);
}

void shape_relay(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  set_part(plan, input, relay_part(input, tuning));
  const uint64_t tiles = divide_up(std::min(plan.part, input.unit()), kMarkedTile);
  shape_tiles(plan, input, tiles, divide_up(tiles, others(input.size)));
}

// Chunks of equal length; two at least of what is not small, so that one is under way while
// another is combined. Chunks longer than 44 KB were not faster, except where few blocks have
// room (256 MB by 28 blocks: 796 us instead of 895), and there chunks twice as long where a block
// has one part to send (533 instead of 611). Reduces end sooner with short chunks (64 MB 230 us
// instead of 237).
void shape_pipeline(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  constexpr uint64_t kSmall = 8 * kKi;
  const uint64_t unit = input.unit();
  const auto n = static_cast<uint64_t>(input.size);
  const CollectiveTraits what = traits(input.collective);

  plan.slices = input.size;
  plan.threads = tuning.width;
  const int fitting = input.shares_device ? multiprocessors_of(input.max_blocks)
                                          : input.max_blocks * 512 / tuning.width;
  plan.blocks = std::clamp(fitting, 1, tuning.work_groups);
  const bool few = are_few(plan.blocks, tuning);
  if (!what.has_op && few) plan.movers = std::min(tuning.movers, plan.blocks);

  // Passing a broadcast on takes a hop more and saves the root's link n - 2 times the message.
  plan.direct = what.from_root && unit * (n - 2) <= tuning.direct_max;
  // A root that owns nothing has a link that carries the message, but no more, each way; what it
  // combines itself has a hop less to go, which matters more to a short reduce.
  const bool is_long_reduce = what.to_root && n > 2 && unit > 16 * kKi * kKi;
  plan.spares_root = (what.from_root && !plan.direct) || is_long_reduce;

  // Parts as WorkGroup::chunk() divides the message (pipeline.cuh).
  const bool is_cut = (what.cut_into_slices || what.of_prefix) && !plan.direct;
  uint64_t owners = 1;
  if (is_cut) owners = plan.spares_root ? n - 1 : n;
  const uint64_t part = divide_up(unit, owners * static_cast<uint64_t>(plan.blocks));

  const bool is_medium_reduce = is_long_reduce && unit <= 128 * kKi * kKi;
  const int slots = plan.blocks * static_cast<int>(kChunkSlots);
  const uint64_t most = std::min(
      stage_slot_bytes(input.size, tuning, slots), longest_chunk(few, is_cut, is_medium_reduce));
  plan.tiles = std::max<uint64_t>(part > kSmall ? 2 : 1, divide_up(part, most));
  plan.tile = round_up(divide_up(part, plan.tiles), kLine);
}

// No rank knows all lengths, so they do not count. The blocks of pieces_blocks() nearly fill
// the links; each block fills a multiprocessor.
void shape_pieces(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  plan.in_pieces = true;
  plan.slices = input.size;
  plan.threads = 512;

  // If this rank keeps a piece of its own, a third of the blocks copies it.
  const bool copies_own = !traits(input.collective).has_op;
  const int multiprocessors = multiprocessors_of(input.max_blocks);
  const int fitting = copies_own ? multiprocessors * 2 / 3 : multiprocessors;
  plan.work_groups = std::max(1, std::min(pieces_blocks(tuning), fitting));
  plan.blocks = plan.work_groups;
  // With one multiprocessor the block that waits for others copies it, too.
  const bool has_one = input.shares_device && multiprocessors == 1;
  if (copies_own && !has_one) plan.blocks += (plan.work_groups + 1) / 2;
  plan.tile = pieces_slot_bytes(input.size, tuning);
}

void shape_copy_engine(Plan& plan, const PlanInput& input, const Tuning&) {
  plan.slices = input.size;
}

// Blocks of one rank wait for those of the others, so all of a launch must have room. Their
// number was never measured: other libraries use few blocks, since one instruction moves what n
// do elsewhere.
void shape_multimem(Plan& plan, const PlanInput& input, const Tuning&) {
  if (plan.algorithm == Algorithm::multimem_two_shot) plan.slices = input.size;
  plan.threads = 512;
  const auto most = static_cast<uint64_t>(std::clamp(input.max_blocks / 2, 1, kMultimemBlocks));
  const uint64_t packs = divide_up(packs_of(input), static_cast<uint64_t>(plan.slices));
  plan.blocks = static_cast<int>(std::clamp<uint64_t>(divide_up(packs, 512), 1, most));
}
}  // namespace symm::cuda
