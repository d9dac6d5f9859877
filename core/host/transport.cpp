// SPDX-License-Identifier: Apache-2.0
#include "core/host/transport.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/backend/hardware.hpp"
#include "core/host/call_sync.hpp"
#include "kernels/host/arithmetic/reduce.hpp"

namespace symm::host {
namespace {

struct TransportShare {
  uint64_t bytes;
  Processors processors;  // that the rank may use
  uint32_t registered;    // for asymmetric fences
  PlanValues values;
};

Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return static_cast<size_t>(values.of(BackendKind::host, key)); };
  return {value("ll"), value("one_shot"), value("step")};
}

}  // namespace

void HostTransport::require_no_stream(void* stream) {
  if (stream != nullptr) throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
}

HostTransport::HostTransport(TransportContext context, const PlanValues& values)
    : context_(std::move(context)),
      values_(values),
      processors_(usable_processors()),
      spin_(SpinPolicy::for_ranks(context_.size, processors_)),
      registered_(register_for_asymmetric_fences()),
      fencing_(fencing_of_group()),
      facts_{context_.size, Control::scratch_half(context_.size), last_level_cache_bytes(), tuning_of(values)},
      controls_(static_cast<size_t>(context_.size)),
      mine_(controls_[static_cast<size_t>(context_.rank)]),
      known_op_(static_cast<size_t>(context_.size)),
      scratch_(static_cast<size_t>(context_.size)),
      operands_(context_.directory, context_.rank, context_.size),
      barriers_(static_cast<size_t>(context_.channels) + 1) {
  mine_ = Control(Segment::create(Control::bytes(context_.size, context_.channels), "symm-control"), context_.size,
                  context_.channels);
  mine_.header() = {kControlMagic, context_.group, context_.rank, context_.size, context_.channels, kControlLayout};
}

OutgoingMessage HostTransport::share() const {
  const TransportShare body{Control::bytes(context_.size, context_.channels), usable_processors(), registered_ ? 1U : 0U,
                            values_};
  OutgoingMessage share;
  share.body.resize(sizeof body);
  std::memcpy(share.body.data(), &body, sizeof body);
  share.fds = {mine_.segment()->fd()};
  return share;
}

void HostTransport::connect(int peer, Message message, const PeerIdentity&) {
  const size_t expected = Control::bytes(context_.size, context_.channels);
  TransportShare body{};
  std::memcpy(&body, message.body.data(), sizeof body);
  if (body.bytes != expected) {
    throw Error({Status::mismatch, peer, 0,
                 format("rank %d has a control segment of %llu bytes, this rank of %zu: different versions of the library?", peer,
                        static_cast<unsigned long long>(body.bytes), expected)});
  }
  if (const std::string differs = plan_difference(BackendKind::host, context_.rank, values_, peer, body.values); !differs.empty())
    throw Error({Status::mismatch, peer, 0, differs});
  Control control(Segment::import(std::move(message.fds.at(0)), expected), context_.size, context_.channels);
  const ControlHeader& header = control.header();
  if (header.magic != kControlMagic || header.layout != kControlLayout || header.group != context_.group || header.rank != peer) {
    throw Error({Status::peer_failed, peer, 0, format("the control segment of rank %d is not of this group or version", peer)});
  }
  controls_[static_cast<size_t>(peer)] = std::move(control);
  for (size_t i = 0; i < processors_.size(); ++i) processors_[i] |= body.processors[i];
  spin_ = SpinPolicy::for_ranks(context_.size, processors_);
  registered_ = registered_ && body.registered != 0;
  fencing_ = fencing_of_group();
}

// What the last to connect leaves is the same on all ranks: the processors of all, and whether all are registered. Ranks that
// share processors sleep in nearly every call, where the kernel's barrier would cost more than the writer's.
Fencing HostTransport::fencing_of_group() const noexcept {
  return registered_ && count_of(processors_) >= context_.size ? Fencing::asymmetric : Fencing::symmetric;
}

// A peer that is late must not take what this rank's caller does with the operands from now on for the call's result.
void HostTransport::give_up() noexcept {
  mine_.gave_up().store(1, std::memory_order_seq_cst);
  fence();
}

// Asked at the end of a call: had a peer given up before, then what was read of its memory may be anything. Its word is only
// written once, so the line stays in this processor's cache.
void HostTransport::require_nobody_gave_up(LazyDeadline& deadline, const char* what) {
  fence();
  for (int peer = 0; peer < context_.size; ++peer) {
    Word& word = controls_[static_cast<size_t>(peer)].gave_up();
    if (word.load(std::memory_order_relaxed) == 0 || peer == context_.rank) continue;
    // Why, the mesh is about to tell: wait for that.
    constexpr uint32_t kNever = 2;
    await(word, kNever, controls_[static_cast<size_t>(peer)].waiters()[static_cast<size_t>(context_.rank)], peer, deadline, what);
  }
}

void HostTransport::fail(Failure failure) {
  give_up();
  // Somebody may have been first; all ranks then report that.
  context_.fail(failure);
  context_.revocation->throw_if_revoked();
  throw Error(std::move(failure));
}

