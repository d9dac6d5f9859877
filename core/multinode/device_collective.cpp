// Collectives of devices on several machines. NCCL moves what is only moved, since it knows the
// paths between machines and within them. Sums in rank order go one of three ways, and those in
// tree order one of the first two:
// - one shot: all ranks' operands come to every rank, which combines them. For few
//   bytes, and for what the other ways leave over;
// - two shots: each rank gets a slice of every rank's operand and combines the slices; then the
//   results go to the ranks that want them;
// - chain, if machines have several ranks: each rank combines a slice of its machine's
//   operands, where they lie, on top of the sums, not rounded yet, that come from the
//   machine before, and sends the sums on. From the last machine the results come back.
//
// If the order does not matter, NCCL reduces what it can reduce. For all else, each
// rank combines slices of its machine's operands, where they lie, and ranks with the
// same place on their machines exchange the sums.
//
// Everything that is staged lies in this rank's own stages, which one call uses at a
// time (IssueTurn). The NCCL calls of one call follow each other on one stream, so a
// slot is written when what it held before has been sent or combined.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/base/error.hpp"
#include "core/multinode/device_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
namespace {
// NCCL's number of a type; none for types that NCCL does not reduce.
std::optional<int> nccl_type(DType dtype) {
  constexpr std::pair<DType, int> kTypes[] = {{DType::i8, 0}, {DType::u8, 1}, {DType::i32, 2},
      {DType::u32, 3}, {DType::i64, 4}, {DType::u64, 5}, {DType::f16, 6}, {DType::f32, 7},
      {DType::f64, 8}, {DType::bf16, 9}};
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return {};
}

// NCCL's number of an operation.
int nccl_op(Op op) {
  switch (op) {
    case Op::sum: return 0;
    case Op::prod: return 1;
    case Op::max: return 2;
    case Op::min: return 3;
    default: return 4;  // an average; NCCL has no bitwise operations
  }
}

bool nccl_reduces(const CollectiveCall& call) {
  return nccl_type(call.dtype) && !is_bitwise(call.op) &&
         (is_float(call.dtype) || call.op != Op::avg);
}

// Whether the bits of the result depend on the order of operands. The bits of rounded sums
// and of means of integers do.
bool order_matters(const CollectiveCall& call) {
  return depends_on_order(call.dtype, call.op) || call.op == Op::avg;
}

bool is_reduced_for_all(const CollectiveCall& call) {
  return call.collective == Collective::allreduce || call.collective == Collective::reduce_scatter;
}

std::vector<Piece> equal_pieces(size_t ranks, size_t bytes) {
  std::vector<Piece> pieces(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    pieces[rank] = {rank * bytes, bytes};
  }
  return pieces;
}

size_t whole_packs(size_t bytes) { return (bytes + kPackBytes - 1) / kPackBytes * kPackBytes; }

// The bytes of a piece from `at` on, at most `most`.
size_t bytes_from(const Piece& piece, size_t at, size_t most) {
  return piece.bytes > at ? std::min(most, piece.bytes - at) : 0;
}
}  // namespace

// ---- the choice of an algorithm

Algorithm DeviceMultinodeTransport::algorithm_of(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;
  const CollectiveTraits what = traits(call.collective);
  if (!what.has_op || what.of_prefix) return Algorithm::one_shot;

  const bool any_order = call.order == Order::any || !order_matters(call);
  if (is_reduced_for_all(call) && any_order &&
      (nccl_may_reduce(call) || reduces_by_machines(call))) {
    return Algorithm::hierarchical;
  }

  // Between two ranks one shot sends no more bytes than two shots.
  const bool is_small = size_ == 2 || call.unit() <= 2 * device_.hop_bytes() / (size_ - 2);
  if (traits(call.collective).cut_into_slices && is_small) return Algorithm::one_shot;
  const bool by_chain = why_no_chain(call).empty() && chain_is_faster(call);
  return by_chain ? Algorithm::chain : Algorithm::two_shot;
}

Algorithm DeviceMultinodeTransport::algorithm_of(
    const CollectiveCall& call, const CollectiveCall& plain) const {
  if (!call.has_wire()) return algorithm_of(plain);
  return plain.collective == Collective::alltoall ? Algorithm::two_shot : Algorithm::one_shot;
}

