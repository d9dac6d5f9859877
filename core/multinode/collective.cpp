// Collectives across machines. Most are exchanges of pieces: what
// each rank sends to each is moved in rounds, and what comes is put
// where it belongs, or combined in the order of ranks as the host's
// algorithms do, so the bits are theirs. Large all-reduces, and those
// of many machines, have algorithms of their own (allreduce.cpp).
//
// A round. Every rank sends every other a message, of nothing where it has nothing for
// it, into the landing slot that it has there, and awaits one from each. With the first
// message of a call it says what call it is; whoever awaits a message compares.
//
// Why no message overwrites another. Scratch has two halves, which alternate from call to call.
//   1. In every call all wait for all: who has finished call k has heard, if by way of
//      others, that all have entered it.
//   2. Who has entered call k has finished call k-1.
//   3. So when a message of call k+1 is sent, its half, that of call k-1, is free everywhere.
// Within a call, slots have two places, which alternate
// from round to round, and the same holds of rounds.
#include "kernels/collective.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/host/control.hpp"
#include "core/host/transport.hpp"
#include "core/multinode/messages.hpp"
#include "core/multinode/transport.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
// What call a rank makes: in its own scratch, and in
// that of those to whom it has sent something of it.
struct alignas(host::kLine) MultinodeTransport::Announcement {
  uint64_t call;
  uint64_t signature;  // packed
  uint64_t count;      // unless each rank has its own
};

struct alignas(host::kLine) MultinodeTransport::Slot {
  // where each rank has counts of its own, bytes of
  // the longest piece of the rank that sends this
  uint64_t longest;
  uint64_t piece;  // bytes of the piece that this is part of
  uint64_t bytes;  // behind this

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

// One exchange: pieces of `from` for each rank, and of `to` from each.
struct MultinodeTransport::ChainHop : Rows {
  ChainHop(const void* source, void* target, int size)
      : from(static_cast<const std::byte*>(source)),
        to(static_cast<std::byte*>(target)),
        send(static_cast<size_t>(size)),
        recv(static_cast<size_t>(size)) {}

  const std::byte* from;
  std::byte* to;
  std::vector<Piece> send, recv;
  bool reduces = false;  // what comes becomes one sum
  size_t longest = 0;    // piece of this rank, or where they are alike, of all

