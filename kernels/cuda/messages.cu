// Messages: what one rank sends, another one receives, in order on each channel. A launch has any
// number of sides, of which each block does its part, and none waits for another one's end.
//
// Definitions
//   Flow         the messages from one rank to another on one channel, numbered from 1. Launches of
//                a rank run one after the other, and their sides are numbered in their order.
//   Part         a message is cut into chunks, which the blocks that take part in it have by turns:
//                as many blocks as it is worth. Each rank divides it as its own launch allows.
//   Post         the receiver tells the sender where a message of a number is to go: straight into
//                a memory that both map, or through slots of the receiver's stages.
//   Arrival      the sender tells the receiver that all chunks of a message are stored.
//   Tag          the number that tells the chunks of one message in slots from those of others, as
//                the receiver counts them.
//
// Steps. Each block looks at all sides that are not over, and goes on with those that can:
//   1. The receiver posts the messages of a flow in their order, kPosts of them ahead of the last
//      one that has arrived. One block does all this for a flow.
//   2. A sender that has read the post compares the lengths, and stores chunks: straight to the
//      destination, or into slots, of which a chunk needs one that is free.
//   3. A receiver copies chunks out of slots, and tells the sender that a slot is free.
//   4. The last block of the sender that is done with a message tells that it has arrived.
//   5. A launch ends when its sides are over: all that was to be sent is stored, all that was to be
//      received has arrived and is copied.
//
// Why no side waits for the order of others. A post needs that the message kPosts before it has
// arrived, which both programs have asked for before; a send needs its post; a chunk in a slot
// needs the chunk before it there to be taken, which needs nothing but that the receiver goes on
// looking. No block waits for another one of its rank, and all have room on the device at a time.
//
// Why nothing is overwritten that is in use
//   1. A post of message k + kPosts overwrites that of k. The receiver has seen that k has arrived,
//      so all blocks of the sender are done with k, and with its post.
//   2. The arrival of k + kPosts overwrites that of k. It follows the post of k + kPosts, which the
//      block that has the flow makes in a look that comes after the one in which it has read the
//      arrival of k. No other block reads arrivals.
//   3. Slots belong to one receive for a launch. The launch ends when all of their chunks are
//      taken, and a sender stores no others, since it needs a post. So nothing is stored there
//      while the stages serve another kernel of their rank.
//   4. The counts of a flow are advanced by the last block to end, when all have read them.
//
// Whoever stores what a chunk word, a post or an arrival tells of meets its block, and one thread
// releases the word for all of it.
#include "kernels/cuda/wait.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
enum class Phase : uint8_t {
  over = 0,
  awaits_post,     // send
  stores,          // send: straight to the destination
  fills,           // send: through slots
  posts,           // recv: the block that has the flow
  awaits_arrival,  // recv: the block that has the flow
  has_arrived,     // recv: the block that has the flow has read the arrival in this look
};

// A side, as one block sees it.
struct SideState {
  // The destination, or the first slot of the message at the receiver.
  uint64_t to;
  // The number in its flow.
  uint32_t number;
  // The chunk that the block stores or takes next.
  uint32_t next;
  uint32_t tag;
  uint16_t first_slot;
  uint16_t slots;
  Phase phase;
  // recv: chunks are to be taken out of slots.
  bool takes;
  // What the block found when it looked.
  bool can_store;
  bool can_take;
};

// What the threads of a block share.
struct Shared {
  SideState side[kMostSides];
  // The number of tags in all launches before.
  uint32_t tags;
  bool is_last;
};
static_assert(sizeof(Shared) <= 48 * 1024, "what a block may have");

struct Block {
  const MessagesArgs& args;
  const DeviceComm& comm;
  Shared& shared;

  __device__ MessageWords& words_at(int rank) const {
    return *reinterpret_cast<MessageWords*>(comm.control[rank] + args.words);
  }
  __device__ MessageWords& words() const { return words_at(comm.rank); }
  __device__ const SideArgs& side(uint32_t i) const {
    return args.is_listed != 0 ? words().list[i] : args.side[i];
  }

