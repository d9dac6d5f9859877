// Collectives across machines. Most of them are exchanges of pieces: what each rank sends to
// each is moved in rounds, and incoming pieces are put where they belong, or combined in the
// order of ranks as the host's algorithms do, so the results have the same bits. Large
// all-reduces, and all-reduces of many machines, have algorithms of their own (allreduce.cpp).
//
// A round. Every rank sends every other rank a message, an empty one if it has nothing
// for it, into the landing slot that it has there, and awaits one message from each.
// The first message of a call announces the call; a rank that awaits a message compares
// the announcement with its own call.
//
// Claim: no message overwrites another that is still needed.
//
// Definitions. A rank enters call k, and later finishes it. Scratch has two halves; call k
// uses half k mod 2. A rank has heard of an event if a message that was sent after the
// event has reached it, from the rank of the event or by way of others.
//   1. In every call all ranks wait for all: a rank that has finished call k has heard that all
//      ranks have entered call k.
//   2. A rank that has entered call k has finished call k-1.
//   3. A message of call k+1 is sent by a rank that has finished call k. By 1 and 2 all
//      ranks have finished call k-1 by then, so the half of call k+1, which was that of
//      call k-1, is free on all ranks.
// Within a call, slots have two places, which alternate from round to round; the same
// argument holds with rounds in place of calls.
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
// The announcement of a rank's call. It lies in the rank's own scratch, and in the scratch of
// every rank to which the rank has sent a message of the call.
struct alignas(host::kLine) MultinodeTransport::Announcement {
  uint64_t call;
  // The packed CallSignature.
  uint64_t signature;
  // The elements of the call, unless each rank has counts of its own.
  uint64_t count;
};

struct alignas(host::kLine) MultinodeTransport::Slot {
  // If each rank has counts of its own, the bytes of the sender's longest piece.
  uint64_t longest;
  // The bytes of the piece that this is a part of, or of each of its rows where it lies in rows.
  uint64_t piece;
  // The bytes of the part, which lies behind this head.
  uint64_t bytes;

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

// One exchange: a piece of `from` goes to each rank, and a piece of `to` comes from
// each. `from` and `to` are the call's send and recv; in the second half of an
// all-reduce in slices both are its recv.
struct MultinodeTransport::PieceExchange : Rows {
  PieceExchange(const void* source, void* target, int size)
      : from(static_cast<const std::byte*>(source)),
        to(static_cast<std::byte*>(target)),
        send(static_cast<size_t>(size)),
        recv(static_cast<size_t>(size)) {}

  const std::byte* from;
  std::byte* to;
  std::vector<Piece> send;
  std::vector<Piece> recv;
  // Whether incoming pieces are combined, and those of `from`, not of `to`, lie in rows.
  bool reduces = false;
  // The bytes that this rank has room for, which it tells the others in the first round of a
  // broadcast of bytes if it is not the root.
  std::optional<size_t> own_room;
  // The bytes of this rank's longest piece, or of any rank's if pieces are alike on all ranks.
  size_t longest = 0;

  // Bytes that tell how long a piece is that has `bytes` bytes: those of its rows, if it is sent
  // from rows.
  size_t length_of(size_t bytes) const { return reduces && row_bytes != 0 ? row_bytes : bytes; }

  // A part of the piece for `peer` in one stretch, which lies in `room` if the piece has rows.
  const std::byte* stretch(int peer, const host::Range& part, std::byte* room) const {
    const std::byte* const piece = from + send[static_cast<size_t>(peer)].at;
    if (!reduces || row_bytes == 0) return piece + part.begin;
    in_rows(*this, part.begin, part.size(), [&](size_t row, size_t done, size_t length) {
      host::copy(room + done, piece + row, length, false);
    });
    return room;
  }

