#include "core/multinode/device_proxy.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/transport.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/multinode/device_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/text.hpp"

namespace symm::multinode {
using engine::Head;

namespace {
// bytes to a rank of which it has not said that it has taken them
constexpr size_t kUnderWay = size_t{16} << 20;
// for the mesh to say why, and for who waits for a rank directly
constexpr uint64_t kGraceMs = 1'000;
constexpr uint32_t kLooks = 1'000;       // before it rests
constexpr uint64_t kPatienceMs = 5'000;  // with the device
}  // namespace

// ---- what there is

DeviceProxy::DeviceProxy(
    const TransportContext& context, const std::shared_ptr<cuda::Device>& device)
    : context_(context),
      device_(device),
      driver_(device->driver()),
      why_not_(ranks()),
      losses_(ranks()),
      under_way_(ranks()),
      asked_(ranks()),
      told_(ranks()),
      sent_(ranks()) {}

std::shared_ptr<DeviceProxy> DeviceProxy::open(
    const TransportContext& context, const std::shared_ptr<cuda::Device>& device) {
  std::shared_ptr<DeviceProxy> made(new DeviceProxy(context, device));
  try {
    made->share_ = EngineShare::of_process();
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    made->why_not_.assign(made->ranks(), error.what());
    return made;
  }
  const cuda::Driver& driver = made->driver_;
  const cuda::ContextGuard current(*device, cuda::ContextGuard::Capture::relaxed);
  void* host = nullptr;
  driver.require(driver.cuMemHostAlloc(&host, kSlots * sizeof(Slot) + 3 * kMessage,
                     cuda::CU_MEMHOSTALLOC_PORTABLE | cuda::CU_MEMHOSTALLOC_DEVICEMAP),
      "cuMemHostAlloc");
  made->pinned_ = static_cast<std::byte*>(std::memset(host, 0, kSlots * sizeof(Slot)));
  driver.require(
      driver.cuMemHostGetDevicePointer(&made->address_, host, 0), "cuMemHostGetDevicePointer");
  driver.require(
      driver.cuStreamCreate(&made->stream_, cuda::CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (uint32_t i = 0; i < kSlots; ++i) {
    made->free_slots_.push_back(i);
  }
  made->endpoint_ =
      engine::open_endpoint(context.group, context.rank, context.size, *made, context.revocation);
  return made;
}

DeviceProxy::~DeviceProxy() {
  endpoint_.reset();
  // A stream may still be about to write a word.
  device_->defer([&driver = driver_, pinned = pinned_, stream = stream_] {
    if (stream != nullptr) driver.cuStreamDestroy(stream);
    if (pinned != nullptr) driver.cuMemFreeHost(pinned);
  });
}

void DeviceProxy::connect(int rank, const EngineShare& theirs) {
  if (!endpoint_ || context_.machines.together(rank, context_.rank)) return;
  if (std::strcmp(theirs.name, share_.name) == 0) return endpoint_->connect(rank, theirs.where());
  why_not_[static_cast<size_t>(rank)] = format("it has %s, where rank %d has %s",
      *theirs.name != '\0' ? theirs.name : "no UCX", context_.rank, share_.name);
}

void DeviceProxy::begin() {
  if (!endpoint_) return;
  ended_ = false;  // before the thread is there, which may end at once
  try {
    process::start_thread("symm-one-sided", [self = shared_from_this()] { self->run(); });
  } catch (...) {
    ended_ = true;
    throw;
  }
}

void DeviceProxy::close() noexcept {
  {
    const std::lock_guard lock(calling_);
    context_.fail = nullptr;
  }
  closing_ = true;
  ring();
}

void DeviceProxy::let_go() noexcept {
  for (int rank = 0; rank < context_.size && endpoint_; ++rank) {
    if (!context_.machines.together(rank, context_.rank)) endpoint_->cut(rank);
  }
  retry_until([&] { return ended_.load(); }, Deadline::after_ms(kPatienceMs));
}

void DeviceProxy::memory_removed(const MemoryView& memory) noexcept {
  memories_.remove(memory.id);
  const std::lock_guard lock(mutex_);
  signals_.erase(signals_.lower_bound({memory.id, 0}), signals_.lower_bound({memory.id + 1, 0}));
}

// ---- calls

void DeviceProxy::require(int rank, const char* what) const {
  const std::string& why = why_not_[static_cast<size_t>(rank)];
  if (!why.empty()) {
    throw Error(Status::unsupported,
        format("%s: rank %d is on another machine, and %s", what, rank, why.c_str()));
  }
}

void DeviceProxy::issue(const char* what, int rank, const Head& head, const void* at, size_t bytes,
    const Stream& stream) {
  if (device_->uses().capture_of(stream.stream) != 0) {
    throw Error(Status::unsupported,
        format("%s: rank %d is on another machine, where no captured graph reaches", what, rank));
  }
  Jobs made(1, {what, rank, head, static_cast<const std::byte*>(at), bytes});
  Job& job = made.front();
  const auto has_slot = [&] {
    const std::lock_guard lock(mutex_);
    revocation().throw_if_revoked();
    if (free_slots_.empty()) return false;
    job.slot = free_slots_.back();
    job.number = ++numbers_;
    return free_slots_.pop_back(), true;
  };
  if (!retry_until(has_slot, deadline(0))) {
    throw Error(Status::timeout,
        format("%s: %u calls were issued before that have not begun", what, kSlots));
  }
  const uint64_t number = job.number;
  const cuda::CUdeviceptr go = address_ + job.slot * sizeof(Slot);
  const cuda::CUdeviceptr done = go + offsetof(Slot, done);
  try {
    stream.write(go, number);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(job.slot);
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!over_) jobs_.splice(jobs_.end(), made);
  }
  if (!made.empty()) revocation().throw_if_revoked();
  if (head.kind != kFetch && head.kind != kAsk) ++issued_;
  ring();
  stream.await(done, number);
}

void DeviceProxy::settle(const Stream& stream) {
  if (settled_ != issued_ && device_->uses().capture_of(stream.stream) == 0) {
    issue("barrier", -1, {.kind = kAsk}, nullptr, 0, stream);
  }
}

// ---- what comes

std::byte* DeviceProxy::place(int from, const Head& head) noexcept {
  bool refused = head.kind != kAnswer;
  if (head.kind == kPut) memories_.find(head.memory, head.offset, head.bytes, &refused);
  if (refused || head.bytes > kMessage) return nullptr;
  const std::lock_guard lock(mutex_);
  try {
    auto room =
        with_reserve([&] { return std::make_unique_for_overwrite<std::byte[]>(head.bytes); });
    std::byte* const at = room.get();
    with_reserve([&] { landing_[{from, head.sequence}] = std::move(room); });
    return at;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void DeviceProxy::arrived(int from, const Head& head) noexcept {
  {
    const std::lock_guard lock(mutex_);
    auto payload = landing_.extract({from, head.sequence});
    with_reserve([&] { arrivals_.reserve(arrivals_.size() + 1); });
    arrivals_.push_back({from, head, payload ? std::move(payload.mapped()) : nullptr});
  }
  ring();
}

void DeviceProxy::lost(int peer, const std::string& how) noexcept {
  const std::lock_guard lock(mutex_);
  with_reserve([&] { losses_[static_cast<size_t>(peer)] = how; });
}

bool DeviceProxy::receive() {
  std::vector<Arrival> come;
  {
    const std::lock_guard lock(mutex_);
    come.swap(arrivals_);
  }
  for (const auto& [from, head, payload] : come) {
    take(from, head, payload.get());
    if (payload) endpoint_->dispatch(from, {.kind = kTaken, .value = head.bytes}, {}, nullptr);
  }
  return !come.empty();
}

void DeviceProxy::take(int from, const Head& head, const std::byte* payload) {
  const auto source = static_cast<size_t>(from);
  const auto me = static_cast<size_t>(context_.rank);
  const auto store = [&](const std::byte* to, uint64_t word) {
    driver_.require(driver_.cuStreamWriteValue64(stream_, cuda::address_of(to), word, 0),
        "cuStreamWriteValue64");
  };
  // Held until it is written; null: released, or none of this.
  std::shared_ptr<const MemoryView> view;
  const auto is_in = [&](uint64_t count, uint64_t word) {
    bool refused = false;
    if (count > SIZE_MAX / word || head.offset % word != 0) return false;
    return (view = memories_.find(head.memory, head.offset, count * word, &refused)) != nullptr;
  };
  const auto at = [&] { return view->blocks[me] + head.offset; };
  // By pinned memory: a copy of any other waits inside the driver.
  const auto land = [&](const std::byte* to, const std::byte* what, size_t bytes) {
    copy(to, std::memcpy(message(2), what, bytes), bytes);
  };
  switch (head.kind) {
    case kPut:
      if (payload != nullptr && is_in(head.bytes, 1)) land(at(), payload, head.bytes);
      break;
    case kFill:
      if (!is_in(head.call, sizeof(uint32_t))) break;
      driver_.require(driver_.cuMemsetD32Async(cuda::address_of(at()),
                          static_cast<unsigned>(head.value), head.call, stream_),
          "cuMemsetD32Async");
      break;
    case kValue:
      if (is_in(1, sizeof(uint64_t))) store(at(), head.value);
      break;
    case kSignal: {
      if (!is_in(0, 1) || head.channel >= view->channels) break;
      const size_t index = head.channel * ranks() + source;
      std::unique_lock lock(mutex_);
      uint64_t& known = signals_[{head.memory, index}];
      const uint64_t word = known =
          head.value + (static_cast<SignalOp>(head.call) == SignalOp::add ? known : 0);
      lock.unlock();
      store(view->pads[me] + index * sizeof word, word);
      break;
    }
    case kFetch: {
      Jobs asked(1, {"get", from, head, nullptr, head.value});
      asked.front().head.kind = kAnswer;
      const std::lock_guard lock(mutex_);
      return jobs_.splice(jobs_.end(), asked);
    }
    case kAnswer: {
      const auto job = std::find_if(waiting_.begin(), waiting_.end(), [&](const Job& one) {
        return one.head.kind == kFetch && one.rank == from && one.head.call == head.call &&
               head.offset <= one.head.value && head.bytes <= one.head.value - head.offset;
      });
      if (job == waiting_.end()) return;
      if (head.value == 0) {
        throw Error(Status::unavailable, format("get: rank %d has released the memory", from));
      }
      if (payload != nullptr) land(job->at + head.offset, payload, head.bytes);
      drain();
      job->bytes -= std::min(job->bytes, head.bytes);
      return job->bytes == 0 ? finish(waiting_, job) : void();
    }
    case kTaken: under_way_[source] -= std::min(under_way_[source], head.value); return;
    case kAsk: return endpoint_->dispatch(from, {.kind = kTold, .call = head.call}, {}, nullptr);
    case kTold: told_[source] = head.call; return;
    default: return;
  }
  drain();
}

void DeviceProxy::copy(const void* to, const void* from, size_t bytes) {
  driver_.require(
      driver_.cuMemcpyAsync(cuda::address_of(to), cuda::address_of(from), bytes, stream_),
      "cuMemcpyAsync");
}

// Until what this thread has the device do is done.
void DeviceProxy::drain() {
  cuda::CUresult result = cuda::CUDA_SUCCESS;
  const auto is_done = [&] {
    return (result = driver_.cuStreamQuery(stream_)) != cuda::CUDA_ERROR_NOT_READY;
  };
  const auto never = [] { return false; };
  Waiter waiter{0};
  LazyDeadline until(context_.timeout_ms);
  const WaitEnd how = wait_condition(
      {is_done, never, {}, false}, waiter, revocation(), {.spins = 100, .yields = kLooks}, until);
  if (how == WaitEnd::timed_out) {
    throw Error(Status::timeout,
        "the device has not copied in time what goes between machines: do "
        "CUDA_DEVICE_MAX_CONNECTIONS streams wait?");
  }
  if (how == WaitEnd::revoked) {
    end();  // it may be behind a stream that waits
    retry_until(is_done, Deadline::after_ms(kPatienceMs));
    revocation().throw_if_revoked();
  }
  driver_.require(result, "cuStreamQuery");
}

// ---- what goes

bool DeviceProxy::work() {
  {
    const std::lock_guard lock(mutex_);
    const auto ready =
        std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return is_there_yet(job); });
    if (ready == jobs_.end()) return false;
    doing_.splice(doing_.end(), jobs_, ready);
  }
  Job& job = doing_.front();
  Head& head = job.head;
  job.until = deadline(kGraceMs);
  if (head.kind == kAnswer) {
    bool refused = false;
    const auto view = memories_.find(head.memory, head.offset, job.bytes, &refused);
    const std::byte* const from =
        view ? view->blocks[static_cast<size_t>(context_.rank)] + head.offset : nullptr;
    head.value = view ? 1 : 0;
    head.offset = 0;  // of the answer
    if (view) {
      move(job, from);
    } else {
      send(job, head);
    }
  } else if (head.kind == kAsk || head.kind == kFetch) {
    if (head.kind == kFetch) {
      head.call = ++fetches_;
    } else {
      head.value = done_;
    }
    for (size_t rank = 0; rank < ranks() && head.kind == kAsk; ++rank) {
      if (!sent_[rank]) continue;
      sent_[rank] = false;
      endpoint_->dispatch(
          static_cast<int>(rank), {.kind = kAsk, .call = ++asked_[rank]}, {}, nullptr);
    }
    job.answers = asked_;
    {
      const std::lock_guard lock(mutex_);
      waiting_.splice(waiting_.end(), doing_);
    }
    if (head.kind == kFetch) send(job, head);
    return true;
  } else {
    if (head.kind == kPut) {
      move(job, job.at);
    } else {
      send(job, head);
    }
    sent_[static_cast<size_t>(job.rank)] = true;
    ++done_;
  }
  finish(doing_, doing_.begin());
  return true;
}

// At what others are to answer.
void DeviceProxy::look() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto job = next++;
    const bool asks = job->head.kind == kAsk;
    bool is_over = asks;
    for (int rank = 0; rank < context_.size; ++rank) {
      const auto at = static_cast<size_t>(rank);
      if (asks ? told_[at] >= job->answers[at] || revocation().departed(rank) : rank != job->rank) {
        continue;
      }
      require_there(*job, rank);
      is_over = false;
    }
    if (!is_over) continue;
    settled_ = std::max<uint64_t>(settled_, job->head.value);
    finish(waiting_, job);
  }
}

