// The calls of a group on the host, in the thread of the caller: barriers and signals by words,
// copies, and collectives, which it plans and then runs by the algorithms in kernels/host.
#include "core/host/transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/hardware.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/stats.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/host/batch.hpp"
#include "core/host/call_sync.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "kernels/chunked_call.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/arithmetic/wire.hpp"
#include "kernels/host/copy_pieces.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/host/prefetch.hpp"
#include "kernels/host/words.hpp"
#include "kernels/number.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"
#include "kernels/wire_call.hpp"

namespace symm::host {
namespace {
Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) {
    return static_cast<size_t>(values.of(BackendKind::host, key));
  };
  return {value("ll"), value("one_shot"), value("step")};
}

// A number that identifies a set of ranks, whatever their order.
uint32_t set_of(std::span<const int32_t> ranks) {
  uint64_t sum = 0;
  for (const int32_t rank : ranks) {
    sum += mix(static_cast<uint64_t>(rank), 1);
  }
  return static_cast<uint32_t>(sum >> 32);
}
}  // namespace

void HostTransport::require_no_stream(void* stream) {
  if (stream != nullptr) {
    throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
  }
}

void HostTransport::stream_wait(void* stream, void* after) {
  require_no_stream(stream);
  if (after != nullptr && after != kAllStreams) {
    throw Error(Status::invalid_argument,
        "after_stream: must be NULL or SYMM_ALL_STREAMS with the host back end");
  }
}

bool HostTransport::stream_done(void* stream) {
  require_no_stream(stream);
  return true;
}

std::unique_ptr<MessageWait> HostTransport::await_message(
    MessageCall call, int peer, uint16_t about) {
  if (context_.check) controls_.forget_refusal();
  return controls_.await_message(lane::of(call), peer, about);
}

HostTransport::HostTransport(
    TransportContext context, const PlanValues& values, RemoteRanks* remote)
    : Transport(remote, **context.revocation->page()),
      controls_(std::move(context), values, remote),
      context_(controls_.context()),
      messages_(controls_),
      facts_{context_.size, controls_.scratch_half(), last_level_cache_bytes(), tuning_of(values)},
      calls_(context_.size),
      scratch_(static_cast<size_t>(context_.size)),
      operands_(context_.directory, context_.rank, context_.size),
      barriers_(static_cast<size_t>(context_.channels) + 1) {
  stats_.barriers = std::vector<Counter>(barriers_.size());
  if (remote == nullptr) return;
  everybody_.resize(static_cast<size_t>(context_.size));
  std::iota(everybody_.begin(), everybody_.end(), 0);
}

// ---- barriers and signals

void HostTransport::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  if (context_.check) controls_.forget_refusal();
  const TimedLock turn(barriers_[static_cast<size_t>(channel)].turn, timeout_ms, "barrier");
  if (ranks.empty()) ranks = everybody_;
  const bool all =
      everybody_.empty() && (ranks.empty() || ranks.size() == static_cast<size_t>(context_.size));
  if (const int peer = timeout_ms == Deadline::kNow ? missing(ranks, channel, all) : -1;
      peer >= 0) {
    throw Error(context_.blame(
        peer, Status::timeout, text("barrier: ", context_.rank_name(peer), " is not here")));
  }

  // All are here. Between machines the news of it still takes messages, which need a deadline.
  LazyDeadline deadline(timeout_ms == Deadline::kNow && controls_.remote() != nullptr
                            ? context_.timeout_ms
                            : timeout_ms);

  if (all) {
    barrier_of_all(channel, deadline);
  } else {
    meet(channel, set_of(ranks), ranks, ranks, deadline);
  }

  controls_.throw_if_any_rank_aborted(deadline, barrier_on(channel));
  stats_.barriers[static_cast<size_t>(channel)].add(1);
}

// The first rank that has not entered the barrier; -1: all have.
int HostTransport::missing(std::span<const int32_t> ranks, int channel, bool all) {
  if (RemoteRanks* remote = controls_.remote(); remote != nullptr) remote->progress();
  const BarrierState& state = barriers_[static_cast<size_t>(channel)];
  for (int i = 0; i < (all ? context_.size : static_cast<int>(ranks.size())); ++i) {
    const int peer = all ? i : ranks[static_cast<size_t>(i)];
    if (peer == context_.rank) continue;
    const uint32_t taken = state.taken.empty() ? 0 : state.taken[static_cast<size_t>(peer)];
    const bool here = all ? has_come(peer, channel, state.count + 1)
                          : reached(controls_.mine().pair(channel, peer), taken + 1);
    if (!here) return peer;
  }
  return -1;
}

