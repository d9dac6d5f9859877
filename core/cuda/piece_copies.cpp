// A list on the host is read before the call returns: a short one travels with the arguments of the
// kernel, also into a graph, and a long one lies in pinned memory until the kernel has read it. The
// host adds up what its pieces cost, so that no block has to. A list on the device is left to the
// kernel.
#include "core/cuda/piece_copies.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/piece_shares.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm::cuda {
namespace {
constexpr size_t kWarps = kCopyThreads / kWarp;
// Blocks that a multiprocessor has room for at a time.
constexpr uint32_t kBlocksEach = 2;
// A cluster of more blocks has no room on every GPU, and needs no launch of its own for the signal.
constexpr uint32_t kMostOfCluster = 8;
// A cluster takes longer with more than this than it saves.
constexpr uint64_t kMostCostOfCluster = 16 * kMostOfCluster * kUnitCost;

WriteKind kind_of(const OutgoingSignal& signal) {
  return signal.op == SignalOp::add ? WriteKind::add : WriteKind::store64;
}
}  // namespace

// ---- buffers

ListBuffers::~ListBuffers() {
  // Kernels may still read them.
  for (const std::unique_ptr<Buffer>& buffer : buffers_) {
    device_->defer(
        [&driver = device_->driver(), host = buffer->host] { driver.cuMemFreeHost(host); });
  }
  const ContextGuard current(*device_, std::nothrow);
  buffers_.clear();
}

ListBuffers::Buffer ListBuffers::make(size_t bytes) const {
  constexpr size_t kLeast = size_t{64} << 10;
  const Driver& driver = device_->driver();
  Buffer made;
  made.bytes = std::bit_ceil(std::max(bytes, kLeast));
  made.used = device_->uses().make_event();

  void* host = nullptr;
  driver.require(driver.cuMemHostAlloc(
                     &host, made.bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
      "cuMemHostAlloc", "a list of pieces");
  const CUresult result = driver.cuMemHostGetDevicePointer(&made.address, host, 0);
  if (result != CUDA_SUCCESS) {
    driver.cuMemFreeHost(host);
    driver.require(result, "cuMemHostGetDevicePointer");
  }
  made.host = static_cast<std::byte*>(host);
  return made;
}

ListBuffers::Taken ListBuffers::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(buffers_.begin(), buffers_.end(), [&](const auto& buffer) {
    return !buffer->is_taken && buffer->bytes >= bytes && device_->uses().is_over(buffer->used);
  });
  Buffer* taken = found != buffers_.end() ? found->get() : nullptr;

  if (taken == nullptr) {
    // What may fail comes first, so that nothing that was made is lost.
    buffers_.reserve(buffers_.size() + 1);
    auto made = std::make_unique<Buffer>();
    *made = make(bytes);
    taken = buffers_.emplace_back(std::move(made)).get();
  }
  taken->is_taken = true;
  return Taken(taken, {this});
}

void ListBuffers::mark_use(Buffer& buffer, CUstream stream) {
  const Driver& driver = device_->driver();
  driver.require(driver.cuEventRecord(buffer.used.get(), stream), "cuEventRecord");
}

void ListBuffers::give_back(Buffer& buffer) noexcept {
  const std::lock_guard lock(mutex_);
  buffer.is_taken = false;
}

// ---- the work on a list

// What a kernel is told of a list, and how many blocks share the work.
struct PieceCopies::Work {
  // As in CopyPiecesArgsOf.
  uint64_t pieces = 0;
  uint64_t from_table = 0;
  uint64_t to_table = 0;
  uint32_t travels = 0;
  uint64_t cost = 0;
  uint64_t starts = 0;
  uint64_t total = 0;
  uint64_t listed[kListedNumbers]{};

  uint32_t blocks = 1;
  bool is_cluster = false;
  bool in_bulk = false;
  // What does not travel.
  ListBuffers::Taken buffer{};
};

namespace {
// The parts of a list on the host, in the order in which they are told to a kernel.
struct ListParts {
  std::span<const uint64_t> part[3]{};
  size_t numbers = 0;

  explicit ListParts(const PieceList& list) {
    constexpr size_t kNumbers = sizeof(symm_piece_t) / sizeof(uint64_t);
    const auto* const pieces = reinterpret_cast<const uint64_t*>(list.pieces);
    if (pieces != nullptr) part[0] = {pieces, kNumbers * list.count};
    if (list.from_table != nullptr) part[1] = {list.from_table, list.count};
    if (list.to_table != nullptr) part[2] = {list.to_table, list.count};
    numbers = part[0].size() + part[1].size() + part[2].size();
  }
};
}  // namespace

// Copies a list on the host to where the kernel reads it.
void PieceCopies::place(Work& work, const PieceList& list, CUstream stream) {
  const ListParts parts(list);
  const bool travels = parts.numbers <= kListedNumbers;
  if (!travels && group_.device->uses().capture_of(stream) != 0) {
    throw Error(Status::unsupported,
        format("call.count: %zu pieces on the host are too many while the stream is being "
               "captured, since a graph keeps %u numbers of a list; a list of any length may be in "
               "memory of the device (SYMM_PIECES_ON_DEVICE)",
            list.count, kListedNumbers));
  }

  const bool has_starts = !travels && work.cost == 0;
  const size_t list_bytes = parts.numbers * sizeof(uint64_t);
  if (!travels) {
    const size_t starts = has_starts ? (work.blocks + 1) * sizeof(PieceStart) : 0;
    work.buffer = lists_.take(list_bytes + starts);
  }
  auto* const to = travels ? work.listed : reinterpret_cast<uint64_t*>(work.buffer->host);
  uint64_t* const places[] = {&work.pieces, &work.from_table, &work.to_table};
  size_t at = 0;
  for (size_t i = 0; i < std::size(places); ++i) {
    if (parts.part[i].empty()) continue;
    std::copy(parts.part[i].begin(), parts.part[i].end(), to + at);
    *places[i] = travels ? at : work.buffer->address + at * sizeof(uint64_t);
    if (travels) work.travels |= 1U << i;
    at += parts.part[i].size();
  }

  if (has_starts) {
    auto* const starts = reinterpret_cast<PieceStart*>(work.buffer->host + list_bytes);
    find_starts({starts, work.blocks + 1}, list, work.total);
    work.starts = work.buffer->address + list_bytes;
  }
}

