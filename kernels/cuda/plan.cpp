#include "kernels/cuda/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
// One way to do a collective. Adding one is a row here and a .cu file beside it.
struct KernelForm {
  struct Kernel {
    const char* name = nullptr;   // "one_shot": of symm_one_shot_<arithmetic>_<ranks>
    bool per_arithmetic = false;  // compiled for each, ...
    bool per_ranks = false;       // ... and for each number of ranks
    bool multicast = false;       // needs it
  };

  Algorithm algorithm;
  Kernel kernel;
  // False if it cannot do this, and then in words to `why`,
  // unless null: what is more than "no" is for people only.
  bool (*does)(const PlanInput& input, std::string* why);
  // bytes it carries; null: any number
  uint64_t (*most)(const PlanInput& input, const Tuning& tuning);
  bool (*preferred)(const PlanInput& input);  // null: only where it is forced
  void (*shape)(Plan& plan, const PlanInput& input, const Tuning& tuning);
  // For people: what that many bytes do; or null, and then all of it in words.
  const char* up_to;
  std::string (*why)(const PlanInput& input, const Plan& chosen) = nullptr;
};

namespace {
constexpr uint64_t kKi = 1024;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 512;  // what a warp moves at a time

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t divide_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

uint64_t others(int size) { return static_cast<uint64_t>(std::max(1, size - 1)); }

uint64_t stage_bytes(int size, const Tuning& tuning) {
  return round_up(
      static_cast<uint64_t>(tuning.work_groups) * kChunkSlots * others(size) * tuning.tile, kPage);
}

// Of a slot in a stage which has so many for each other rank.
uint64_t slot_bytes(int size, const Tuning& tuning, int slots) {
  return std::max(kLine,
      stage_bytes(size, tuning) / others(size) / static_cast<uint64_t>(slots) / kLine * kLine);
}

// Of pieces.cu.
int pieces_blocks(const Tuning& tuning) { return std::min(tuning.work_groups, kPiecesBlocks); }

uint64_t chunk_bytes(int size, const Tuning& tuning) {
  return slot_bytes(size, tuning, pieces_blocks(tuning) * static_cast<int>(kSlots));
}

// ---- what an algorithm does

// Types that have a bit pattern to spare (push.cuh).
bool can_be_pushed(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2: return true;
    default: return false;
  }
}

template <class... Words>
bool answer(bool does, std::string* why, const Words&... words) {
  if (!does && why != nullptr) *why = text(words...);
  return does;
}

// What needs nothing else is done by kernels that
// reduce, and kernels that move; of pieces by others.
template <bool kReduces, bool kInPieces>
bool does_all(const PlanInput& input, std::string* why) {
  const CollectiveTraits its = traits(input.collective);
  const bool is_plain = input.collective != Collective::allreduce_rmsnorm;
  return answer(is_plain && its.in_pieces == kInPieces, why, "does not do ",
             name_of(input.collective)) &&
         its.has_op == kReduces;
}

bool moves_blocks(const PlanInput& input, std::string* why) {
  const bool does = input.collective == Collective::allgather ||
                    input.collective == Collective::alltoall ||
                    input.collective == Collective::broadcast;
  return answer(
      does, why, "does allgather, alltoall and broadcast, not ", name_of(input.collective));
}

RowShape shape_of_rows(const PlanInput& input);

bool normalises(const PlanInput& input, std::string* why) {
  return answer(input.collective == Collective::allreduce_rmsnorm && input.op == Op::sum &&
                    input.size <= 8,
             why, "normalises with up to 8 ranks, not ", input.size) &&
         answer(input.count == 0 || shape_of_rows(input).blocks != 0, why,
             "has no clusters of blocks for rows of ", input.root);
}

bool pushes_once(const PlanInput& input, std::string*) {
  return can_be_pushed(input.dtype) && (input.collective == Collective::allreduce ||
                                           input.collective == Collective::reduce_scatter);
}

bool pushes_ahead(const PlanInput& input, std::string* why) {
  const bool does =
      pushes_once(input, nullptr) ||
      (can_be_pushed(input.dtype) && input.collective == Collective::reduce && input.size == 2);
  return answer(does, why,
             "does allreduce, reduce_scatter and, with 2 ranks, reduce of floats up to 32 bits, "
             "not ",
             name_of(input.collective), " of ", name_of(input.dtype)) &&
         input.size == 2;
}