void HostTransport::barrier_of_all(int channel, LazyDeadline& deadline) {
  settle_puts(channel, deadline);
  const uint32_t target = ++barriers_[static_cast<size_t>(channel)].count;
  publish(controls_.mine().barrier(channel, target), target, controls_.mine().waiters(),
      controls_.fencing());
  await_everybody(channel, target, deadline);
  prefetch_for_write(&controls_.mine().barrier(channel, target + 1));
}

void HostTransport::await_everybody(int channel, uint32_t count, LazyDeadline& deadline) {
  for (int peer = 0; peer < context_.size; ++peer) {
    controls_.await(
        controls_[peer].barrier(channel, count), count, peer, deadline, barrier_on(channel));
  }
}

void HostTransport::note_arrival(
    const Control& owner, int channel, int source, uint32_t count, uint32_t set) const {
  // The publication of the count makes the set visible as well.
  owner.pair_set(channel, source, count).store(set, std::memory_order_relaxed);
  publish(owner.pair(channel, source), count, owner.pair_waiter(), controls_.fencing());
}

void HostTransport::meet(int channel, uint32_t set, std::span<const int32_t> to,
    std::span<const int32_t> from, LazyDeadline& deadline) {
  BarrierState& state = barriers_[static_cast<size_t>(channel)];
  state.sent.resize(static_cast<size_t>(context_.size));
  state.taken.resize(static_cast<size_t>(context_.size));

  for (const int peer : to) {
    if (peer == context_.rank) continue;
    arrive(peer, channel, ++state.sent[static_cast<size_t>(peer)], set, deadline.timeout_ms());
  }

  for (const int peer : from) {
    if (peer == context_.rank) continue;
    Word& word = controls_.mine().pair(channel, peer);
    const uint32_t target = ++state.taken[static_cast<size_t>(peer)];
    if (!reached(word, target)) {
      if (set != 0 && controls_.remote() != nullptr && everybody_.empty()) {
        require_no_barrier_of_all(channel, peer, word, target, deadline);
      }
      controls_.await(
          word, target, controls_.mine().pair_waiter()[0], peer, deadline, barrier_on(channel));
    }
    if (controls_.mine().pair_set(channel, peer, target).load(std::memory_order_relaxed) != set) {
      fail_sets(channel, peer);
    }
  }
}

// A rank in a barrier of all ranks waits for the first rank of its machine and so does not see
// who enters a barrier of another set. This rank looks for that mistake on its behalf.
void HostTransport::require_no_barrier_of_all(
    int channel, int peer, const Word& word, uint32_t target, LazyDeadline& deadline) {
  constexpr uint64_t kSoonMs = 100;
  LazyDeadline soon(std::min(kSoonMs, deadline.get().remaining_ns() / 1'000'000 + 1));
  const auto is_there = [&] { return reached(word, target); };
  const auto has_left = [&] { return controls_.has_left(peer); };
  const Word* const words[] = {&word};
  const WaitEnd end = controls_.await_condition(
      {is_there, has_left, words, true, peer, "barrier"}, controls_.mine().pair_waiter()[0], soon);
  const uint32_t next = barriers_[static_cast<size_t>(channel)].count + 1;
  if (end == WaitEnd::timed_out && has_come(peer, channel, next) && !is_there()) {
    fail_sets(channel, peer);
  }
}

void HostTransport::fail_sets(int channel, int peer) {
  controls_.fail(controls_.different_sets(channel, peer, context_.rank));
}

uint32_t HostTransport::untaken_set(int channel, int source) {
  const BarrierState& state = barriers_[static_cast<size_t>(channel)];
  const uint32_t next = state.taken.empty() ? 1 : state.taken[static_cast<size_t>(source)] + 1;
  return reached(controls_.mine().pair(channel, source), next)
             ? controls_.mine().pair_set(channel, source, next).load(std::memory_order_relaxed)
             : 0;
}

