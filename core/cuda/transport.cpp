// Forms the CUDA half of a group, and hands each call on to the object that issues it. The
// collectives themselves are in collectives.cpp.
#include "core/cuda/transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/backend/nccl_column.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/stats.hpp"
#include "core/backend/topology.hpp"
#include "core/base/deadline.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/atomic_reach.hpp"
#include "core/cuda/control.hpp"
#include "core/cuda/cube_mesh.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/error_mailbox.hpp"
#include "core/cuda/fill.hpp"
#include "core/cuda/intranode_device.hpp"
#include "core/cuda/memory_table.hpp"
#include "core/cuda/multicast_choice.hpp"
#include "core/cuda/nvml.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "core/cuda/signal_pad.hpp"
#include "core/cuda/stream_uses.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/occupancy.hpp"
#include "kernels/cuda/plan.hpp"

namespace symm::cuda {
namespace {
// The message of every rank to every other one.
struct TransportShare {
  // Stamps of the control block whose descriptor travels with the share, and of the plans.
  Stamp control;
  Stamp plans;
  Uuid uuid;
  uint64_t bytes;
  uint64_t mapped;
  // Must be equal on all ranks, since the layout of the control block follows from them.
  PlanValues values;
  int32_t multiprocessors;
  int32_t has_clusters;
  MulticastFacts multicast;
  LinkFacts links;
  // Ranks on other hosts of this machine map the control block by this handle; zeros if there are
  // none.
  FabricHandle fabric;
};
}  // namespace

// ---- forming a group

CudaTransport::CudaTransport(TransportContext context, std::shared_ptr<Device> device,
    const PlanValues& values, NcclColumn column)
    : Transport(static_cast<DeviceTransport*>(this), **context.revocation->page()),
      lender_(static_cast<const CudaTransport*>(context.lender)),
      group_(std::move(context), std::move(device), values,
          lender_ != nullptr ? &lender_->group_ : nullptr),
      values_(values),
      nccl_column_(std::move(column)),
      controls_(static_cast<size_t>(group_.context.size)),
      uuids_(controls_.size()),
      links_(controls_.size()),
      atomic_reach_(group_.device),
      mailbox_(std::make_shared<ErrorMailbox>(group_.device)),
      collectives_(group_, stats_),
      messages_(group_),
      piece_copies_(group_) {
  controls_[me()] = create_control(group_.device, group_.context.size, group_.layout);
  stages_ = lender_ != nullptr ? lender_->stages_ : controls_[me()];
  // Exported now, where a failure is one of all ranks.
  controls_[me()]->fd();
  uuids_[me()] = group_.device->uuid();
  links_[me()] = link_facts(*group_.device, group_.context.size);
  MulticastWish wish = group_.context.multicast ? MulticastWish::yes : MulticastWish::none;
  if (group_.context.no_multicast) wish = MulticastWish::no;
  group_.multicast.facts(group_.context.rank) = multicast_facts(*group_.device, wish, environment);

  group_.load_kernels();
  const CUdeviceptr table = controls_[me()]->address() + group_.layout.memories;
  group_.set_places(mailbox_->record_on_device(), table);
  memories_ = std::make_shared<MemoryTable>(group_.device, table, group_.is_large);
  stats_.barriers = std::vector<Counter>(1);
}

CudaTransport::~CudaTransport() { listener_.reset(); }

OutgoingMessage CudaTransport::share() const {
  const auto& control = controls_[me()];
  OutgoingMessage share{{}, {control->fd(), group_.issued.fd()}};
  TransportShare body{stamp_of(layouts::cuda_control), stamp_of(layouts::plans),
      group_.device->uuid(), control->size(), control->mapped(), values_,
      group_.device->multiprocessors(), group_.kernels.is_for_9() ? 1 : 0,
      group_.multicast.facts(group_.context.rank), links_[me()], {}};
  // A process that has the handle can map the block, so the handle is sent only if it
  // is needed.
  if (group_.context.machines.spans_hosts(group_.context.rank)) {
    body.fabric = control->share().extent.fabric;
  }

  append(share, body);
  return share;
}

void CudaTransport::connect(int peer, Message message, const PeerIdentity&) {
  const auto body = first_of<TransportShare>(message);
  require_same_stamp(layouts::cuda_control, group_.context.rank, peer, body.control);
  require_same_stamp(layouts::plans, group_.context.rank, peer, body.plans);
  if (const std::string differs =
          plan_difference(BackendKind::cuda, group_.context.rank, values_, peer, body.values);
      !differs.empty()) {
    throw Error({Status::mismatch, peer, 0, differs});
  }
  const auto& mine = controls_[me()];
  if (body.bytes != mine->size() || body.mapped < body.bytes) {
    throw Error({Status::mismatch, peer, 0,
        format("rank %d has a control block of %lu bytes, this rank of %zu: they were given "
               "different sizes of scratch or numbers of channels",
            peer, body.bytes, mine->size())});
  }

  const auto at = static_cast<size_t>(peer);
  if (maps(peer)) {
    const BlockExtent extent{.bytes = body.bytes, .mapped = body.mapped, .fabric = body.fabric};
    controls_[at] = Allocation::import(group_.device, message.take_fd(0), extent);
    if (group_.context.machines.share_host(group_.context.rank, peer)) {
      group_.issued.connect(peer, message.take_fd(1));
    }
  }
  uuids_[at] = body.uuid;
  links_[at] = body.links;
  group_.multicast.facts(peer) = body.multicast;

  Facts& facts = group_.facts;
  facts.max_blocks = std::min(facts.max_blocks, body.multiprocessors);
  facts.has_clusters = facts.has_clusters && body.has_clusters != 0;
}

void CudaTransport::ready() {
  SYMM_POINT("cuda.ready");
  const TransportContext& context = group_.context;
  const int on_one = max_ranks_on_one_device();
  group_.facts.shares_device = on_one > 1;
  group_.facts.max_blocks =
      max_blocks_of(group_.facts.max_blocks, context.size, on_one, group_.tuning);
  // If ranks share a device, the early kernel of one rank could take the room that
  // another rank's kernel needs.
  if (on_one == 1) group_.kernels.launch_early(group_.tuning.early);

  // A bus id tells devices apart on one host only.
  if (context.machines.count == 1 && !context.machines.spans_hosts(context.rank)) {
    const std::optional<CubeMesh> mesh = cube_mesh_of(links_);
    group_.facts.is_cube_mesh = mesh.has_value();
    group_.cube_mesh = mesh.value_or(CubeMesh{});
  }

  for (int rank = 0; rank < context.size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (!controls_[at]) continue;

    const CUdeviceptr control = controls_[at]->address();
    const bool is_lent = lender_ != nullptr;
    group_.set_control(
        rank, control, is_lent ? lender_->group_.stages_at(context.lender_ranks[at]) : control);
  }
  controls_[me()]->will_not_be_shared();
  group_.issued.will_not_be_shared();

  group_.multicast.choose(group_.kernels);
  listener_ = context.revocation->listen([this] { tell_kernels(); });
}

// Throws Error(invalid_argument) if ranks share a device and the group does not allow it.
int CudaTransport::max_ranks_on_one_device() const {
  int most = 1;

  for (int rank = 0; rank < group_.context.size; ++rank) {
    const Uuid& uuid = uuids_[static_cast<size_t>(rank)];
    const auto ranks = static_cast<int>(std::count(uuids_.begin(), uuids_.end(), uuid));
    most = std::max(most, ranks);

    if (ranks > 1 && !group_.context.overlapping_devices) {
      throw Error({Status::invalid_argument, rank, 0,
          format("%d ranks, rank %d among them, use device %s; that needs "
                 "SYMM_GROUP_OVERLAPPING_DEVICES",
              ranks, rank, text_of(uuid).c_str())});
    }
  }
  return most;
}

IntranodeDevice* CudaTransport::intranode() {
  if (!intranode_) intranode_ = std::make_unique<CudaIntranodeDevice>(group_);
  return intranode_.get();
}

// ---- trouble

void CudaTransport::tell_kernels() noexcept {
  const Revocation& revocation = *group_.context.revocation;
  RankSetOf<kMaxRanks> departed{};
  for (int rank = 0; rank < group_.context.size; ++rank) {
    if (rank != group_.context.rank && revocation.departed(rank)) departed.add(rank);
  }
  const bool revoked = revocation.revoked();
  if (revoked || !departed.is_empty()) {
    mailbox_->tell(controls_[me()], stages_, revoked, departed);
  }
}

void CudaTransport::check_device_errors() {
  const TransportContext& context = group_.context;
  if (!mailbox_->has_record() || context.revocation->revoked()) return;
  Failure failure = failure_of(mailbox_->record(), context, group_.device->ordinal(), *group_.tags);
  if (failure.status == Status::timeout) failure = group_.issued.explained(std::move(failure));
  context.fail(failure);
}

// ---- barriers

void CudaTransport::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  const ContextGuard current(*group_.device);
  if (ranks.empty() || ranks.size() == static_cast<size_t>(group_.context.size)) {
    group_.issued.note_barrier(channel, group_.device->uses().capture_of(stream_of(stream)) != 0);
  }
  launch_barrier(group_, ranks, channel, timeout_ms, stream);
  stats_.barriers[0].add_shared(1);
  group_.order.record_use(stream_of(stream));
}