template <Collective kCollective>
bool pushes_twice(const PlanInput& input, std::string* why) {
  const bool has_owners = kCollective == Collective::allreduce || input.size > 2;
  return answer(can_be_pushed(input.dtype) && input.collective == kCollective && has_owners, why,
      "does allreduce and, with 3 ranks or more, reduce of floats up to 32 bits, not ",
      name_of(input.collective), " of ", name_of(input.dtype));
}

bool is_passed_on(const PlanInput& input, std::string* why) {
  return moves_blocks(input, why) && input.collective == Collective::broadcast && input.size > 2;
}

bool does_multimem_sum(const PlanInput& input, std::string* why) {
  const bool does =
      input.collective == Collective::allreduce && input.op == Op::sum &&
      (input.dtype == DType::f32 || input.dtype == DType::f16 || input.dtype == DType::bf16);
  return answer(does, why, "does the sum of f32, f16 and bf16 by allreduce, not ",
      name_of(input.op), " of ", name_of(input.dtype), " by ", name_of(input.collective));
}

// An all-reduce is a reduce-scatter, whose results they move.
bool goes_by_engine(const PlanInput& input, std::string* why) {
  const bool is_cut = input.collective == Collective::allreduce &&
                      input.count % static_cast<size_t>(input.size) == 0;
  return answer(is_cut || moves_blocks(input, nullptr), why,
      "does allgather, alltoall, broadcast and allreduce of as many elements for each rank, not ",
      name_of(input.collective), " of ", input.count);
}

// Roots of more than 2 ranks would send it to one after the other.
bool is_of_engines(const PlanInput& input) {
  const bool has_links = !traits(input.collective).from_root || input.size == 2;
  return input.same_offsets && has_links && goes_by_engine(input, nullptr);
}

bool can_use_copy_engine(const PlanInput& input) {
  return is_of_engines(input) && input.why_not.empty();
}

// ---- how much it carries

uint64_t ll_max_bytes(const PlanInput&, const Tuning& tuning) { return tuning.ll_max; }

// Above, marks take less room than flags; a broadcast of two ranks has a link to itself.
uint64_t ll_move_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return tuning.ll_max / (traits(input.collective).from_root && input.size == 2 ? 1 : 4);
}

// Of a threshold below which all is sent at once: the share of the blocks that have
// room, but no less than they send in one go.
uint64_t share_of(uint64_t bytes, const PlanInput& input, const Tuning& tuning) {
  const auto most = static_cast<uint64_t>(tuning.work_groups);
  const auto blocks = static_cast<uint64_t>(input.max_blocks);
  const uint64_t share = std::max(bytes / most * blocks, blocks * 512 * kPack);
  return input.algorithm == Algorithm::automatic ? std::min(bytes, share) : bytes;
}

// Half of the blocks that fill the links by their threads, or fewer.
bool are_few(int blocks, const Tuning& tuning) { return 2 * blocks <= tuning.work_groups; }

// A whole number of packs for each rank, so that slices of full chunks are equal.
uint64_t chunk_of(int size, const Tuning& tuning) {
  return round_up(tuning.two_shot_chunk, kPack * static_cast<uint64_t>(size));
}

// What a half of the scratch of two shots has for each source, where there is only one shot.
uint64_t slot_of(int size, const Tuning& tuning) {
  return 2 * chunk_of(size, tuning) / static_cast<uint64_t>(size);
}

uint64_t one_hop_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t most =
      input.collective == Collective::reduce_scatter ? tuning.scatter_max : tuning.one_shot_max;
  return std::min(share_of(most, input, tuning), slot_of(input.size, tuning));
}

// Of two ranks above this, packs are sent ahead.
uint64_t one_shot_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return std::min(one_hop_max_bytes(input, tuning), input.size == 2 ? 4 * kKi * kKi : UINT64_MAX);
}

// What is sent ahead, the last line of its slot being for the token.
uint64_t ahead_part(const PlanInput& input, const Tuning& tuning) {
  return slot_of(input.size, tuning) / kLine * kLine - kLine;
}

// In several launches while the pipeline is slower,
// which of a reduce leaves half of the links idle.
uint64_t one_shot_ahead_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t part = ahead_part(input, tuning);
  const uint64_t most = traits(input.collective).to_root ? 8 * part
                        : input.collective == Collective::reduce_scatter
                            ? std::min(tuning.scatter_max, 4 * part)
                            : std::min(tuning.one_shot_max, part);
  return share_of(most, input, tuning);
}

// Otherwise there is a kernel more, and every result is read again.
uint64_t rmsnorm_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return std::min(
      input.size == 2 ? UINT64_MAX : 3 * tuning.one_shot_max, slot_of(input.size, tuning));
}