// Who is to blame when `peer` does not come in time: it may itself be waiting for somebody. A rank whose awaited word is there
// could go on and does not, so it is stopped or busy elsewhere. In a circle everybody is as guilty as the next.
int HostTransport::culprit(int peer) const noexcept {
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

void HostTransport::await(Word& word, uint32_t target, Waiter& waiter, int peer, LazyDeadline& deadline, const char* what) {
  const bool own = mine_.contains(word);
  WaitLine& waiting = mine_.waiting();
  waiting.in_own_segment.store(own ? 1 : 0, std::memory_order_relaxed);
  waiting.offset.store((own ? mine_ : controls_[static_cast<size_t>(peer)]).offset_of(word), std::memory_order_relaxed);
  waiting.target.store(target, std::memory_order_relaxed);
  waiting.peer.store(static_cast<uint32_t>(peer) + 1, std::memory_order_release);
  const WaitEnd end = wait_word(word, target, waiter, peer, *context_.revocation, spin_, deadline, fencing_);
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

void HostTransport::barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  const TimedLock turn(barriers_[static_cast<size_t>(channel)].turn, timeout_ms, "barrier");
  if (ranks.empty() || ranks.size() == static_cast<size_t>(context_.size)) {
    barrier_of_all(channel, timeout_ms);
  } else {
    barrier_of_some(ranks, channel, timeout_ms);
  }
}

void HostTransport::barrier_of_all(int channel, uint64_t timeout_ms) {
  const uint32_t target = ++barriers_[static_cast<size_t>(channel)].count;
  publish(mine_.barrier(channel, target), target, mine_.waiters(), fencing_);
  LazyDeadline deadline(timeout_ms);
  for (int peer = 0; peer < context_.size; ++peer) {
    const Control& control = controls_[static_cast<size_t>(peer)];
    Word& word = control.barrier(channel, target);
    if (reached(word, target)) continue;
    await(word, target, control.waiters()[static_cast<size_t>(context_.rank)], peer, deadline, "barrier");
  }
  prefetch_for_write(&mine_.barrier(channel, target + 1));
  require_nobody_gave_up(deadline, "barrier");
}

void HostTransport::barrier_of_some(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms) {
  BarrierState& state = barriers_[static_cast<size_t>(channel)];
  state.sent.resize(static_cast<size_t>(context_.size));
  state.taken.resize(static_cast<size_t>(context_.size));
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    const Control& theirs = controls_[static_cast<size_t>(peer)];
    publish(theirs.pair(channel, context_.rank), ++state.sent[static_cast<size_t>(peer)], theirs.pair_waiter(), fencing_);
  }
  LazyDeadline deadline(timeout_ms);
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    Word& word = mine_.pair(channel, peer);
    const uint32_t target = ++state.taken[static_cast<size_t>(peer)];
    if (!reached(word, target)) await(word, target, mine_.pair_waiter()[0], peer, deadline, "barrier");
  }
  require_nobody_gave_up(deadline, "barrier");
}

namespace {

// A pad is channels * size words; the waiter byte of its owner follows on a line of its own.
Word& pad_word(const MemoryView& memory, int owner, int channel, int source) {
  auto* words = reinterpret_cast<Word*>(memory.pads[static_cast<size_t>(owner)]);
  return words[static_cast<size_t>(channel) * memory.pads.size() + static_cast<size_t>(source)];
}

std::span<Waiter> pad_waiter(const MemoryView& memory, int owner, int channels) {
  const size_t words = static_cast<size_t>(channels) * memory.pads.size() * sizeof(Word);
  return {reinterpret_cast<Waiter*>(memory.pads[static_cast<size_t>(owner)] + (words + kLine - 1) / kLine * kLine), 1};
}

}  // namespace

void HostTransport::put_signal(const MemoryView& memory, int rank, int channel, void* stream) {
  require_no_stream(stream);
  // Only this rank writes the word, but several of its threads may: an addition, so that none takes back another's.
  pad_word(memory, rank, channel, context_.rank).fetch_add(1, std::memory_order_seq_cst);
  if (pad_waiter(memory, rank, context_.channels)[0].load(std::memory_order_seq_cst) != 0) {
    wake_all(pad_word(memory, rank, channel, context_.rank));
  }
}

void HostTransport::wait_signal(const MemoryView& memory, int rank, int channel, uint32_t taken, uint64_t timeout_ms,
                                void* stream) {
  require_no_stream(stream);
  Word& word = pad_word(memory, context_.rank, channel, rank);
  if (reached(word, taken + 1)) return;
  LazyDeadline deadline(timeout_ms);
  const long long pid = context_.pids[static_cast<size_t>(rank)];
  switch (wait_word(word, taken + 1, pad_waiter(memory, context_.rank, context_.channels)[0], rank, *context_.revocation, spin_,
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

void HostTransport::copy(void* to, const void* from, size_t bytes, void* stream) {
  require_no_stream(stream);
  host::copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, bytes > facts_.llc_bytes / 2);
}

void HostTransport::fill32(void* to, uint32_t value, size_t count, void* stream) {
  require_no_stream(stream);
  std::fill_n(static_cast<uint32_t*>(to), count, value);
}

void HostTransport::write32(void* to, uint32_t value, void* stream) {
  require_no_stream(stream);
  reinterpret_cast<Word*>(to)->store(value, std::memory_order_release);
}

}  // namespace symm::host
