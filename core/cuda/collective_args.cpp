// Fills the structs that kernels get from the call, the plan and the places of the operands. It
// launches nothing.
#include "core/cuda/collective_args.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/multicast_memories.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
void copy_ranges(const std::vector<Piece>& from, PieceRange* to) {
  std::transform(from.begin(), from.end(), to,
      [](const Piece& piece) { return PieceRange{piece.at, piece.bytes}; });
}

// `bytes` are those of the operand.
PieceCounts counts_of(const DeviceCounts& given, size_t bytes, uint32_t element) {
  return {address_of(given.counts), address_of(given.displacements), bytes / element};
}
}  // namespace

template <int kRanks>
CollectiveArgsOf<kRanks> collective_args(const DeviceGroup& group, const CollectiveCall& call) {
  CollectiveArgsOf<kRanks> args{};
  args.comm = group.comm_of<kRanks>(call.timeout_ms, static_cast<uint32_t>(call.collective));
  args.send = address_of(call.send);
  args.recv = address_of(call.recv);
  args.unit = call.unit();

  args.collective = static_cast<int32_t>(call.collective);
  args.dtype = static_cast<int32_t>(combined_as(call.dtype, call.op));
  args.op = static_cast<int32_t>(call.op);
  args.root = call.root;
  args.in_tree = call.order == Order::tree ? 1 : 0;
  args.detail = call.packed();
  args.count = call.count;
  return args;
}

// The arguments of the kernels in pieces.cu. In a call without pieces of its own, an all-to-all
// for one, the pieces are the ranks' blocks, which have one size.
template <int kRanks>
PiecesArgsOf<kRanks> pieces_args(const DeviceGroup& group, const CollectiveCall& call) {
  PiecesArgsOf<kRanks> args{};
  args.call = collective_args<kRanks>(group, call);
  args.element = static_cast<uint32_t>(size_of(call.dtype));

  if (call.pieces == nullptr) {
    for (int p = 0; p < group.context.size; ++p) {
      const PieceRange block{static_cast<uint64_t>(p) * call.unit(), call.unit()};
      args.send[p] = block;
      args.recv[p] = block;
    }
    return args;
  }

  const Pieces& pieces = *call.pieces;
  args.row_bytes = pieces.row_bytes;
  args.row_stride = pieces.row_stride;
  copy_ranges(pieces.send, args.send);
  copy_ranges(pieces.recv, args.recv);
  args.counts[0] = counts_of(pieces.device_send, pieces.send_bytes, args.element);
  args.counts[1] = counts_of(pieces.device_recv, pieces.recv_bytes, args.element);
  return args;
}

RmsNormArgsOf<kSmallRanks> rmsnorm_args(
    const DeviceGroup& group, const CollectiveCall& call, const RmsNorm& norm) {
  RmsNormArgsOf<kSmallRanks> args{};
  args.call = collective_args<kSmallRanks>(group, call);
  args.residual_in = address_of(norm.residual_in);
  args.residual_out = address_of(norm.residual_out);
  args.norm_out = address_of(norm.norm_out);
  args.weight = address_of(norm.weight);
  args.quant_out = address_of(norm.quant_out);
  args.scale_in = address_of(norm.scale_in);
  args.scale_out = address_of(norm.scale_out);

  args.rows = static_cast<uint32_t>(call.count / norm.hidden);
  args.hidden = static_cast<uint32_t>(norm.hidden);
  args.epsilon = norm.epsilon;
  args.weight_offset = norm.weight_offset;
  args.weight_dtype = static_cast<int32_t>(norm.weight_dtype);
  args.scale_kind = static_cast<int32_t>(norm.scale_kind);
  return args;
}

template <int kRanks>
void add_pipeline_args(const DeviceGroup& group, const CollectiveCall& call, const Plan& chosen,
    CollectiveArgsOf<kRanks>& args) {
  args.movers = group.copies_in_bulk ? chosen.movers : 0;
  args.direct = chosen.direct ? 1 : 0;
  args.spares_root = chosen.spares_root ? 1 : 0;

  size_t offset = 0;
  const auto memory = recv_holds_send(call) ? nullptr : memory_of_recv(group, call, &offset);
  if (memory != nullptr) {
    args.recv_memory = memory->id;
    args.recv_offset = offset;
    args.recv_bytes = memory->bytes;
    if constexpr (CollectiveArgsOf<kRanks>::kKnowsRecv) {
      std::transform(memory->blocks.begin(), memory->blocks.end(), args.recv_block,
          [](std::byte* mapped) { return address_of(mapped); });
    }
  }

  const bool is_delivered = is_delivered_to(call.collective, group.context.rank, call.root);
  args.copies_out = memory == nullptr && is_delivered ? 1 : 0;
}

void add_multimem_args(const DeviceGroup& group, const CollectiveCall& call, const Plan& chosen,
    CollectiveArgsOf<kSmallRanks>& args) {
  const auto find = [&](const char* name, const void* pointer) {
    MulticastMemories::Operand operand = group.multicast.find(name, pointer, call.unit());
    if (!operand.reason.empty()) throw Error(Status::invalid_argument, operand.reason);
    return operand;
  };

  const MulticastMemories::Operand send = find("send", call.send);
  args.send_multicast = send.address;
  args.send_memory = send.memory;
  args.send_offset = send.offset;
  if (chosen.algorithm == Algorithm::multimem_two_shot) {
    const MulticastMemories::Operand recv = find("recv", call.recv);
    args.recv_multicast = recv.address;
    args.recv_memory = recv.memory;
    args.recv_offset = recv.offset;
  }
}

// Peers may store straight into recv if it is memory of the group, unless it still holds what is
// to be sent, or what arrives has to be combined first.
template <int kRanks>
void add_recv_of_pieces(
    const DeviceGroup& group, const CollectiveCall& call, CollectiveArgsOf<kRanks>& args) {
  const size_t bytes = call.pieces->recv_bytes;
  const bool reduces = traits(call.collective).has_op;
  if (reduces || recv_holds_send(call) || bytes == 0) return;

  size_t offset = 0;
  const auto memory = group.context.directory->containing(call.recv, bytes, &offset);
  if (memory == nullptr) return;
  args.recv_memory = memory->id;
  args.recv_offset = offset;
}

std::shared_ptr<const MemoryView> memory_of_recv(
    const DeviceGroup& group, const CollectiveCall& call, size_t* offset) {
  const size_t bytes = operand_bytes(call.collective, call.unit(), group.context.size).recv;
  return group.context.directory->containing(call.recv, bytes, offset);
}

#define SYMM_FOR_ROOM(ranks)                                                                   \
  template CollectiveArgsOf<ranks> collective_args(const DeviceGroup&, const CollectiveCall&); \
  template PiecesArgsOf<ranks> pieces_args(const DeviceGroup&, const CollectiveCall&);         \
  template void add_pipeline_args(                                                             \
      const DeviceGroup&, const CollectiveCall&, const Plan&, CollectiveArgsOf<ranks>&);       \
  template void add_recv_of_pieces(                                                            \
      const DeviceGroup&, const CollectiveCall&, CollectiveArgsOf<ranks>&);
SYMM_FOR_ROOM(kSmallRanks)
SYMM_FOR_ROOM(kMaxRanks)
#undef SYMM_FOR_ROOM

bool recv_holds_send(const CollectiveCall& call) {
  const bool exchanges =
      call.collective == Collective::alltoall || call.collective == Collective::alltoallv;
  return exchanges && call.send == call.recv;
}
}  // namespace symm::cuda