uint64_t marked_part(const PlanInput& input, const Tuning& tuning) {
  return (slot_of(std::max(2, input.size), tuning) - kPack) / kMarkedCells * kMarkedTile;
}

// The last pack of a slot is for tokens. Owners that pass a broadcast on take a hop
// more, and most of it off the root's link.
uint64_t marked_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const bool is_flat = traits(input.collective).from_root && input.size > 2;
  const uint64_t most = is_flat ? tuning.direct_max / (others(input.size) - 1) : tuning.marked_max;
  return std::min(share_of(most, input, tuning), marked_part(input, tuning));
}

// In a few launches, also where there is little scratch.
uint64_t relay_part(const PlanInput& input, const Tuning& tuning) {
  return marked_part(input, tuning) * others(input.size);
}

uint64_t relay_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return std::min(tuning.relay_max, 4 * relay_part(input, tuning));
}

uint64_t reduce_max_bytes(const PlanInput&, const Tuning& tuning) {
  return std::min(tuning.reduce_max, uint64_t{2} << 30);
}

// Of an all-reduce, which has a beginning and an end more, four times as much for each
// rank (512 MB of 2 and of 4 ranks).
uint64_t engine_max_bytes(const PlanInput& input, const Tuning& tuning) {
  if (input.algorithm != Algorithm::automatic) return UINT64_MAX;
  const uint64_t least =
      std::max(tuning.engine_min / 2, share_of(tuning.engine_min, input, tuning));
  if (!traits(input.collective).has_op) return input.unit() < least ? 0 : UINT64_MAX;
  const bool few = are_few(input.max_blocks, tuning);  // then the pipeline is faster
  return few || input.unit() < 4 * least * static_cast<uint64_t>(input.size) ? 0 : UINT64_MAX;
}

uint64_t two_shot_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return share_of(tuning.two_shot_max, input, tuning);
}

// ---- where it is preferred to what comes after it

bool always(const PlanInput&) { return true; }

// Of shorter reduces the token would take longer than to send flags, too.
bool prefers_ahead(const PlanInput& input) {
  return !traits(input.collective).to_root || input.unit() > 128 * kKi;
}

bool not_pushed(const PlanInput& input) { return !pushes_once(input, nullptr); }

// ---- how large a launch it is

uint64_t packs_of(const PlanInput& input) { return divide_up(input.unit(), kPack); }

// Of each block of a call with a root, those of the first being used.
int token_threads(const PlanInput& input) {
  return traits(input.collective).has_root() ? static_cast<int>(kWarp) : 0;
}

// `room`: where there is one multiprocessor. One pack a thread while
// blocks are to be had; small blocks spread the work over more
// multiprocessors. Each block has some more threads for `tokens`.
void shape(Plan& plan, uint64_t packs, int max_blocks, int threads, Room room, int tokens = 0) {
  const auto blocks_of = [&](int width) { return divide_up(packs, static_cast<uint64_t>(width)); };
  const auto limit_of = [&](int width) {
    return static_cast<uint64_t>(
        std::clamp(std::max(1, max_blocks / 2) * room.all / (width + tokens), 1, kMaxBlocks));
  };
  const int most = room.block - tokens;
  threads = std::min(threads, most);
  const int width = blocks_of(threads) > limit_of(threads) ? most : threads;
  plan.threads = width + tokens;
  plan.blocks = static_cast<int>(std::min(blocks_of(width), limit_of(width)));
}

void shape_beside_flags(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  const int tokens = token_threads(input);
  const int block = std::min(tuning.threads + tokens, 256);
  shape(plan, packs_of(input), input.max_blocks, tuning.threads,
      {block, input.size <= 4 ? 512 : 256}, tokens);
}

void shape_one_shot(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  shape(
      plan, packs_of(input), input.max_blocks, tuning.threads, {512, input.size <= 4 ? 1024 : 512});
}

// In as many launches as slots ask for.
void set_part(Plan& plan, const PlanInput& input, uint64_t most) {
  const uint64_t launches = divide_up(input.unit(), most);
  plan.part = round_up(divide_up(input.unit(), launches), kLine);
}

void shape_one_shot_ahead(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  shape_one_shot(plan, input, tuning);
  set_part(plan, input, ahead_part(input, tuning));
  plan.tile = input.unit();
}

RowShape shape_of_rows(const PlanInput& input) {
  const auto hidden = static_cast<uint64_t>(input.root);
  const int most = input.size <= 2 ? 1024 : 512;  // of a multiprocessor
  return row_shape(hidden, input.count / hidden, {most, std::max(1, input.max_blocks / 2) * most},
      input.has_clusters);
}

