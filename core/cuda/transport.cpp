#include "core/cuda/transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/stats.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/control.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/multicast.hpp"
#include "core/cuda/stream_uses.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/occupancy.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
struct TransportShare {
  Uuid uuid;
  uint64_t bytes;
  uint64_t mapped;
  PlanValues values;  // must be equal: the layout of the control block follows from them
  int32_t multiprocessors;
  int32_t has_clusters;
  MulticastFacts multicast;
};

// A pad: words of signals, [channel][source]. Behind them, in this rank's own block:
// signals taken so far, likewise, and the tables for device_tables().
size_t pad_words(int size, int channels) {
  return static_cast<size_t>(channels) * static_cast<size_t>(size);
}

size_t taken_offset(const MemoryView& memory) {
  return pad_words(static_cast<int>(memory.pads.size()), memory.channels) * sizeof(uint64_t);
}

size_t tables_offset(const MemoryView& memory) { return 2 * taken_offset(memory); }

CUdeviceptr signal_word(const MemoryView& memory, int owner, int channel, int source) {
  const size_t index =
      static_cast<size_t>(channel) * memory.pads.size() + static_cast<size_t>(source);
  return address_of(memory.pads[static_cast<size_t>(owner)]) + index * sizeof(uint64_t);
}

// In place an all-to-all's recv holds what is still to be sent.
bool holds_send(const CollectiveCall& call) {
  return call.collective == Collective::alltoall && call.send == call.recv;
}

// of what is summed
std::string rmsnorm_kernel(DType dtype) { return format("symm_rmsnorm_%s_1", name_of(dtype)); }
}  // namespace

CUstream stream_of(void* stream) {
  if (stream == kAllStreams) {
    throw Error(Status::invalid_argument, "stream: SYMM_ALL_STREAMS is no stream to issue work on");
  }
  return static_cast<CUstream>(stream);
}

size_t pad_bytes(int size, int channels) {
  return 2 * pad_words(size, channels) * sizeof(uint64_t) + 2 * kMaxRanks * sizeof(void*);
}

CudaTransport::CudaTransport(
    TransportContext context, std::shared_ptr<Device> device, const PlanValues& values)
    : Transport(static_cast<DeviceTransport*>(this), **context.revocation->page()),
      context_(std::move(context)),
      device_(std::move(device)),
      lender_(static_cast<const CudaTransport*>(context_.lender)),
      values_(values),
      tuning_(choose_tuning()),
      facts_{.size = context_.size, .max_blocks = device_->multiprocessors()},
      layout_(layout_of(context_.size, tuning_, lender_ != nullptr ? &lender_->layout_ : nullptr)),
      controls_(static_cast<size_t>(context_.size)),
      uuids_(controls_.size()),
      multicast_(context_, device_),
      mailbox_(std::make_shared<ErrorMailbox>(device_)),
      kernels_(*device_),
      order_(device_, lender_ != nullptr ? &lender_->order_ : nullptr),
      sides_(device_) {
  if (context_.size > kMaxRanks) {
    throw Error(Status::unsupported,
        format("the CUDA back end has at most %d ranks a group, not %d", kMaxRanks, context_.size));
  }
  if (const uint64_t least = cuda::scratch_bytes(layout_);
      context_.scratch_bytes != 0 && least > context_.scratch_bytes) {
    throw Error(Status::invalid_argument,
        format("config.scratch_bytes: %lu, and %d ranks need at least %lu", context_.scratch_bytes,
            context_.size, least));
  }
  if (context_.channels + 1 > kBarrierChannels) throw Error(Status::internal, "too many channels");
  const auto me = static_cast<size_t>(context_.rank);
  controls_[me] = create_control(device_, context_.size, layout_);
  stages_ = lender_ != nullptr ? lender_->stages_ : controls_[me];
  controls_[me]->fd();  // exported now, where a failure is one of all ranks
  uuids_[me] = device_->uuid();
  multicast_.facts(context_.rank) = multicast_facts(*device_, context_.multicast, environment);

  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  for (const char* name : {"symm_barrier", "symm_write_word", "symm_wait_word", "symm_wait_words",
           "symm_check", "symm_convert"}) {
    kernels_.load(name);
  }
  for (const char* name : {"symm_combine", "symm_compare", "symm_stage"}) {
    if (context_.machines.count > 1) kernels_.load(name);
  }
  copies_in_bulk_ = kernels_.has_room_for_bulk();
  kernels_.load("symm_pipeline_move", copies_in_bulk_ ? kBulkShared : 0);
  for (const std::string& name : kernel_names(context_.size, false)) {
    kernels_.load(name);
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    kernels_.load(rmsnorm_kernel(dtype));
  }
  kernels_.make_ready();
  facts_.has_clusters = kernels_.is_for_9();
  facts_.same_offsets = context_.same_offsets;
  stats_.barriers = std::vector<Counter>(1);
  comm_.rank = context_.rank;
  comm_.size = context_.size;
  comm_.record = mailbox_->record_on_device();
  comm_.ll = layout_.ll;
  comm_.ll_slot = layout_.ll_slot;
  comm_.one_shot = layout_.one_shot;
  comm_.one_shot_slot = layout_.one_shot_slot;
  comm_.two_shot = layout_.two_shot;
  comm_.two_shot_slot = layout_.two_shot_slot;
  comm_.stage[0] = layout_.stage[0];
  comm_.stage[1] = layout_.stage[1];
  comm_.stage_slot = layout_.stage_slot;
  comm_.memories = controls_[me]->address() + layout_.memories;
  memories_ = std::make_shared<MemoryTable>(device_, comm_.memories);
  comm_.memory_count = kMaxMemories;  // free entries have no number, so the search passes over them
}