namespace {
Pad pad_of(const MemoryView& memory, int owner) {
  return {memory.pads[static_cast<size_t>(owner)], static_cast<int>(memory.pads.size()),
      memory.channels};
}

std::atomic<uint64_t>& taken_of(const MemoryView& memory, int channel, int source) {
  return memory
      .taken[static_cast<size_t>(channel) * memory.pads.size() + static_cast<size_t>(source)];
}

std::vector<const Word*> bells_of(const Pad& pad, std::span<const int> ranks) {
  std::vector<const Word*> bells;
  for (const int rank : ranks) {
    if (std::find(bells.begin(), bells.end(), &pad.bell(rank)) == bells.end()) {
      bells.push_back(&pad.bell(rank));
    }
  }
  return bells;
}

void store(void* word, uint64_t value, size_t bytes) {
  if (bytes == sizeof(uint32_t)) {
    static_cast<std::atomic<uint32_t>*>(word)->store(
        static_cast<uint32_t>(value), std::memory_order_seq_cst);
  } else {
    static_cast<std::atomic<uint64_t>*>(word)->store(value, std::memory_order_seq_cst);
  }
}

uint64_t load(const void* word, size_t bytes) {
  return bytes == sizeof(uint32_t)
             ? static_cast<const std::atomic<uint32_t>*>(word)->load(std::memory_order_seq_cst)
             : static_cast<const std::atomic<uint64_t>*>(word)->load(std::memory_order_seq_cst);
}
}  // namespace

void HostTransport::send_signal(const MemoryView& memory, int rank, int channel, SignalOp op,
    uint64_t value, uint64_t, void* stream) {
  require_no_stream(stream);
  note_signal(memory, rank, channel, context_.rank, op, value);
}

void HostTransport::tell_signal(
    const MemoryView& memory, int rank, int channel, uint64_t value) noexcept {
  note_signal(memory, rank, channel, context_.rank, SignalOp::set, value);
}

// Writes a signal of rank `source` into the pad of rank `owner`, which must be mapped here. The
// source is this rank, or a rank of another machine whose message has arrived. Only the source
// rank writes the word, but several of its threads may do so at a time; so the addition is
// atomic.
void HostTransport::note_signal(
    const MemoryView& memory, int owner, int channel, int source, SignalOp op, uint64_t value) {
  const Pad pad = pad_of(memory, owner);
  Pad::SignalWord& word = pad.word(channel, source);
  if (op == SignalOp::add) {
    word.fetch_add(value, std::memory_order_seq_cst);
  } else {
    word.store(value, std::memory_order_seq_cst);
  }
  ring(pad.bell(source), pad.waiter());
}

void HostTransport::write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value,
    size_t bytes, uint64_t, void* stream) {
  require_no_stream(stream);
  note_value(memory, rank, context_.rank, offset, value, bytes);
}

void HostTransport::note_value(
    const MemoryView& memory, int owner, int source, size_t offset, uint64_t value, size_t bytes) {
  store(memory.blocks[static_cast<size_t>(owner)] + offset, value, bytes);
  const Pad pad = pad_of(memory, owner);
  ring(pad.bell(source), pad.waiter());
}

void HostTransport::change_value(const MemoryView& memory, int rank, size_t offset,
    const AtomicChange& change, void* fetched, uint64_t, void* stream) {
  require_no_stream(stream);
  const uint64_t before = note_change(memory, rank, context_.rank, offset, change);
  if (fetched != nullptr) store_word(fetched, before, change.bytes);
}

uint64_t HostTransport::note_change(
    const MemoryView& memory, int owner, int source, size_t offset, const AtomicChange& change) {
  std::byte* const word = memory.blocks[static_cast<size_t>(owner)] + offset;
  const uint64_t before = symm::change(word, change.bytes, change.op, change.value, change.compare);
  if (change.op != AtomicOp::fetch) {
    const Pad pad = pad_of(memory, owner);
    ring(pad.bell(source), pad.waiter());
  }
  return before;
}

uint64_t HostTransport::read_value(
    const MemoryView& memory, int rank, size_t offset, size_t bytes, uint64_t) {
  return load(memory.blocks[static_cast<size_t>(rank)] + offset, bytes);
}