void shape_rmsnorm(Plan& plan, const PlanInput& input, const Tuning&) {
  const RowShape rows = shape_of_rows(input);
  plan.blocks = rows.blocks;
  plan.threads = rows.threads;
  plan.cluster = rows.cluster;
}

void shape_two_shot_reduce(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  constexpr uint64_t kLeastRounds = 5;  // of a chunk, so that chunks of equal length have three
  plan.slices = input.size - 1;
  const uint64_t packs = divide_up(packs_of(input), others(input.size));
  const uint64_t cells = ahead_part(input, tuning) / kPack;
  // With more threads all is under way to the owners before the first results are.
  const int room = input.size <= 4 ? 384 : 256;
  shape(plan, packs, input.max_blocks, tuning.threads, {room, room});
  const auto at_once = [&] {
    return static_cast<uint64_t>(plan.blocks) * static_cast<uint64_t>(plan.threads);
  };
  if (const uint64_t most = cells / kLeastRounds;
      round_up(packs, at_once()) > cells && at_once() > most) {
    plan.threads = static_cast<int>(std::min(static_cast<uint64_t>(plan.threads), most));
    plan.blocks = static_cast<int>(most / static_cast<uint64_t>(plan.threads));
  }
  const uint64_t chunk = cells / at_once() * at_once();
  plan.tiles = divide_up(packs, chunk);
  plan.tile = std::min(input.unit(), chunk * kPack * others(input.size));
}

void shape_tiles(Plan& plan, const PlanInput& input, uint64_t warps, uint64_t most_blocks) {
  constexpr int kThreads = 128;
  const int blocks = std::min(input.max_blocks, 128);
  const Room room{kMarkedBlock, 2 * kMarkedBlock};
  shape(plan, warps * kWarp, blocks, kThreads, room, token_threads(input));
  if (plan.threads == room.block) shape(plan, warps * kWarp, blocks, kThreads, room);
  plan.blocks = static_cast<int>(std::min(static_cast<uint64_t>(plan.blocks), most_blocks));
}

// As many warps as there are tiles for the others, whole tiles a block: more blocks
// were slower (8 MB 32 us instead of 30.7). Of 2 ranks at most 1024, with as many tiles
// each (8 MB 28.1 us instead of 29.8 with 2048).
void shape_marked(Plan& plan, const PlanInput& input, const Tuning&) {
  const uint64_t tiles = divide_up(input.unit(), kMarkedTile);
  const uint64_t warps = tiles * others(input.size);
  shape_tiles(
      plan, input, input.size == 2 ? divide_up(warps, divide_up(warps, 1024)) : warps, tiles);
}

void shape_relay(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  set_part(plan, input, relay_part(input, tuning));
  const uint64_t tiles = divide_up(std::min(plan.part, input.unit()), kMarkedTile);
  shape_tiles(plan, input, tiles, divide_up(tiles, others(input.size)));
}

void shape_two_shot(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  plan.slices = input.size;
  plan.tile = chunk_of(input.size, tuning);
  plan.tiles = divide_up(input.unit(), plan.tile);
  const uint64_t packs_of_chunk = divide_up(std::min<uint64_t>(input.unit(), plan.tile), kPack);
  shape(plan, divide_up(packs_of_chunk, static_cast<uint64_t>(input.size)), input.max_blocks,
      tuning.threads, input.size <= 4 ? Room{512, 512} : Room{256, 256});
}

