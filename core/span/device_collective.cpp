// Collectives of GPUs on several machines. What is moved, NCCL moves. Sums in rank order go one of two ways:
//   one shot: all ranks' operands come to every rank, which combines them; little, and what is left of two shots;
//   two shots: each rank gets a slice of every rank's operand, combines these, and the results go to whom they belong.
// All that is staged lies in this rank's own scratch, which one call uses at a time (StreamOrder); NCCL's calls of one call
// follow each other on one stream, so a slot is written when what was read from it before has gone.
#include <optional>
#include "core/span/device_transport.hpp"

namespace symm::span {
namespace {
constexpr size_t kGathered = size_t{256} << 10;  // bytes that come to a rank in one shot, at most

// As NCCL counts types; none for those that it does not add.
std::optional<int> type_of(DType dtype) {
  constexpr std::pair<DType, int> kTypes[] = {{DType::i8, 0}, {DType::u8, 1}, {DType::i32, 2}, {DType::u32, 3}, {DType::i64, 4},
      {DType::u64, 5}, {DType::f16, 6}, {DType::f32, 7}, {DType::f64, 8}, {DType::bf16, 9}};
  for (const auto& [ours, theirs] : kTypes)
    if (ours == dtype) return theirs;
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
  if (call.collective != Collective::allreduce && call.collective != Collective::reduce_scatter) return false;
  return type_of(call.dtype) && (is_float(call.dtype) || call.op != Op::avg);
}

std::vector<Piece> equal_pieces(size_t ranks, size_t bytes) {
  std::vector<Piece> pieces(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) pieces[rank] = {rank * bytes, bytes};
  return pieces;
}

size_t left_of(const Piece& piece, size_t at, size_t most) { return piece.bytes > at ? std::min(most, piece.bytes - at) : 0; }
}  // namespace

Algorithm DeviceSpanTransport::algorithm_of(const CollectiveCall& call) const {
  if (call.algorithm != Algorithm::automatic) return call.algorithm;
  if (!traits(call.collective).has_op) return Algorithm::one_shot;
  // The order of integers does not matter.
  if (nccl_adds(call) && (context().any_order || !is_float(call.dtype))) return Algorithm::hierarchical;
  return traits(call.collective).cut_into_slices && call.unit() * size_ <= kGathered ? Algorithm::one_shot : Algorithm::two_shot;
}

void DeviceSpanTransport::require_possible(const CollectiveCall& call) const {
  if (call.pieces != nullptr && (call.pieces->device_send.counts != nullptr || call.pieces->device_recv.counts != nullptr))
    throw Error(
        Status::unsupported, "send_counts, recv_counts: are on the device, and between machines NCCL wants them on the host");
  if (call.pieces != nullptr && call.pieces->row_bytes != 0)
    throw Error(Status::unsupported, "recv_stride: rows apart from each other are not gathered from GPUs of several machines");
  const CollectiveTraits its = traits(call.collective);
  const auto refuse = [&](const char* why) {
    throw Error(Status::invalid_argument, format("options.algorithm: %s %s", name_of(call.algorithm), why));
  };
  switch (call.algorithm) {
    case Algorithm::automatic: return;
    case Algorithm::one_shot:
      if (its.has_op && !its.cut_into_slices) refuse("between machines does all-reduce, reduce and what only moves");
      return;
    case Algorithm::two_shot:
      if (!its.has_op) refuse("is of reductions");
      return;
    case Algorithm::hierarchical:
      if (!nccl_adds(call))
        refuse("between GPUs is what NCCL adds: all-reduce and reduce-scatter, of no 8-bit floats, i16, u16 or bool");
      return;
    default: refuse("is not of GPUs on several machines");
  }
}

// The call, or the first plain one that it is made of.
CollectiveCall DeviceSpanTransport::plain_call(const CollectiveCall& call) const {
  if (call.scaling) return scaled(call).plain_call();
  return call.norm != nullptr ? rows_of(call).plain_call() : call;
}

void DeviceSpanTransport::collective(const CollectiveCall& call) {
  const CollectiveCall plain = plain_call(call);
  require_possible(plain);
  in_order(name_of(call.collective), call.timeout_ms, call.stream, everybody(), [&] {
    if (call.norm != nullptr) return issue_rows(call, [&](const CollectiveCall& sums) { issue(sums); });
    if (!call.scaling) return issue(call);
    scaled(call).run([&](const Conversion& conversion) { launch_conversion(call, conversion); },
        [&](const CollectiveCall& one) { issue(one); });
  });
  stats_.add_collective(static_cast<size_t>(call.collective), call.bytes(), static_cast<size_t>(algorithm_of(plain)));
}

PlanReport DeviceSpanTransport::plan(const CollectiveCall& call) {
  const CollectiveCall plain = plain_call(call);
  require_possible(plain);
  PlanReport report;
  report.algorithm = algorithm_of(plain);
  report.slices = report.algorithm == Algorithm::two_shot ? context().size : 1;
  const size_t share = plain.unit() / static_cast<size_t>(report.slices);
  const bool adds = traits(call.collective).has_op && report.algorithm != Algorithm::hierarchical;
  report.chunk_bytes = adds && share > slot_bytes_ ? slot_bytes_ : 0;
  const char* how = "NCCL moves what each rank needs";
  if (report.algorithm == Algorithm::hierarchical)
    how = is_float(plain.dtype) ? "NCCL adds, in an order of its own" : "NCCL adds; of integers the order does not matter";
  else if (adds && report.algorithm == Algorithm::one_shot)
    how = "all operands go to all ranks, which combine them in rank order";
  else if (adds) how = "each rank combines a slice of all operands in rank order, and sends the result";
  report.reason =
      text(call.scaling ? scaled(call).why() : std::string(), call.algorithm != Algorithm::automatic ? "forced: " : "",
          context().machines.count, " machines over ", engine_.name(), ": ", how);
  return report;
}

void DeviceSpanTransport::issue(const CollectiveCall& call) {
  const Algorithm algorithm = algorithm_of(call);
  const size_t unit = call.unit();
  if (call.pieces != nullptr) {
    if (traits(call.collective).has_op) return reduce_scatter(call, call.pieces->send);
    return move(call, call.pieces->send, call.pieces->recv);
  }
  if (call.count == 0) return;
  if (algorithm == Algorithm::hierarchical) {
    const int type = *type_of(call.dtype), op = op_of(call.op);
    return engine_.together(call.timeout_ms, [&] {
      if (call.collective == Collective::allreduce) engine_.allreduce(call.send, call.recv, call.count, type, op, call.stream);
      else engine_.reduce_scatter(call.send, call.recv, call.count, type, op, call.stream);
    });
  }
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reduce: return reduce(call);
    case Collective::reduce_scatter: return reduce_scatter(call, equal_pieces(size_, unit));
    case Collective::allgather:
      return engine_.together(call.timeout_ms, [&] { engine_.allgather(call.send, call.recv, unit, call.stream); });
    case Collective::broadcast: {
      const bool is_root = call.root == context().rank;
      return engine_.together(
          call.timeout_ms, [&] { engine_.broadcast(is_root ? call.send : call.recv, call.recv, unit, call.root, call.stream); });
    }
    default: {
      const std::vector<Piece> pieces = equal_pieces(size_, unit);
      return move(call, pieces, pieces);
    }
  }
}

