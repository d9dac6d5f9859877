// Collectives of GPUs on several machines. What is moved, NCCL moves, who knows the
// ways between them and within. Sums in rank order go one of three ways:
//   one shot: all ranks' operands come to every rank, which combines them;
//   little, and what is left of the others; two shots: each rank gets a
//   slice of every rank's operand, combines these, and the results go to
//   whom they belong; chain: each rank combines a slice of its machine's
//   operands, where they lie, on top of the sums, not yet rounded, that come
//     from the machine before, and sends them on; from the last one results come back.
//     Where machines have several ranks.
// In any order NCCL adds what it knows. What it does not know, each rank combines
// slices of, where its machine's operands lie, and ranks with the same place exchange
// these. All that is staged lies in this rank's own scratch, which one call uses at a
// time (StreamOrder); NCCL's calls of one call follow each other on one stream, so a
// slot is written when what was read from it before has gone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/transport.hpp"
#include "core/multinode/device_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
namespace {
// of a machine's ranks; groups have no barriers of their own on it
constexpr int kLocalChannel = cuda::kBarrierChannels - 1;

// As NCCL counts types; none for those that it does not add.
std::optional<int> type_of(DType dtype) {
  constexpr std::pair<DType, int> kTypes[] = {{DType::i8, 0}, {DType::u8, 1}, {DType::i32, 2},
      {DType::u32, 3}, {DType::i64, 4}, {DType::u64, 5}, {DType::f16, 6}, {DType::f32, 7},
      {DType::f64, 8}, {DType::bf16, 9}};
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  return {};
}

int op_of(Op op) {
  switch (op) {
    case Op::sum: return 0;
    case Op::prod: return 1;
    case Op::max: return 2;
    case Op::min: return 3;
    case Op::avg: break;
  }
  return 4;
}

bool nccl_adds(const CollectiveCall& call) {
  return type_of(call.dtype) && (is_float(call.dtype) || call.op != Op::avg);
}

// Of the bits of results; not so of rounded sums, and means of integers.
bool order_matters(const CollectiveCall& call) {
  return (is_float(call.dtype) && call.op != Op::min && call.op != Op::max) || call.op == Op::avg;
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

size_t whole_packs(size_t bytes) { return (bytes + cuda::kPack - 1) / cuda::kPack * cuda::kPack; }

size_t left_of(const Piece& piece, size_t at, size_t most) {
  return piece.bytes > at ? std::min(most, piece.bytes - at) : 0;
}
}  // namespace

Algorithm DeviceMultinodeTransport::algorithm_of(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;
  if (!traits(call.collective).has_op) return Algorithm::one_shot;
  const bool any_order = context().any_order || !order_matters(call);
  if (is_reduced_for_all(call) && any_order && (nccl_may_add(call) || goes_by_machines(call))) {
    return Algorithm::hierarchical;
  }
  // Of two ranks each sends the other as much as in two shots.
  const bool is_little = size_ == 2 || call.unit() <= 2 * tuning().hop / (size_ - 2);
  if (traits(call.collective).cut_into_slices && is_little) return Algorithm::one_shot;
  return why_no_chain(call).empty() && chain_is_shorter(call) ? Algorithm::chain
                                                              : Algorithm::two_shot;
}

// Of floats it need not take the first of two zeros, or a NaN, for the less.
bool DeviceMultinodeTransport::nccl_may_add(const CollectiveCall& call) const {
  return nccl_adds(call) && (context().any_order || !is_float(call.dtype));
}

// What is hierarchical: by kernels of symm on each machine. What NCCL may add it adds
// sooner, from 1 MB on (bench/scale).
bool DeviceMultinodeTransport::goes_by_machines(const CollectiveCall& call) const {
  const bool can = in_line_ && local_.size() > 1 && (is_float(call.dtype) || call.op != Op::avg);
  return can && (call.algorithm == Algorithm::hierarchical || !nccl_may_add(call));
}

std::string DeviceMultinodeTransport::why_no_chain(const CollectiveCall& call) const {
  if (call.collective != Collective::allreduce || !is_float(call.dtype) || !order_matters(call)) {
    return "between GPUs does sums, means and products of floats by all-reduce";
  }
  return in_line_ && local_.size() > 1
             ? ""
             : "needs machines of equally many ranks, two or more, that are consecutive";
}

// By what a network card takes in: slices of all ranks of other machines, and results;
// or sums of a slice, and results, which between two machines go the other way, in as
// many chunks as take the least time (bench/scale).
bool DeviceMultinodeTransport::chain_is_shorter(const CollectiveCall& call) const {
  const auto bytes = static_cast<double>(call.unit());
  const auto machines = static_cast<double>(rail_.size());
  const auto each = static_cast<double>(local_.size());
  const auto hop = static_cast<double>(tuning().hop);
  const double slices = bytes * (machines - 1) / machines * (each + 1) / each;
  const double sums =
      bytes / each * static_cast<double>(wider(call.dtype) + (machines > 2 ? 1 : 0));
  // As sqrt(slices) > sqrt(sums) + sqrt(begins).
  const double begins = (2 * machines - 3) * hop;
  const double more = slices - sums - begins;
  return more > 0 && more * more > 4 * sums * begins;
}

void DeviceMultinodeTransport::require_possible(const CollectiveCall& call) const {
  const CollectiveTraits its = traits(call.collective);
  const auto refuse = [&](const char* why) {
    throw Error(
        Status::invalid_argument, format("options.algorithm: %s %s", name_of(call.algorithm), why));
  };
  switch (call.algorithm) {
    case Algorithm::automatic: return;
    case Algorithm::one_shot:
      if (its.has_op && !its.cut_into_slices) {
        refuse("between machines does all-reduce, reduce and what only moves");
      }
      return;
    case Algorithm::two_shot:
      if (!its.has_op) refuse("is of reductions");
      return;
    case Algorithm::hierarchical:
      if (!is_reduced_for_all(call)) refuse("between GPUs does all-reduce and reduce-scatter");
      if (!goes_by_machines(call) && !nccl_adds(call)) {
        refuse("here is what NCCL adds: no 8-bit floats, i16, u16, bool or means of integers");
      }
      return;
    case Algorithm::chain:
      if (const std::string why = why_no_chain(call); !why.empty()) refuse(why.c_str());
      return;
    default: refuse("is not of GPUs on several machines");
  }
}

// The call, or the first plain one that it is made of.
CollectiveCall DeviceMultinodeTransport::plain_call(const CollectiveCall& call) const {
  if (call.scaling) return scaled(call).plain_call();
  return call.norm != nullptr ? rows_of(call).plain_call() : call;
}

void DeviceMultinodeTransport::collective(const CollectiveCall& call) {
  const CollectiveCall plain = plain_call(call);
  require_possible(plain);
  const Algorithm algorithm = algorithm_of(plain);
  in_order(name_of(call.collective), call.timeout_ms, call.stream, everybody_, [&] {
    stats_.begin(GroupStats::call_shown(call.collective, call.bytes(), algorithm));
    if (!call.scaling && call.norm == nullptr) return issue(call);
    issue_parts(call, [&](const CollectiveCall& part) { issue(part); });
  });
  stats_.add_collective(call, algorithm, true);
}

PlanReport DeviceMultinodeTransport::plan(const CollectiveCall& call) {
  const CollectiveCall plain = plain_call(call);
  require_possible(plain);
  PlanReport report;
  report.algorithm = algorithm_of(plain);
  report.slices = report.algorithm == Algorithm::two_shot ? context().size : 1;
  const size_t share = plain.unit() / static_cast<size_t>(report.slices);
  const bool by_machines = report.algorithm == Algorithm::hierarchical && goes_by_machines(plain);
  const bool adds = traits(call.collective).has_op &&
                    (report.algorithm != Algorithm::hierarchical || by_machines);
  report.chunk_bytes = adds && share > slot_bytes_ ? slot_bytes_ : 0;
  const char* how = "NCCL moves what each rank needs";
  if (by_machines) {
    how = "each machine combines its ranks' operands, and sends what it has once";
  } else if (report.algorithm == Algorithm::hierarchical) {
    how = is_float(plain.dtype) ? "NCCL adds, in an order of its own"
                                : "NCCL adds; of integers the order does not matter";
  } else if (report.algorithm == Algorithm::chain) {
    how = "sums that are not rounded go from machine to machine in rank order, and results back";
  } else if (adds && report.algorithm == Algorithm::one_shot) {
    how = "all operands go to all ranks, which combine them in rank order";
  } else if (adds) {
    how = "each rank combines a slice of all operands in rank order, and sends the result";
  }
  report.reason = text(call.scaling ? scaled(call).why() : std::string(),
      call.algorithm != Algorithm::automatic ? "forced: " : "", context().machines.count,
      " machines over ", engine_.name(), ": ", how);
  return report;
}

// All ranks know what all others are about to do.
void DeviceMultinodeTransport::compare(const CollectiveCall& call, size_t count) {
  constexpr size_t kSaid = 2 * sizeof(uint64_t);
  cuda::ComparisonArgs args{
      arguments_of(call).comm, call.packed(), count, cuda::address_of(slot(0)), 1};
  const auto launch = [&] {
    kernels().launch(kernels().find("symm_compare"), {1, 32, cuda::stream_of(call.stream)}, args);
  };
  launch();
  engine_.together(call.timeout_ms,
      [&] { engine_.allgather(slot(0) + me_ * kSaid, slot(0), kSaid, call.stream); });
  args.tells = 0;
  launch();
}

void DeviceMultinodeTransport::issue(const CollectiveCall& call) {
  if (context().check) compare(call, call.count);
  const Algorithm algorithm = algorithm_of(call);
  const size_t unit = call.unit();
  if (call.pieces != nullptr) {
    if (traits(call.collective).has_op) return reduce_scatter(call, call.pieces->send);
    if (call.pieces->device_send.counts != nullptr) return exchange_by_capacity(call);
    if (call.pieces->row_bytes != 0) return gather_rows(call);
    return move(call, call.pieces->send, call.pieces->recv);
  }
  if (call.count == 0) return;
  if (algorithm == Algorithm::hierarchical && !goes_by_machines(call)) {
    const int type = *type_of(call.dtype);
    const int op = op_of(call.op);
    return engine_.together(call.timeout_ms, [&] {
      if (call.collective == Collective::allreduce) {
        engine_.allreduce(call.send, call.recv, call.count, type, op, call.stream);
      } else {
        engine_.reduce_scatter(call.send, call.recv, call.count, type, op, call.stream);
      }
    });
  }
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduce(call, algorithm);
    case Collective::reduce_scatter:
      if (algorithm != Algorithm::hierarchical) {
        return reduce_scatter(call, equal_pieces(size_, unit));
      }
      for (size_t at = 0; at < unit; at += slot_bytes_) {
        reduce_by_machines(call, at, std::min(slot_bytes_, unit - at), unit,
            static_cast<std::byte*>(call.recv) + at);
      }
      return;
    case Collective::allgather:
      return engine_.together(
          call.timeout_ms, [&] { engine_.allgather(call.send, call.recv, unit, call.stream); });
    case Collective::broadcast: {
      const bool is_root = call.root == context().rank;
      return engine_.together(call.timeout_ms, [&] {
        engine_.broadcast(is_root ? call.send : call.recv, call.recv, unit, call.root, call.stream);
      });
    }
    default: {
      const std::vector<Piece> pieces = equal_pieces(size_, unit);
      return move(call, pieces, pieces);
    }
  }
}