// Pieces of equal length; two at least of what is not small, so that one is under way
// while another is combined. Longer ones than 44 KB were not faster, but where few
// blocks have room (256 MB by 28: 796 us instead of 895), and there twice as long ones
// where a block has one part to send (533 instead of 611). Reduces end sooner by short
// ones (64 MB 230 us instead of 237).
void shape_pipeline(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  constexpr uint64_t kSmall = 8 * kKi;
  const uint64_t unit = input.unit();
  const auto n = static_cast<uint64_t>(input.size);
  const bool broadcast = traits(input.collective).from_root;
  plan.slices = input.size;
  // Passing on takes a hop more and saves the root's link n - 2 times the message.
  plan.direct = broadcast && unit * (n - 2) <= tuning.direct_max;
  plan.threads = tuning.width;
  plan.blocks = std::clamp(input.max_blocks * 512 / tuning.width, 1, tuning.work_groups);
  const bool few = are_few(plan.blocks, tuning);
  if (!traits(input.collective).has_op && few) plan.movers = std::min(tuning.movers, plan.blocks);
  // A root that owns nothing has a link that carries the message, but no more, each
  // way; what it combines itself has a hop less to go, which is more of a short reduce.
  const bool is_long = traits(input.collective).to_root && n > 2 && unit > 16 * kKi * kKi;
  plan.spares_root = (broadcast && !plan.direct) || is_long;
  const bool is_cut = traits(input.collective).cut_into_slices && !plan.direct;
  // as WorkGroup::chunk() has it
  const uint64_t owners = !is_cut ? 1 : plan.spares_root ? n - 1 : n;
  const uint64_t parts = owners * static_cast<uint64_t>(plan.blocks);
  const uint64_t part = divide_up(unit, parts);
  const uint64_t longest = (few                                     ? (is_cut ? 88 : 176)
                               : is_long && unit <= 128 * kKi * kKi ? 11
                                                                    : 44) *
                           kKi;
  const uint64_t most = std::min(
      slot_bytes(input.size, tuning, plan.blocks * static_cast<int>(kChunkSlots)), longest);
  plan.tiles = std::max<uint64_t>(part > kSmall ? 2 : 1, divide_up(part, most));
  plan.tile = round_up(divide_up(part, plan.tiles), kLine);
}

void shape_engine(Plan& plan, const PlanInput& input, const Tuning&) { plan.slices = input.size; }

// Nobody knows all lengths, so they are of no account. So few blocks nearly fill the
// links; each fills a multiprocessor.
void shape_pieces(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  plan.in_pieces = true;
  plan.slices = input.size;
  plan.threads = 512;
  // A third of the blocks is for this rank's own piece, where there is one.
  const bool copies_own = !traits(input.collective).has_op;
  plan.work_groups =
      std::max(1, std::min(pieces_blocks(tuning), input.max_blocks / (copies_own ? 3 : 2)));
  plan.blocks = plan.work_groups + (copies_own ? (plan.work_groups + 1) / 2 : 0);
  plan.tile = chunk_bytes(input.size, tuning);
}

// Blocks of one rank wait for those of the others, so all of a launch must fit. Never
// measured: others use few blocks, since one instruction moves what n do elsewhere.
void shape_multimem(Plan& plan, const PlanInput& input, const Tuning&) {
  if (plan.algorithm == Algorithm::multimem_two_shot) plan.slices = input.size;
  plan.threads = 512;
  const auto most = static_cast<uint64_t>(std::clamp(input.max_blocks / 2, 1, kMultimemBlocks));
  const uint64_t packs = divide_up(packs_of(input), static_cast<uint64_t>(plan.slices));
  plan.blocks = static_cast<int>(std::clamp<uint64_t>(divide_up(packs, 512), 1, most));
}

uint64_t most_of(const KernelForm& form, const PlanInput& input, const Tuning& tuning) {
  return form.most == nullptr ? UINT64_MAX : form.most(input, tuning);
}

// ---- why, for people

std::string launch_of(const Plan& chosen) {
  return text(" (", chosen.blocks, " blocks of ", chosen.threads, ")");
}

std::string why_owners(const PlanInput&, const Plan& chosen) {
  return text("by way of the slices' owners, without a barrier, ", chosen.tile, " bytes at a time",
      launch_of(chosen));
}

std::string why_owners_of_pieces(const PlanInput& input, const Plan& chosen) {
  const char* how = traits(input.collective).has_op ? "combined by the owners of slices, "
                                                    : "stored where it belongs, ";
  return text(how, chosen.tile, " bytes of each at a time", launch_of(chosen));
}

std::string why_engine(const PlanInput&, const Plan&) {
  return "copied into every recv by engines, between two meetings of a warp";
}

std::string why_pieces(const PlanInput& input, const Plan& chosen) {
  const char* how =
      traits(input.collective).has_op
          ? "combined from scratch"
          : "stored where it belongs, or if that is private brought there from scratch";
  return text(how, ", ", chosen.tile, " bytes of a piece at a time", launch_of(chosen));
}

std::string why_switch(const PlanInput&, const Plan& chosen) {
  const char* how = chosen.slices == 1 ? "loads all of it" : "loads its slice and stores it to all";
  return text("the switch adds, every rank ", how, launch_of(chosen));
}