void DeviceSpanTransport::combine(
    const CollectiveCall& call, const std::vector<const std::byte*>& operands, void* to, size_t bytes) {
  cuda::CollectiveArgs args = arguments_of(call);
  std::transform(operands.begin(), operands.end(), args.send_block, cuda::address_of);
  args.recv = cuda::address_of(to);
  args.unit = bytes;
  constexpr size_t kThreads = 256, kMost = 1024;
  const size_t blocks = (bytes / cuda::kPack + kThreads) / kThreads;
  kernels().launch(kernels().find("symm_combine"),
      {static_cast<unsigned>(std::min(blocks, kMost)), kThreads, static_cast<cuda::CUstream>(call.stream)}, args);
}

// To all ranks or to the root.
void DeviceSpanTransport::reduce(const CollectiveCall& call) {
  const size_t bytes = call.unit(), row = size_ * cuda::kPack;
  const bool is_mine = call.collective == Collective::allreduce || call.root == context().rank;
  const auto* send = static_cast<const std::byte*>(call.send);
  auto* recv = static_cast<std::byte*>(call.recv);
  size_t at = 0;
  for (const size_t whole = algorithm_of(call) == Algorithm::two_shot ? bytes / row * row : 0; at < whole;) {
    const size_t slice = std::min(slot_bytes_, (whole - at) / size_);
    reduce_slices(call, at, slice);
    at += size_ * slice;
  }
  for (size_t part = 0; at < bytes; at += part) {
    part = std::min(slot_bytes_, bytes - at);
    engine_.together(call.timeout_ms, [&] { engine_.allgather(send + at, slot(0), part, call.stream); });
    if (!is_mine) continue;
    std::vector<const std::byte*> operands;
    for (size_t rank = 0; rank < size_; ++rank) operands.push_back(slot(0) + rank * part);
    combine(call, operands, recv + at, part);
  }
}