// Where the order matters, NCCL must not reduce floats, not even for a minimum or maximum: of
// two zeros, or of NaNs, it need not take the one that comes first in rank order.
bool DeviceMultinodeTransport::nccl_may_reduce(const CollectiveCall& call) const {
  return nccl_reduces(call) && (call.order == Order::any || !is_float(call.dtype));
}

// Whether a hierarchical reduction is done by symm's kernels on each machine. What
// NCCL may reduce, NCCL reduces in less time from 1 MB on (bench/scale), so kernels
// do it only if asked for.
bool DeviceMultinodeTransport::reduces_by_machines(const CollectiveCall& call) const {
  const bool can = in_line_ && local_.size() > 1 &&
                   (depends_on_order(call.dtype, call.op) || call.op != Op::avg);
  return can && (call.algorithm == Algorithm::hierarchical || !nccl_may_reduce(call));
}

std::string DeviceMultinodeTransport::why_no_chain(const CollectiveCall& call) const {
  if (call.collective != Collective::allreduce || !is_float(combined_as(call.dtype, call.op)) ||
      !order_matters(call)) {
    return "between GPUs does sums, means and products of floats, and sums and means of complex "
           "numbers, by all-reduce";
  }
  if (call.order == Order::tree) {
    return "between GPUs adds in the order of the ranks, not in a tree";
  }

  const bool possible = in_line_ && local_.size() > 1;
  return possible ? "" : "needs machines of equally many ranks, two or more, that are consecutive";
}

// Compares the bytes that a network card receives. In two shots it receives slices from all
// ranks of other machines, and results. In a chain it receives sums of a slice, and
// results, which between two machines go the other way. The chain has as many chunks as
// take the least time (bench/scale).
bool DeviceMultinodeTransport::chain_is_faster(const CollectiveCall& call) const {
  // The bytes are bounded so that products fit: from a terabyte on, the cost of
  // beginning a chunk does not matter.
  __extension__ using Wide = unsigned __int128;
  const Wide bytes = std::min(call.unit(), size_t{1} << 40);
  const Wide machines = rail_.size();
  const Wide each = local_.size();
  const Wide wide = widening(call.dtype) + (machines > 2 ? 1 : 0);

  // All three are multiplied by machines * each, so that nothing is rounded: threads
  // of two ranks may round in different directions, and ranks that chose differently
  // would wait for each other.
  const Wide slices = bytes * (machines - 1) * (each + 1);
  const Wide sums = bytes * wide * machines;
  const Wide begins = (2 * machines - 3) * device_.hop_bytes() * machines * each;
  if (slices <= sums + begins) return false;

  // The condition is sqrt(slices) > sqrt(sums) + sqrt(begins), squared twice.
  const Wide more = slices - sums - begins;
  return more * more > 4 * sums * begins;
}

void DeviceMultinodeTransport::require_possible(const CollectiveCall& call) const {
  const CollectiveTraits collective = traits(call.collective);
  const auto refuse = [&](const char* why) {
    throw Error(Status::invalid_argument,
        format("options.algorithm: %s %s", algorithm_name(call.algorithm), why));
  };

  switch (call.algorithm) {
    case Algorithm::automatic: return;
    case Algorithm::one_shot:
      if (collective.has_op && !collective.cut_into_slices && !collective.of_prefix) {
        refuse("between machines does all-reduce, reduce, scans and what only moves");
      }
      return;
    case Algorithm::two_shot:
      if (!collective.has_op) refuse("is of reductions");
      if (collective.of_prefix) refuse("between GPUs does no scan");
      return;
    case Algorithm::hierarchical:
      if (!is_reduced_for_all(call)) refuse("between GPUs does all-reduce and reduce-scatter");
      if (call.order == Order::tree) refuse("between GPUs adds in an order of its own");
      if (!reduces_by_machines(call) && !nccl_reduces(call)) {
        refuse(
            "here is what NCCL adds: no 8-bit floats, i16, u16, bool, means or bits of integers");
      }
      return;
    case Algorithm::chain:
      if (const std::string why = why_no_chain(call); !why.empty()) refuse(why.c_str());
      return;
    default: refuse("is not of GPUs on several machines");
  }
}