CudaTransport::~CudaTransport() { listener_.reset(); }

Tuning CudaTransport::choose_tuning() const {
  Tuning tuning = tuning_of(values_);
  if (context_.scratch_bytes != 0) {
    tuning = within_scratch(context_.size, tuning, context_.scratch_bytes);
  }
  return lender_ == nullptr
             ? tuning
             : within_stages(context_.size, tuning, lender_->layout_, lender_->tuning_);
}

OutgoingMessage CudaTransport::share() const {
  const auto& control = controls_[static_cast<size_t>(context_.rank)];
  OutgoingMessage share{{}, {control->fd()}};
  append(share, TransportShare{device_->uuid(), control->size(), control->mapped(), values_,
                    device_->multiprocessors(), kernels_.is_for_9() ? 1 : 0,
                    multicast_.facts(context_.rank)});
  return share;
}

void CudaTransport::connect(int peer, Message message, const PeerIdentity&) {
  const auto body = first_of<TransportShare>(message);
  if (const std::string differs =
          plan_difference(BackendKind::cuda, context_.rank, values_, peer, body.values);
      !differs.empty()) {
    throw Error({Status::mismatch, peer, 0, differs});
  }
  const auto& mine = controls_[static_cast<size_t>(context_.rank)];
  if (body.bytes != mine->size() || body.mapped < body.bytes) {
    throw Error({Status::mismatch, peer, 0,
        format("rank %d has a control block of %lu bytes, this rank of %zu: different versions of "
               "the library?",
            peer, body.bytes, mine->size())});
  }
  if (maps(peer)) {
    controls_[static_cast<size_t>(peer)] =
        Allocation::import(device_, std::move(message.fds.at(0)), {body.bytes, body.mapped});
  }
  uuids_[static_cast<size_t>(peer)] = body.uuid;
  multicast_.facts(peer) = body.multicast;
  facts_.max_blocks = std::min(facts_.max_blocks, body.multiprocessors);
  facts_.has_clusters = facts_.has_clusters && body.has_clusters != 0;
}