// The work on a list, of which the host knows only the pages' size if the device reads it.
void PieceCopies::plan(Work& work, const PieceCopy& pieces) const {
  const PieceList& list = pieces.list;
  const bool is_known = !list.on_device || list.page_bytes != 0;
  const auto most = static_cast<uint32_t>(group_.device->multiprocessors()) * kBlocksEach;
  work.blocks = most;
  work.in_bulk = group_.copies_pieces_in_bulk;
  if (!is_known) return;

  const PieceCosts costs = costs_of(list);
  work.cost = costs.each;
  work.total = costs.total;
  const uint64_t wanted = parts_of(costs.total, kUnitCost * kWarps);
  work.blocks = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));

  // What a few blocks copy is over before an engine has begun.
  work.in_bulk = work.in_bulk && costs.total > kMostCostOfCluster;
  work.is_cluster = pieces.signal != nullptr && work.blocks > 1 &&
                    costs.total <= kMostCostOfCluster && group_.kernels.is_for_9();
  if (work.is_cluster) work.blocks = std::min(std::bit_ceil(work.blocks), kMostOfCluster);
}

template <int kRanks>
void PieceCopies::launch(const Copy& copy, const Work& work, bool signals, CUstream stream) const {
  const PieceList& list = copy.pieces.list;
  CopyPiecesArgsOf<kRanks> args{};
  args.comm = group_.comm_of<kRanks>(0, static_cast<uint32_t>(copy.operation));
  args.peer = copy.peer;
  args.checks = list.on_device ? 1 : 0;
  args.to = copy.to;
  args.from = copy.from;
  args.to_bytes = copy.to_bytes;
  args.from_bytes = copy.from_bytes;
  args.page_bytes = list.page_bytes;
  args.pieces = work.pieces;
  args.from_table = work.from_table;
  args.to_table = work.to_table;
  args.travels = work.travels;
  args.is_cluster = work.is_cluster ? 1 : 0;
  args.count = list.count;
  args.count_at = address_of(list.count_at);
  args.cost = work.cost;
  args.starts = work.starts;
  args.total = work.total;
  args.in_bulk = work.in_bulk ? 1 : 0;
  std::copy(std::begin(work.listed), std::end(work.listed), args.listed);

  if (signals) {
    args.signal = copy.signal;
    args.value = copy.pieces.signal->value;
    args.kind = kind_of(*copy.pieces.signal);
  }
  group_.kernels.launch(group_.kernel("symm_copy_pieces", "symm_large_copy_pieces"),
      {work.blocks, kCopyThreads, stream, work.is_cluster ? work.blocks : 1,
          work.in_bulk ? kCopyShared : 0},
      args);
}

void require_reachable(const Device& device, CUdeviceptr at, const char* argument) {
  if (device.attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0) return;

  unsigned kind = 0;
  const auto get = device.driver().cuPointerGetAttribute;
  if (at == 0 || get(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CUDA_SUCCESS) return;
  throw Error(Status::invalid_argument,
      format("%s: lies in pageable memory of the host, which kernels of device %d do not reach",
          argument, device.ordinal()));
}

void PieceCopies::require_all_reachable(const Copy& copy) const {
  const auto require = [&](CUdeviceptr at, const char* argument) {
    require_reachable(*group_.device, at, argument);
  };
  const PieceList& list = copy.pieces.list;
  const bool is_put = copy.operation == Operation::put_pieces;
  require(is_put ? copy.from : copy.to, copy.local_name);
  if (!list.on_device) return;
  require(address_of(list.pieces), "call.pieces");
  require(address_of(list.from_table), "call.from_table");
  require(address_of(list.to_table), "call.to_table");
  require(address_of(list.count_at), "call.device_count");
}

// A signal goes with the kernel where its blocks know of each other, else with a kernel of its own.
void PieceCopies::issue(const Copy& copy, void* stream) {
  const CUstream on = stream_of(stream);
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  const PieceList& list = copy.pieces.list;
  const bool copies = list.count != 0 && (list.on_device || copy.pieces.bytes != 0);

  bool is_signalled = copy.pieces.signal == nullptr;
  if (copies) {
    require_all_reachable(copy);
    Work work;
    plan(work, copy.pieces);
    if (list.on_device) {
      work.pieces = address_of(list.pieces);
      work.from_table = address_of(list.from_table);
      work.to_table = address_of(list.to_table);
    } else {
      place(work, list, on);
    }

    const bool signals = !is_signalled && (work.blocks == 1 || work.is_cluster);
    group_.in_room([&]<int kRanks>() { launch<kRanks>(copy, work, signals, on); });
    if (work.buffer != nullptr) lists_.mark_use(*work.buffer, on);
    is_signalled = is_signalled || signals;
  }

  if (!is_signalled) {
    write_word(group_, copy.signal, copy.pieces.signal->value, kind_of(*copy.pieces.signal), stream,
        list.on_device ? copy.unless : group_.abort_word_if_captured(stream));
  }
  group_.order.record_use(on);
}
}  // namespace symm::cuda
