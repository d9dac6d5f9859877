// The part of a GPU that core/multinode uses: its stream, events, pinned memory and the kernels
// for the steps between machines. core/multinode knows no CUDA.
#include "core/cuda/intranode_device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "core/backend/device.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/collective_args.hpp"
#include "core/cuda/composed_calls.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/fill.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "core/cuda/stream_order.hpp"
#include "core/cuda/stream_uses.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
namespace {
static_assert(kPackBytes == kPack, "what a thread of a kernel moves at a time");

// Barriers of a machine's ranks use the last channel, as copy engines do: groups have no barriers
// of their own on it.
constexpr int kMachineChannel = kBarrierChannels - 1;

class CudaPinnedStream final : public PinnedStream {
 public:
  CudaPinnedStream(const DeviceGroup& group, size_t bytes)
      : device_(group.device), driver_(device_->driver()), kernels_(group.kernels) {
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    try {
      open(bytes);
    } catch (...) {
      release();
      throw;
    }
  }

  ~CudaPinnedStream() override { release(); }

  std::byte* host() const noexcept override { return host_; }
  DeviceAddress address() const noexcept override { return address_; }

  void run_attached(const std::function<void()>& work) const override {
    const ContextGuard current(*device_, std::nothrow);
    work();
  }

  void copy(const void* to, const void* from, size_t bytes) override {
    driver_.require(
        driver_.cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_), "cuMemcpyAsync");
  }

  void fill(const void* to, const Copies& copies) override {
    issue_fill(driver_, address_of(to), copies, stream_);
  }

  void store64(const void* to, uint64_t value) override {
    driver_.require(
        driver_.cuStreamWriteValue64(stream_, address_of(to), value, 0), "cuStreamWriteValue64");
  }

  void change(const void* word, const AtomicChange& change, DeviceAddress fetched) override {
    launch_change(kernels_, address_of(word), change, fetched, stream_);
  }

  bool changes_memory_of_host() const noexcept override {
    return device_->attribute(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED) != 0;
  }

  bool has_ended() noexcept override {
    result_ = driver_.cuStreamQuery(stream_);
    return result_ != CUDA_ERROR_NOT_READY;
  }

  void check() const override { driver_.require(result_, "cuStreamQuery"); }