void DeviceProxy::require_there(Job& job, int rank) {
  const auto at = static_cast<size_t>(rank);
  revocation().throw_if_revoked();
  std::string how = "has left the group";
  if (!revocation().departed(rank)) {
    const std::lock_guard lock(mutex_);
    how = losses_[at];
  }
  if (!how.empty() && !job.grace) job.grace = Deadline::after_ms(kGraceMs);
  const bool gone = job.grace && job.grace->expired();
  if (!gone && !job.until.expired()) return;
  throw Error(context_.blame(rank, gone ? Status::peer_failed : Status::timeout,
      text(job.what, ": ", context_.name_of(rank), " ",
          gone ? how : "has not answered before the deadline")));
}

bool DeviceProxy::send(const Job& job, const Head& head, std::span<const std::byte> payload) {
  LazyDeadline until(context_.timeout_ms);
  return multinode::send(*endpoint_, context_, job.rank, head, payload, until, job.what);
}

void DeviceProxy::move(Job& job, const std::byte* from) {
  uint64_t& ahead = under_way_[static_cast<size_t>(job.rank)];
  const auto part = [&](size_t at) { return std::min<size_t>(kMessage, job.bytes - at); };
  const auto stage = [&](size_t at) { copy(message(at / kMessage % 2), from + at, part(at)); };
  Head head = job.head;
  stage(0);
  for (size_t at = 0; at < job.bytes; at += kMessage) {
    drain();
    if (at + kMessage < job.bytes) stage(at + kMessage);
    while (ahead + part(at) > kUnderWay && !revocation().departed(job.rank)) {
      const uint32_t seen = woken_.load();
      const uint32_t events = revocation().events().load();
      require_there(job, job.rank);
      if (!receive()) {
        sleep_while(woken_, seen, &revocation().events(), events, Deadline::after_ms(20));
      }
    }
    head.offset = job.head.offset + at;
    if (send(job, head, {message(at / kMessage % 2), part(at)})) ahead += part(at);
  }
}