void DeviceMultinodeTransport::combine(const CollectiveCall& call,
    const std::vector<const std::byte*>& operands, void* to, size_t bytes, const Part& part) {
  cuda::CombineArgs args{arguments_of(call), static_cast<int32_t>(operands.size()),
      part.unrounded ? 1 : 0, cuda::address_of(part.before)};
  std::transform(operands.begin(), operands.end(), args.call.send_block, cuda::address_of);
  args.call.op = static_cast<int32_t>(part.op);
  args.call.recv = cuda::address_of(to);
  args.call.unit = bytes;
  kernels().launch_over(
      bytes, kernels().find("symm_combine"), static_cast<cuda::CUstream>(call.stream), args);
}

// To all ranks or to the root.
void DeviceMultinodeTransport::reduce(const CollectiveCall& call, Algorithm algorithm) {
  const size_t bytes = call.unit();
  const size_t row = size_ * cuda::kPack;
  const bool is_mine = call.collective == Collective::allreduce || call.root == context().rank;
  const auto* send = static_cast<const std::byte*>(call.send);
  auto* recv = static_cast<std::byte*>(call.recv);
  size_t at = 0;
  for (const size_t whole = algorithm == Algorithm::one_shot ? 0 : bytes / row * row; at < whole;) {
    // that have a slice of their own
    const size_t ranks = algorithm == Algorithm::chain ? local_.size() : size_;
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
  for (size_t part = 0; at < bytes; at += part) {
    part = std::min(slot_bytes_, bytes - at);
    engine_.together(
        call.timeout_ms, [&] { engine_.allgather(send + at, slot(0), part, call.stream); });
    if (!is_mine) continue;
    std::vector<const std::byte*> operands;
    for (size_t rank = 0; rank < size_; ++rank) {
      operands.push_back(slot(0) + rank * part);
    }
    combine(call, operands, recv + at, part);
  }
}

void DeviceMultinodeTransport::reduce_slices(const CollectiveCall& call, size_t at, size_t slice) {
  const bool to_all = call.collective == Collective::allreduce;
  const bool is_root = !to_all && call.root == context().rank;
  const auto* send = static_cast<const std::byte*>(call.send) + at;
  auto* recv = static_cast<std::byte*>(call.recv) + at;  // where there is one
  std::vector<const std::byte*> operands;
  for (size_t rank = 0; rank < size_; ++rank) {
    operands.push_back(rank == me_ ? send + me_ * slice : slot(rank));
  }
  const auto sent = [&](size_t rank) { return std::span(send + rank * slice, slice); };
  trade(call.timeout_ms, call.stream, everybody_, sent,
      [&](size_t rank) { return std::span(slot(rank), slice); });
  std::byte* const result = to_all || is_root ? recv + me_ * slice : slot(size_);
  combine(call, operands, result, slice);
  engine_.together(call.timeout_ms, [&] {
    if (to_all) return engine_.allgather(result, recv, slice, call.stream);
    if (!is_root) return engine_.send(result, slice, call.root, call.stream);
    for (size_t rank = 0; rank < size_; ++rank) {
      if (rank != me_) {
        engine_.recv(recv + rank * slice, slice, static_cast<int>(rank), call.stream);
      }
    }
  });
}

// So many parts of this rank's operand lie where the others
// of its machine read them, and theirs where this one does.
void DeviceMultinodeTransport::publish(
    const CollectiveCall& call, size_t at, size_t part, size_t parts, size_t stride) {
  const auto* from = static_cast<const std::byte*>(call.send) + at;
  const bool is_one = stride == part && part == whole_packs(part);
  for (size_t i = 0; i < (is_one ? 1 : parts); ++i) {
    copy(stages().data() + i * whole_packs(part), from + i * stride, is_one ? parts * part : part,
        call.stream);
  }
  launch_barrier(local_, kLocalChannel, call.timeout_ms, call.stream);
}

// Operands have a part for each rank.
void DeviceMultinodeTransport::reduce_by_machines(
    const CollectiveCall& call, size_t at, size_t part, size_t stride, std::byte* result) {
  const size_t machines = rail_.size();
  publish(call, at, part, size_, stride);
  std::vector<const std::byte*> sums;
  for (size_t machine = 0; machine < machines; ++machine) {
    std::vector<const std::byte*> operands;
    for (const int32_t rank : local_) {
      operands.push_back(
          stages_of(rank).data() + static_cast<size_t>(rail_[machine]) * whole_packs(part));
    }
    combine(call, operands, slot(size_ + machine), part, {call.op == Op::avg ? Op::sum : call.op});
  }
  launch_barrier(local_, kLocalChannel, call.timeout_ms, call.stream);  // all have read them
  const auto sent = [&](size_t machine) { return std::span(slot(size_ + machine), part); };
  const auto got = [&](size_t machine) {
    return std::span(slot(size_ + machines + machine), part);
  };
  for (size_t machine = 0; machine < machines; ++machine) {
    sums.push_back((machine == machine_ ? sent(machine) : got(machine)).data());
  }
  trade(call.timeout_ms, call.stream, rail_, sent, got);
  combine(call, sums, result, part);
}

// A slice for each rank of this machine. At any time one chunk of sums comes
// from the machine before, another goes to the next, and results of others
// come back from that and go to the former: chunk k is combined on machine m
// at time k + m, and its results are there at time k + 2 last - m. Who has
// all results of its machine knows that the others have read its operand.
void DeviceMultinodeTransport::reduce_in_chain(
    const CollectiveCall& call, size_t at, size_t slice) {
  const size_t last = rail_.size() - 1;
  const size_t wide = wider(call.dtype);
  const size_t ranks = local_.size();
  publish(call, at, slice, ranks, slice);
  const auto place = static_cast<size_t>(context().machines.local_rank(context().rank));
  std::byte* const to = static_cast<std::byte*>(call.recv) + at;
  std::byte* const results = to + place * slice;
  // More chunks fill the chain sooner, and cost more beginnings:
  // the root of the bytes on the way, in hops, is best.
  size_t wanted = 1;
  while ((wanted + 1) * (wanted + 1) * tuning().hop <= (2 * last - 1) * slice * wide) {
    ++wanted;
  }
  // 2 and more slots for sums that come, and for those that go
  const size_t room = (size_ - ranks) * slot_bytes_ / 2 / wide;
  const size_t chunk = std::min(whole_packs(slice / wanted + 1), room / cuda::kPack * cuda::kPack);
  const size_t chunks = (slice + chunk - 1) / chunk;
  const auto of = [&](size_t k) {
    return k < chunks ? Piece{k * chunk, std::min(chunk, slice - k * chunk)} : Piece{};
  };
  std::byte* const before = slot(ranks);
  std::byte* const sums = before + chunk * wide;
  for (size_t time = 0; time < chunks + 2 * last; ++time) {
    const Piece mine = of(time - machine_);  // before time 0 it is none either
    engine_.together(call.timeout_ms, [&] {
      const auto pass = [&](size_t machine, const Piece& sent, const std::byte* from,
                            const Piece& got, std::byte* into) {
        if (sent.bytes != 0) engine_.send(from, sent.bytes, rail_[machine], call.stream);
        if (got.bytes != 0) engine_.recv(into, got.bytes, rail_[machine], call.stream);
      };
      const auto widened = [&](const Piece& piece) { return Piece{0, piece.bytes * wide}; };
      const Piece got = of(time - (2 * last - machine_));
      const Piece sent = of(time - (2 * last - machine_) - 1);
      if (machine_ != 0) pass(machine_ - 1, sent, results + sent.at, widened(mine), before);
      if (machine_ != last) {
        pass(machine_ + 1, widened(of(time - machine_ - 1)), sums, got, results + got.at);
      }
    });
    if (mine.bytes == 0) continue;
    std::vector<const std::byte*> operands;
    for (const int32_t rank : local_) {
      operands.push_back(stages_of(rank).data() + place * slice + mine.at);
    }
    combine(call, operands, machine_ == last ? results + mine.at : sums, mine.bytes,
        {call.op, machine_ == 0 ? nullptr : before, machine_ != last});
  }
  const auto got = [&](size_t peer) { return std::span(to + peer * slice, slice); };
  trade(
      call.timeout_ms, call.stream, local_, [&](size_t) { return std::span(results, slice); }, got);
}

void DeviceMultinodeTransport::reduce_scatter(
    const CollectiveCall& call, std::span<const Piece> pieces) {
  size_t most = 0;
  for (const Piece& piece : pieces) {
    most = std::max(most, piece.bytes);
  }
  const auto* send = static_cast<const std::byte*>(call.send);
  for (size_t at = 0; at < most; at += slot_bytes_) {
    const size_t mine = left_of(pieces[me_], at, slot_bytes_);
    std::vector<const std::byte*> operands;
    for (size_t rank = 0; rank < size_; ++rank) {
      operands.push_back(rank == me_ ? send + pieces[me_].at + at : slot(rank));
    }
    const auto sent = [&](size_t rank) {
      return std::span(send + pieces[rank].at + at, left_of(pieces[rank], at, slot_bytes_));
    };
    trade(call.timeout_ms, call.stream, everybody_, sent,
        [&](size_t rank) { return std::span(slot(rank), mine); });
    if (mine != 0) combine(call, operands, static_cast<std::byte*>(call.recv) + at, mine);
  }
}

// In place what is to be sent makes room first, as much at a time as fits: two ranks
// know how long what they exchange is, so they agree on how often they do.
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
      if (rank != me_) {
        copy(slot(rank), from + send[rank].at + at, left_of(send[rank], at, chunk), call.stream);
      }
    }
    const auto sent = [&](size_t rank) {
      return std::span(
          in_place ? slot(rank) : from + send[rank].at + at, left_of(send[rank], at, chunk));
    };
    const auto got = [&](size_t rank) {
      return std::span(to + recv[rank].at + at, left_of(recv[rank], at, chunk));
    };
    trade(call.timeout_ms, call.stream, everybody_, sent, got);
  }
}