  // Copies a part of the piece of `peer`, from byte `at` of the piece on.
  void keep(int peer, size_t at, const std::byte* part, size_t bytes) const {
    std::byte* const piece = to + recv[static_cast<size_t>(peer)].at;
    in_rows(*this, at, bytes, [&](size_t row, size_t done, size_t length) {
      host::copy(piece + row, part + done, length, false);
    });
  }
};

namespace {
bool is_in_slices(Algorithm algorithm) {
  return algorithm == Algorithm::two_shot || algorithm == Algorithm::two_shot_staged;
}
}  // namespace

// ---- scratch

size_t MultinodeTransport::step_area() const {
  return static_cast<size_t>(context_.size) * sizeof(Announcement);
}

size_t MultinodeTransport::slot_room() const {
  const size_t slots = 2 * static_cast<size_t>(context_.size);
  const size_t area = controls_.scratch_half() - step_area();
  return std::min(thresholds_.round, host::round_down(area / slots, host::kLine) - sizeof(Slot));
}

MultinodeTransport::Announcement& MultinodeTransport::announcement_of(
    const host::Control& owner, uint32_t call, int source) const {
  return reinterpret_cast<Announcement*>(owner.scratch(call))[source];
}

MultinodeTransport::Slot& MultinodeTransport::slot_of(
    const host::Control& owner, uint32_t call, uint32_t round, int source) const {
  const size_t index =
      (round & 1U) * static_cast<size_t>(context_.size) + static_cast<size_t>(source);
  const size_t at = step_area() + index * (slot_room() + sizeof(Slot));
  return *reinterpret_cast<Slot*>(owner.scratch(call) + at);
}

std::byte* MultinodeTransport::place_of(
    const host::Control& owner, int source, const engine::Head& head) const noexcept {
  const auto call = static_cast<uint32_t>(head.call);
  if (head.kind == kRound) {
    return head.bytes > slot_room() ? nullptr : slot_of(owner, call, head.channel, source).data();
  }
  const size_t half = controls_.scratch_half();
  const bool fits =
      head.offset >= step_area() && head.offset <= half && head.bytes <= half - head.offset;
  return fits ? owner.scratch(call) + head.offset : nullptr;
}

// ---- messages

// Shows `owner` that `source` has sent one more message.
void MultinodeTransport::note(
    const host::Control& owner, int source, const engine::Head& head) const noexcept {
  const auto call = static_cast<uint32_t>(head.call);
  Announcement& announcement = announcement_of(owner, call, source);
  if (announcement.call != head.call) announcement = {head.call, head.value, head.memory};
  if (head.kind == kRound) {
    Slot& slot = slot_of(owner, call, head.channel, source);
    slot.longest = head.memory;
    slot.piece = head.offset;
    slot.bytes = head.bytes;
  }

  Word& word = owner.pair(rounds_channel(), source);
  publish(word, word.load(std::memory_order_relaxed) + 1, owner.pair_waiter(), controls_.fencing());
}

// From here on queries are answered with this call.
void MultinodeTransport::enter(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  announcement_of(controls_.mine(), calls_, context_.rank) = {
      calls_, call.packed(), call.packed_count()};
  controls_.show_members(calls_, members_of(call));
  controls_.mine().pair(rounds_channel(), context_.rank).store(calls_, std::memory_order_release);
}

std::pair<uint64_t, uint64_t> MultinodeTransport::announced(uint32_t call, uint64_t member) const {
  const Announcement& mine = announcement_of(controls_.mine(), call, context_.rank);
  if (member == 0) return {mine.signature, mine.count};

  const host::MemberTable& table = controls_.mine().members(call);
  const bool is_merged = CallSignature::unpacked(mine.signature, mine.count).batch.merged != 0;
  if (!is_merged || member > table.count) return {};
  const host::Member& one = table.members[member - 1];
  return {one.signature, one.count};
}

void MultinodeTransport::pass_step(
    const CollectiveCall& call, int peer, size_t at, std::span<const std::byte> payload) {
  pass(call, peer, {.kind = kStep, .offset = at}, payload, nullptr);
}

// Sends a message of a call. With a deadline, `payload` is memory of the caller;
// without, it lies in this rank's scratch and stays there until it has arrived.
void MultinodeTransport::pass(const CollectiveCall& call, int peer, engine::Head head,
    std::span<const std::byte> payload, LazyDeadline* deadline) {
  head.value = call.packed();
  head.call = calls_;
  head.bytes = payload.size();
  if (head.kind == kStep) head.memory = call.packed_count();

  if (maps(peer)) {
    const host::Control& theirs = controls_[peer];
    if (!payload.empty()) {
      std::byte* const to = place_of(theirs, context_.rank, head);
      host::copy(to, payload.data(), payload.size(), false);
    }
    return note(theirs, context_.rank, head);
  }
  if (deadline == nullptr) {
    return endpoint_->dispatch(peer, head, payload, controls_.mine().segment());
  }
  send(peer, head, payload, *deadline, collective_name(call.collective));
}

// Waits for the next message of `peer`, and compares what it announces with this rank's call.
void MultinodeTransport::await(const CollectiveCall& call, int peer, LazyDeadline& deadline) {
  const host::Control& mine = controls_.mine();
  Word& word = mine.pair(rounds_channel(), peer);
  const uint32_t target = ++taken_[static_cast<size_t>(peer)];
  if (!reached(word, target)) {
    controls_.await(word, target, mine.pair_waiter()[0], peer, deadline,
        {collective_name(call.collective), host::lane::kCollective, &call});
  }

  const Announcement& theirs = announcement_of(mine, calls_, peer);
  const bool same_count = theirs.count == call.packed_count() || has_counts(call.collective);
  if (theirs.signature != call.packed() || !same_count) fail_mismatch(peer, deadline);
}

// Whether a rank has entered the current call. A rank of another machine is sent a query, and
// one more when it has answered the last.
bool MultinodeTransport::has_entered(int rank, std::optional<uint32_t>& query_sent) {
  if (maps(rank)) return reached(controls_[rank].pair(rounds_channel(), rank), calls_);
  const NotifyState& state = states_[static_cast<size_t>(rank)];
  if (!query_sent || reached(state.replies, *query_sent)) query_sent = query(rank);
  const std::lock_guard lock(mutex_);
  return state.last.call == calls_;
}

CallSignature MultinodeTransport::signature_of(uint64_t packed, uint64_t count) {
  const CallSignature call = CallSignature::unpacked(packed, 0);
  return CallSignature::unpacked(packed, has_counts(call.collective) ? 0 : count);
}

// Finds out which calls the other ranks make. `peer` has announced its call, and may
// be unable to answer.
void MultinodeTransport::fail_mismatch(int peer, LazyDeadline& deadline) {
  const Announcement announced_by_peer = announcement_of(controls_.mine(), calls_, peer);
  std::vector<std::optional<uint32_t>> queries(static_cast<size_t>(context_.size));
  const auto entered = [&](int rank) {
    return rank == peer || has_entered(rank, queries[static_cast<size_t>(rank)]);
  };

  const auto call_of = [&](int rank) {
    if (rank == peer) return signature_of(announced_by_peer.signature, announced_by_peer.count);
    if (maps(rank)) {
      const Announcement& theirs = announcement_of(controls_[rank], calls_, rank);
      return signature_of(theirs.signature, theirs.count);
    }
    const std::lock_guard lock(mutex_);
    const engine::Head& last = states_[static_cast<size_t>(rank)].last;
    return signature_of(last.value, last.memory);
  };
  controls_.fail_mismatch(
      calls_, entered, call_of, [&](int rank) { return members_made_by(rank); }, deadline.get());
}

// A rank of another machine is asked for one call after the other. It may be about to leave, and
// not answer.
std::vector<CallSignature> MultinodeTransport::members_made_by(int rank) {
  if (maps(rank)) return controls_.members_of(rank, calls_);

  std::vector<CallSignature> calls;
  for (uint32_t member = 1; member <= host::MemberTable::kMost; ++member) {
    const std::optional<engine::Head> reply = ask(rank, 0, 0, 0, member);
    if (!reply || reply->call != calls_) return {};
    if (reply->value == 0) break;
    calls.push_back(CallSignature::unpacked(reply->value, reply->memory));
  }
  return calls;
}

// ---- rounds

// Sends part `index` of every piece to its rank, the next rank first, so that not all send to
// one rank at a time. The head's `memory` and `offset` become the slot's `longest` and `piece`
// where the message arrives (note()). Parts that lie in rows are put together in this rank's own
// slot, to which nobody sends.
void MultinodeTransport::send_round(
    const CollectiveCall& call, const PieceExchange& pieces, size_t index, LazyDeadline& deadline) {
  ++round_;
  std::byte* const room = slot_of(controls_.mine(), calls_, round_, context_.rank).data();
  for (int step = 1; step < context_.size; ++step) {
    const int peer = static_cast<int>((int64_t{context_.rank} + step) % context_.size);
    const Piece& piece = pieces.send[static_cast<size_t>(peer)];
    const host::Range part = host::part_of({0, piece.bytes}, index, slot_room());
    const std::byte* const from = part.size() == 0 ? nullptr : pieces.stretch(peer, part, room);

    engine::Head head;
    head.kind = kRound;
    head.channel = round_ & 1U;
    head.memory = has_counts(call.collective) ? pieces.longest : call.packed_count();
    head.offset = index == 0 && pieces.own_room ? *pieces.own_room : pieces.length_of(piece.bytes);
    pass(call, peer, head, {from, part.size()}, &deadline);
  }
}

// Finds out by the first messages of a broadcast of bytes how many there are. False, on all ranks:
// one of them has too little room.
bool MultinodeTransport::find_bytes(const CollectiveCall& call, PieceExchange& pieces) {
  const auto root = static_cast<size_t>(call.root);
  BytesFound& found = call.pieces->found;
  found = {};
  for (int peer = 0; peer < context_.size; ++peer) {
    if (peer == call.root) {
      found.bytes = peer == context_.rank ? call.pieces->send_bytes
                                          : slot_of(controls_.mine(), calls_, round_, peer).piece;
    } else if (peer == context_.rank) {
      found.add_room(peer, *pieces.own_room);
    } else {
      // That rank sends nothing, and the slot is compared with what it sends.
      Slot& slot = slot_of(controls_.mine(), calls_, round_, peer);
      found.add_room(peer, std::exchange(slot.piece, 0));
    }
  }

  if (!found.fits()) return false;
  if (pieces.own_room) pieces.recv[root].bytes = found.bytes;
  return true;
}

// Takes round `index` out of the slots. Returns the bytes of the longest piece known by now, of
// which `longest` was known before.
size_t MultinodeTransport::receive_round(const CollectiveCall& call, const PieceExchange& pieces,
    size_t index, size_t longest, host::Sources& sources) {
  const auto me = static_cast<size_t>(context_.rank);
  for (int peer = 0; peer < context_.size; ++peer) {
    const size_t expected = pieces.recv[static_cast<size_t>(peer)].bytes;
    const host::Range part = host::part_of({0, expected}, index, slot_room());
    if (peer == context_.rank) {
      sources[peer] =
          pieces.stretch(peer, part, slot_of(controls_.mine(), calls_, round_, peer).data());
      continue;
    }

    Slot& slot = slot_of(controls_.mine(), calls_, round_, peer);
    const size_t length = pieces.length_of(expected);
    if (slot.piece != length || slot.bytes != part.size()) {
      // Calls with rows have equal counts here, or their signatures would differ: what differs is
      // the length of a row.
      controls_.fail_piece(call, peer, {slot.piece, length, has_rows(call.collective)});
    }
    if (has_counts(call.collective)) longest = std::max<size_t>(longest, slot.longest);
    sources[peer] = slot.data();
    if (!pieces.reduces && part.size() != 0) {
      pieces.keep(peer, part.begin, slot.data(), part.size());
    }
  }

  if (pieces.reduces) {
    const host::Range part = host::part_of({0, pieces.recv[me].bytes}, index, slot_room());
    std::byte* const to = pieces.to + pieces.recv[me].at + part.begin;
    combine(call, sources.data(), to, part.size());
  }
  return longest;
}

void MultinodeTransport::run(
    const CollectiveCall& call, PieceExchange& pieces, LazyDeadline& deadline) {
  const Piece& mine = pieces.send[static_cast<size_t>(context_.rank)];
  if (!pieces.reduces && mine.bytes != 0) {
    pieces.keep(context_.rank, 0, pieces.from + mine.at, mine.bytes);
  }

  size_t longest = pieces.longest;
  host::Sources sources(context_.size);
  for (size_t index = 0; index == 0 || index * slot_room() < longest; ++index) {
    send_round(call, pieces, index, deadline);
    for (int peer = 0; peer < context_.size; ++peer) {
      if (peer != context_.rank) await(call, peer, deadline);
    }
    const bool tells = index == 0 && call.collective == Collective::broadcast_bytes;
    if (tells && !find_bytes(call, pieces)) return;
    longest = receive_round(call, pieces, index, longest, sources);
  }
}

void MultinodeTransport::combine(const CollectiveCall& call, const std::byte* const* sources,
    std::byte* to, size_t bytes) const {
  const int operands = ranks_combined(call.collective, context_.rank, context_.size);
  host::Reduction reduction = host::reduction_of(call, sources, operands, context_.size, bytes);
  reduction.destinations = &to;
  reduction.destination_count = 1;
  host::reduce(reduction);
}

// ---- calls

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
  } catch (const std::bad_alloc&) {
    // The other ranks know that this one has entered the call, so the group fails.
    context_.fail(with_reserve([&] {
      return context_.blame(context_.rank, Status::out_of_memory,
          format(
              "rank %d: %s: out of host memory", context_.rank, collective_name(call.collective)));
    }));
    context_.revocation->throw_if_revoked();
  }
  return algorithm;
}