void CudaTransport::finish(int channel, uint64_t timeout_ms) {
  const CUstream stream = group_.device->stream();
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  const Driver& driver = group_.device->driver();
  {
    const TimedLock turn(group_.order.turn(), timeout_ms, "finalize");
    group_.order.before(stream);
    barrier({}, channel, timeout_ms, stream);
  }

  // The wait is bounded: the barrier, and what is on the stream before it, have deadlines of their
  // own.
  if (const std::unique_ptr<MessageWait> shown = await_stream()) {
    const auto is_over = [&] {
      if (driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY) return true;
      shown->look();
      return false;
    };
    retry_until(is_over, Deadline::never());
  }
  driver.require(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  check_device_errors();
  group_.context.revocation->throw_if_revoked();
}

// ---- signals and words

void CudaTransport::send_signal(const MemoryView& memory, int rank, int channel, SignalOp op,
    uint64_t value, uint64_t, void* stream) {
  const WriteKind kind = op == SignalOp::add ? WriteKind::add : WriteKind::store64;
  const ContextGuard current(*group_.device);
  write_word(group_, signal_word(memory, rank, channel, group_.context.rank), value, kind, stream,
      group_.abort_word_if_captured(stream));
}

void CudaTransport::write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value,
    size_t bytes, uint64_t, void* stream) {
  const WriteKind kind = bytes == sizeof(uint32_t) ? WriteKind::store32 : WriteKind::store64;
  write_word(
      group_, address_of(memory.blocks[static_cast<size_t>(rank)] + offset), value, kind, stream);
}