  __device__ MessageFlow& flow(int owner, const SideArgs& side, int peer) const {
    return *reinterpret_cast<MessageFlow*>(
        flow_at(comm.control[owner] + args.words, comm.size, side.channel, peer));
  }
  __device__ MessageFlow& mine(const SideArgs& side) const {
    return flow(comm.rank, side, side.peer);
  }
  __device__ MessageFlow& theirs(const SideArgs& side) const {
    return flow(side.peer, side, comm.rank);
  }

  // The blocks that take part in a side, and the turn of this one among them: less than that if it
  // does. Each side begins with another block.
  __device__ uint32_t parts(const SideArgs& side) const {
    const uint64_t worth = (side.bytes + kMessagePart - 1) / kMessagePart;
    if (worth >= gridDim.x) return gridDim.x;
    return worth > 1 ? static_cast<uint32_t>(worth) : 1U;
  }
  __device__ uint32_t turn(uint32_t i) const {
    return (blockIdx.x + gridDim.x - i % gridDim.x) % gridDim.x;
  }
  __device__ bool has_flow(const SideArgs& side) const {
    return (side.peer + side.channel) % gridDim.x == blockIdx.x;
  }

  // Where a chunk of a message lies in a slot of this rank.
  __device__ uint64_t slot(int owner, uint32_t number) const {
    return comm.stages[owner] + comm.stage[0] + number * args.slot;
  }
  __device__ uint64_t& taken_here(int by, uint32_t slot_there) const {
    return reinterpret_cast<uint64_t*>(
        taken_at(comm.control[comm.rank] + args.words, by))[slot_there];
  }
  __device__ uint64_t& taken_there(int owner, uint32_t slot_here) const {
    return reinterpret_cast<uint64_t*>(
        taken_at(comm.control[owner] + args.words, comm.rank))[slot_here];
  }
};

// ---- bytes

constexpr uint32_t kAtOnce = 4;

// Copies whole units, with kAtOnce loads under way before the first store. All threads come here.
template <class Unit>
__device__ __forceinline__ void copy_units(char* to, const char* from, uint64_t bytes) {
  const auto* in = reinterpret_cast<const Unit*>(from);
  auto* out = reinterpret_cast<Unit*>(to);
  const uint64_t units = bytes / sizeof(Unit);
  for (uint64_t q = threadIdx.x; q < units; q += uint64_t{kAtOnce} * blockDim.x) {
    Unit v[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * blockDim.x < units) v[i] = in[q + i * blockDim.x];
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (q + i * blockDim.x < units) out[q + i * blockDim.x] = v[i];
    }
  }
}

// Units as large as both addresses and the length allow, but for ends. Not inlined, for its
// registers.
__device__ __noinline__ void copy_bytes(uint64_t to, uint64_t from, uint64_t bytes) {
  const auto at = [](uint64_t address) {
    return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
  };
  const uint64_t apart = to ^ from;
  if (apart % sizeof(uint32_t) != 0) return copy_units<char>(at(to), at(from), bytes);

  // Whole words lie alike on both sides. Bytes before the first and behind the last go alone.
  const uint64_t unit = apart % kPack == 0 ? kPack : sizeof(uint32_t);
  const uint64_t until = (unit - to % unit) % unit;
  const uint64_t head = until < bytes ? until : bytes;
  const uint64_t body = (bytes - head) / unit * unit;
  copy_units<char>(at(to), at(from), head);
  if (unit == kPack) {
    copy_units<uint4>(at(to + head), at(from + head), body);
  } else {
    copy_units<uint32_t>(at(to + head), at(from + head), body);
  }
  copy_units<char>(at(to + head + body), at(from + head + body), bytes - head - body);
}

// ---- looking at a side, which one thread does

__device__ bool refuse_length(
    const Block& s, uint32_t i, const SideArgs& side, uint64_t sent, uint64_t expected) {
  report(s.comm, WaitError::other_message, side.peer, side.channel, place_in_record(i, side.kind),
      1, 0, 0, sent, expected);
  return false;
}

__device__ void tell_arrival(const Block& s, const SideArgs& side, uint32_t number) {
  MessageFlow::Arrival& there = s.theirs(side).arrived[number % kPosts];
  store_relaxed(&there.bytes, side.bytes);
  store_release(&there.number, number);
}

