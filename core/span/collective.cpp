// Collectives across machines. All are exchanges of pieces: what each rank sends to each is moved in rounds, and what comes is
// put where it belongs, or combined in the order of ranks as the host's algorithms do, so the bits are theirs.
//
// A round. Every rank sends every other a message, of nothing where it has nothing for it, into the landing slot that it has
// there, and awaits one from each. The first of a call says what call it is.
//
// Why no message overwrites another. Slots have two halves, which alternate.
//   1. A rank sends round r+1 when it has had round r of all others.
//   2. Who has sent round r has done with what came in round r-1.
//   3. So when round r+1 is sent, its half, that of round r-1, is free everywhere.
#include <cstring>
#include "core/span/transport.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/pointers.hpp"

namespace symm::span {
struct alignas(host::kLine) SpanTransport::Slot {
  uint64_t signature;  // of the call, packed
  uint64_t count;      // the call's; where each rank has its own, bytes of the longest piece of the rank that sends this
  uint64_t piece;      // bytes of the piece that this is part of
  uint64_t bytes;      // behind this
  void say(const engine::Head& head, size_t payload) noexcept {
    signature = head.value;
    count = head.memory;
    piece = head.offset;
    bytes = payload;
  }
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

// One exchange: pieces of `from` for each rank, and of `to` from each.
struct SpanTransport::Leg {
  Leg(const void* source, void* target, int size)
      : from(static_cast<const std::byte*>(source)), to(static_cast<std::byte*>(target)), send(static_cast<size_t>(size)),
        recv(static_cast<size_t>(size)) {}
  const std::byte* from;
  std::byte* to;
  std::vector<Piece> send, recv;
  bool reduces = false;  // what comes becomes one sum
  size_t longest = 0;    // piece of this rank, or where they are alike, of all
  size_t row_bytes = 0;
  size_t row_stride = 0;