// In the order in which they are tried.
// clang-format off
constexpr KernelForm kForms[] = {
    {Algorithm::one_shot, {.name = "rmsnorm", .per_arithmetic = true, .per_ranks = true},
     normalises, rmsnorm_max_bytes, always, shape_rmsnorm, "are normalised where they arrive"},
    {Algorithm::one_shot, {.name = "one_shot", .per_arithmetic = true, .per_ranks = true},
     pushes_once, one_shot_max_bytes, always, shape_one_shot, "one hop to everybody is fastest"},
    {Algorithm::one_shot, {.name = "one_shot_ahead", .per_arithmetic = true},
     pushes_ahead, one_shot_ahead_max_bytes, prefers_ahead, shape_one_shot_ahead, "one hop to everybody is fastest"},
    {Algorithm::two_shot, {.name = "two_shot", .per_arithmetic = true, .per_ranks = true},
     pushes_twice<Collective::allreduce>, two_shot_max_bytes, always, shape_two_shot, nullptr, why_owners},
    {Algorithm::ll, {.name = "ll_reduce", .per_ranks = true},
     does_all<true, false>, ll_max_bytes, not_pushed, shape_beside_flags, "ride beside their flags"},
    {Algorithm::ll, {.name = "ll_move", .per_ranks = true},
     does_all<false, false>, ll_move_max_bytes, not_pushed, shape_beside_flags, "ride beside their flags"},
    {Algorithm::two_shot, {.name = "two_shot_reduce", .per_arithmetic = true, .per_ranks = true},
     pushes_twice<Collective::reduce>, reduce_max_bytes, always, shape_two_shot_reduce, nullptr, why_owners},
    {Algorithm::marked, {.name = "marked"},
     moves_blocks, marked_max_bytes, always, shape_marked, "are their own flags, with a mark for every 64"},
    {Algorithm::marked, {.name = "marked_passed_on"},
     is_passed_on, relay_max_bytes, always, shape_relay, "go to one rank each, who sends them to the others"},
    {Algorithm::copy_engine, {},
     goes_by_engine, engine_max_bytes, can_use_copy_engine, shape_engine, nullptr, why_engine},
    {Algorithm::two_shot_staged, {.name = "pipeline", .per_arithmetic = true, .per_ranks = true},
     does_all<true, false>, nullptr, always, shape_pipeline, nullptr, why_owners_of_pieces},
    {Algorithm::two_shot_staged, {.name = "pieces_move"},
     does_all<false, true>, nullptr, always, shape_pieces, nullptr, why_pieces},
    {Algorithm::two_shot_staged, {.name = "pipeline_move"},
     does_all<false, false>, nullptr, always, shape_pipeline, nullptr, why_owners_of_pieces},
    {Algorithm::two_shot_staged, {.name = "pieces_reduce", .per_arithmetic = true},
     does_all<true, true>, nullptr, always, shape_pieces, nullptr, why_pieces},
    {Algorithm::multimem_one_shot, {.name = "multimem_one_shot", .per_arithmetic = true, .multicast = true},
     does_multimem_sum, nullptr, nullptr, shape_multimem, nullptr, why_switch},
    {Algorithm::multimem_two_shot, {.name = "multimem_two_shot", .per_arithmetic = true, .multicast = true},
     does_multimem_sum, nullptr, nullptr, shape_multimem, nullptr, why_switch},
};
// clang-format on

const KernelForm* choose(const PlanInput& input, const Tuning& tuning) {
  for (const KernelForm& form : kForms) {
    if (form.preferred != nullptr && form.preferred(input) && form.does(input, nullptr) &&
        input.unit() <= most_of(form, input, tuning)) {
      return &form;
    }
  }
  return nullptr;
}

// The first of an algorithm that does this and carries as much; else, for what it says,
// the last that does it, or the last.
const KernelForm* find(Algorithm algorithm, const PlanInput& input, const Tuning& tuning) {
  const KernelForm* found = nullptr;
  for (const KernelForm& form : kForms) {
    if (form.algorithm != algorithm) continue;
    const bool does = form.does(input, nullptr);
    if (does && input.unit() <= most_of(form, input, tuning)) return &form;
    if (found == nullptr || does || !found->does(input, nullptr)) found = &form;
  }
  return found;
}

std::string name_of_kernel(const KernelForm& form, const CallSignature& call, int size) {
  size = std::max(size, 2);
  constexpr const char* kNames[kArithmetics] = {"any", "any", "bf16", "f16", "f32"};
  Arithmetic arithmetic = arithmetic_of(call);
  if (form.kernel.per_ranks && size > 8) arithmetic = Arithmetic::any;
  std::string name = text("symm_", form.kernel.name);
  if (form.kernel.per_arithmetic) name += text("_", kNames[static_cast<size_t>(arithmetic)]);
  // Compiled for every number of ranks that machines have, or for up to a power of two.
  const bool exact = form.kernel.per_arithmetic && arithmetic > Arithmetic::any;
  if (form.kernel.per_ranks) {
    name += text("_", exact ? size : static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))));
  }
  return name;
}
}  // namespace