// The first block of a send that is refused tells the receiver the length, too.
__device__ bool read_post(const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const MessageFlow::Post& post = s.mine(side).post[state.number % kPosts];
  if (load_acquire(&post.number) != state.number) return true;

  const uint64_t expected = load_relaxed(&post.bytes);
  if (expected != side.bytes) {
    if (s.turn(i) != 0) return false;
    tell_arrival(s, side, state.number);
    return refuse_length(s, i, side, side.bytes, expected);
  }

  const uint64_t memory = load_relaxed(&post.memory);
  if (memory == 0 && side.bytes != 0) {
    const SlotRange range = SlotRange::of(load_relaxed(&post.offset));
    state.first_slot = static_cast<uint16_t>(range.first);
    state.slots = static_cast<uint16_t>(range.count);
    state.tag = load_relaxed(&post.tag);
    state.to = s.slot(side.peer, range.first);
    state.phase = Phase::fills;
    return true;
  }

  state.phase = Phase::stores;
  return true;
}

__device__ bool post(const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const bool is_ahead =
      side.before != SideArgs::kNone && s.shared.side[side.before].phase != Phase::over;
  if (is_ahead) return true;
  // The chunks that come through slots may be taken by other blocks, which do not ask.
  const bool needs_stages = side.memory == 0 && side.bytes != 0;
  if (needs_stages && !may_use_stages(s.comm, side.channel)) return false;

  MessageFlow::Post& there = s.theirs(side).post[state.number % kPosts];
  store_relaxed(&there.bytes, side.bytes);
  store_relaxed(&there.memory, side.memory);
  store_relaxed(&there.offset, side.offset);
  store_relaxed(&there.tag, s.shared.tags + i);
  store_release(&there.number, state.number);
  state.phase = Phase::awaits_arrival;
  return true;
}

__device__ bool read_arrival(const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const MessageFlow::Arrival& here = s.mine(side).arrived[state.number % kPosts];
  if (load_acquire(&here.number) != state.number) return true;

  // Another thread that saw the side over in this look could post the message kPosts behind it,
  // whose arrival overwrites this one, before the length is read.
  const uint64_t sent = load_relaxed(&here.bytes);
  state.phase = side.is_last != 0 ? Phase::over : Phase::has_arrived;
  return sent == side.bytes || refuse_length(s, i, side, sent, side.bytes);
}

__device__ bool is_filled(const Block& s, const SideState& state) {
  const uint32_t slot = state.first_slot + state.next % state.slots;
  return load_acquire(&s.words().filled[slot]) == chunk_word(state.tag, state.next);
}

__device__ bool has_free_slot(const Block& s, const SideArgs& side, const SideState& state) {
  if (state.next < state.slots) return true;
  const uint32_t slot = state.first_slot + state.next % state.slots;
  return load_acquire(&s.taken_here(side.peer, slot)) ==
         chunk_word(state.tag, state.next - state.slots);
}

// Whether the block can go on with a side, or has: false if the kernel has to leave.
__device__ bool look(const Block& s, uint32_t i) {
  const SideArgs& side = s.side(i);
  SideState& state = s.shared.side[i];
  bool ok = true;
  switch (state.phase) {
    case Phase::over: break;
    case Phase::awaits_post: ok = read_post(s, i, side, state); break;
    case Phase::posts: ok = post(s, i, side, state); break;
    case Phase::awaits_arrival: ok = read_arrival(s, i, side, state); break;
    case Phase::has_arrived: state.phase = Phase::over; break;
    case Phase::stores:
    case Phase::fills: break;
  }
  state.can_store = state.phase == Phase::stores ||
                    (state.phase == Phase::fills && has_free_slot(s, side, state));
  state.can_take = state.takes && is_filled(s, state);
  return ok;
}

// ---- going on with a side, which all threads do

// The last block that is done with its part of a send tells that all of it has arrived.
__device__ void finish_part(const Block& s, uint32_t i, const SideArgs& side) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  SideState& state = s.shared.side[i];
  state.phase = Phase::over;
  if (side.kind == SideKind::copy) return;

  fence_system();
  if (claim(&s.words().done[i]) + 1 != s.parts(side)) return;
  fence_system();
  store_relaxed(&s.words().done[i], 0U);
  tell_arrival(s, side, state.number);
}

