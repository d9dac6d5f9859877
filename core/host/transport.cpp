// SPDX-License-Identifier: Apache-2.0
#include "core/host/transport.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/backend/hardware.hpp"
#include "kernels/host/arithmetic/reduce.hpp"

namespace symm::host {
namespace {

Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return static_cast<size_t>(values.of(BackendKind::host, key)); };
  return {value("ll"), value("one_shot"), value("step")};
}

}  // namespace

void HostTransport::require_no_stream(void* stream) {
  if (stream != nullptr) throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
}

void HostTransport::stream_wait(void* stream, void* after) {
  require_no_stream(stream);
  if (after != nullptr && after != kAllStreams)
    throw Error(Status::invalid_argument, "after_stream: must be NULL or SYMM_ALL_STREAMS with the host back end");
}

bool HostTransport::stream_done(void* stream) {
  require_no_stream(stream);
  return true;
}

HostTransport::HostTransport(TransportContext context, const PlanValues& values)
    : controls_(std::move(context), values),
      context_(controls_.context()),
      facts_{context_.size, Control::scratch_half(context_.size), last_level_cache_bytes(), tuning_of(values)},
      calls_(context_.size),
      scratch_(static_cast<size_t>(context_.size)),
      operands_(context_.directory, context_.rank, context_.size),
      barriers_(static_cast<size_t>(context_.channels) + 1) {}

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
  publish(controls_.mine().barrier(channel, target), target, controls_.mine().waiters(), controls_.fencing());
  LazyDeadline deadline(timeout_ms);
  for (int peer = 0; peer < context_.size; ++peer) {
    controls_.await(controls_[peer].barrier(channel, target), target, peer, deadline, "barrier");
  }
  prefetch_for_write(&controls_.mine().barrier(channel, target + 1));
  controls_.require_nobody_gave_up(deadline, "barrier");
}

void HostTransport::barrier_of_some(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms) {
  BarrierState& state = barriers_[static_cast<size_t>(channel)];
  state.sent.resize(static_cast<size_t>(context_.size));
  state.taken.resize(static_cast<size_t>(context_.size));
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    const Control& theirs = controls_[peer];
    publish(theirs.pair(channel, context_.rank), ++state.sent[static_cast<size_t>(peer)], theirs.pair_waiter(),
            controls_.fencing());
  }
  LazyDeadline deadline(timeout_ms);
  for (const int peer : ranks) {
    if (peer == context_.rank) continue;
    Word& word = controls_.mine().pair(channel, peer);
    const uint32_t target = ++state.taken[static_cast<size_t>(peer)];
    if (!reached(word, target)) controls_.await(word, target, controls_.mine().pair_waiter()[0], peer, deadline, "barrier");
  }
  controls_.require_nobody_gave_up(deadline, "barrier");
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
  switch (wait_word(word, taken + 1, pad_waiter(memory, context_.rank, context_.channels)[0], rank, *context_.revocation,
                    controls_.spin(), deadline)) {
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

void HostTransport::require_possible(const PlanInput& input, const CollectiveCall& call) const {
  if (const std::string reason = refuse(input, operands_.symmetric_here(call)); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

const PreparedCall& HostTransport::prepare(const CollectiveCall& call) {
  const CallSignature& known = prepared_.input;
  if (known == call) return prepared_;
  const PlanInput input{call, facts_};
  prepared_ = {input, host::plan(input), call.hash()};
  return prepared_;
}

void HostTransport::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  if (call.algorithm != Algorithm::automatic) require_possible({call, facts_}, call);
  const TimedLock turn(collective_mutex_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();

  const PreparedCall& prepared = prepare(call);
  CallSync sync(controls_, calls_, prepared, call.timeout_ms);
  for (int peer = 0; peer < context_.size; ++peer) scratch_[static_cast<size_t>(peer)] = controls_[peer].scratch(sync.op());
  const OperandExchange::Hold hold(operands_);
  Plan settled;
  if (prepared.plan.entered) {
    const int unknown = operands_.exchange(call, sync);
    if (unknown >= 0) {
      controls_.fail({Status::mismatch, unknown, context_.pids[static_cast<size_t>(unknown)],
                      format("%s: an operand of rank %d lies in a memory that rank %d has released", name_of(call.collective),
                             unknown, context_.rank)});
    }
    settled = settle(prepared.input, prepared.plan, operands_.all_symmetric());
  }
  run({call, prepared.plan.entered ? settled : prepared.plan, context_.rank, context_.size, operands_.peer_send(),
       operands_.peer_recv(), scratch_.data(), sync});
  sync.prefetch_next_for_write(call.unit());
  controls_.require_nobody_gave_up(sync.deadline(), name_of(call.collective));
}

PlanReport HostTransport::plan(const CollectiveCall& call) {
  const PlanInput input{call, facts_};
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, operands_.symmetric_here(call));
  return {chosen.algorithm, chosen.slices, chosen.chunk_bytes, chosen.nontemporal, explain(input, chosen)};
}

}  // namespace symm::host