// Describes the algorithm of a plain call.
const char* DeviceMultinodeTransport::how(const CollectiveCall& call, Algorithm algorithm) const {
  if (algorithm == Algorithm::hierarchical && reduces_by_machines(call)) {
    return "each machine combines its ranks' operands, and sends what it has once";
  }
  if (algorithm == Algorithm::hierarchical) {
    return is_float(call.dtype) ? "NCCL adds, in an order of its own"
                                : "NCCL adds; of integers the order does not matter";
  }

  if (algorithm == Algorithm::chain) {
    return "sums that are not rounded go from machine to machine in rank order, and results back";
  }
  if (!traits(call.collective).has_op) return "NCCL moves what each rank needs";
  const bool in_tree = call.order == Order::tree;
  if (traits(call.collective).of_prefix) {
    return "all operands go to all ranks, which combine those up to their own";
  }
  if (algorithm == Algorithm::one_shot) {
    return in_tree ? "all operands go to all ranks, which combine them in tree order"
                   : "all operands go to all ranks, which combine them in rank order";
  }
  return in_tree ? "each rank combines a slice of all operands in tree order, and sends the result"
                 : "each rank combines a slice of all operands in rank order, and sends the result";
}

// ---- calls

void DeviceMultinodeTransport::collective(const CollectiveCall& call) {
  const CollectiveCall plain = device_.plain_call(call);
  require_possible(plain);
  const Algorithm algorithm = algorithm_of(call, plain);

  in_order(collective_name(call.collective), call.timeout_ms, call.stream, all_ranks_, [&] {
    stats_.begin(GroupStats::call_shown(call.collective, call.bytes(), algorithm));
    if (!call.is_plain()) {
      device_.issue_parts(call, [&](const CollectiveCall& part) { issue(part); });
    } else {
      issue(call);
    }
  });
  stats_.add_collective(call, algorithm, true);
}

PlanReport DeviceMultinodeTransport::plan(const CollectiveCall& call) {
  const CollectiveCall plain = device_.plain_call(call);
  require_possible(plain);

  PlanReport report;
  report.algorithm = algorithm_of(call, plain);
  report.slices = report.algorithm == Algorithm::two_shot ? context_.size : 1;
  const size_t share = plain.unit() / static_cast<size_t>(report.slices);
  const bool kernels_combine =
      traits(plain.collective).has_op &&
      (report.algorithm != Algorithm::hierarchical || reduces_by_machines(plain));
  report.chunk_bytes = kernels_combine && share > slot_bytes_ ? slot_bytes_ : 0;

  const char* forced = call.algorithm != Algorithm::automatic ? "forced: " : "";
  report.reason = text(device_.reason_prefix(call), forced, context_.machines.count,
      " machines over ", engine_.name(), ": ", how(plain, algorithm_of(plain)));
  if (call.block_limit != 0) {
    report.reason += text(", kernels of symm with at most ", static_cast<int>(call.block_limit),
        " blocks by max_blocks");
  }
  return report;
}

// Each rank tells all others what it is about to do, and compares what the others are
// about to do.
void DeviceMultinodeTransport::compare_calls(const CollectiveCall& call, size_t count) {
  std::byte* const records = slot(0);
  device_.record_call(call, count, records);
  engine_.together(call.timeout_ms, [&] {
    engine_.allgather(records + me_ * kCallRecordBytes, records, kCallRecordBytes, call.stream);
  });
  device_.compare_calls(call, count, records);
}

void DeviceMultinodeTransport::issue(const CollectiveCall& call) {
  if (context_.check) compare_calls(call, call.count);
  if (call.pieces != nullptr) return issue_pieces(call);
  if (call.count == 0) return;

  const Algorithm algorithm = algorithm_of(call);
  if (algorithm == Algorithm::hierarchical && !reduces_by_machines(call)) {
    return issue_nccl_reduction(call);
  }
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduce(call, algorithm);
    case Collective::reduce_scatter: return issue_reduce_scatter(call, algorithm);
    case Collective::scan:
    case Collective::exscan: return reduce_in_one_shot(call, 0);
    case Collective::allgather:
      return engine_.together(call.timeout_ms,
          [&] { engine_.allgather(call.send, call.recv, call.unit(), call.stream); });
    case Collective::broadcast: return issue_broadcast(call);
    default: {
      const std::vector<Piece> pieces = equal_pieces(size_, call.unit());
      return move(call, pieces, pieces);
    }
  }
}