  void keep(int peer, size_t at, const std::byte* what, size_t bytes) const {
    std::byte* const piece = to + recv[static_cast<size_t>(peer)].at;
    if (row_bytes == 0) return host::copy(piece + at, what, bytes, false);
    for (size_t part = 0; bytes != 0; at += part, what += part, bytes -= part) {
      part = std::min(bytes, row_bytes - at % row_bytes);
      host::copy(piece + at / row_bytes * row_stride + at % row_bytes, what, part, false);
    }
  }
};

namespace {
host::Range part_of(const Piece& piece, size_t index, size_t room) {
  return {std::min(piece.bytes, index * room), std::min(piece.bytes, (index + 1) * room)};
}

Algorithm algorithm_of(const CallSignature& call, bool slices) {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;
  return slices ? Algorithm::two_shot : Algorithm::one_shot;
}
}  // namespace

size_t SpanTransport::room() const {
  return host::round_down(controls_.scratch_half() / static_cast<size_t>(context_.size), host::kLine) - sizeof(Slot);
}

SpanTransport::Slot* SpanTransport::slot_of(const host::Control& owner, uint32_t round, int source) const {
  return reinterpret_cast<Slot*>(owner.scratch(round) + static_cast<size_t>(source) * (room() + sizeof(Slot)));
}

void SpanTransport::note_round(const host::Control& owner, int source, uint32_t round) const {
  publish(owner.pair(rounds_channel(), source), round, owner.pair_waiter(), controls_.fencing());
}

// ---- what comes from other machines

std::byte* SpanTransport::place_of_round(int from, const engine::Head& head) noexcept {
  const uint32_t ahead = static_cast<uint32_t>(head.call) - controls_.mine().pair(rounds_channel(), from).load();
  if (ahead - 1 > 1 || head.bytes > room()) return nullptr;
  return slot_of(controls_.mine(), static_cast<uint32_t>(head.call), from)->data();
}

void SpanTransport::arrived_of_round(int from, const engine::Head& head) noexcept {
  const auto round = static_cast<uint32_t>(head.call);
  if (place_of_round(from, head) == nullptr) return;
  slot_of(controls_.mine(), round, from)->say(head, head.bytes);
  note_round(controls_.mine(), from, round);
}

// ---- a round

void SpanTransport::send_round(const CollectiveCall& call, const Leg& leg, size_t index, LazyDeadline& deadline) {
  ++round_;
  for (int step = 1; step < context_.size; ++step) {
    const int peer = static_cast<int>((int64_t{context_.rank} + step) % context_.size);
    const Piece& piece = leg.send[static_cast<size_t>(peer)];
    const host::Range part = part_of(piece, index, room());
    engine::Head head;
    head.kind = kRound;
    head.value = call.packed();
    head.memory = has_counts(call.collective) ? leg.longest : call.count;
    head.offset = piece.bytes;
    head.call = round_;
    const std::byte* const from = part.size() == 0 ? nullptr : leg.from + piece.at + part.begin;
    if (!maps(peer)) {
      const uint64_t left_ms =
          deadline.timeout_ms() == Deadline::kInfinite ? Deadline::kInfinite : deadline.get().remaining_ns() / 1'000'000 + 1;
      send(peer, head, {from, part.size()}, left_ms, name_of(call.collective));
      continue;
    }
    Slot& slot = *slot_of(controls_[peer], round_, context_.rank);
    slot.say(head, part.size());
    if (part.size() != 0) host::copy(slot.data(), from, part.size(), false);
    note_round(controls_[peer], context_.rank, round_);
  }
}

void SpanTransport::await_round(const CollectiveCall& call, LazyDeadline& deadline) {
  const host::Control& mine = controls_.mine();
  const auto word = [&](int peer) -> Word& { return mine.pair(rounds_channel(), peer); };
  const bool counts = has_counts(call.collective);
  for (int peer = 0; peer < context_.size; ++peer) {
    if (peer == context_.rank) continue;
    if (!reached(word(peer), round_))
      controls_.await(word(peer), round_, mine.pair_waiter()[0], peer, deadline, name_of(call.collective));
    const Slot& slot = *slot_of(mine, round_, peer);
    if (slot.signature == call.packed() && (counts || slot.count == call.count)) continue;
    controls_.fail_mismatch(
        calls_, [&](int rank) { return rank == context_.rank || reached(word(rank), round_); },
        [&](int rank) {
          if (rank == context_.rank) return CallSignature::unpacked(call.packed(), call.count);
          const Slot& its = *slot_of(mine, round_, rank);
          const CallSignature said = CallSignature::unpacked(its.signature, 0);
          return CallSignature::unpacked(its.signature, has_counts(said.collective) ? 0 : its.count);
        },
        deadline.get());
  }
}

void SpanTransport::run(const CollectiveCall& call, const Leg& leg, LazyDeadline& deadline) {
  const auto size = static_cast<size_t>(context_.size);
  const auto me = static_cast<size_t>(context_.rank);
  const Piece& mine = leg.send[me];
  if (!leg.reduces && mine.bytes != 0) leg.keep(context_.rank, 0, leg.from + mine.at, mine.bytes);
  size_t longest = leg.longest;
  std::vector<const std::byte*> sources(size);
  for (size_t index = 0; index == 0 || index * room() < longest; ++index) {
    send_round(call, leg, index, deadline);
    await_round(call, deadline);
    for (size_t peer = 0; peer < size; ++peer) {
      const host::Range part = part_of(leg.recv[peer], index, room());
      sources[peer] = leg.from + mine.at + part.begin;
      if (peer == me) continue;
      Slot& slot = *slot_of(controls_.mine(), round_, static_cast<int>(peer));
      if (slot.piece != leg.recv[peer].bytes || slot.bytes != part.size())
        controls_.fail_piece(call, static_cast<int>(peer), slot.piece, leg.recv[peer].bytes);
      if (has_counts(call.collective)) longest = std::max<size_t>(longest, slot.count);
      sources[peer] = slot.data();
      if (!leg.reduces && part.size() != 0) leg.keep(static_cast<int>(peer), part.begin, slot.data(), part.size());
    }
    const host::Range part = part_of(leg.recv[me], index, room());
    if (!leg.reduces || part.size() == 0) continue;
    std::byte* const to = leg.to + leg.recv[me].at + part.begin;
    host::Reduction reduction;
    reduction.dtype = call.dtype;
    reduction.op = call.op;
    reduction.count = part.size() / size_of(call.dtype);
    reduction.sources = sources.data();
    reduction.source_count = reduction.ranks = context_.size;
    reduction.destinations = &to;
    reduction.destination_count = 1;
    host::reduce(reduction);
  }
}

// ---- a call

// Where the operands are so small that one way more costs more than sending all of them to all.
bool SpanTransport::in_slices(const CallSignature& call) const {
  constexpr size_t kGathered = size_t{64} << 10;  // of all ranks
  if (call.collective != Collective::allreduce) return false;
  if (call.algorithm != Algorithm::automatic)
    return call.algorithm == Algorithm::two_shot || call.algorithm == Algorithm::two_shot_staged;
  return call.unit() > kGathered / static_cast<size_t>(context_.size);
}

void SpanTransport::plain_collective(const CollectiveCall& call) {
  context_.revocation->throw_if_revoked();
  ++calls_;
  LazyDeadline deadline(call.timeout_ms);
  const CollectiveTraits its = traits(call.collective);
  const int size = context_.size;
  const int rank = context_.rank;
  const bool slices = in_slices(call);
  prepared_.plan.algorithm = algorithm_of(call, slices);
  const size_t unit = call.unit();
  Leg leg(call.send, call.recv, size);
  leg.reduces = its.has_op;
  if (call.pieces != nullptr) {
    leg.send = call.pieces->send;
    leg.recv = call.pieces->recv;
    leg.row_bytes = call.pieces->row_bytes;
    leg.row_stride = call.pieces->row_stride;
  }
  for (int peer = 0; peer < size && call.pieces == nullptr; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if ((!its.from_root || rank == call.root) && (!its.to_root || peer == call.root))
      leg.send[p] = {its.send_per_rank ? p * unit : 0, unit};
    if ((!its.to_root || rank == call.root) && (!its.from_root || peer == call.root))
      leg.recv[p] = {its.recv_per_rank ? p * unit : 0, unit};
    if (!slices) continue;
    const host::Range theirs = host::slice(unit, peer, size);
    const host::Range mine = host::slice(unit, rank, size);
    leg.send[p] = {theirs.begin, theirs.size()};
    leg.recv[p] = {mine.begin, mine.size()};
  }
  leg.longest = slices ? host::slice(unit, 0, size).size() : unit;
  for (int peer = 0; peer < size && has_counts(call.collective); ++peer)
    leg.longest = std::max(leg.longest, peer == rank ? 0 : leg.send[static_cast<size_t>(peer)].bytes);
  run(call, leg, deadline);
  if (slices) {
    std::swap(leg.send, leg.recv);
    leg.from = leg.to;
    leg.reduces = false;
    run(call, leg, deadline);
  }
  if (!call.scaling)
    stats_.add_collective(static_cast<size_t>(call.collective), call.bytes(), static_cast<size_t>(prepared_.plan.algorithm));
}

std::string SpanTransport::why_impossible(const CollectiveCall& call) const {
  if (call.algorithm == Algorithm::hybrid_cube_mesh)
    return text("algorithm hybrid_cube_mesh is of one machine, and this group is on ", context_.machines.count);
  return host::refuse({call, facts_}, true);
}

PlanReport SpanTransport::plan_plain(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) require_possible(call);
  const bool slices = in_slices(call);
  PlanReport report;
  report.algorithm = algorithm_of(call, slices);
  report.slices = slices ? context_.size : 1;
  report.chunk_bytes = call.unit() / static_cast<size_t>(report.slices) > room() ? room() : 0;
  report.reason =
      text(call.algorithm != Algorithm::automatic ? "forced: " : "", context_.machines.count, " machines over ", engine_, ": ",
          slices ? "each rank combines a slice of all operands and sends it to all"
                 : "every rank sends the others what they need, and combines what it gets");
  return report;
}
}  // namespace symm::span