  void keep(int peer, size_t at, const std::byte* what, size_t bytes) const {
    std::byte* const piece = to + recv[static_cast<size_t>(peer)].at;
    in_rows(*this, at, bytes, [&](size_t row, size_t done, size_t part) {
      host::copy(piece + row, what + done, part, false);
    });
  }
};

namespace {
bool is_in_slices(Algorithm algorithm) {
  return algorithm == Algorithm::two_shot || algorithm == Algorithm::two_shot_staged;
}
}  // namespace

size_t MultinodeTransport::step_area() const {
  return static_cast<size_t>(context_.size) * sizeof(Announcement);
}

size_t MultinodeTransport::room() const {
  const size_t slots = 2 * static_cast<size_t>(context_.size);
  return std::min(thresholds_.round,
      host::round_down((controls_.scratch_half() - step_area()) / slots, host::kLine) -
          sizeof(Slot));
}

MultinodeTransport::Announcement& MultinodeTransport::announcement_of(
    const host::Control& owner, uint32_t call, int source) const {
  return reinterpret_cast<Announcement*>(owner.scratch(call))[source];
}

MultinodeTransport::Slot& MultinodeTransport::slot_of(
    const host::Control& owner, uint32_t call, uint32_t round, int source) const {
  const size_t index =
      (round & 1U) * static_cast<size_t>(context_.size) + static_cast<size_t>(source);
  return *reinterpret_cast<Slot*>(
      owner.scratch(call) + step_area() + index * (room() + sizeof(Slot)));
}

// ---- messages

std::byte* MultinodeTransport::place_of(
    const host::Control& owner, int source, const engine::Head& head) const noexcept {
  const auto call = static_cast<uint32_t>(head.call);
  if (head.kind == kRound) {
    return head.bytes > room() ? nullptr : slot_of(owner, call, head.channel, source).data();
  }
  const size_t half = controls_.scratch_half();
  const bool fits =
      head.offset >= step_area() && head.offset <= half && head.bytes <= half - head.offset;
  return fits ? owner.scratch(call) + head.offset : nullptr;
}

// `owner` sees that `source` has sent it one more message.
void MultinodeTransport::note(
    const host::Control& owner, int source, const engine::Head& head) const noexcept {
  const auto call = static_cast<uint32_t>(head.call);
  if (Announcement& said = announcement_of(owner, call, source); said.call != head.call) {
    said = {head.call, head.value, head.memory};
  }
  if (head.kind == kRound) {
    Slot& slot = slot_of(owner, call, head.channel, source);
    slot.longest = head.memory, slot.piece = head.offset, slot.bytes = head.bytes;
  }
  Word& word = owner.pair(rounds_channel(), source);
  publish(word, word.load(std::memory_order_relaxed) + 1, owner.pair_waiter(), controls_.fencing());
}

// Others may ask what this rank makes.
void MultinodeTransport::enter(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  announcement_of(controls_.mine(), ++calls_, context_.rank) = {calls_, call.packed(), call.count};
  controls_.mine().pair(rounds_channel(), context_.rank).store(calls_, std::memory_order_release);
}

std::pair<uint64_t, uint64_t> MultinodeTransport::said_by_me(uint32_t call) const {
  const Announcement& said = announcement_of(controls_.mine(), call, context_.rank);
  return {said.signature, said.count};
}

void MultinodeTransport::pass_step(
    const CollectiveCall& call, int peer, size_t at, std::span<const std::byte> payload) {
  pass(call, peer, {.kind = kStep, .offset = at}, payload, nullptr);
}

// With a deadline, `payload` is the caller's; without, it lies in this rank's scratch
// and stays there until it has arrived.
void MultinodeTransport::pass(const CollectiveCall& call, int peer, engine::Head head,
    std::span<const std::byte> payload, LazyDeadline* deadline) {
  head.value = call.packed();
  head.call = calls_;
  head.bytes = payload.size();
  if (head.kind == kStep) head.memory = call.count;
  if (maps(peer)) {
    if (!payload.empty()) {
      host::copy(
          place_of(controls_[peer], context_.rank, head), payload.data(), payload.size(), false);
    }
    return note(controls_[peer], context_.rank, head);
  }
  if (deadline == nullptr)
    return endpoint_->dispatch(peer, head, payload, controls_.mine().segment());
  send(peer, head, payload, *deadline, name_of(call.collective));
}

// The next message of `peer`.
void MultinodeTransport::await(const CollectiveCall& call, int peer, LazyDeadline& deadline) {
  const host::Control& mine = controls_.mine();
  Word& word = mine.pair(rounds_channel(), peer);
  const uint32_t target = ++taken_[static_cast<size_t>(peer)];
  if (!reached(word, target)) {
    controls_.await(word, target, mine.pair_waiter()[0], peer, deadline, name_of(call.collective));
  }
  const Announcement& said = announcement_of(mine, calls_, peer);
  if (said.signature != call.packed() ||
      (said.count != call.count && !has_counts(call.collective))) {
    fail_mismatch(peer, deadline);
  }
}

// The others are asked what they make; `peer` has said so, and may be unable to answer.
void MultinodeTransport::fail_mismatch(int peer, LazyDeadline& deadline) {
  const Announcement heard = announcement_of(controls_.mine(), calls_, peer);
  const auto of = [](uint64_t signature, uint64_t count) {
    const CallSignature said = CallSignature::unpacked(signature, 0);
    return CallSignature::unpacked(signature, has_counts(said.collective) ? 0 : count);
  };
  std::vector<std::optional<uint32_t>> asked(static_cast<size_t>(context_.size));
  const auto has_entered = [&](int rank) {
    if (rank == peer) return true;
    if (maps(rank)) return reached(controls_[rank].pair(rounds_channel(), rank), calls_);
    const NotifyState& told = told_[static_cast<size_t>(rank)];
    std::optional<uint32_t>& answer = asked[static_cast<size_t>(rank)];
    if (!answer || reached(told.times, *answer)) answer = ask(rank);
    const std::lock_guard lock(mutex_);
    return told.last.call == calls_;
  };
  controls_.fail_mismatch(
      calls_, has_entered,
      [&](int rank) {
        if (rank == peer) return of(heard.signature, heard.count);
        if (maps(rank)) {
          const Announcement& said = announcement_of(controls_[rank], calls_, rank);
          return of(said.signature, said.count);
        }
        const std::lock_guard lock(mutex_);
        const engine::Head& last = told_[static_cast<size_t>(rank)].last;
        return of(last.value, last.memory);
      },
      deadline.get());
}

// ---- a round

void MultinodeTransport::send_round(
    const CollectiveCall& call, const ChainHop& hop, size_t index, LazyDeadline& deadline) {
  ++round_;
  for (int step = 1; step < context_.size; ++step) {
    const int peer = static_cast<int>((int64_t{context_.rank} + step) % context_.size);
    const Piece& piece = hop.send[static_cast<size_t>(peer)];
    const host::Range part = host::part_of({0, piece.bytes}, index, room());
    engine::Head head;
    head.kind = kRound;
    head.channel = round_ & 1U;
    head.memory = has_counts(call.collective) ? hop.longest : call.count;
    head.offset = piece.bytes;
    const std::byte* const from = part.size() == 0 ? nullptr : hop.from + piece.at + part.begin;
    pass(call, peer, head, {from, part.size()}, &deadline);
  }
}

void MultinodeTransport::run(
    const CollectiveCall& call, const ChainHop& hop, LazyDeadline& deadline) {
  const auto size = static_cast<size_t>(context_.size);
  const auto me = static_cast<size_t>(context_.rank);
  const Piece& mine = hop.send[me];
  if (!hop.reduces && mine.bytes != 0) hop.keep(context_.rank, 0, hop.from + mine.at, mine.bytes);
  size_t longest = hop.longest;
  host::Sources sources(context_.size);
  for (size_t index = 0; index == 0 || index * room() < longest; ++index) {
    send_round(call, hop, index, deadline);
    for (int peer = 0; peer < context_.size; ++peer) {
      if (peer != context_.rank) await(call, peer, deadline);
    }
    for (size_t peer = 0; peer < size; ++peer) {
      const host::Range part = host::part_of({0, hop.recv[peer].bytes}, index, room());
      sources.data()[peer] = hop.from + mine.at + part.begin;
      if (peer == me) continue;
      Slot& slot = slot_of(controls_.mine(), calls_, round_, static_cast<int>(peer));
      if (slot.piece != hop.recv[peer].bytes || slot.bytes != part.size()) {
        controls_.fail_piece(call, static_cast<int>(peer), slot.piece, hop.recv[peer].bytes);
      }
      if (has_counts(call.collective)) longest = std::max<size_t>(longest, slot.longest);
      sources.data()[peer] = slot.data();
      if (!hop.reduces && part.size() != 0) {
        hop.keep(static_cast<int>(peer), part.begin, slot.data(), part.size());
      }
    }
    const host::Range part = host::part_of({0, hop.recv[me].bytes}, index, room());
    if (hop.reduces) {
      combine(call, sources.data(), hop.to + hop.recv[me].at + part.begin, part.size());
    }
  }
}

void MultinodeTransport::combine(const CollectiveCall& call, const std::byte* const* sources,
    std::byte* to, size_t bytes) const {
  host::Reduction reduction =
      host::reduction_of(call, sources, context_.size, context_.size, bytes);
  reduction.destinations = &to;
  reduction.destination_count = 1;
  host::reduce(reduction);
}

// ---- a call

Algorithm MultinodeTransport::plain_collective(const CollectiveCall& call) {
  context_.revocation->throw_if_revoked();
  enter(call);
  LazyDeadline deadline(call.timeout_ms);
  const Algorithm algorithm = algorithm_of(call);
  stats_.begin(GroupStats::call_shown(call.collective, call.bytes(), algorithm));
  try {
    if (algorithm == Algorithm::chain && call.count != 0) {
      allreduce_chain(call, deadline);
    } else if (algorithm == Algorithm::hierarchical && call.count != 0) {
      allreduce_hierarchical(call, deadline);
    } else if (algorithm == Algorithm::bruck) {
      allreduce_bruck(call, deadline);
    } else {
      exchange(call, is_in_slices(algorithm) && call.collective == Collective::allreduce, deadline);
    }
  } catch (const std::bad_alloc&) {  // the others know that it has entered
    context_.fail(with_reserve([&] {
      return context_.blame(context_.rank, Status::out_of_memory,
          format("rank %d: %s: out of host memory", context_.rank, name_of(call.collective)));
    }));
    context_.revocation->throw_if_revoked();
  }
  return algorithm;
}

void MultinodeTransport::exchange(const CollectiveCall& call, bool slices, LazyDeadline& deadline) {
  const CollectiveTraits its = traits(call.collective);
  const int size = context_.size;
  const int rank = context_.rank;
  const size_t unit = call.unit();
  ChainHop hop(call.send, call.recv, size);
  hop.reduces = its.has_op;
  if (call.pieces != nullptr) {
    hop.send = call.pieces->send;
    hop.recv = call.pieces->recv;
    static_cast<Rows&>(hop) = *call.pieces;
  }
  for (int peer = 0; peer < size && call.pieces == nullptr; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if ((!its.from_root || rank == call.root) && (!its.to_root || peer == call.root)) {
      hop.send[p] = {its.send_per_rank ? p * unit : 0, unit};
    }
    if ((!its.to_root || rank == call.root) && (!its.from_root || peer == call.root)) {
      hop.recv[p] = {its.recv_per_rank ? p * unit : 0, unit};
    }
    if (!slices) continue;
    const host::Range theirs = host::slice(unit, peer, size);
    const host::Range mine = host::slice(unit, rank, size);
    hop.send[p] = {theirs.begin, theirs.size()};
    hop.recv[p] = {mine.begin, mine.size()};
  }
  hop.longest = slices ? host::slice(unit, 0, size).size() : unit;
  for (int peer = 0; peer < size && has_counts(call.collective); ++peer) {
    hop.longest =
        std::max(hop.longest, peer == rank ? 0 : hop.send[static_cast<size_t>(peer)].bytes);
  }
  run(call, hop, deadline);
  if (!slices) return;
  std::swap(hop.send, hop.recv);
  hop.from = hop.to;
  hop.reduces = false;
  run(call, hop, deadline);
}

// ---- which way

// Where the operands are so small that one way more
// costs more than sending all of them to all, they are.
Algorithm MultinodeTransport::algorithm_of(const CallSignature& call) const {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;
  const bool to_all = call.collective == Collective::allreduce;
  const bool in_any_order =
      context_.any_order || !is_float(call.dtype) || call.op == Op::min || call.op == Op::max;
  const bool is_large = local_size_ > 1 && call.unit() > thresholds_.slices;
  if (is_large && (to_all || call.collective == Collective::reduce) &&
      why_no_chain(call.dtype).empty()) {
    return Algorithm::chain;
  }
  if (!to_all || call.unit() <= thresholds_.gather) return Algorithm::one_shot;
  if (in_any_order && local_size_ > 1 && !is_large && why_not_hierarchical(call.dtype).empty()) {
    return Algorithm::hierarchical;
  }
  return context_.machines.count > thresholds_.direct && bruck_block() != 0 ? Algorithm::bruck
                                                                            : Algorithm::two_shot;
}

// Large scaled calls go by the chain, too, in as few messages as pays.
size_t MultinodeTransport::wide_bytes() const {
  const bool by_chain = local_size_ > 1 && why_no_chain(DType::f32).empty();
  return std::max(HostTransport::wide_bytes(),
      by_chain ? 4 * std::min(thresholds_.slices, size_t{8} << 20) : 0);
}

std::string MultinodeTransport::why_impossible(const CollectiveCall& call) const {
  const bool is_chain = call.algorithm == Algorithm::chain;
  if (is_chain || call.algorithm == Algorithm::bruck || call.algorithm == Algorithm::hierarchical) {
    std::string why = is_chain                                    ? why_no_chain(call.dtype)
                      : call.algorithm == Algorithm::hierarchical ? why_not_hierarchical(call.dtype)
                      : bruck_block() == 0                        ? "needs more scratch"
                                                                  : "";
    if (call.collective != Collective::allreduce &&
        !(is_chain && call.collective == Collective::reduce)) {
      why = text("does allreduce, not ", name_of(call.collective));
    }
    return why.empty() ? "" : text("algorithm ", name_of(call.algorithm), " ", why);
  }
  return host::refuse({call, facts_}, true);
}

PlanReport MultinodeTransport::plan_plain(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) require_possible(call);
  PlanReport report;
  report.algorithm = algorithm_of(call);
  report.slices =
      is_in_slices(report.algorithm) || report.algorithm == Algorithm::bruck ? context_.size : 1;
  const size_t share = call.unit() / static_cast<size_t>(report.slices);
  size_t most = room();
  std::string how = is_in_slices(report.algorithm)
                        ? "each rank combines a slice of all operands and sends it to all"
                        : "every rank sends the others what they need, and combines what it gets";
  if (report.algorithm == Algorithm::chain) {
    report.slices = local_size_;
    most = chain_chunk(call);
    how = "sums go from machine to machine, unrounded, and results come back";
  } else if (report.algorithm == Algorithm::hierarchical) {
    report.slices = local_size_;
    most = hierarchical_chunk(call.dtype, call.unit());
    how = "ranks of each machine combine what they have, then machines do, in an order of its own";
  } else if (report.algorithm == Algorithm::bruck) {
    most = bruck_block();
    how = text("more than ", thresholds_.direct,
        " machines: each rank combines a slice, which come and go in rounds");
  } else if (call.algorithm == Algorithm::automatic && call.collective == Collective::allreduce &&
             !in_line_ && call.unit() > thresholds_.slices) {
    how += text("; a chain ", why_no_chain(call.dtype));
  }
  report.chunk_bytes = share > most ? most : 0;
  report.reason = text(call.algorithm != Algorithm::automatic ? "forced: " : "",
      context_.machines.count, " machines over ", engine_, ": ", how);
  return report;
}
}  // namespace symm::multinode