void DeviceMultinodeTransport::issue_pieces(const CollectiveCall& call) {
  const Pieces& pieces = *call.pieces;
  const bool reduces = traits(call.collective).has_op;
  if (pieces.device_send.counts != nullptr) return exchange_by_capacity(call);
  if (pieces.row_bytes != 0) return reduces ? reduce_scatter_rows(call) : gather_rows(call);
  if (reduces) return reduce_scatter(call, pieces.send);
  move(call, pieces.send, pieces.recv);
}

void DeviceMultinodeTransport::issue_nccl_reduction(const CollectiveCall& call) {
  const int type = *nccl_type(call.dtype);
  const int op = nccl_op(call.op);
  engine_.together(call.timeout_ms, [&] {
    if (call.collective == Collective::allreduce) {
      engine_.allreduce(call.send, call.recv, call.count, type, op, call.stream);
    } else {
      engine_.reduce_scatter(call.send, call.recv, call.count, type, op, call.stream);
    }
  });
}

void DeviceMultinodeTransport::issue_reduce_scatter(
    const CollectiveCall& call, Algorithm algorithm) {
  const size_t unit = call.unit();
  if (algorithm != Algorithm::hierarchical) {
    return reduce_scatter(call, equal_pieces(size_, unit));
  }
  for (size_t at = 0; at < unit; at += slot_bytes_) {
    std::byte* const result = static_cast<std::byte*>(call.recv) + at;
    reduce_by_machines(call, at, std::min(slot_bytes_, unit - at), unit, result);
  }
}

void DeviceMultinodeTransport::issue_broadcast(const CollectiveCall& call) {
  const void* const from = call.root == context_.rank ? call.send : call.recv;
  engine_.together(call.timeout_ms,
      [&] { engine_.broadcast(from, call.recv, call.unit(), call.root, call.stream); });
}

// ---- reductions

void DeviceMultinodeTransport::combine(const CollectiveCall& call,
    const std::vector<const std::byte*>& operands, void* to, size_t bytes) const {
  device_.combine(call, {.operands = operands, .to = to, .bytes = bytes, .op = call.op});
}

// A reduction to all ranks, or to the root: in whole rows of packs as the algorithm
// does it, and what is left over in one shot.
void DeviceMultinodeTransport::reduce(const CollectiveCall& call, Algorithm algorithm) {
  const size_t bytes = call.unit();
  const size_t row = size_ * kPackBytes;
  const size_t whole = algorithm == Algorithm::one_shot ? 0 : bytes / row * row;
  // The ranks that have a slice of their own.
  const size_t ranks = algorithm == Algorithm::chain ? local_.size() : size_;
  auto* recv = static_cast<std::byte*>(call.recv);

  size_t at = 0;
  while (at < whole) {
    const size_t slice = std::min(slot_bytes_, (whole - at) / ranks);
    if (algorithm == Algorithm::two_shot) {
      reduce_slices(call, at, slice);
    } else if (algorithm == Algorithm::chain) {
      reduce_in_chain(call, at, slice);
    } else {
      std::byte* const result = recv + at + me_ * slice;
      reduce_by_machines(call, at, slice, slice, result);
      engine_.together(
          call.timeout_ms, [&] { engine_.allgather(result, recv + at, slice, call.stream); });
    }
    at += ranks * slice;
  }
  reduce_in_one_shot(call, at);
}