void DeviceSpanTransport::reduce_slices(const CollectiveCall& call, size_t at, size_t slice) {
  const bool to_all = call.collective == Collective::allreduce;
  const bool is_root = !to_all && call.root == context().rank;
  const auto* send = static_cast<const std::byte*>(call.send) + at;
  auto* recv = static_cast<std::byte*>(call.recv) + at;  // where there is one
  std::vector<const std::byte*> operands;
  engine_.together(call.timeout_ms, [&] {
    for (size_t rank = 0; rank < size_; ++rank) {
      operands.push_back(rank == me_ ? send + me_ * slice : slot(rank));
      if (rank == me_) continue;
      engine_.send(send + rank * slice, slice, static_cast<int>(rank), call.stream);
      engine_.recv(slot(rank), slice, static_cast<int>(rank), call.stream);
    }
  });
  std::byte* const result = to_all || is_root ? recv + me_ * slice : slot(size_);
  combine(call, operands, result, slice);
  engine_.together(call.timeout_ms, [&] {
    if (to_all) return engine_.allgather(result, recv, slice, call.stream);
    if (!is_root) return engine_.send(result, slice, call.root, call.stream);
    for (size_t rank = 0; rank < size_; ++rank)
      if (rank != me_) engine_.recv(recv + rank * slice, slice, static_cast<int>(rank), call.stream);
  });
}

void DeviceSpanTransport::reduce_scatter(const CollectiveCall& call, std::span<const Piece> pieces) {
  size_t most = 0;
  for (const Piece& piece : pieces) most = std::max(most, piece.bytes);
  const auto* send = static_cast<const std::byte*>(call.send);
  for (size_t at = 0; at < most; at += slot_bytes_) {
    const size_t mine = left_of(pieces[me_], at, slot_bytes_);
    std::vector<const std::byte*> operands;
    engine_.together(call.timeout_ms, [&] {
      for (size_t rank = 0; rank < size_; ++rank) {
        operands.push_back(rank == me_ ? send + pieces[me_].at + at : slot(rank));
        if (rank == me_) continue;
        if (const size_t theirs = left_of(pieces[rank], at, slot_bytes_); theirs != 0)
          engine_.send(send + pieces[rank].at + at, theirs, static_cast<int>(rank), call.stream);
        if (mine != 0) engine_.recv(slot(rank), mine, static_cast<int>(rank), call.stream);
      }
    });
    if (mine != 0) combine(call, operands, static_cast<std::byte*>(call.recv) + at, mine);
  }
}

// In place what is to be sent makes room first, as much at a time as fits: two ranks know how long what they exchange is, so they
// agree on how often they do.
void DeviceSpanTransport::move(const CollectiveCall& call, std::span<const Piece> send, std::span<const Piece> recv) {
  const bool exchanges = call.collective == Collective::alltoall || call.collective == Collective::alltoallv;
  const bool in_place = exchanges && call.send == call.recv;
  const size_t chunk = in_place ? slot_bytes_ : SIZE_MAX;
  const auto* from = static_cast<const std::byte*>(call.send);
  auto* to = static_cast<std::byte*>(call.recv);
  size_t most = 0;
  for (size_t rank = 0; rank < size_; ++rank) {
    if (rank != me_) most = std::max({most, send[rank].bytes, recv[rank].bytes});
  }
  if (!in_place && recv[me_].bytes != 0) copy(to + recv[me_].at, from + send[me_].at, recv[me_].bytes, call.stream);
  for (size_t at = 0; at < most; at += std::min(chunk, most - at)) {
    for (size_t rank = 0; in_place && rank < size_; ++rank)
      if (rank != me_) copy(slot(rank), from + send[rank].at + at, left_of(send[rank], at, chunk), call.stream);
    engine_.together(call.timeout_ms, [&] {
      for (size_t rank = 0; rank < size_; ++rank) {
        if (rank == me_) continue;
        const std::byte* const what = in_place ? slot(rank) : from + send[rank].at + at;
        if (const size_t bytes = left_of(send[rank], at, chunk)) engine_.send(what, bytes, static_cast<int>(rank), call.stream);
        if (const size_t bytes = left_of(recv[rank], at, chunk))
          engine_.recv(to + recv[rank].at + at, bytes, static_cast<int>(rank), call.stream);
      }
    });
  }
}
}  // namespace symm::span
