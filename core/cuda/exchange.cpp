// Makes lists for the kernel of exchanges, once, in memory of the device: what goes where, and
// which block puts what.
#include "core/cuda/exchange.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/piece_copies.hpp"
#include "core/cuda/stream_order.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/exchange_plan.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "symm/symm.h"

namespace symm::cuda {
namespace {
// Puts lists one behind the other, and tells where each lies.
class ListImage {
 public:
  template <class One>
  uint64_t add(std::span<const One> list) {
    const uint64_t at = bytes_.size();
    const auto raw = std::as_bytes(list);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    return at;
  }

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  static constexpr size_t kAlignment = 16;
  std::vector<std::byte> bytes_;
};

constexpr size_t kExchangeWarps = kCopyThreads / kWarp;
// Blocks that a multiprocessor has room for at a time.
constexpr uint32_t kExchangeBlocks = 2;
}  // namespace

Exchange::Exchange(
    DeviceGroup& group, const MemoryView& words, std::span<const NeighborPieces> parts)
    : group_(group), order_(group.device, nullptr) {
  Lists lists = lists_of(words, parts);
  if (!lists.neighbors.empty()) place(lists);
}

Exchange::Lists Exchange::lists_of(
    const MemoryView& words, std::span<const NeighborPieces> parts) const {
  const auto me = static_cast<size_t>(group_.context.rank);
  // Words of a block: begun[rank], and there[rank].
  const auto begun = [&](size_t owner, size_t by) {
    return address_of(words.blocks[owner]) + by * sizeof(uint32_t);
  };
  const auto there = [&](size_t owner, size_t by) {
    return begun(owner, words.blocks.size() + by);
  };

  Lists lists;
  for (const NeighborPieces& part : parts) {
    const auto is_its = [&](const ExchangeNeighbor& one) { return one.rank == part.rank; };
    if (std::any_of(lists.neighbors.begin(), lists.neighbors.end(), is_its)) continue;
    const auto peer = static_cast<size_t>(part.rank);
    lists.neighbors.push_back(
        {begun(me, peer), there(me, peer), begun(peer, me), there(peer, me), part.rank, 0, 0});
  }

  for (const ExchangeNeighbor& neighbor : lists.neighbors) {
    const size_t before = lists.pieces.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].rank == neighbor.rank) add_pieces(lists, parts[i], i);
    }
    lists.counts.push_back(lists.pieces.size() - before);
  }
  return lists;
}

void Exchange::add_pieces(Lists& lists, const NeighborPieces& part, size_t index) const {
  const size_t before = lists.pieces.size();
  for (size_t i = 0; i < part.list.count; ++i) {
    ListedPiece piece = joined(std::bit_cast<ListedPiece>(part.list.pieces[i]));
    if (cost_of(piece) == 0) continue;
    piece.from += address_of(part.source);
    piece.to += address_of(part.to);
    lists.pieces.push_back(piece);
  }
  if (lists.pieces.size() == before) return;
  require_reachable(
      *group_.device, address_of(part.source), format("neighbors[%zu].source", index).c_str());
}

void Exchange::place(Lists& lists) {
  // Blocks that wait for a neighbour leave room for kernels of ranks on the same device.
  const auto room = static_cast<uint64_t>(group_.device->multiprocessors()) * kExchangeBlocks;
  const auto most = std::min(room, static_cast<uint64_t>(std::max(group_.facts.max_blocks, 1)));
  const uint64_t wanted = parts_of(units_of(lists.pieces, lists.counts), kExchangeWarps);
  const ExchangePlan plan = divide(
      lists.pieces, lists.counts, static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most)));
  for (const ExchangeSegment& segment : plan.segments) {
    ++lists.neighbors[segment.neighbor].segments;
  }

  ListImage image;
  const ExchangeWords words{};
  told_.words = image.add(std::span(&words, 1));
  told_.neighbors = image.add<ExchangeNeighbor>(lists.neighbors);
  told_.segments = image.add<ExchangeSegment>(plan.segments);
  told_.first_segment = image.add<uint32_t>(plan.first_segment);
  told_.pieces = image.add<ListedPiece>(lists.pieces);
  told_.neighbor_count = static_cast<uint32_t>(lists.neighbors.size());
  const auto is_long = [](const ListedPiece& piece) { return piece.bytes >= kBulkRow; };
  told_.in_bulk =
      group_.copies_pieces_in_bulk && std::any_of(lists.pieces.begin(), lists.pieces.end(), is_long)
          ? 1
          : 0;
  told_.blocks = plan.blocks();

  const Driver& driver = group_.device->driver();
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  memory_ = Allocation::create(group_.device, image.bytes().size());
  const CUstream stream = group_.device->stream();
  driver.require(driver.cuMemcpyAsync(memory_->address(), address_of(image.bytes().data()),
                     image.bytes().size(), stream),
      "cuMemcpyAsync", "the lists of an exchange");
  driver.require(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  for (uint64_t* const at :
      {&told_.words, &told_.neighbors, &told_.segments, &told_.first_segment, &told_.pieces}) {
    *at += memory_->address();
  }
}

void Exchange::start(uint64_t timeout_ms, void* stream) {
  issue(Operation::exchange_start, timeout_ms, stream);
}

void Exchange::finish(uint64_t timeout_ms, void* stream) {
  issue(Operation::exchange_finish, timeout_ms, stream);
}

void Exchange::issue(Operation operation, uint64_t timeout_ms, void* on) {
  const CUstream stream = stream_of(on);
  if (told_.blocks == 0) return;  // there are no neighbours

  const ContextGuard current(*group_.device);
  const TimedLock turn(order_.turn(), timeout_ms,
      operation == Operation::exchange_start ? "exchange_start" : "exchange_finish");
  group_.context.revocation->throw_if_revoked();
  const StreamOrder::CallStream ordered = order_.before(stream);
  launch(operation, timeout_ms, stream);
  order_.after(ordered);
  group_.order.record_use(stream);
}

void Exchange::launch(Operation operation, uint64_t timeout_ms, CUstream stream) const {
  const CUfunction kernel = group_.kernel("symm_exchange_round", "symm_large_exchange_round");
  group_.in_room([&]<int kRanks>() {
    ExchangeArgsOf<kRanks> args{};
    args.comm = group_.comm_of<kRanks>(timeout_ms, static_cast<uint32_t>(operation));
    args.words = told_.words;
    args.neighbors = told_.neighbors;
    args.segments = told_.segments;
    args.first_segment = told_.first_segment;
    args.pieces = told_.pieces;
    args.neighbor_count = told_.neighbor_count;
    args.blocks = told_.blocks;
    args.finishes = operation == Operation::exchange_finish ? 1 : 0;
    args.in_bulk = told_.in_bulk;
    group_.kernels.launch(
        kernel, {args.blocks, kCopyThreads, stream, 1, args.in_bulk != 0 ? kCopyShared : 0}, args);
  });
}
}  // namespace symm::cuda