// ---- the thread

Deadline DeviceProxy::deadline(uint64_t more_ms) const {
  const uint64_t timeout = context_.timeout_ms;
  return timeout == Deadline::kInfinite ? Deadline::never() : Deadline::after_ms(timeout + more_ms);
}

void DeviceProxy::ring() noexcept {
  woken_.fetch_add(1);
  wake_all(woken_);
}

void DeviceProxy::finish(Jobs& list, Jobs::iterator job) noexcept {
  Jobs gone;
  const std::lock_guard lock(mutex_);
  if (job->slot != kNone) {
    slot(job->slot).done.store(job->number, std::memory_order_release);
    free_slots_.push_back(job->slot);  // for which it has room
  }
  gone.splice(gone.end(), list, job);
}

// Nothing goes any more, and no stream waits for it.
void DeviceProxy::end() noexcept {
  {
    const std::lock_guard lock(mutex_);  // whoever is about to add a job has done so, or sees it
    over_ = true;
    waiting_.splice(waiting_.end(), jobs_);
    waiting_.splice(waiting_.end(), doing_);
  }
  while (!waiting_.empty()) {
    finish(waiting_, waiting_.begin());
  }
}

void DeviceProxy::rest(uint32_t seen, uint32_t events) {
  if (++idle_ < kLooks) return cpu_relax();
  std::unique_lock lock(mutex_);
  const bool polls = !jobs_.empty();
  const bool awaits = !waiting_.empty();
  lock.unlock();
  if (!polls) {
    return sleep_while(
        woken_, seen, &revocation().events(), events, Deadline::after_ms(awaits ? 20 : 1'000));
  }
  const auto something = [&] {  // streams do not ring
    const std::lock_guard held(mutex_);
    return woken_.load() != seen || std::any_of(jobs_.begin(), jobs_.end(),
                                        [&](const Job& job) { return is_there_yet(job); });
  };
  retry_until(something, Deadline::after_ms(1));
}

void DeviceProxy::run() noexcept {
  log::deliver_elsewhere();
  const cuda::ContextGuard current(*device_, std::nothrow);
  const auto is_over = [&] {
    const std::lock_guard lock(mutex_);
    return over_ || revocation().revoked() || (closing_ && jobs_.empty() && waiting_.empty());
  };
  const auto fail = [&](const Failure& failure) {
    {
      const std::lock_guard lock(calling_);
      if (context_.fail && !revocation().revoked()) context_.fail(failure);
    }
    end();
  };
  while (!is_over()) {
    const uint32_t seen = woken_.load();
    const uint32_t events = revocation().events().load();
    try {
      bool any = receive();
      any |= work();
      look();
      if (any) {
        idle_ = 0;
      } else {
        rest(seen, events);
      }
    } catch (const Error& error) {
      fail(error.failure());
    } catch (const std::bad_alloc&) {
      fail({Status::out_of_memory, context_.rank, 0, "no memory for what goes between machines"});
    }
  }
  end();
  try {
    drain();
  } catch (const Error&) {
  }  // then the device does nothing any more
  ended_ = true;
}

// ---- the transport's calls

void DeviceMultinodeTransport::require_reach(int rank, const char* what) const {
  if (!maps(rank)) courier_->require(rank, what);
}

void DeviceMultinodeTransport::memory_added(const std::shared_ptr<const MemoryView>& memory) {
  CudaTransport::memory_added(memory);
  courier_->memory_added(memory);
}

void DeviceMultinodeTransport::memory_removed(const MemoryView& memory) noexcept {
  courier_->memory_removed(memory);
  CudaTransport::memory_removed(memory);
}

// By kernels, which hold up the copies of other streams
// only where work of their own waits behind them.
DeviceProxy::Stream DeviceMultinodeTransport::with_words(void* stream) {
  return {cuda::stream_of(stream),
      [this, stream](cuda::CUdeviceptr word, uint64_t value) {
        write_word(word, value, cuda::WriteKind::store64, stream);
      },
      // for which the message engine has a deadline
      [this, stream](cuda::CUdeviceptr word, uint64_t value) {
        wait_word(Deadline::kInfinite, cuda::Operation::wait_value, 0,
            {word, value, -1, 0, Compare::ge, sizeof value}, stream);
      }};
}

void DeviceMultinodeTransport::to_remote(const char* what, const MemoryView& memory, int rank,
    Head head, std::span<const std::byte> payload, void* stream) {
  courier_->require(rank, what);
  head.memory = memory.id;
  if (head.kind == kValue && head.channel == sizeof(uint32_t)) {
    head.kind = kFill;
    head.call = 1;
  }
  const cuda::ContextGuard current(*gpu());
  courier_->issue(what, rank, head, payload.data(), payload.size(), with_words(stream));
}

void DeviceMultinodeTransport::settle(void* stream) {
  const cuda::ContextGuard current(*gpu());
  courier_->settle(with_words(stream));
}

void DeviceMultinodeTransport::get(
    const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes, void* stream) {
  if (maps(rank)) return CudaTransport::get(memory, rank, offset, to, bytes, stream);
  const std::span<const std::byte> room(static_cast<const std::byte*>(to), bytes);
  to_remote("get", memory, rank, {.kind = kFetch, .offset = offset, .value = bytes}, room, stream);
}
}  // namespace symm::multinode