 private:
  void open(size_t bytes) {
    void* host = nullptr;
    driver_.require(
        driver_.cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostAlloc");
    host_ = static_cast<std::byte*>(host);
    driver_.require(
        driver_.cuMemHostGetDevicePointer(&address_, host, 0), "cuMemHostGetDevicePointer");
    driver_.require(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  // A stream of the caller may still be about to write a word.
  void release() noexcept {
    device_->defer([&driver = driver_, host = host_, stream = stream_] {
      if (stream != nullptr) driver.cuStreamDestroy(stream);
      if (host != nullptr) driver.cuMemFreeHost(host);
    });
  }

  const std::shared_ptr<Device> device_;
  const Driver& driver_;
  // A copy, because the thread that uses this object may outlive the group.
  const Kernels kernels_;
  std::byte* host_ = nullptr;
  CUdeviceptr address_ = 0;
  CUstream stream_ = nullptr;
  // The driver's answer to the last has_ended().
  CUresult result_ = CUDA_SUCCESS;
};

class EventInterval final : public StreamInterval {
 public:
  EventInterval(std::shared_ptr<Device> device, Event before)
      : device_(std::move(device)), before_(std::move(before)) {}

  ~EventInterval() override {
    const ContextGuard current(*device_, std::nothrow);
    before_.reset();
    after_.reset();
  }

  void end_with(Event after) noexcept { after_ = std::move(after); }

  State state() const override {
    try {
      const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
      if (device_->uses().is_over(after_)) return State::over;
      return device_->uses().is_over(before_) ? State::runs : State::waits;
    } catch (const Error&) {
      // Without the context nothing runs.
      return State::over;
    }
  }

 private:
  const std::shared_ptr<Device> device_;
  Event before_;
  Event after_;
};

class StreamOrderTurn final : public IssueTurn {
 public:
  StreamOrderTurn(std::shared_ptr<Device> device, StreamOrder& order, const char* what,
      uint64_t timeout_ms, CUstream stream)
      : device_(std::move(device)),
        order_(order),
        stream_(stream),
        current_(*device_),
        turn_(order.turn(), timeout_ms, what) {}

  void begin() override {
    call_stream_ = order_.before(stream_);
    if (call_stream_.capture == 0) interval_ = std::make_shared<EventInterval>(device_, mark());
  }

  std::shared_ptr<const StreamInterval> end() override {
    order_.after(call_stream_);
    if (interval_) interval_->end_with(mark());
    return std::move(interval_);
  }

 private:
  Event mark() const {
    Event event = device_->uses().make_event();
    device_->driver().require(
        device_->driver().cuEventRecord(event.get(), stream_), "cuEventRecord");
    return event;
  }

  const std::shared_ptr<Device> device_;
  StreamOrder& order_;
  const CUstream stream_;
  const ContextGuard current_;
  const TimedLock turn_;
  StreamOrder::CallStream call_stream_{};
  std::shared_ptr<EventInterval> interval_;
};
}  // namespace

// ---- the device

void CudaIntranodeDevice::run_attached(const std::function<void()>& work) const {
  const ContextGuard current(*gpu(), ContextGuard::Capture::relaxed);
  work();
}

bool CudaIntranodeDevice::is_captured(void* stream) const {
  const ContextGuard current(*gpu());
  return gpu()->uses().capture_of(stream_of(stream)) != 0;
}

std::unique_ptr<PinnedStream> CudaIntranodeDevice::open_pinned_stream(size_t bytes) const {
  return std::make_unique<CudaPinnedStream>(group_, bytes);
}

// ---- the order of streams

std::unique_ptr<IssueTurn> CudaIntranodeDevice::take_turn(
    const char* what, uint64_t timeout_ms, void* stream) {
  return std::make_unique<StreamOrderTurn>(
      gpu(), group_.order, what, timeout_ms, stream_of(stream));
}

// Kernels store and wait: they hold up the copies of other streams only where work of their own
// waits behind them.
void CudaIntranodeDevice::issue_store(DeviceAddress word, uint64_t value, void* stream) {
  write_word(group_, word, value, WriteKind::store64, stream);
}

void CudaIntranodeDevice::issue_wait(DeviceAddress word, uint64_t value, void* stream) {
  const WordWait wait{word, value, -1, 0, Compare::ge, sizeof value};
  wait_word(group_, Deadline::kInfinite, Operation::wait_value, 0, wait, stream);
}

// ---- steps of collectives

void CudaIntranodeDevice::issue_barrier(
    std::span<const int32_t> ranks, uint64_t timeout_ms, void* stream) {
  launch_barrier(group_, ranks, kMachineChannel, timeout_ms, stream);
}

void CudaIntranodeDevice::combine(const CollectiveCall& call, const CombineStep& step) {
  if (step.operands.empty()) return group_.fill_neutral(call, step.to, step.bytes);

  const CUfunction kernel = group_.kernel("symm_combine", "symm_large_combine");
  group_.in_room([&]<int kRanks>() {
    CombineArgsOf<kRanks> args{collective_args<kRanks>(group_, call),
        static_cast<int32_t>(step.operands.size()), step.unrounded ? 1 : 0, address_of(step.before),
        {}};
    std::transform(step.operands.begin(), step.operands.end(), args.operand, address_of);

    args.call.op = static_cast<int32_t>(step.op);
    args.call.recv = address_of(step.to);
    args.call.unit = step.bytes;

    group_.kernels.launch_over(
        step.bytes, kernel, static_cast<CUstream>(call.stream), call.block_limit, args);
  });
}

void CudaIntranodeDevice::record_call(
    const CollectiveCall& call, size_t count, std::byte* records) {
  launch_comparison(call, count, records, true);
}

void CudaIntranodeDevice::compare_calls(
    const CollectiveCall& call, size_t count, std::byte* records) {
  launch_comparison(call, count, records, false);
}

void CudaIntranodeDevice::launch_comparison(
    const CollectiveCall& call, size_t count, std::byte* records, bool stores) const {
  const CUfunction kernel = group_.kernel("symm_compare", "symm_large_compare");
  group_.in_room([&]<int kRanks>() {
    ComparisonArgsOf<kRanks> args{collective_args<kRanks>(group_, call).comm, call.packed(), count,
        address_of(records), stores ? 1U : 0U};
    group_.kernels.launch(kernel, {1, 32, stream_of(call.stream)}, args);
  });
}

void CudaIntranodeDevice::pack_pieces(const CollectiveCall& call, const PieceSlots& slots) {
  launch_stage(call, slots, false);
}

void CudaIntranodeDevice::unpack_pieces(const CollectiveCall& call, const PieceSlots& slots) {
  launch_stage(call, slots, true);
}

void CudaIntranodeDevice::launch_stage(
    const CollectiveCall& call, const PieceSlots& slots, bool unpacks) const {
  const CUfunction kernel = group_.kernel("symm_stage", "symm_large_stage");
  const auto size = static_cast<size_t>(group_.context.size);
  group_.in_room([&]<int kRanks>() {
    StageArgsOf<kRanks> args{pieces_args<kRanks>(group_, call), address_of(slots.slots),
        slots.slot_bytes, slots.at, unpacks ? 1U : 0U};
    group_.kernels.launch_over(
        slots.slot_bytes * size, kernel, stream_of(call.stream), call.block_limit, args);
  });
}

// ---- composed calls

CollectiveCall CudaIntranodeDevice::plain_call(const CollectiveCall& call) const {
  if (call.words) {
    // An algorithm that is asked for is that of the call, and looked at as such.
    CollectiveCall plain = plain_call_in_chunks(group_, call);
    plain.algorithm = call.algorithm;
    return plain;
  }
  if (call.has_wire()) return wire_call(group_, call).plain_call();
  if (call.scaling) return scaled_call(group_, call).plain_call();
  return call.norm != nullptr ? rows_of_norm(group_, call).plain_call() : call;
}

std::string CudaIntranodeDevice::reason_prefix(const CollectiveCall& call) const {
  if (call.words) return why_in_chunks(group_, call);
  if (call.has_wire()) return wire_call(group_, call).why();
  return call.scaling ? scaled_call(group_, call).why() : std::string();
}
}  // namespace symm::cuda