// Finds where the memory of a post is mapped here: all threads search the table at once.
__device__ __noinline__ bool find_destination(
    const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const MessageFlow::Post& post = s.mine(side).post[state.number % kPosts];
  const uint64_t memory = load_relaxed(&post.memory);
  const uint64_t offset = load_relaxed(&post.offset);
  const auto* table = reinterpret_cast<const MemoryEntry*>(s.comm.memories);
  for (int m = static_cast<int>(threadIdx.x); m < s.comm.memory_count;
      m += static_cast<int>(blockDim.x)) {
    if (table[m].id != memory) continue;
    if (offset <= table[m].bytes && side.bytes <= table[m].bytes - offset) {
      state.to = table[m].block[side.peer] + offset;
    }
  }

  __syncthreads();
  if (state.to != 0) return true;
  if (threadIdx.x == 0) {
    report(s.comm, WaitError::unknown_memory, side.peer, side.channel,
        place_in_record(i, side.kind), 1);
  }
  return false;
}

__device__ void store_chunk(const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const uint64_t at = uint64_t{state.next} * kMessagePart;
  if (at < side.bytes) {
    const uint64_t left = side.bytes - at;
    copy_bytes(state.to + at, side.data + at, left < kMessagePart ? left : kMessagePart);
  }

  const uint32_t next = state.next + s.parts(side);
  if (uint64_t{next} * kMessagePart >= side.bytes) return finish_part(s, i, side);
  __syncthreads();
  if (threadIdx.x == 0) state.next = next;
}

__device__ void fill_slot(const Block& s, uint32_t i, const SideArgs& side, SideState& state) {
  const uint64_t at = state.next * s.args.slot;
  const uint32_t slot = state.next % state.slots;
  if (at < side.bytes) {
    const uint64_t left = side.bytes - at;
    copy_bytes(
        state.to + slot * s.args.slot, side.data + at, left < s.args.slot ? left : s.args.slot);
    __syncthreads();
    if (threadIdx.x == 0) {
      store_release(&s.words_at(side.peer).filled[state.first_slot + slot],
          chunk_word(state.tag, state.next));
    }
  }

  const uint32_t next = state.next + s.parts(side);
  if (next * s.args.slot >= side.bytes) return finish_part(s, i, side);
  __syncthreads();
  if (threadIdx.x == 0) state.next = next;
}

__device__ void take_slot(const Block& s, const SideArgs& side, SideState& state) {
  const uint64_t at = state.next * s.args.slot;
  const uint32_t slot = state.first_slot + state.next % state.slots;
  const uint64_t left = side.bytes - at;
  copy_bytes(side.data + at, s.slot(s.comm.rank, slot), left < s.args.slot ? left : s.args.slot);

  __syncthreads();
  if (threadIdx.x != 0) return;
  store_release(&s.taken_there(side.peer, slot), chunk_word(state.tag, state.next));
  state.next += s.parts(side);
  if (state.next * s.args.slot >= side.bytes) state.takes = false;
}

// False: the kernel has to leave.
__device__ bool go_on(const Block& s, uint32_t i) {
  const SideArgs& side = s.side(i);
  SideState& state = s.shared.side[i];
  if (state.can_store && state.phase == Phase::stores) {
    const bool is_unknown = state.to == 0 && side.bytes != 0;
    // All threads have read that before one of them finds it.
    if (is_unknown) __syncthreads();
    if (is_unknown && !find_destination(s, i, side, state)) return false;
    store_chunk(s, i, side, state);
  } else if (state.can_store) {
    fill_slot(s, i, side, state);
  } else if (state.can_take) {
    take_slot(s, side, state);
  }
  return true;
}

// ---- the launch

__device__ void begin_side(const Block& s, uint32_t i) {
  const SideArgs& side = s.side(i);
  SideState state{};
  const bool takes_part = s.turn(i) < s.parts(side);
  state.next = s.turn(i);
  switch (side.kind) {
    case SideKind::copy:
      state.to = side.offset;
      state.phase = takes_part ? Phase::stores : Phase::over;
      break;
    case SideKind::send:
      state.number = s.mine(side).sent + side.number + 1;
      state.phase = takes_part ? Phase::awaits_post : Phase::over;
      break;
    case SideKind::recv: {
      const SlotRange range = SlotRange::of(side.offset);
      state.number = s.mine(side).received + side.number + 1;
      state.phase = s.has_flow(side) ? Phase::posts : Phase::over;
      state.takes =
          takes_part && side.memory == 0 && uint64_t{state.next} * s.args.slot < side.bytes;
      state.tag = s.shared.tags + i;
      state.first_slot = static_cast<uint16_t>(range.first);
      state.slots = static_cast<uint16_t>(range.count);
      break;
    }
  }
  s.shared.side[i] = state;
}