// The pieces of a call; with `slices`, those of the first half of an all-reduce, in
// which each rank gets a slice of all operands.
MultinodeTransport::PieceExchange MultinodeTransport::exchange_of(
    const CollectiveCall& call, bool slices) const {
  const CollectiveTraits collective = traits(call.collective);
  const int size = context_.size;
  const int rank = context_.rank;
  const size_t unit = call.unit();
  PieceExchange pieces(call.send, call.recv, size);
  pieces.reduces = collective.has_op;
  pieces.longest = slices ? host::slice(unit, 0, size).size() : unit;

  if (call.pieces != nullptr) {
    pieces.send = call.pieces->send;
    pieces.recv = call.pieces->recv;
    static_cast<Rows&>(pieces) = *call.pieces;
    if (call.collective == Collective::broadcast_bytes && rank != call.root) {
      pieces.own_room = call.pieces->recv_bytes;
    }
  }
  const host::Range mine = host::slice(unit, rank, size);
  for (int peer = 0; peer < size && call.pieces == nullptr; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (slices) {
      const host::Range theirs = host::slice(unit, peer, size);
      pieces.send[p] = {theirs.begin, theirs.size()};
      pieces.recv[p] = {mine.begin, mine.size()};
      continue;
    }
    if (collective.of_prefix) {
      if (peer >= rank) pieces.send[p] = {0, unit};
      if (peer <= rank) pieces.recv[p] = {0, unit};
      continue;
    }
    const bool sends =
        (!collective.from_root || rank == call.root) && (!collective.to_root || peer == call.root);
    const bool receives =
        (!collective.to_root || rank == call.root) && (!collective.from_root || peer == call.root);
    if (sends) pieces.send[p] = {collective.send_per_rank ? p * unit : 0, unit};
    if (receives) pieces.recv[p] = {collective.recv_per_rank ? p * unit : 0, unit};
  }
  for (int peer = 0; peer < size && has_counts(call.collective); ++peer) {
    if (peer == rank) continue;
    pieces.longest = std::max(pieces.longest, pieces.send[static_cast<size_t>(peer)].bytes);
  }
  return pieces;
}