// Waits for a condition that `ranks` bring about. If all of them are one rank, that rank is to
// blame for a wait that fails.
void HostTransport::await(const MemoryView& memory, const Condition& condition,
    std::span<const int> ranks, LazyDeadline& deadline, const std::function<std::string()>& what) {
  const WaitEnd end =
      controls_.await_condition(condition, pad_of(memory, context_.rank).waiter(), deadline);
  if (end == WaitEnd::reached) return;
  if (end == WaitEnd::revoked) throw Error(context_.revocation->failure());
  const bool is_one =
      !ranks.empty() && std::count(ranks.begin(), ranks.end(), ranks[0]) == std::ssize(ranks);
  const int peer = is_one ? ranks[0] : -1;

  if (end == WaitEnd::peer_departed) {
    throw Error(is_one ? context_.blame_departed(peer, what())
                       : Failure{Status::peer_failed, -1, 0,
                             what() + ": all of the ranks has left the group"});
  }

  const uint64_t ms = deadline.timeout_ms() == Deadline::kNow ? 0 : deadline.timeout_ms();
  throw Error(context_.blame(peer, Status::timeout, text(what(), " within ", ms, " ms")));
}

void HostTransport::take_signal(
    const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  const Pad pad = pad_of(memory, context_.rank);
  const Pad::SignalWord& word = pad.word(channel, rank);
  std::atomic<uint64_t>& taken = taken_of(memory, channel, rank);

  // If several threads wait, one of them takes the signal, and the others go on waiting.
  const auto takes = [&] {
    uint64_t before = taken.load(std::memory_order_seq_cst);
    return static_cast<int64_t>(word.load(std::memory_order_seq_cst) - before) > 0 &&
           taken.compare_exchange_strong(before, before + 1, std::memory_order_seq_cst);
  };

  // A signal that is about to arrive is awaited before the wait is prepared: a round trip takes
  // 0.44 us this way, and 0.51 us otherwise.
  if (Predicate(takes).look(
          timeout_ms == Deadline::kNow ? 1 : std::clamp(controls_.spin().spins, 1U, 64U))) {
    return;
  }

  LazyDeadline deadline(timeout_ms);
  const auto has_left = [&] { return controls_.has_left(rank); };
  const Word* const bells[] = {&pad.bell(rank)};
  const auto what = [&] {
    return text("wait_signal: no signal from ", context_.rank_name(rank), " on channel ", channel);
  };

  await(memory, {takes, has_left, bells, true, rank, "wait_signal"}, {&rank, 1}, deadline,
      std::ref(what));  // a reference, so that std::function allocates nothing
}

SignalState HostTransport::look_at_signal(const MemoryView& memory, int rank, int channel) {
  const uint64_t taken = taken_of(memory, channel, rank).load(std::memory_order_seq_cst);
  return {pad_of(memory, context_.rank).word(channel, rank).load(std::memory_order_seq_cst), taken};
}

void HostTransport::wait_signals(const MemoryView& memory, std::span<const SignalWait> waits,
    bool any, uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) {
  require_no_stream(stream);
  const Pad pad = pad_of(memory, context_.rank);
  size_t index = 0;
  uint64_t seen = 0;

  // Finds the first signal of `some` that is as awaited.
  const auto holds_one = [&](std::span<const SignalWait> some) {
    for (size_t i = 0; i < some.size(); ++i) {
      seen = pad.word(some[i].channel, some[i].rank).load(std::memory_order_seq_cst);
      if (!holds(seen, some[i].compare, some[i].value)) continue;
      index = static_cast<size_t>(&some[i] - waits.data());
      return true;
    }
    return false;
  };

  LazyDeadline deadline(timeout_ms);
  const auto await_one = [&](std::span<const SignalWait> some) {
    if (holds_one(some)) return;
    std::vector<int> ranks;
    for (const SignalWait& wait : some) {
      ranks.push_back(wait.rank);
    }
    const auto is_there = [&] { return holds_one(some); };
    const auto have_left = [&] {
      return std::all_of(
          ranks.begin(), ranks.end(), [&](int rank) { return controls_.has_left(rank); });
    };
    const bool is_one = std::count(ranks.begin(), ranks.end(), ranks[0]) == std::ssize(ranks);
    const int peer = is_one ? ranks[0] : -1;
    await(memory, {is_there, have_left, bells_of(pad, ranks), true, peer, "wait_signals"}, ranks,
        deadline, [&]() -> std::string {
          if (some.size() > 1) {
            return format("wait_signals: none of %zu signals was as awaited", some.size());
          }
          return format("%s: the signal of rank %d on channel %d was %lu, not %s %lu,",
              out_index != nullptr ? "wait_signals" : "wait_signal_value", some[0].rank,
              some[0].channel, seen, sign_of(some[0].compare), some[0].value);
        });
  };

  for (size_t i = 0; i < (any ? 1 : waits.size()); ++i) {
    await_one(any ? waits : waits.subspan(i, 1));
  }

  if (out_index != nullptr) *out_index = any ? index : 0;
  if (out_seen != nullptr) *out_seen = seen;
}

