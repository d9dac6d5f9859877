// SPDX-License-Identifier: Apache-2.0
#include "core/host/plane.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/host/call_sync.hpp"
#include "core/host/hardware.hpp"
#include "kernels/host/arithmetic/reduce.hpp"

namespace symm::host {
namespace {

struct PlaneShare {
  uint64_t bytes;
  Processors processors;  // that the rank may use
};

// Where a rank's operands lie, as published when it enters a call. Memory 0 is private memory.
struct Operands {
  uint64_t send_memory;
  uint64_t send_offset;
  uint64_t recv_memory;
  uint64_t recv_offset;
  uint64_t in_place;
};
static_assert(sizeof(Operands) <= kEntryPayload);

void require_no_stream(void* stream) {
  if (stream != nullptr) throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
}

}  // namespace

HostPlane::HostPlane(PlaneContext context)
    : context_(std::move(context)),
      processors_(usable_processors()),
      spin_(SpinPolicy::for_ranks(context_.size, processors_)),
      llc_bytes_(last_level_cache_bytes()),
      scratch_bytes_(Control::scratch_half(context_.size)),
      controls_(static_cast<size_t>(context_.size)),
      mine_(controls_[static_cast<size_t>(context_.rank)]),
      known_op_(static_cast<size_t>(context_.size)),
      scratch_(static_cast<size_t>(context_.size)),
      peer_send_(static_cast<size_t>(context_.size)),
      peer_recv_(static_cast<size_t>(context_.size)),
      barriers_(static_cast<size_t>(context_.channels) + 1) {
  mine_ = Control(Segment::create(Control::bytes(context_.size, context_.channels), "symm-control"), context_.size,
                  context_.channels);
  mine_.header() = {kControlMagic, context_.group, context_.rank, context_.size, context_.channels, kControlLayout};
}

size_t HostPlane::share_body_size() { return sizeof(PlaneShare); }

Share HostPlane::share() const {
  const PlaneShare body{Control::bytes(context_.size, context_.channels), usable_processors()};
  Share share;
  share.body.resize(sizeof body);
  std::memcpy(share.body.data(), &body, sizeof body);
  share.fds = {mine_.segment()->fd()};
  return share;
}

void HostPlane::connect(int peer, Message message, const PeerIdentity&) {
  const size_t expected = Control::bytes(context_.size, context_.channels);
  PlaneShare body{};
  std::memcpy(&body, message.body.data(), sizeof body);
  if (body.bytes != expected) {
    throw Error(Status::mismatch,
                format("rank %d has a control segment of %llu bytes, this rank of %zu: different versions of the library?", peer,
                       static_cast<unsigned long long>(body.bytes), expected));
  }
  Control control(Segment::import(std::move(message.fds.at(0)), expected), context_.size, context_.channels);
  const ControlHeader& header = control.header();
  if (header.magic != kControlMagic || header.layout != kControlLayout || header.group != context_.group || header.rank != peer) {
    throw Error(Status::peer_failed, format("the control segment of rank %d is not of this group or version", peer));
  }
  controls_[static_cast<size_t>(peer)] = std::move(control);
  for (size_t i = 0; i < processors_.size(); ++i) processors_[i] |= body.processors[i];
  spin_ = SpinPolicy::for_ranks(context_.size, processors_);
}

// A peer that is late must not take what this rank's caller does with the operands from now on for the call's result.
void HostPlane::give_up() noexcept {
  mine_.gave_up().store(1, std::memory_order_seq_cst);
  fence();
}

// Asked at the end of a call: had a peer given up before, then what was read of its memory may be anything. Its word is only
// written once, so the line stays in this processor's cache.
void HostPlane::require_nobody_gave_up(LazyDeadline& deadline, const char* what) {
  fence();
  for (int peer = 0; peer < context_.size; ++peer) {
    Word& word = controls_[static_cast<size_t>(peer)].gave_up();
    if (word.load(std::memory_order_relaxed) == 0 || peer == context_.rank) continue;
    // Why, the mesh is about to tell: wait for that.
    constexpr uint32_t kNever = 2;
    await(word, kNever, controls_[static_cast<size_t>(peer)].sleepers()[static_cast<size_t>(context_.rank)], peer, deadline,
          what);
  }
}

void HostPlane::fail(Failure failure) {
  give_up();
  // Somebody may have been first; all ranks then report that.
  context_.fail(failure);
  context_.revocation->throw_if_revoked();
  throw Error(std::move(failure));
}

// Who is to blame when `peer` does not come in time: it may itself be waiting for somebody. A rank whose awaited word is there
// could go on and does not, so it is stopped or busy elsewhere. In a circle everybody is as guilty as the next.
int HostPlane::culprit(int peer) const noexcept {
  int suspect = peer;
  for (int hop = 0; hop < context_.size; ++hop) {
    const WaitLine& its = controls_[static_cast<size_t>(suspect)].waiting();
    const uint32_t next = its.peer.load(std::memory_order_acquire);
    if (next == 0 || next > static_cast<uint32_t>(context_.size)) return suspect;
    const Control& holder =
        controls_[its.in_own_segment.load(std::memory_order_relaxed) != 0 ? static_cast<size_t>(suspect) : next - 1];
    const Word* word = holder.word_at(its.offset.load(std::memory_order_relaxed));
    if (word == nullptr || reached(*word, its.target.load(std::memory_order_relaxed))) return suspect;
    suspect = static_cast<int>(next) - 1;
    if (suspect == context_.rank) return peer;
  }
  return peer;
}

void HostPlane::await(Word& word, uint32_t target, Sleeper& sleeper, int peer, LazyDeadline& deadline, const char* what) {
  const bool own = mine_.contains(word);
  WaitLine& waiting = mine_.waiting();
  waiting.in_own_segment.store(own ? 1 : 0, std::memory_order_relaxed);
  waiting.offset.store((own ? mine_ : controls_[static_cast<size_t>(peer)]).offset_of(word), std::memory_order_relaxed);
  waiting.target.store(target, std::memory_order_relaxed);
  waiting.peer.store(static_cast<uint32_t>(peer) + 1, std::memory_order_release);
  const WaitEnd end = wait_word(word, target, sleeper, peer, *context_.revocation, spin_, deadline);
  // After a failure it stays: peers that time out a moment later shall come to the same rank.
  if (end == WaitEnd::reached) waiting.peer.store(0, std::memory_order_relaxed);
  if (end == WaitEnd::timed_out) peer = culprit(peer);
  const int64_t pid = context_.pids[static_cast<size_t>(peer)];
  switch (end) {
    case WaitEnd::reached: return;
    case WaitEnd::revoked: give_up(); throw Error(context_.revocation->failure());
    case WaitEnd::peer_departed:
      fail({Status::peer_failed, peer, pid,
            format("%s: rank %d (pid %lld) has left the group", what, peer, static_cast<long long>(pid))});
    case WaitEnd::timed_out:
      fail({Status::timeout, peer, pid,
            format("%s: rank %d (pid %lld) did not come within %llu ms", what, peer, static_cast<long long>(pid),
                   static_cast<unsigned long long>(deadline.timeout_ms()))});
  }
}

// ---- barriers and signals

void HostPlane::barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  const TurnGuard turn(barriers_[static_cast<size_t>(channel)].turn, timeout_ms, "barrier");
  if (ranks.empty() || ranks.size() == static_cast<size_t>(context_.size)) {
    barrier_of_all(channel, timeout_ms);
  } else {
    barrier_of_some(ranks, channel, timeout_ms);
  }
}