void CudaTransport::ready() {
  SYMM_POINT("cuda.ready");
  int most_on_one = 1;
  for (int a = 0; a < context_.size; ++a) {
    const auto ranks = std::count(uuids_.begin(), uuids_.end(), uuids_[static_cast<size_t>(a)]);
    most_on_one = std::max(most_on_one, static_cast<int>(ranks));
    if (ranks > 1 && !context_.overlapping_devices) {
      throw Error({Status::invalid_argument, a, 0,
          format("%d ranks, rank %d among them, use device %s; that needs "
                 "SYMM_GROUP_OVERLAPPING_DEVICES",
              static_cast<int>(ranks), a, text_of(uuids_[static_cast<size_t>(a)]).c_str())});
    }
  }
  facts_.max_blocks = max_blocks_of(facts_.max_blocks, context_.size, most_on_one, tuning_);
  // Where ranks share a device, one's early kernel could take the room that another's needs.
  if (most_on_one == 1) kernels_.launch_early(tuning_.early);
  for (size_t rank = 0; rank < controls_.size(); ++rank) {
    if (!controls_[rank]) continue;
    comm_.control[rank] = controls_[rank]->address();
    comm_.stages[rank] =
        lender_ == nullptr
            ? comm_.control[rank]
            : lender_->comm_.stages[static_cast<size_t>(context_.lender_ranks[rank])];
  }
  controls_[static_cast<size_t>(context_.rank)]->will_not_be_shared();
  multicast_.choose(kernels_);
  listener_ = context_.revocation->listen([this] { tell_kernels(); });
}

std::span<std::byte> CudaTransport::stages_of(int rank) const noexcept {
  const CUdeviceptr at = comm_.stages[rank] + layout_.stage[0];
  return {reinterpret_cast<std::byte*>(at),
      layout_.wide - layout_.stage[0]};  // NOLINT(performance-no-int-to-ptr)
}

// ---- trouble

void CudaTransport::tell_kernels() noexcept {
  uint32_t departed = 0;
  for (int rank = 0; rank < context_.size; ++rank) {
    if (rank != context_.rank && context_.revocation->departed(rank)) departed |= 1U << rank;
  }
  const bool revoked = context_.revocation->revoked();
  if (revoked || departed != 0) {
    mailbox_->tell(controls_[static_cast<size_t>(context_.rank)], stages_, revoked, departed);
  }
}

void CudaTransport::check_device_errors() {
  if (!mailbox_->has_record() || context_.revocation->revoked()) return;
  context_.fail(failure_of(mailbox_->record(), context_, device_->ordinal()));
}

DeviceComm CudaTransport::comm(uint64_t timeout_ms, uint32_t operation) const {
  DeviceComm comm = comm_;
  comm.timeout_ns = nanoseconds_of(timeout_ms);
  comm.operation = operation;
  return comm;
}

// ---- barriers and signals

void CudaTransport::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  const ContextGuard current(*device_);
  launch_barrier(ranks, channel, timeout_ms, stream);
  stats_.barriers[0].add_shared(1);
  order_.record_use(stream_of(stream));
}

void CudaTransport::launch_barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms,
    void* stream, uint32_t operation) {
  BarrierArgs args{comm(timeout_ms, operation), 0, static_cast<uint32_t>(channel)};
  for (const int32_t rank : ranks) {
    args.ranks |= 1U << rank;
  }
  if (ranks.empty()) args.ranks = (1U << context_.size) - 1U;
  kernels_.launch(kernels_.find("symm_barrier"), {1, 32, stream_of(stream)}, args);
}

void CudaTransport::finish(int channel, uint64_t timeout_ms) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const Driver& driver = device_->driver();
  {
    const TimedLock turn(order_.turn(), timeout_ms, "finalize");
    order_.before(device_->stream());
    barrier({}, channel, timeout_ms, device_->stream());
  }
  // Bounded: what is on the stream before it, and it, have deadlines of their own.
  driver.require(driver.cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
  check_device_errors();
  context_.revocation->throw_if_revoked();
}

void CudaTransport::write_word(CUdeviceptr word, uint64_t value, WriteKind kind, void* stream) {
  const ContextGuard current(*device_);
  WriteArgs args{word, value, kind};
  kernels_.launch(kernels_.find("symm_write_word"), {1, 32, stream_of(stream)}, args);
  order_.record_use(stream_of(stream));
}

void CudaTransport::send_signal(
    const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value, void* stream) {
  write_word(signal_word(memory, rank, channel, context_.rank), value,
      op == SignalOp::add ? WriteKind::add : WriteKind::store64, stream);
}

void CudaTransport::write_value(
    const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes, void* stream) {
  write_word(address_of(memory.blocks[static_cast<size_t>(rank)] + offset), value,
      bytes == sizeof(uint32_t) ? WriteKind::store32 : WriteKind::store64, stream);
}