// Writers that use plain stores, a copy or a collective ring no bell, so the wait polls as well.
void HostTransport::wait_value(const MemoryView& memory, const void* word, size_t bytes,
    Compare compare, uint64_t value, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  const auto is_there = [&] { return holds(load(word, bytes), compare, value); };
  if (is_there()) return;

  // Any rank may write the word, this one too, until the group is finalized.
  const auto is_over = [this] { return context_.revocation->finalized(); };
  std::vector<int> ranks(static_cast<size_t>(context_.size));
  std::iota(ranks.begin(), ranks.end(), 0);

  LazyDeadline deadline(timeout_ms);
  await(memory,
      {is_there, is_over, bells_of(pad_of(memory, context_.rank), ranks), false, -1, "wait_value"},
      {}, deadline, [&] {
        return format("wait_value: the word was %lu, not %s %lu,", load(word, bytes),
            sign_of(compare), value);
      });
}

// ---- data

void HostTransport::pass_messages(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  messages_.pass(sides, timeout_ms);
}

void HostTransport::copy(void* to, const void* from, size_t bytes, void* stream) {
  require_no_stream(stream);
  host::copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
      bytes > facts_.llc_bytes / 2);
}

void HostTransport::put(const MemoryView& memory, int rank, size_t offset, const void* from,
    size_t bytes, uint64_t timeout_ms, void* stream) {
  if (rank == context_.rank) {
    return Transport::put(memory, rank, offset, from, bytes, timeout_ms, stream);
  }
  require_no_stream(stream);
  copy_to_peer(memory.blocks[static_cast<size_t>(rank)] + offset,
      static_cast<const std::byte*>(from), bytes, bytes > facts_.llc_bytes / 2);
}

void HostTransport::put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
    const PieceCopy& pieces, uint64_t, void* stream) {
  copy_pieces(memory.blocks[static_cast<size_t>(rank)] + offset, from, pieces, stream);
}

void HostTransport::get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
    const PieceCopy& pieces, uint64_t, void* stream) {
  copy_pieces(to, memory.blocks[static_cast<size_t>(rank)] + offset, pieces, stream);
}

void HostTransport::copy_pieces(
    void* to, const void* from, const PieceCopy& pieces, void* stream) const {
  require_no_stream(stream);
  host::copy_pieces(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), pieces.list,
      pieces.bytes > facts_.llc_bytes / 2);
}

void HostTransport::fill_here(void* to, const Copies& copies, void* stream) {
  require_no_stream(stream);
  store_copies(to, copies);
}