// As many blocks a row as there is room for, since a row's way
// is from a multiprocessor over the link and back; but four
// warps a block or more, since all of them meet twice a row.
RowShape row_shape(uint64_t hidden, uint64_t rows, Room room, bool has_clusters) {
  const uint64_t units = divide_up(hidden, kNormUnit);
  const auto of_row = static_cast<int>(
      std::min<uint64_t>(kRowThreads, round_up(units, units > 512 ? 2 * kWarp : kWarp)));
  RowShape shape;
  for (const int cluster : {8, 4, 2, 1}) {
    const int threads = of_row / cluster;
    const bool is_possible =
        of_row % (cluster * static_cast<int>(kWarp)) == 0 && threads <= room.block;
    if (!is_possible || (cluster > 1 && (!has_clusters || threads < 128))) continue;
    const auto limit =
        static_cast<uint64_t>(std::max(1, std::min(kMaxBlocks, room.all / threads) / cluster));
    shape = {cluster, static_cast<int>(std::min(rows, limit)) * cluster, threads};
    if (rows <= limit) break;
  }
  return shape;
}

int max_blocks_of(int multiprocessors, int size, int on_one, const Tuning& tuning) {
  multiprocessors = std::min(multiprocessors, tuning.multiprocessors);
  const int at_once = std::max(1, on_one * tuning.groups - (size == 2 && on_one == 1 ? 2 : 1));
  return std::max(1, 2 * (multiprocessors - std::max(2, multiprocessors / 32)) / at_once);
}

Layout layout_of(int size, const Tuning& tuning, const Layout* lender) {
  const auto n = static_cast<uint64_t>(size);
  Layout layout{};
  uint64_t at = round_up(sizeof(ControlWords), kPage);
  const auto take = [&](uint64_t bytes) {
    const uint64_t start = at;
    at = round_up(at + bytes, kPage);
    return start;
  };
  layout.memories = take(kMaxMemories * sizeof(MemoryEntry));
  layout.ll_slot = round_up(divide_up(tuning.ll_max, kPack) + 1, kLlPacks) * 2 * kPack;
  layout.ll = take(2 * n * layout.ll_slot);
  layout.two_shot_slot = chunk_of(size, tuning) / n;
  layout.two_shot = layout.one_shot = take(4 * (n - 1) * layout.two_shot_slot);
  layout.one_shot_slot = 2 * layout.two_shot_slot;
  layout.stage_slot = chunk_bytes(size, tuning);
  if (lender != nullptr) {
    layout.bytes = at;
    layout.lent = lender->lent != 0 ? lender->lent : lender->bytes - lender->stage[0];
    at = lender->stage[0];
  }
  for (uint64_t& stage : layout.stage) {
    stage = take(stage_bytes(size, tuning));
  }
  layout.wide = lender != nullptr ? lender->wide : take(tuning.wide);
  if (lender == nullptr) layout.bytes = at;
  return layout;
}

Tuning within_stages(int size, Tuning tuning, const Layout& lender, const Tuning& of_lender) {
  const auto fits = [&] { return 2 * stage_bytes(size, tuning) <= lender.wide - lender.stage[0]; };
  while (!fits() && tuning.tile > of_lender.tile) {
    tuning.tile = std::max(of_lender.tile, tuning.tile / 2);
  }
  if (!fits()) tuning.work_groups = std::min(tuning.work_groups, of_lender.work_groups);
  tuning.wide = of_lender.wide;
  return tuning;
}

Tuning within_scratch(int size, Tuning tuning, uint64_t most) {
  const auto n = static_cast<uint64_t>(size);
  const auto work_groups = [&] { return static_cast<uint64_t>(tuning.work_groups); };
  while (scratch_bytes(layout_of(size, tuning)) > most) {
    uint64_t groups = work_groups();

    // What takes most is halved: bytes it takes, what they come from, and where that ends.
    struct {
      uint64_t bytes;
      uint64_t* from;
      uint64_t least;
    } const parts[] = {
        {2 * stage_bytes(size, tuning), tuning.tile > 8 * kKi ? &tuning.tile : &groups,
            uint64_t{2}},
        {4 * tuning.two_shot_chunk * (n - 1) / n, &tuning.two_shot_chunk, 16 * kKi},
        {tuning.wide, &tuning.wide, 64 * kKi},
        {4 * n * tuning.ll_max, &tuning.ll_max, kKi},
    };

    const auto* most_of_all = parts;
    for (const auto& part : parts) {
      if (*part.from > part.least &&
          (*most_of_all->from <= most_of_all->least || part.bytes > most_of_all->bytes)) {
        most_of_all = &part;
      }
    }
    if (*most_of_all->from <= most_of_all->least) break;
    *most_of_all->from /= 2;
    tuning.work_groups = static_cast<int>(groups);
  }
  return tuning;
}