void CudaTransport::wait_word(uint64_t timeout_ms, Operation operation, CUdeviceptr taken,
    const WordWait& wait, void* stream) {
  const ContextGuard current(*device_);
  WaitWordArgs args{comm(timeout_ms, static_cast<uint32_t>(operation)), taken, wait};
  kernels_.launch(kernels_.find("symm_wait_word"), {1, 32, stream_of(stream)}, args);
  order_.record_use(stream_of(stream));
}

// How many signals were taken is counted on the device,
// where it is right also when a captured graph is replayed.
void CudaTransport::take_signal(
    const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) {
  const CUdeviceptr word = signal_word(memory, context_.rank, channel, rank);
  wait_word(timeout_ms, Operation::wait_signal, word + taken_offset(memory),
      {word, 0, rank, static_cast<uint32_t>(channel), Compare::ge, sizeof(uint64_t)}, stream);
}

SignalState CudaTransport::look_at_signal(const MemoryView& memory, int rank, int channel) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const CUdeviceptr word = signal_word(memory, context_.rank, channel, rank);
  const uint64_t taken = mailbox_->read(word + taken_offset(memory));
  return {mailbox_->read(word), taken};
}

void CudaTransport::wait_signals(const MemoryView& memory, std::span<const SignalWait> waits,
    bool any, uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) {
  for (const auto& [is_given, name] :
      {std::pair(out_index != nullptr, "out_index"), std::pair(out_seen != nullptr, "out_seen")}) {
    if (is_given) {
      throw Error(Status::invalid_argument,
          format("%s: must be NULL with the CUDA back end, which waits later", name));
    }
  }
  const auto word_of = [&](const SignalWait& wait) -> WordWait {
    return {signal_word(memory, context_.rank, wait.channel, wait.rank), wait.value, wait.rank,
        static_cast<uint32_t>(wait.channel), wait.compare, sizeof(uint64_t)};
  };
  if (waits.size() == 1) {
    return wait_word(timeout_ms, Operation::wait_signal, 0, word_of(waits[0]), stream);
  }
  const ContextGuard current(*device_);
  WaitWordsArgs args{};
  args.comm = comm(timeout_ms, static_cast<uint32_t>(Operation::wait_signal));
  args.count = static_cast<uint32_t>(waits.size());
  args.any = any ? 1 : 0;
  std::transform(waits.begin(), waits.end(), args.wait, word_of);
  kernels_.launch(kernels_.find("symm_wait_words"), {1, 32, stream_of(stream)}, args);
  order_.record_use(stream_of(stream));
}

void CudaTransport::wait_value(const MemoryView&, const void* word, size_t bytes, Compare compare,
    uint64_t value, uint64_t timeout_ms, void* stream) {
  wait_word(timeout_ms, Operation::wait_value, 0,
      {address_of(word), value, -1, 0, compare, static_cast<uint32_t>(bytes)}, stream);
}

// ---- data

void CudaTransport::copy(void* to, const void* from, size_t bytes, void* stream) {
  if (to == from || bytes == 0) return;
  const ContextGuard current(*device_);
  device_->driver().require(
      device_->driver().cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_of(stream)),
      "cuMemcpyAsync");
  order_.record_use(stream_of(stream));
}

void CudaTransport::fill32(void* to, uint32_t value, size_t count, void* stream) {
  if (count == 0) return;
  const ContextGuard current(*device_);
  device_->driver().require(
      device_->driver().cuMemsetD32Async(address_of(to), value, count, stream_of(stream)),
      "cuMemsetD32Async");
  order_.record_use(stream_of(stream));
}

// ---- streams

void CudaTransport::stream_wait(void* stream, void* after) {
  const ContextGuard current(*device_);
  const Driver& driver = device_->driver();
  if (after == kAllStreams) {
    order_.gather(stream_of(stream));
    return;
  }
  if (stream == after) return;
  const Event event = device_->uses().make_event();
  driver.require(
      driver.cuEventRecord(event.get(), stream_of(after)), "cuEventRecord", "after_stream");
  driver.require(
      driver.cuStreamWaitEvent(stream_of(stream), event.get(), 0), "cuStreamWaitEvent", "stream");
}