void CudaTransport::require_atomic_reach(const MemoryView& memory, int rank) {
  const auto at = static_cast<size_t>(rank);
  std::string reason;
  if (memory.on_host[at]) {
    reason = atomic_reach_.why_not_on_host();
  } else if (group_.context.machines.share_host(rank, group_.context.rank)) {
    reason = atomic_reach_.why_not(uuids_[at]);
  }
  // GPUs of other hosts whose memory is mapped here are in the NVLink domain.

  if (!reason.empty()) {
    throw Error(Status::unsupported,
        format("atomic: the word is in the block of rank %d, and %s", rank, reason.c_str()));
  }
}

void CudaTransport::change_value(const MemoryView& memory, int rank, size_t offset,
    const AtomicChange& change, void* fetched, uint64_t, void* stream) {
  require_atomic_reach(memory, rank);
  const CUdeviceptr word = address_of(memory.blocks[static_cast<size_t>(rank)] + offset);
  change_word(group_, word, change, address_of(fetched), stream);
}

uint64_t CudaTransport::read_value(
    const MemoryView& memory, int rank, size_t offset, size_t bytes, uint64_t) {
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  return mailbox_->read(address_of(memory.blocks[static_cast<size_t>(rank)] + offset), bytes);
}

// The signals that were taken are counted on the device, where the count is right also when a
// captured graph is replayed.
void CudaTransport::take_signal(
    const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) {
  const CUdeviceptr word = signal_word(memory, group_.context.rank, channel, rank);
  const WordWait wait{word, 0, rank, static_cast<uint32_t>(channel), Compare::ge, sizeof(uint64_t)};
  wait_word(group_, timeout_ms, Operation::wait_signal, word + taken_offset(memory), wait, stream);
}

SignalState CudaTransport::look_at_signal(const MemoryView& memory, int rank, int channel) {
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  const CUdeviceptr word = signal_word(memory, group_.context.rank, channel, rank);
  const uint64_t taken = mailbox_->read(word + taken_offset(memory));
  return {mailbox_->read(word), taken};
}

void CudaTransport::wait_signals(const MemoryView& memory, std::span<const SignalWait> waits,
    bool any, uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) {
  const auto require_null = [](const void* pointer, const char* name) {
    if (pointer == nullptr) return;
    throw Error(Status::invalid_argument,
        format("%s: must be NULL with the CUDA back end, which waits later", name));
  };
  require_null(out_index, "out_index");
  require_null(out_seen, "out_seen");

  WordWait words[kMaxWaits];
  size_t count = 0;
  for (const SignalWait& wait : waits) {
    const CUdeviceptr word = signal_word(memory, group_.context.rank, wait.channel, wait.rank);
    words[count++] = {word, wait.value, wait.rank, static_cast<uint32_t>(wait.channel),
        wait.compare, sizeof(uint64_t)};
  }

  if (count == 1) {
    wait_word(group_, timeout_ms, Operation::wait_signal, 0, words[0], stream);
  } else {
    wait_words(group_, timeout_ms, std::span(words, count), any, stream);
  }
}