void DeviceMultinodeTransport::reduce_in_one_shot(const CollectiveCall& call, size_t at) {
  const size_t bytes = call.unit();
  const bool gets_result = call.collective != Collective::reduce || call.root == context_.rank;
  const auto combined =
      static_cast<size_t>(ranks_combined(call.collective, context_.rank, context_.size));
  const auto* send = static_cast<const std::byte*>(call.send);
  auto* recv = static_cast<std::byte*>(call.recv);

  for (size_t part = 0; at < bytes; at += part) {
    part = std::min(slot_bytes_, bytes - at);
    engine_.together(
        call.timeout_ms, [&] { engine_.allgather(send + at, slot(0), part, call.stream); });
    if (!gets_result) continue;

    std::vector<const std::byte*> operands;
    for (size_t rank = 0; rank < combined; ++rank) {
      operands.push_back(slot(0) + rank * part);
    }
    combine(call, operands, recv + at, part);
  }
}

void DeviceMultinodeTransport::reduce_slices(const CollectiveCall& call, size_t at, size_t slice) {
  const bool to_all = call.collective == Collective::allreduce;
  const bool is_root = !to_all && call.root == context_.rank;
  const auto* send = static_cast<const std::byte*>(call.send) + at;
  // Used only where there is a recv.
  auto* recv = static_cast<std::byte*>(call.recv) + at;

  std::vector<const std::byte*> operands;
  for (size_t rank = 0; rank < size_; ++rank) {
    operands.push_back(rank == me_ ? send + me_ * slice : slot(rank));
  }
  exchange(
      call.timeout_ms, call.stream, all_ranks_,
      [&](size_t rank) { return std::span(send + rank * slice, slice); },
      [&](size_t rank) { return std::span(slot(rank), slice); });
  std::byte* const result = to_all || is_root ? recv + me_ * slice : slot(size_);
  combine(call, operands, result, slice);

  engine_.together(call.timeout_ms, [&] {
    if (to_all) return engine_.allgather(result, recv, slice, call.stream);
    if (!is_root) return engine_.send(result, slice, call.root, call.stream);
    for (size_t rank = 0; rank < size_; ++rank) {
      if (rank == me_) continue;
      engine_.recv(recv + rank * slice, slice, static_cast<int>(rank), call.stream);
    }
  });
}

// Copies `parts` parts of this rank's operand, `stride` bytes apart, to its stages, and waits
// for the other ranks of this machine to have done so: then each can read all operands.
void DeviceMultinodeTransport::publish(
    const CollectiveCall& call, size_t at, size_t part, size_t parts, size_t stride) {
  const auto* from = static_cast<const std::byte*>(call.send) + at;
  std::byte* const to = device_.stages_of(context_.rank).data();
  const bool contiguous = stride == part && part == whole_packs(part);
  const size_t copies = contiguous ? 1 : parts;
  const size_t bytes = contiguous ? parts * part : part;

  for (size_t i = 0; i < copies; ++i) {
    copy(to + i * whole_packs(part), from + i * stride, bytes, call.stream);
  }
  device_.issue_barrier(local_, call.timeout_ms, call.stream);
}

// Operands have a part of `part` bytes for each rank, every `stride` bytes. Each machine
// combines its ranks' parts for the ranks of this rail, and these exchange the sums.
void DeviceMultinodeTransport::reduce_by_machines(
    const CollectiveCall& call, size_t at, size_t part, size_t stride, std::byte* result) {
  const size_t machines = rail_.size();
  const Op op = call.op == Op::avg ? Op::sum : call.op;
  publish(call, at, part, size_, stride);
  for (size_t machine = 0; machine < machines; ++machine) {
    const size_t place = static_cast<size_t>(rail_[machine]) * whole_packs(part);
    std::vector<const std::byte*> operands;
    for (const int32_t rank : local_) {
      operands.push_back(device_.stages_of(rank).data() + place);
    }
    std::byte* const sum = slot(size_ + machine);
    device_.combine(call, {.operands = operands, .to = sum, .bytes = part, .op = op});
  }
  // After this barrier all ranks of this machine have read the operands.
  device_.issue_barrier(local_, call.timeout_ms, call.stream);

  const auto own_sum = [&](size_t machine) { return std::span(slot(size_ + machine), part); };
  const auto their_sum = [&](size_t machine) {
    return std::span(slot(size_ + machines + machine), part);
  };
  exchange(call.timeout_ms, call.stream, rail_, own_sum, their_sum);

  std::vector<const std::byte*> sums;
  for (size_t machine = 0; machine < machines; ++machine) {
    sums.push_back((machine == machine_ ? own_sum(machine) : their_sum(machine)).data());
  }
  combine(call, sums, result, part);
}