void MultinodeTransport::exchange(const CollectiveCall& call, bool slices, LazyDeadline& deadline) {
  PieceExchange pieces = exchange_of(call, slices);
  run(call, pieces, deadline);
  if (!slices) return;

  // The second half: results go back the way that the operands came.
  std::swap(pieces.send, pieces.recv);
  pieces.from = pieces.to;
  pieces.reduces = false;
  run(call, pieces, deadline);
}

// ---- the choice of an algorithm

// For small operands one more step on the way costs more than sending all of them to all ranks.
Algorithm MultinodeTransport::algorithm_of(const CallSignature& call) const {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;

  const bool to_all = call.collective == Collective::allreduce;
  const bool reduces = to_all || call.collective == Collective::reduce;
  const bool by_machines = call.order == Order::tree || call.order == Order::any ||
                           !depends_on_order(call.dtype, call.op);
  const bool is_large = local_size_ > 1 && call.unit() > thresholds_.slices;
  if (is_large && reduces && why_no_chain(call.dtype, call.order).empty()) return Algorithm::chain;
  if (!to_all || call.unit() <= thresholds_.gather) return Algorithm::one_shot;
  if (by_machines && local_size_ > 1 && !is_large &&
      why_not_hierarchical(call.dtype, call.order).empty()) {
    return Algorithm::hierarchical;
  }
  const bool by_bruck = context_.machines.count > thresholds_.direct && why_no_bruck().empty();
  return by_bruck ? Algorithm::bruck : Algorithm::two_shot;
}