void CudaTransport::wait_value(const MemoryView&, const void* word, size_t bytes, Compare compare,
    uint64_t value, uint64_t timeout_ms, void* stream) {
  const WordWait wait{address_of(word), value, -1, 0, compare, static_cast<uint32_t>(bytes)};
  wait_word(group_, timeout_ms, Operation::wait_value, 0, wait, stream);
}

// ---- pieces

CUdeviceptr CudaTransport::word_behind_pieces(
    const MemoryView& memory, int rank, const OutgoingSignal* signal) const {
  if (!maps(rank)) {
    throw Error(Status::unsupported,
        format(
            "rank: %d is on another machine, and lists of pieces go between GPUs of one machine "
            "only: UCX sends no list that a stream has to reach first; symm_put() and symm_get() "
            "copy one piece",
            rank));
  }
  return signal == nullptr ? 0 : signal_word(memory, rank, signal->channel, group_.context.rank);
}

void CudaTransport::put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
    const PieceCopy& pieces, uint64_t, void* stream) {
  const CUdeviceptr word = word_behind_pieces(memory, rank, pieces.signal);
  const std::byte* const block = memory.blocks[static_cast<size_t>(rank)];
  piece_copies_.issue({.operation = Operation::put_pieces,
                          .peer = rank,
                          .to = address_of(block + offset),
                          .from = address_of(from),
                          .to_bytes = memory.bytes - offset,
                          .from_bytes = pieces.local_bytes,
                          .pieces = pieces,
                          .local_name = "source",
                          .signal = word,
                          .unless = mailbox_->abort_word(*controls_[me()])},
      stream);
}

void CudaTransport::get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
    const PieceCopy& pieces, uint64_t, void* stream) {
  const CUdeviceptr word = word_behind_pieces(memory, rank, pieces.signal);
  const std::byte* const block = memory.blocks[static_cast<size_t>(rank)];
  piece_copies_.issue({.operation = Operation::get_pieces,
                          .peer = rank,
                          .to = address_of(to),
                          .from = address_of(block + offset),
                          .to_bytes = pieces.local_bytes,
                          .from_bytes = memory.bytes - offset,
                          .pieces = pieces,
                          .local_name = "destination",
                          .signal = word,
                          .unless = mailbox_->abort_word(*controls_[me()])},
      stream);
}

// ---- streams

void CudaTransport::fill_here(void* to, const Copies& copies, void* stream) {
  if (copies.count == 0) return;

  const ContextGuard current(*group_.device);
  issue_fill(group_.device->driver(), address_of(to), copies, stream_of(stream));
  group_.order.record_use(stream_of(stream));
}

void CudaTransport::stream_wait(void* stream, void* after) {
  const ContextGuard current(*group_.device);
  if (after == kAllStreams) {
    group_.order.gather(stream_of(stream));
    return;
  }
  if (stream == after) return;

  const Driver& driver = group_.device->driver();
  const Event event = group_.device->uses().make_event();
  driver.require(
      driver.cuEventRecord(event.get(), stream_of(after)), "cuEventRecord", "after_stream");
  driver.require(
      driver.cuStreamWaitEvent(stream_of(stream), event.get(), 0), "cuStreamWaitEvent", "stream");
}

bool CudaTransport::stream_done(void* stream) {
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  if (group_.device->uses().capture_of(stream_of(stream)) != 0) {
    throw Error(Status::invalid_argument,
        "stream: is being captured, so nothing of what was issued on it has begun");
  }

  const Driver& driver = group_.device->driver();
  const CUresult result = driver.cuStreamQuery(stream_of(stream));
  if (result != CUDA_ERROR_NOT_READY) driver.require(result, "cuStreamQuery", "stream");
  return result == CUDA_SUCCESS;
}

// ---- memories

void CudaTransport::memory_added(const std::shared_ptr<const MemoryView>& memory) {
  const ContextGuard current(*group_.device, ContextGuard::Capture::relaxed);
  memories_->add(*memory);
  write_addresses(*group_.device, *memory, group_.context.rank);
}

// Kernels that were launched before may still search the table for this memory, also because
// other ranks name it. So the entry goes when they have ended.
void CudaTransport::memory_removed(const MemoryView& memory) noexcept {
  group_.device->defer([weak = std::weak_ptr(memories_), id = memory.id] {
    if (const auto table = weak.lock()) table->erase(id);
  });
}
}  // namespace symm::cuda