// ---- the chain

// The chunks of a slice, which travel along the chain of machines and back.
struct DeviceMultinodeTransport::Chain {
  size_t slice;
  // The bytes of a chunk, and how many times as many bytes its sums have.
  size_t chunk;
  size_t wide;
  size_t chunks;
  // The number of the last machine.
  size_t last;
  // Sums from the machine before, and those for the next.
  std::byte* incoming;
  std::byte* outgoing;

  // Where chunk `index` lies in the slice; empty if there is no such chunk. Numbers
  // below 0 wrap around, and are no chunk either.
  Piece at(size_t index) const {
    return index < chunks ? Piece{index * chunk, std::min(chunk, slice - index * chunk)} : Piece{};
  }
  // The bytes of a chunk's sums.
  Piece sums_of(const Piece& piece) const { return {0, piece.bytes * wide}; }
};

// More chunks fill the chain sooner, but each costs a beginning. The number of chunks that
// takes the least time is the square root of the bytes on the way, counted in hops.
DeviceMultinodeTransport::Chain DeviceMultinodeTransport::plan_chain(
    const CollectiveCall& call, size_t slice) const {
  const size_t ranks = local_.size();
  Chain chain{};
  chain.slice = slice;
  chain.last = rail_.size() - 1;
  chain.wide = widening(call.dtype);

  size_t wanted = 1;
  while ((wanted + 1) * (wanted + 1) * device_.hop_bytes() <=
         (2 * chain.last - 1) * slice * chain.wide) {
    ++wanted;
  }
  // Two slots or more for incoming sums, and for outgoing ones.
  const size_t room = (size_ - ranks) * slot_bytes_ / 2 / chain.wide;
  chain.chunk = std::min(whole_packs(slice / wanted + 1), room / kPackBytes * kPackBytes);
  chain.chunks = (slice + chain.chunk - 1) / chain.chunk;
  chain.incoming = slot(ranks);
  chain.outgoing = chain.incoming + chain.chunk * chain.wide;
  return chain;
}

// Each rank of this machine has a slice. At any time one chunk of sums comes from the
// machine before, another goes to the next, and results of earlier chunks come back
// from the next machine and go to the one before: chunk k is combined on machine m at
// time k + m, and its results are there at time k + 2 last - m. A rank that has all
// results of its machine knows that the other ranks have read its operand.
void DeviceMultinodeTransport::reduce_in_chain(
    const CollectiveCall& call, size_t at, size_t slice) {
  const Chain chain = plan_chain(call, slice);
  const auto place = static_cast<size_t>(context_.machines.local_rank(context_.rank));
  std::byte* const recv = static_cast<std::byte*>(call.recv) + at;
  std::byte* const results = recv + place * slice;
  publish(call, at, slice, local_.size(), slice);

  for (size_t time = 0; time < chain.chunks + 2 * chain.last; ++time) {
    pass_along(call, chain, time, results);
    const Piece mine = chain.at(time - machine_);
    if (mine.bytes == 0) continue;

    std::vector<const std::byte*> operands;
    for (const int32_t rank : local_) {
      operands.push_back(device_.stages_of(rank).data() + place * slice + mine.at);
    }
    device_.combine(call, {.operands = operands,
                              .to = machine_ == chain.last ? results + mine.at : chain.outgoing,
                              .bytes = mine.bytes,
                              .op = call.op,
                              .before = machine_ == 0 ? nullptr : chain.incoming,
                              .unrounded = machine_ != chain.last});
  }

  exchange(
      call.timeout_ms, call.stream, local_, [&](size_t) { return std::span(results, slice); },
      [&](size_t peer) { return std::span(recv + peer * slice, slice); });
}