void HostPlane::barrier_of_all(int channel, uint64_t timeout_ms) {
  const uint32_t target = ++barriers_[static_cast<size_t>(channel)].count;
  publish(mine_.barrier(channel, target), target, mine_.sleepers());
  LazyDeadline deadline(timeout_ms);
  for (int peer = 0; peer < context_.size; ++peer) {
    const Control& control = controls_[static_cast<size_t>(peer)];
    Word& word = control.barrier(channel, target);
    if (reached(word, target)) continue;
    await(word, target, control.sleepers()[static_cast<size_t>(context_.rank)], peer, deadline, "barrier");
  }
  claim(&mine_.barrier(channel, target + 1));
  require_nobody_gave_up(deadline, "barrier");
}

void HostPlane::barrier_of_some(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms) {
  BarrierState& state = barriers_[static_cast<size_t>(channel)];
  state.sent.resize(static_cast<size_t>(context_.size));
  state.taken.resize(static_cast<size_t>(context_.size));
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    const Control& theirs = controls_[static_cast<size_t>(peer)];
    publish(theirs.pair(channel, context_.rank), ++state.sent[static_cast<size_t>(peer)], theirs.pair_sleeper());
  }
  LazyDeadline deadline(timeout_ms);
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    Word& word = mine_.pair(channel, peer);
    const uint32_t target = ++state.taken[static_cast<size_t>(peer)];
    if (!reached(word, target)) await(word, target, mine_.pair_sleeper()[0], peer, deadline, "barrier");
  }
  require_nobody_gave_up(deadline, "barrier");
}