bool CudaTransport::stream_done(void* stream) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  if (device_->uses().capture_of(stream_of(stream)) != 0) {
    throw Error(Status::invalid_argument,
        "stream: is being captured, so nothing of what was issued on it has begun");
  }
  const CUresult result = device_->driver().cuStreamQuery(stream_of(stream));
  if (result != CUDA_ERROR_NOT_READY) device_->driver().require(result, "cuStreamQuery", "stream");
  return result == CUDA_SUCCESS;
}

// ---- memories

void CudaTransport::memory_added(const std::shared_ptr<const MemoryView>& view) {
  const MemoryView& memory = *view;
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const Driver& driver = device_->driver();
  MemoryEntry added{};
  added.id = memory.id;
  added.bytes = memory.bytes;
  for (size_t rank = 0; rank < memory.blocks.size(); ++rank) {
    added.block[rank] = address_of(memory.blocks[rank]);
  }
  memories_->add(added);

  void* tables[2][kMaxRanks] = {};
  std::copy(memory.blocks.begin(), memory.blocks.end(), tables[0]);
  std::copy(memory.pads.begin(), memory.pads.end(), tables[1]);
  const CUdeviceptr to =
      address_of(memory.pads[static_cast<size_t>(context_.rank)]) + tables_offset(memory);
  driver.require(driver.cuMemcpyAsync(to, address_of(tables), sizeof tables, device_->stream()),
      "cuMemcpyAsync");
  driver.require(driver.cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
}

// Kernels that were launched before may still look for it, also on other ranks' behalf,
// so the entry goes when they have ended.
void CudaTransport::memory_removed(const MemoryView& memory) noexcept {
  device_->defer([weak = std::weak_ptr(memories_), id = memory.id] {
    if (const auto table = weak.lock()) table->erase(id);
  });
}

DeviceTransport::Tables CudaTransport::device_tables(const MemoryView& memory) const {
  std::byte* const pad = memory.pads[static_cast<size_t>(context_.rank)];
  auto* at = reinterpret_cast<void* const*>(pad + tables_offset(memory));
  return {at, at + kMaxRanks, pad + taken_offset(memory)};
}

// One collective call: plan, order, arguments, launch.
// Nothing here waits for a rank or allocates device memory.
PlanInput CudaTransport::plan_input(const CollectiveCall& call) const {
  PlanInput input{call, facts_, {}};
  if (is_multimem(call.algorithm)) {
    input.why_not = multicast_.why_no_multimem(call);
  } else if (may_go_by_engine(input, tuning_)) {
    input.why_not = why_no_engine(call);
  }
  return input;
}

std::string CudaTransport::why_no_engine(const CollectiveCall& call) const {
  size_t offset = 0;
  if (!memory_of_recv(call, &offset)) {
    return "recv is not in this rank's block of a memory of the group";
  }
  return holds_send(call) ? "not in place: recv holds what is still to be sent" : "";
}

std::shared_ptr<const MemoryView> CudaTransport::memory_of_recv(
    const CollectiveCall& call, size_t* offset) const {
  return context_.directory->containing(
      call.recv, operand_bytes(call.collective, call.unit(), context_.size).recv, offset);
}

Plan CudaTransport::possible_plan(const PlanInput& input) const {
  if (const std::string reason = refuse(input, tuning_); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
  return cuda::plan(input, tuning_);
}

void CudaTransport::collective(const CollectiveCall& call) {
  const PlanInput input = plan_input(planned_call(call));
  const Plan chosen = possible_plan(input);
  const CUstream stream = stream_of(call.stream);
  const ContextGuard current(*device_);
  const TimedLock turn(order_.turn(), call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();
  const StreamOrder::Place place = order_.before(stream);
  const auto issue_plain = [&](const CollectiveCall& plain) {
    const PlanInput its = plan_input(plain);
    issue(plain, its, possible_plan(its));
  };
  stats_.begin(GroupStats::call_shown(call.collective, call.bytes(), chosen.algorithm));
  if (call.scaling || input.collective != call.collective) {
    issue_parts(call, issue_plain);
  } else {
    issue(call, input, chosen);
  }
  stats_.add_collective(call, chosen.algorithm, true);
  order_.after(place);
}

void CudaTransport::issue(const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  if (chosen.form != nullptr && chosen.algorithm == Algorithm::copy_engine) {
    return copy_by_engine(call);
  }
  if (context_.check && context_.size > 1) launch_check(call);
  launch_collective(call, input, chosen);
}

void CudaTransport::launch_check(const CollectiveCall& call, uint64_t memory, uint64_t offset) {
  CheckArgs args{comm(call.timeout_ms, static_cast<uint32_t>(call.collective)), call.packed(),
      call.count, memory, offset};
  kernels_.launch(kernels_.find("symm_check"), {1, 32, stream_of(call.stream)}, args);
}

// To the others in turns that differ, so that at a time each
// gets from one; what this rank keeps goes beside that.
void CudaTransport::copy_by_engine(const CollectiveCall& call) {
  if (call.collective == Collective::allreduce) {
    CollectiveCall part = call;
    part.collective = Collective::reduce_scatter;
    part.algorithm = Algorithm::automatic;
    part.count = call.count / static_cast<size_t>(context_.size);
    part.recv =
        static_cast<std::byte*>(call.recv) + static_cast<size_t>(context_.rank) * part.unit();
    const PlanInput input = plan_input(part);
    issue(part, input, possible_plan(input));
    part.collective = Collective::allgather;
    part.send = part.recv;
    part.recv = call.recv;
    return copy_by_engine(part);
  }
  const Driver& driver = device_->driver();
  const auto stream = static_cast<CUstream>(call.stream);
  const uint64_t unit = call.unit();
  size_t offset = 0;
  // Again, for the addresses; meanwhile another thread may have let go of the memory.
  const auto memory = memory_of_recv(call, &offset);
  if (!memory) throw Error(Status::invalid_argument, "recv: its memory has been released");
  launch_check(call, memory->id, offset);
  const bool is_broadcast = call.collective == Collective::broadcast;
  const uint64_t part = is_broadcast ? 0 : static_cast<uint64_t>(context_.rank) * unit;
  for (int d = 0; d < context_.size && (!is_broadcast || call.root == context_.rank); ++d) {
    const int peer = (context_.rank + d) % context_.size;
    const auto* from = static_cast<const std::byte*>(call.send);
    if (call.collective == Collective::alltoall) from += static_cast<uint64_t>(peer) * unit;
    std::byte* const to = memory->blocks[static_cast<size_t>(peer)] + offset + part;
    if (to == from) continue;
    if (d != 0) {
      driver.require(
          driver.cuMemcpyAsync(address_of(to), address_of(from), unit, stream), "cuMemcpyAsync");
      continue;
    }
    // By few blocks, twice as fast as a link: an engine
    // would take its time from those of the links.
    ConvertArgs args{address_of(from), address_of(to), unit, 1, 0, 0, 1,
        static_cast<int32_t>(DType::u8), static_cast<int32_t>(DType::u8)};
    kernels_.launch(kernels_.find("symm_convert"), {32, 256, sides_.fork(stream)}, args);
  }
  sides_.join(stream);
  launch_barrier({}, kBarrierChannels - 1, call.timeout_ms, call.stream,
      static_cast<uint32_t>(call.collective));
}

ScaledCall CudaTransport::scaled(const CollectiveCall& call) const {
  const auto scratch = comm_.stages[context_.rank] + layout_.wide;
  return {call, context_.rank, context_.size, reinterpret_cast<std::byte*>(scratch), tuning_.wide};
}

RowsOfNorm CudaTransport::rows_of(const CollectiveCall& call) const {
  return {
      call, reinterpret_cast<std::byte*>(comm_.stages[context_.rank] + layout_.wide), tuning_.wide};
}

// What a plan is for: the call, or the first plain one that it
// is made of. RMSNorm is in the kernel of the all-reduce where
// that is faster, unless another algorithm is asked for.
CollectiveCall CudaTransport::planned_call(const CollectiveCall& call) const {
  if (call.scaling) return scaled(call).plain_call();
  if (call.collective != Collective::allreduce_rmsnorm) return call;
  if (call.algorithm == Algorithm::automatic || call.algorithm == Algorithm::one_shot) {
    PlanInput input = plan_input(call);
    input.algorithm = Algorithm::automatic;
    if (call.count == 0 || cuda::plan(input, tuning_).form != nullptr) return call;
  }
  return rows_of(call).plain_call();
}

void CudaTransport::issue_parts(
    const CollectiveCall& call, const std::function<void(const CollectiveCall&)>& issue_plain) {
  if (call.scaling) {
    return scaled(call).run(
        [&](const Conversion& conversion) { launch_conversion(call, conversion); }, issue_plain);
  }
  rows_of(call).run(issue_plain, [&](const RmsNorm& norm, const std::byte* sums, size_t rows) {
    CollectiveCall summed = call;
    summed.send = sums;
    summed.count = rows * norm.hidden;
    constexpr int kMostThreads = 1 << 17;  // none of them waits
    launch_rmsnorm(kernels_.find(rmsnorm_kernel(call.dtype)),
        row_shape(norm.hidden, rows, {kRowThreads, kMostThreads}, facts_.has_clusters), summed,
        norm);
  });
}

void CudaTransport::launch_rmsnorm(
    CUfunction kernel, const RowShape& shape, const CollectiveCall& call, const RmsNorm& norm) {
  RmsNormArgs args{};
  args.call = arguments_of(call);
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
  kernels_.launch(kernel,
      {static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
          static_cast<CUstream>(call.stream), static_cast<unsigned>(shape.cluster)},
      args);
}

void CudaTransport::launch_conversion(const CollectiveCall& call, const Conversion& c) {
  if (c.count == 0) return;
  ConvertArgs args{address_of(c.from), address_of(c.to), c.count, c.blocks, c.stride, 0, 1,
      static_cast<int32_t>(c.from_dtype), static_cast<int32_t>(c.to_dtype)};
  if (c.scaled && call.scaling.kind == Factor::pointer) {
    args.pointer = address_of(call.scale_pointer);
  } else if (c.scaled) {
    args.factor = call.scaling.factor;
  }
  const size_t bytes = c.count * c.blocks * std::min(size_of(c.from_dtype), size_of(c.to_dtype));
  kernels_.launch_over(bytes, kernels_.find("symm_convert"), stream_of(call.stream), args);
}

// Names are put together once: that takes longer than
// all else that is done here for a small message.
CUfunction CudaTransport::kernel_of(const PlanInput& input, const Plan& chosen) {
  CUfunction& known = collectives_[row_of(chosen)][static_cast<size_t>(arithmetic_of(input))];
  if (known == nullptr) known = kernels_.find(kernel_name(input, chosen));
  return known;
}

CollectiveArgs CudaTransport::arguments_of(const CollectiveCall& call) const {
  CollectiveArgs args{};
  args.comm = comm(call.timeout_ms, static_cast<uint32_t>(call.collective));
  args.send = address_of(call.send);
  args.recv = address_of(call.recv);
  args.unit = call.unit();
  args.collective = static_cast<int32_t>(call.collective);
  args.dtype = static_cast<int32_t>(call.dtype);
  args.op = static_cast<int32_t>(call.op);
  args.root = call.root;
  args.detail = call.packed();
  args.count = call.count;
  return args;
}

void CudaTransport::launch_collective(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  if (chosen.in_pieces) return launch_pieces(call, input, chosen);
  if (call.pieces != nullptr) return;
  if (call.collective == Collective::allreduce_rmsnorm) {
    if (chosen.form != nullptr) {
      launch_rmsnorm(kernel_of(input, chosen), {chosen.cluster, chosen.blocks, chosen.threads},
          call, *call.norm);
    }
    return;
  }
  const uint64_t unit = call.unit();
  // results are 0 or 1
  if (chosen.form == nullptr && traits(call.collective).has_op && call.dtype == DType::boolean) {
    launch_conversion(
        call, {static_cast<const std::byte*>(call.send), static_cast<std::byte*>(call.recv),
                  call.dtype, call.dtype, call.count});
    return;
  }
  if (chosen.form == nullptr) {
    copy(call.recv, call.send, unit, call.stream);
    return;
  }
  CollectiveArgs args = arguments_of(call);
  args.tile = chosen.tile;
  args.tiles = chosen.tiles;
  const auto blocks = static_cast<unsigned>(chosen.blocks);
  if (chosen.algorithm == Algorithm::two_shot_staged) {
    args.movers = copies_in_bulk_ ? chosen.movers : 0;
    args.direct = chosen.direct ? 1 : 0;
    args.spares_root = chosen.spares_root ? 1 : 0;
    size_t offset = 0;
    const auto memory = holds_send(call) ? nullptr : memory_of_recv(call, &offset);
    if (memory != nullptr) {
      args.recv_memory = memory->id;
      args.recv_offset = offset;
      args.recv_bytes = memory->bytes;
      std::transform(memory->blocks.begin(), memory->blocks.end(), args.recv_block,
          [](std::byte* mapped) { return address_of(mapped); });
    }
    args.copies_out =
        memory == nullptr && is_delivered_to(call.collective, context_.rank, call.root) ? 1 : 0;
  }
  if (is_multimem(chosen.algorithm)) {
    // Again, for the addresses; meanwhile another thread may have let go of the memory.
    const auto find = [&](const char* operand, const void* pointer) {
      MulticastMemories::Place place = multicast_.place(operand, pointer, unit);
      if (!place.reason.empty()) throw Error(Status::invalid_argument, place.reason);
      return place;
    };
    const MulticastMemories::Place send = find("send", call.send);
    args.send_multicast = send.address;
    args.send_memory = send.memory;
    args.send_offset = send.offset;
    if (chosen.algorithm == Algorithm::multimem_two_shot) {
      const MulticastMemories::Place recv = find("recv", call.recv);
      args.recv_multicast = recv.address;
      args.recv_memory = recv.memory;
      args.recv_offset = recv.offset;
    }
  }
  for (uint64_t left = unit; left > 0;
      left -= args.unit, args.send += args.unit, args.recv += args.unit) {
    args.unit = std::min(left, chosen.part);
    kernels_.launch(kernel_of(input, chosen),
        {blocks, static_cast<unsigned>(chosen.threads), static_cast<CUstream>(call.stream), 1,
            args.movers != 0 ? kBulkShared : 0},
        args);
  }
}

PiecesArgs CudaTransport::pieces_of(const CollectiveCall& call) const {
  PiecesArgs args{};
  args.call = arguments_of(call);
  args.element = static_cast<uint32_t>(size_of(call.dtype));
  if (call.pieces != nullptr) {
    const Pieces& pieces = *call.pieces;
    args.row_bytes = pieces.row_bytes;
    args.row_stride = pieces.row_stride;
    const auto ranges = [](const std::vector<Piece>& from, PiecesArgs::Range* to) {
      std::transform(from.begin(), from.end(), to,
          [](const Piece& piece) { return PiecesArgs::Range{piece.at, piece.bytes}; });
    };
    ranges(pieces.send, args.send);
    ranges(pieces.recv, args.recv);
    const auto counts = [&](const DeviceCounts& given, size_t bytes) {
      return PiecesArgs::Counts{
          address_of(given.counts), address_of(given.displacements), bytes / args.element};
    };
    args.counts[0] = counts(pieces.device_send, pieces.send_bytes);
    args.counts[1] = counts(pieces.device_recv, pieces.recv_bytes);
  } else {
    for (int p = 0; p < context_.size; ++p) {
      args.send[p] = args.recv[p] = {static_cast<uint64_t>(p) * call.unit(), call.unit()};
    }
  }
  return args;
}

void CudaTransport::launch_pieces(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  const CollectiveTraits its = traits(call.collective);
  PiecesArgs args = pieces_of(call);
  args.call.work_groups = chosen.work_groups;
  const size_t recv_bytes = call.pieces->recv_bytes;
  const bool exchanges = call.collective == Collective::alltoallv;  // as above
  size_t offset = 0;
  if (!its.has_op && !(exchanges && call.send == call.recv) && recv_bytes != 0) {
    if (const auto memory = context_.directory->containing(call.recv, recv_bytes, &offset)) {
      args.call.recv_memory = memory->id;
      args.call.recv_offset = offset;
    }
  }
  kernels_.launch(kernel_of(input, chosen),
      {static_cast<unsigned>(chosen.blocks), static_cast<unsigned>(chosen.threads),
          static_cast<CUstream>(call.stream)},
      args);
}

PlanReport CudaTransport::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(planned_call(call));
  const Plan chosen = possible_plan(input);
  return {chosen.algorithm, chosen.slices, chosen.tile, false,
      (call.scaling ? scaled(call).why() : std::string()) + explain(input, chosen, tuning_)};
}
}  // namespace symm::cuda