void HostTransport::require_possible(const CollectiveCall& call) const {
  if (const std::string reason = why_impossible(call); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

std::string HostTransport::why_impossible(const CollectiveCall& call) const {
  return refuse({call, facts_}, operands_.symmetric_here(call));
}

// No plan depends on the place of a call in a batch, or on the heaps.
void HostTransport::prepare(const CollectiveCall& call) {
  CallSignature& known = prepared_.input;
  known.batch = call.batch;
  known.heaps = call.heaps;
  if (known == call) {
    prepared_.hash = call.hash();
    return;
  }
  const PlanInput input{call, facts_};
  const Plan chosen = host::plan(input);
  prepared_ = {input, chosen, call.hash(),
      GroupStats::call_shown(call.collective, call.unit(), chosen.algorithm)};
}

void HostTransport::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  if (context_.check) controls_.forget_refusal();
  if (call.is_plain() && call.algorithm != Algorithm::automatic) require_possible(call);
  const TimedLock turn(collective_mutex_, call.timeout_ms, collective_name(call.collective));
  collective_in_turn(call);
}

void HostTransport::collective_in_turn(const CollectiveCall& call) {
  stats_.add_collective(call, call.is_plain() ? plain_collective(call) : collective_in_parts(call));
}

// The ranks choose the same calls to merge, since they choose by what must agree.
void HostTransport::batch(std::span<CollectiveCall> calls) {
  if (calls.empty()) return;
  require_no_stream(calls[0].stream);
  if (context_.check) controls_.forget_refusal();
  const uint64_t timeout_ms = calls[0].timeout_ms;
  const TimedLock turn(collective_mutex_, timeout_ms, "batch");
  const Deadline deadline = Deadline::after_ms(timeout_ms);

  for (const MergeableCalls& part : parts_of(calls, context_.size)) {
    if (part.size() > 1) {
      merged(part, deadline.left_ms());
      continue;
    }
    CollectiveCall& alone = calls[static_cast<size_t>(part[0] - calls.data())];
    alone.timeout_ms = deadline.left_ms();
    collective_in_turn(alone);
  }
}

void HostTransport::merged(std::span<const CollectiveCall* const> calls, uint64_t timeout_ms) {
  CollectiveCall all = merged_.gather(calls, context_.rank, context_.size);
  all.timeout_ms = timeout_ms;
  const Algorithm algorithm = plain_collective(all);
  merged_.scatter(calls, context_.rank, context_.size);

  for (const CollectiveCall* call : calls) {
    stats_.add_collective(*call, algorithm);
  }
}

Algorithm HostTransport::collective_by_wire(const CollectiveCall& call) {
  wide_.resize(wire_bytes());
  const WireCall parts(call, context_.rank, context_.size, wide_.data(), wide_.size());
  parts.run(WireSteps(), [&](const CollectiveCall& plain) { plain_collective(plain); });
  return parts.algorithm();
}

// Waits for a word that a thread of this process, or any process that maps it, stores plainly.
void HostTransport::await_chunk(
    const CollectiveCall& call, uint32_t value, size_t index, LazyDeadline& deadline) {
  const uint32_t& word = call.words.ready[index];
  const auto is_there = [&] { return has_reached(load_acquire(word), value); };
  if (is_there()) return;

  Waiter nobody_rings{};
  const auto never = [] { return false; };
  const WaitEnd end = controls_.await_condition(
      {is_there, never, {}, false, context_.rank, "ready"}, nobody_rings, deadline);
  if (end == WaitEnd::reached) return;
  if (end == WaitEnd::revoked) throw Error(context_.revocation->failure());
  controls_.fail(context_.blame(context_.rank, Status::timeout,
      format("%s: options.ready[%zu] of rank %d was %u, and had not reached %u within %lu ms",
          collective_name(call.collective), index, context_.rank, load_acquire(word), value,
          deadline.timeout_ms())));
}

// The deadline is that of all plain calls together.
Algorithm HostTransport::collective_in_chunks(const CollectiveCall& call) {
  LazyDeadline deadline(call.timeout_ms);
  const ChunkWords& words = call.words;
  const uint32_t value = words.pointer != nullptr ? load_acquire(*words.pointer) : words.value;
  const auto copy_own = [&](std::byte* to, const std::byte* from, size_t bytes) {
    copy(to, from, bytes, nullptr);
  };
  const auto tell = [&](size_t index) {
    if (words.progress != nullptr) store_release(words.progress[index], value);
  };
  const auto await_ready = [&](size_t index) {
    if (words.ready != nullptr) await_chunk(call, value, index, deadline);
  };

  ChunkedCall parts(call, context_.rank, context_.size);
  if (call.algorithm != Algorithm::automatic) require_possible(parts.plain_call());
  Algorithm algorithm{};
  parts.run(ChunkSteps{copy_own, tell, await_ready}, [&](CollectiveCall plain) {
    plain.timeout_ms = deadline.get().left_ms();
    algorithm = plain_collective(plain);
  });
  return algorithm;
}

// Makes a call with a factor, with RMSNorm, with a wire or in chunks as plain calls of its parts.
Algorithm HostTransport::collective_in_parts(const CollectiveCall& call) {
  if (call.words) return collective_in_chunks(call);
  if (call.has_wire()) return collective_by_wire(call);
  Algorithm algorithm{};
  const auto make = [&](const CollectiveCall& plain) { algorithm = plain_collective(plain); };
  wide_.resize(wide_bytes());

  if (call.norm != nullptr) {
    if (norm_ == nullptr) norm_ = std::make_unique<NormScratch>();
    const RowsOfNorm rows(call, context_.size, wide_.data(), wide_.size());
    if (call.algorithm != Algorithm::automatic) require_possible(rows.plain_call());
    rows.run(make, [&](const RmsNorm& norm, const std::byte* sums, size_t count) {
      rmsnorm(norm, sums, count, call.dtype, *norm_);
    });
    return algorithm;
  }

  const ScaledCall scaled(call, context_.rank, context_.size, wide_.data(), wide_.size());
  if (call.algorithm != Algorithm::automatic) require_possible(scaled.plain_call());
  Number factor = call.scaling.factor;

  if (call.scaling.kind == Factor::pointer) {
    uint32_t bits = 0;
    std::memcpy(&bits, call.scale_pointer, sizeof bits);
    factor = Number::of_f32(bits);
  }

  scaled.run([&](const Conversion& conversion) { convert(conversion, factor); }, make);
  return algorithm;
}

Algorithm HostTransport::plain_collective(const CollectiveCall& call) {
  context_.revocation->throw_if_revoked();
  const PreparedCall& prepared = prepared_;
  if (const CallSignature& known = prepared.input; !(known == call)) prepare(call);
  prepared_.members = members_of(call);
  stats_.begin(prepared.shown);
  CallSync sync(controls_, calls_, prepared, call.timeout_ms);

  for (int peer = 0; peer < context_.size; ++peer) {
    scratch_[static_cast<size_t>(peer)] = controls_[peer].scratch(sync.op());
  }

  const OperandExchange::Hold hold(operands_);
  const auto execution = [&](const Plan& by) {
    return Execution{call, by, context_.rank, context_.size, operands_.peer_send(),
        operands_.peer_recv(), operands_.peer_room(), scratch_.data(), sync};
  };

  const Plan* plan = &prepared.plan;
  if (plan->entered) {
    const int unknown = operands_.exchange(call, sync, [&](bool readable) {
      if (call.pieces != nullptr) lay_out_pieces(execution(*plan), !plan->zero_copy || !readable);
    });
    if (unknown >= 0) {
      controls_.fail(context_.blame(context_.rank, Status::mismatch,
          format("%s: an operand of rank %d lies in a memory that rank %d has released",
              collective_name(call.collective), unknown, context_.rank)));
    }
    settled_ = settle(prepared.input, *plan, operands_.all_symmetric());
    plan = &settled_;
  }

  run(execution(*plan));
  sync.prefetch_next_for_write(call.unit());
  controls_.throw_if_any_rank_aborted(
      sync.deadline(), {collective_name(call.collective), lane::kCollective, &call});
  return plan->algorithm;
}

PlanReport HostTransport::plan_plain(const CollectiveCall& call) const {
  const PlanInput input{call, facts_};
  if (call.algorithm != Algorithm::automatic) require_possible(call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, operands_.symmetric_here(call));

  PlanReport report;
  report.algorithm = chosen.algorithm;
  report.slices = chosen.slices;
  report.chunk_bytes = chosen.chunk_bytes;
  report.nontemporal = chosen.nontemporal;
  report.reason = explain(input, chosen);
  return report;
}

PlanReport HostTransport::plan(const CollectiveCall& call) {
  std::byte elsewhere{};  // stands for the widened operands, which are not symmetric memory
  if (call.collective == Collective::allreduce_rmsnorm) {
    return plan_plain(RowsOfNorm(call, context_.size, &elsewhere, wide_bytes()).plain_call());
  }
  if (call.has_wire()) {
    const WireCall parts(call, context_.rank, context_.size, &elsewhere, wire_bytes());
    PlanReport report = plan_plain(parts.plain_call());
    report.algorithm = parts.algorithm();
    report.reason = parts.why() + report.reason;
    return report;
  }
  if (call.words) {
    ChunkedCall parts(call, context_.rank, context_.size);
    PlanReport report = plan_plain(parts.plain_call());
    report.reason = parts.why() + report.reason;
    return report;
  }
  if (!call.scaling) return plan_plain(call);
  const ScaledCall scaled(call, context_.rank, context_.size, &elsewhere, wide_bytes());
  PlanReport report = plan_plain(scaled.plain_call());
  report.reason = scaled.why() + report.reason;
  return report;
}
}  // namespace symm::host