namespace {

// A pad is channels * size words; the sleeper byte of its owner follows on a line of its own.
Word& pad_word(const MemoryView& memory, int owner, int channel, int source) {
  auto* words = reinterpret_cast<Word*>(memory.pads[static_cast<size_t>(owner)]);
  return words[static_cast<size_t>(channel) * memory.pads.size() + static_cast<size_t>(source)];
}

std::span<Sleeper> pad_sleeper(const MemoryView& memory, int owner, int channels) {
  const size_t words = static_cast<size_t>(channels) * memory.pads.size() * sizeof(Word);
  return {reinterpret_cast<Sleeper*>(memory.pads[static_cast<size_t>(owner)] + (words + kLine - 1) / kLine * kLine), 1};
}

}  // namespace

void HostPlane::put_signal(const MemoryView& memory, int rank, int channel, void* stream) {
  require_no_stream(stream);
  // Only this rank writes the word, but several of its threads may: an addition, so that none takes back another's.
  pad_word(memory, rank, channel, context_.rank).fetch_add(1, std::memory_order_seq_cst);
  if (pad_sleeper(memory, rank, context_.channels)[0].load(std::memory_order_seq_cst) != 0) {
    wake_all(pad_word(memory, rank, channel, context_.rank));
  }
}

void HostPlane::wait_signal(const MemoryView& memory, int rank, int channel, uint32_t taken, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  Word& word = pad_word(memory, context_.rank, channel, rank);
  if (reached(word, taken + 1)) return;
  LazyDeadline deadline(timeout_ms);
  const long long pid = context_.pids[static_cast<size_t>(rank)];
  switch (wait_word(word, taken + 1, pad_sleeper(memory, context_.rank, context_.channels)[0], rank, *context_.revocation, spin_,
                    deadline)) {
    case WaitEnd::reached: return;
    case WaitEnd::revoked: throw Error(context_.revocation->failure());
    case WaitEnd::peer_departed:
      throw Error({Status::peer_failed, rank, pid, format("wait_signal: rank %d (pid %lld) has left the group", rank, pid)});
    case WaitEnd::timed_out:
      throw Error({Status::timeout, rank, pid,
                   format("wait_signal: no signal from rank %d (pid %lld) on channel %d within %llu ms", rank, pid, channel,
                          static_cast<unsigned long long>(timeout_ms))});
  }
}

// ---- data

void HostPlane::copy(void* to, const void* from, size_t bytes, void* stream) {
  require_no_stream(stream);
  host::copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, bytes > llc_bytes_ / 2);
}

void HostPlane::fill32(void* to, uint32_t value, size_t count, void* stream) {
  require_no_stream(stream);
  std::fill_n(static_cast<uint32_t*>(to), count, value);
}

void HostPlane::write32(void* to, uint32_t value, void* stream) {
  require_no_stream(stream);
  reinterpret_cast<Word*>(to)->store(value, std::memory_order_release);
}

// ---- collectives

PlanInput HostPlane::plan_input(const CollectiveCall& call) const {
  PlanInput input;
  input.collective = call.collective;
  input.dtype = call.dtype;
  input.op = call.op;
  input.count = call.count;
  input.size = context_.size;
  input.forced = call.algorithm;
  input.scratch_bytes = scratch_bytes_;
  input.llc_bytes = llc_bytes_;
  return input;
}

namespace {

struct Extent {
  size_t send_bytes;
  size_t recv_bytes;
};

Extent extent_of(const CollectiveCall& call, int size) {
  const size_t unit = call.count * size_of(call.dtype);
  const size_t all = unit * static_cast<size_t>(size);
  switch (call.collective) {
    case Collective::reduce_scatter: return {all, unit};
    case Collective::allgather: return {unit, all};
    case Collective::alltoall: return {all, all};
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::reduce: return {unit, unit};
  }
  return {unit, unit};
}

// Which operands a zero-copy algorithm touches on which ranks.
struct Touched {
  RemoteOperands remote;
  int root;
  bool send_of(int rank) const { return remote.send && (!remote.root_only || remote.recv || rank == root); }
  bool recv_of(int rank) const { return remote.recv && (!remote.root_only || rank == root); }
};

Touched touched(const CollectiveCall& call) { return {remote_operands(call.collective), call.root}; }

struct Located {
  std::shared_ptr<const MemoryView> memory;
  size_t offset = 0;
};

Located locate(const MemoryDirectory* directory, const void* address, size_t bytes) {
  Located located;
  if (address != nullptr) located.memory = directory->containing(address, bytes, &located.offset);
  return located;
}

}  // namespace