bool may_go_by_engine(const PlanInput& input, const Tuning& tuning) {
  return input.algorithm == Algorithm::copy_engine ||
         (is_of_engines(input) && engine_max_bytes(input, tuning) != 0);
}

Plan plan(const PlanInput& input, const Tuning& tuning) {
  Plan plan;
  // whose lengths are elsewhere, also where there is one rank
  const bool in_pieces = traits(input.collective).in_pieces;
  if (input.count == 0 && !in_pieces) return plan;
  const bool forced = input.algorithm != Algorithm::automatic;
  if (input.size == 1 && !in_pieces) {
    plan.algorithm = forced ? input.algorithm : Algorithm::one_shot;
    return plan;
  }
  plan.form = forced ? find(input.algorithm, input, tuning) : choose(input, tuning);
  if (plan.form == nullptr) return plan;
  plan.algorithm = plan.form->algorithm;
  plan.form->shape(plan, input, tuning);
  return plan;
}

std::string refuse(const PlanInput& input, const Tuning& tuning) {
  if (input.algorithm == Algorithm::automatic) return "";
  const KernelForm* form = find(input.algorithm, input, tuning);
  if (form == nullptr && is_valid(input.algorithm)) {
    return text("algorithm ", name_of(input.algorithm), " is of groups on several machines");
  }
  if (form == nullptr) return text("unknown algorithm ", static_cast<int>(input.algorithm));
  if ((input.size == 1 || input.count == 0) && !traits(input.collective).in_pieces) return "";
  const std::string name = text("algorithm ", name_of(input.algorithm));
  std::string why;
  if (!form->does(input, &why)) return text(name, " ", why);
  if (const uint64_t most = most_of(*form, input, tuning); input.unit() > most) {
    return text(name, " carries at most ", most, " bytes, not ", input.unit());
  }
  if (!input.why_not.empty()) return text(name, ": ", input.why_not);
  return "";
}

std::string explain(const PlanInput& input, const Plan& chosen, const Tuning& tuning) {
  if (chosen.form == nullptr && input.count == 0) return "nothing to do for count 0";
  if (chosen.form == nullptr) return "one rank: a copy";
  const KernelForm& form = *chosen.form;
  const uint64_t most = most_of(form, input, tuning);
  return text(input.algorithm != Algorithm::automatic ? "forced: " : "",
      form.up_to != nullptr ? text("up to ", most, " bytes ", form.up_to, launch_of(chosen))
                            : form.why(input, chosen));
}

Arithmetic arithmetic_of(const CallSignature& call) {
  if (!traits(call.collective).has_op) return Arithmetic::none;
  if (call.op != Op::sum && call.op != Op::avg) return Arithmetic::any;
  switch (call.dtype) {
    case DType::bf16: return Arithmetic::bf16;
    case DType::f16: return Arithmetic::f16;
    case DType::f32: return Arithmetic::f32;
    default: return Arithmetic::any;
  }
}

std::string kernel_name(const PlanInput& input, const Plan& chosen) {
  return name_of_kernel(*chosen.form, input, input.size);
}

size_t row_of(const Plan& chosen) {
  static_assert(std::size(kForms) == kKernelForms);
  return static_cast<size_t>(chosen.form - kForms);
}

std::vector<std::string> kernel_names(int size, bool multicast) {
  std::set<std::string> names;
  PlanInput input;
  input.size = size;
  for (const Collective collective :
      {Collective::allreduce, Collective::allreduce_rmsnorm, Collective::reduce,
          Collective::broadcast, Collective::reduce_scatterv, Collective::allgatherv}) {
    for (const Op op : {Op::sum, Op::max}) {
      for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
        input.collective = collective;
        input.op = op;
        input.dtype = dtype;
        for (const KernelForm& form : kForms) {
          if (form.kernel.name != nullptr && form.kernel.multicast == multicast &&
              form.does(input, nullptr)) {
            names.insert(name_of_kernel(form, input, size));
          }
        }
      }
    }
  }
  return {names.begin(), names.end()};
}
}  // namespace symm::cuda