void DeviceMultinodeTransport::stage(cuda::StageArgs& args, bool takes, void* stream) {
  args.takes = takes ? 1 : 0;
  kernels().launch_over(
      args.slot * size_, kernels().find("symm_stage"), cuda::stream_of(stream), args);
}

// As many rows at a time as a slot holds, or a part of one.
void DeviceMultinodeTransport::gather_rows(const CollectiveCall& call) {
  const Pieces& pieces = *call.pieces;
  const size_t row = pieces.row_bytes;
  const size_t whole = pieces.send[me_].bytes;
  cuda::StageArgs args{pieces_of(call), cuda::address_of(slot(0)), 0, 0, 0};
  for (size_t at = 0; at < whole; at += args.slot) {
    args.slot = row <= slot_bytes_ ? std::min(slot_bytes_ / row * row, whole - at)
                                   : std::min(slot_bytes_, row - at % row);
    args.pieces.row_bytes = std::min<size_t>(row, args.slot);
    for (size_t rank = 0; rank < size_; ++rank) {
      args.pieces.recv[rank] = {
          pieces.recv[rank].at + at / row * pieces.row_stride + at % row, args.slot};
    }
    const std::byte* const from = static_cast<const std::byte*>(call.send) + at;
    engine_.together(
        call.timeout_ms, [&] { engine_.allgather(from, slot(0), args.slot, call.stream); });
    stage(args, true, call.stream);
  }
}