// Could the call be zero-copy as far as this rank knows?
bool HostPlane::symmetric_here(const CollectiveCall& call) const {
  const Extent extent = extent_of(call, context_.size);
  const Touched touches = touched(call);
  if (touches.send_of(context_.rank) && !locate(context_.directory, call.send, extent.send_bytes).memory) return false;
  if (touches.recv_of(context_.rank) && !locate(context_.directory, call.recv, extent.recv_bytes).memory) return false;
  return !touches.remote.out_of_place || call.send != call.recv;
}

void HostPlane::require_possible(const PlanInput& input, const CollectiveCall& call) const {
  if (const std::string reason = refuse(input, symmetric_here(call)); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

// All ranks tell each other where their operands lie. Zero-copy is possible if every operand that is touched from elsewhere is
// symmetric memory; all ranks see the same facts and so conclude the same. What a peer says is checked against the memory's true
// size before it becomes an address. `held` keeps the memories mapped.
bool HostPlane::exchange_operands(const CollectiveCall& call, CallSync& sync,
                                  std::vector<std::shared_ptr<const MemoryView>>& held) {
  const Extent extent = extent_of(call, context_.size);
  const Touched touches = touched(call);
  Located send = locate(context_.directory, call.send, extent.send_bytes);
  Located recv = locate(context_.directory, call.recv, extent.recv_bytes);
  const Operands mine{send.memory ? send.memory->id : 0, send.offset, recv.memory ? recv.memory->id : 0, recv.offset,
                      call.send == call.recv ? 1U : 0U};
  sync.enter(&mine, sizeof mine);

  const auto address = [&](uint64_t id, uint64_t offset, size_t bytes, int peer) -> std::byte* {
    if (id == 0) return nullptr;
    // Nearly always all ranks use one memory, or one for each operand.
    const MemoryView* memory = send.memory && send.memory->id == id   ? send.memory.get()
                               : recv.memory && recv.memory->id == id ? recv.memory.get()
                                                                      : nullptr;
    if (memory == nullptr) {
      held.push_back(context_.directory->numbered(id));
      memory = held.back().get();
    }
    // Treating it as private memory here would make this rank settle on another algorithm than its peers.
    if (memory == nullptr || offset > memory->bytes || bytes > memory->bytes - offset) {
      fail({Status::mismatch, peer, context_.pids[static_cast<size_t>(peer)],
            format("%s: an operand of rank %d lies in a memory that rank %d has released", name_of(call.collective), peer,
                   context_.rank)});
    }
    return memory->blocks[static_cast<size_t>(peer)] + offset;
  };
  bool possible = true;
  for (int peer = 0; peer < context_.size; ++peer) {
    Operands theirs{};
    std::memcpy(&theirs, sync.await_entry(peer), sizeof theirs);
    const auto index = static_cast<size_t>(peer);
    peer_send_[index] = address(theirs.send_memory, theirs.send_offset, extent.send_bytes, peer);
    peer_recv_[index] = address(theirs.recv_memory, theirs.recv_offset, extent.recv_bytes, peer);
    if (touches.send_of(peer) && peer_send_[index] == nullptr) possible = false;
    if (touches.recv_of(peer) && peer_recv_[index] == nullptr) possible = false;
    if (touches.remote.out_of_place && theirs.in_place != 0) possible = false;
  }
  held.push_back(std::move(send.memory));
  held.push_back(std::move(recv.memory));
  return possible;
}

void HostPlane::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  const TurnGuard turn(collective_turn_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();

  CallSync sync(*this, call);
  for (int peer = 0; peer < context_.size; ++peer)
    scratch_[static_cast<size_t>(peer)] = controls_[static_cast<size_t>(peer)].scratch(sync.op());
  Call view;
  view.collective = call.collective;
  view.dtype = call.dtype;
  view.op = call.op;
  view.root = call.root;
  view.count = call.count;
  view.rank = context_.rank;
  view.size = context_.size;
  view.send = static_cast<const std::byte*>(call.send);
  view.recv = static_cast<std::byte*>(call.recv);
  view.peer_send = peer_send_.data();
  view.peer_recv = peer_recv_.data();
  view.scratch = scratch_.data();
  view.scratch_bytes = input.scratch_bytes;
  view.sync = &sync;
  view.plan = host::plan(input);
  std::vector<std::shared_ptr<const MemoryView>> held;
  if (view.plan.entered) view.plan = settle(input, view.plan, exchange_operands(call, sync, held));
  run(view);
  sync.claim_next(view.count * size_of(view.dtype));
  require_nobody_gave_up(sync.deadline(), name_of(call.collective));
}

PlanReport HostPlane::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, symmetric_here(call));
  return {chosen.algorithm, chosen.slices, chosen.chunk_bytes, chosen.nontemporal, explain(input, chosen)};
}

}  // namespace symm::host