// Sends and receives as the chain does at `time`, before this machine combines a chunk.
void DeviceMultinodeTransport::pass_along(
    const CollectiveCall& call, const Chain& chain, size_t time, std::byte* results) {
  const auto exchange_with = [&](size_t machine, const Piece& sent, const std::byte* from,
                                 const Piece& received, std::byte* to) {
    if (sent.bytes != 0) engine_.send(from, sent.bytes, rail_[machine], call.stream);
    if (received.bytes != 0) engine_.recv(to, received.bytes, rail_[machine], call.stream);
  };

  engine_.together(call.timeout_ms, [&] {
    const size_t way_back = 2 * chain.last - machine_;
    const Piece received = chain.at(time - way_back);
    const Piece sent = chain.at(time - way_back - 1);
    if (machine_ != 0) {
      const Piece mine = chain.at(time - machine_);
      exchange_with(machine_ - 1, sent, results + sent.at, chain.sums_of(mine), chain.incoming);
    }
    if (machine_ != chain.last) {
      const Piece combined = chain.at(time - machine_ - 1);
      exchange_with(
          machine_ + 1, chain.sums_of(combined), chain.outgoing, received, results + received.at);
    }
  });
}

// ---- pieces

void DeviceMultinodeTransport::reduce_scatter(
    const CollectiveCall& call, std::span<const Piece> pieces) {
  size_t most = 0;
  for (const Piece& piece : pieces) {
    most = std::max(most, piece.bytes);
  }

  const auto* send = static_cast<const std::byte*>(call.send);
  for (size_t at = 0; at < most; at += slot_bytes_) {
    const size_t mine = bytes_from(pieces[me_], at, slot_bytes_);
    std::vector<const std::byte*> operands;
    for (size_t rank = 0; rank < size_; ++rank) {
      operands.push_back(rank == me_ ? send + pieces[me_].at + at : slot(rank));
    }

    const auto outgoing = [&](size_t rank) {
      return std::span(send + pieces[rank].at + at, bytes_from(pieces[rank], at, slot_bytes_));
    };
    const auto incoming = [&](size_t rank) { return std::span(slot(rank), mine); };
    exchange(call.timeout_ms, call.stream, all_ranks_, outgoing, incoming);
    if (mine != 0) combine(call, operands, static_cast<std::byte*>(call.recv) + at, mine);
  }
}

// In place, what is to be sent makes room first, as much at a time as fits into slots. Two
// ranks know how long the pieces are that they exchange, so they agree on how often they do.
void DeviceMultinodeTransport::move(
    const CollectiveCall& call, std::span<const Piece> send, std::span<const Piece> recv) {
  const bool exchanges =
      call.collective == Collective::alltoall || call.collective == Collective::alltoallv;
  const bool in_place = exchanges && call.send == call.recv;
  const size_t chunk = in_place ? slot_bytes_ : SIZE_MAX;
  const auto* from = static_cast<const std::byte*>(call.send);
  auto* to = static_cast<std::byte*>(call.recv);

  size_t most = 0;
  for (size_t rank = 0; rank < size_; ++rank) {
    if (rank != me_) most = std::max({most, send[rank].bytes, recv[rank].bytes});
  }
  if (!in_place && recv[me_].bytes != 0) {
    copy(to + recv[me_].at, from + send[me_].at, recv[me_].bytes, call.stream);
  }

  for (size_t at = 0; at < most; at += std::min(chunk, most - at)) {
    for (size_t rank = 0; in_place && rank < size_; ++rank) {
      if (rank == me_) continue;
      const size_t bytes = bytes_from(send[rank], at, chunk);
      copy(slot(rank), from + send[rank].at + at, bytes, call.stream);
    }

    const auto outgoing = [&](size_t rank) {
      const std::byte* const start = in_place ? slot(rank) : from + send[rank].at + at;
      return std::span(start, bytes_from(send[rank], at, chunk));
    };
    const auto incoming = [&](size_t rank) {
      return std::span(to + recv[rank].at + at, bytes_from(recv[rank], at, chunk));
    };
    exchange(call.timeout_ms, call.stream, all_ranks_, outgoing, incoming);
  }
}