// Of counts that only the device knows NCCL is told the most that there may be: the
// capacity of send, which all ranks say alike.
void DeviceMultinodeTransport::exchange_by_capacity(const CollectiveCall& call) {
  const size_t capacity = call.pieces->send_bytes;
  compare(call, capacity / size_of(call.dtype));
  cuda::StageArgs args{pieces_of(call), cuda::address_of(slot(0)),
      slot_bytes_ / 2 / cuda::kPack * cuda::kPack, 0, 0};
  std::byte* const sent = slot(0);
  std::byte* const got = sent + size_ * args.slot;
  for (size_t chunk = 0; args.at == 0 || args.at < capacity; args.at += chunk) {
    args.slots = cuda::address_of(sent);
    stage(args, false, call.stream);
    chunk = std::min(args.slot - cuda::kPack, std::max(capacity - args.at, size_t{1}));
    copy(got + me_ * args.slot, sent + me_ * args.slot, cuda::kPack + chunk, call.stream);
    const auto in = [&](std::byte* slots) {
      return [&, slots](
                 size_t rank) { return std::span(slots + rank * args.slot, cuda::kPack + chunk); };
    };
    trade(call.timeout_ms, call.stream, everybody_, in(sent), in(got));
    args.slots = cuda::address_of(got);
    stage(args, true, call.stream);
  }
}
}  // namespace symm::multinode