// Large scaled calls go by the chain, too, in as few messages as are worthwhile.
size_t MultinodeTransport::wide_bytes() const {
  const size_t local = HostTransport::wide_bytes();
  const bool by_chain = local_size_ > 1 && why_no_chain(DType::f32, Order::ranks).empty();
  if (!by_chain) return local;
  return std::max(local, 4 * std::min(thresholds_.slices, size_t{8} << 20));
}

std::string MultinodeTransport::why_no_bruck() const {
  return bruck_block() == 0 ? "needs more scratch" : "";
}

std::string MultinodeTransport::why_impossible(const CollectiveCall& call) const {
  std::string why;
  bool possible = call.collective == Collective::allreduce;
  switch (call.algorithm) {
    case Algorithm::chain:
      possible = possible || call.collective == Collective::reduce;
      why = why_no_chain(call.dtype, call.order);
      break;
    case Algorithm::hierarchical: why = why_not_hierarchical(call.dtype, call.order); break;
    case Algorithm::bruck: why = why_no_bruck(); break;
    case Algorithm::hybrid_cube_mesh: why = "is of groups on one machine"; break;
    default: return host::refuse({call, facts_}, true);
  }

  if (!possible) why = text("does allreduce, not ", collective_name(call.collective));
  return why.empty() ? "" : text("algorithm ", algorithm_name(call.algorithm), " ", why);
}

PlanReport MultinodeTransport::plan_plain(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) require_possible(call);
  PlanReport report;
  report.algorithm = algorithm_of(call);
  report.slices =
      is_in_slices(report.algorithm) || report.algorithm == Algorithm::bruck ? context_.size : 1;
  const size_t share = call.unit() / static_cast<size_t>(report.slices);

  size_t most = slot_room();
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
    how = text("ranks of each machine combine what they have, then machines do, ",
        call.order == Order::tree ? "in tree order" : "in an order of its own");
  } else if (report.algorithm == Algorithm::bruck) {
    most = bruck_block();
    how = text("more than ", thresholds_.direct,
        " machines: each rank combines a slice, which come and go in rounds");
  } else if (call.algorithm == Algorithm::automatic && call.collective == Collective::allreduce &&
             !in_line_ && call.unit() > thresholds_.slices) {
    how += text("; a chain ", why_no_chain(call.dtype, call.order));
  }

  report.chunk_bytes = share > most ? most : 0;
  const char* forced = call.algorithm != Algorithm::automatic ? "forced: " : "";
  report.reason = text(forced, context_.machines.count, " machines over ", engine_, ": ", how);
  return report;
}
}  // namespace symm::multinode