__device__ bool is_over(const SideState& state) {
  return state.phase == Phase::over && !state.takes;
}

// Called by one thread when a block has found nothing to do: every thousandth time it asks whether
// the kernel has to leave. `gone`: ranks that had left when this was last asked, of whom everything
// would have been seen since.
__device__ __noinline__ bool keep_looking(const Block& s, SpinState& spin, RankSet& gone) {
  if ((++spin.looks & 1023U) != 0) return true;
  const WaitError trouble = trouble_with(s.comm, spin, RankSet{});
  if (trouble == WaitError::aborted) return false;

  RankSet left{};
  for (uint32_t i = 0; i < s.args.count; ++i) {
    const SideArgs& side = s.side(i);
    const SideState& state = s.shared.side[i];
    if (is_over(state) || side.kind == SideKind::copy) continue;

    const bool has_left = have_left(s.comm, RankSet::of(side.peer));
    const bool is_gone = has_left && gone.has(side.peer);
    if (trouble == WaitError::timeout || is_gone) {
      const bool has_begun = state.phase != Phase::awaits_post && side.kind == SideKind::send;
      report(s.comm, is_gone ? WaitError::departed : trouble, side.peer, side.channel,
          place_in_record(i, side.kind), has_begun || state.next != s.turn(i) ? 1 : 0);
      return false;
    }
    if (has_left) left.add(side.peer);
  }
  gone = left;
  return true;
}

// The last block to end advances the counts for the next launch.
__device__ void end(const Block& s) {
  __syncthreads();
  if (threadIdx.x == 0) s.shared.is_last = claim(&s.words().finished) + 1 == gridDim.x;
  __syncthreads();
  if (!s.shared.is_last) return;

  for (uint32_t i = threadIdx.x; i < s.args.count; i += blockDim.x) {
    const SideArgs& side = s.side(i);
    if (side.is_last == 0 || side.kind == SideKind::copy) continue;
    MessageFlow& flow = s.mine(side);
    uint32_t& count = side.kind == SideKind::send ? flow.sent : flow.received;
    count += side.number + 1U;
  }
  if (threadIdx.x == 0) {
    s.words().tags = s.shared.tags + s.args.count;
    s.words().finished = 0;
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(512)
    SYMM_KERNEL(pass_messages)(const __grid_constant__ MessagesArgs args) {
  begin();
  if (args.comm.size == 0) return;

  SYMM_SHARED(Shared, shared);
  const Block s{args, args.comm, shared};
  if (threadIdx.x == 0) shared.tags = s.words().tags;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    begin_side(s, i);
  }
  __syncthreads();

  SpinState spin;
  RankSet gone{};
  bool ok = true;
  for (;;) {
    bool is_done = true;
    bool is_idle = true;
    for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) {
      SideState& state = shared.side[i];
      ok = look(s, i) && ok;
      is_done = is_done && is_over(state);
      is_idle = is_idle && !state.can_store && !state.can_take;
    }
    if (__syncthreads_and(ok) == 0) return;
    if (__syncthreads_and(is_done) != 0) break;

    if (__syncthreads_and(is_idle) != 0) {
      if (threadIdx.x == 0) ok = keep_looking(s, spin, gone);
      continue;
    }
    for (uint32_t i = 0; i < args.count; ++i) {
      if (!go_on(s, i)) return;
    }
    __syncthreads();
  }
  end(s);
}

// A kernel that has no arguments that depend on the size of a group.
#ifndef SYMM_LARGE_GROUPS
extern "C" __global__ void __launch_bounds__(64)
    symm_list_messages(const __grid_constant__ ListArgs args) {
  begin();
  auto* const list = reinterpret_cast<SideArgs*>(args.list);
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    list[i] = args.side[i];
  }
}
#endif