namespace {
// Goes through pieces of `whole` bytes that lie in rows, as many rows at a time as `room` bytes
// hold, or a part of one row: take(call, where the part begins in each piece, its bytes). The call
// has the part's places in the operand `of` as if each piece were one row of it.
template <class Take>
void in_parts_of_rows(const CollectiveCall& call, std::vector<Piece> Pieces::* of, size_t whole,
    size_t room, const Take& take) {
  const Pieces& pieces = *call.pieces;
  const size_t row = pieces.row_bytes;
  Pieces part = pieces;
  CollectiveCall part_call = call;
  part_call.pieces = &part;

  size_t bytes = 0;
  for (size_t at = 0; at < whole; at += bytes) {
    bytes = row <= room ? std::min(room / row * row, whole - at) : std::min(room, row - at % row);
    part.row_bytes = std::min(row, bytes);
    for (size_t rank = 0; rank < (part.*of).size(); ++rank) {
      (part.*of)[rank] = {(pieces.*of)[rank].at + place_in(pieces, at), bytes};
    }
    take(part_call, at, bytes);
  }
}
}  // namespace

void DeviceMultinodeTransport::gather_rows(const CollectiveCall& call) {
  in_parts_of_rows(call, &Pieces::recv, call.pieces->send[me_].bytes, slot_bytes_,
      [&](const CollectiveCall& part, size_t at, size_t bytes) {
        const std::byte* const from = static_cast<const std::byte*>(call.send) + at;
        engine_.together(
            call.timeout_ms, [&] { engine_.allgather(from, slot(0), bytes, call.stream); });
        device_.unpack_pieces(part, {.slots = slot(0), .slot_bytes = bytes});
      });
}

// Rows are put together in slots before they are sent. So slots are of half the size: one for
// what goes to each rank, and one for what comes from each.
void DeviceMultinodeTransport::reduce_scatter_rows(const CollectiveCall& call) {
  const size_t room = slot_bytes_ / 2 / kPackBytes * kPackBytes;
  std::byte* const packed = slot(0);
  std::byte* const arrived = packed + size_ * room;

  in_parts_of_rows(call, &Pieces::send, call.pieces->recv[me_].bytes, room,
      [&](const CollectiveCall& part, size_t at, size_t bytes) {
        device_.pack_pieces(part, {.slots = packed, .slot_bytes = bytes});
        exchange(
            call.timeout_ms, call.stream, all_ranks_,
            [&](size_t rank) { return std::span(packed + rank * bytes, bytes); },
            [&](size_t rank) { return std::span(arrived + rank * bytes, bytes); });

        std::vector<const std::byte*> operands;
        for (size_t rank = 0; rank < size_; ++rank) {
          operands.push_back((rank == me_ ? packed : arrived) + rank * bytes);
        }
        combine(call, operands, static_cast<std::byte*>(call.recv) + at, bytes);
      });
}

// If only the device knows the counts, NCCL is given their upper bound: the capacity of send,
// which is equal on all ranks.
void DeviceMultinodeTransport::exchange_by_capacity(const CollectiveCall& call) {
  const size_t capacity = call.pieces->send_bytes;
  compare_calls(call, capacity / size_of(call.dtype));

  const size_t room = slot_bytes_ / 2 / kPackBytes * kPackBytes;
  PieceSlots outgoing{.slots = slot(0), .slot_bytes = room};
  PieceSlots incoming{.slots = slot(0) + size_ * room, .slot_bytes = room};
  // The loop runs at least once, because slots say how long pieces are.
  size_t at = 0;
  do {
    outgoing.at = at;
    incoming.at = at;
    device_.pack_pieces(call, outgoing);

    const size_t chunk = std::min(room - kPackBytes, std::max(capacity - at, size_t{1}));
    const size_t bytes = kPackBytes + chunk;
    copy(incoming.slots + me_ * room, outgoing.slots + me_ * room, bytes, call.stream);
    exchange(
        call.timeout_ms, call.stream, all_ranks_,
        [&](size_t rank) { return std::span(outgoing.slots + rank * room, bytes); },
        [&](size_t rank) { return std::span(incoming.slots + rank * room, bytes); });
    device_.unpack_pieces(call, incoming);
    at += chunk;
  } while (at < capacity);
}
}  // namespace symm::multinode
