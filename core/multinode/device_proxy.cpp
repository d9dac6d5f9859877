// Moves one-sided calls of GPUs between machines: callers' threads issue them, threads that
// make progress receive messages, and a thread of the group does what both ask for. CUDA is
// called only through core/backend/device.hpp.
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
#include "core/backend/device.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/compare.hpp"
#include "kernels/text.hpp"

namespace symm::multinode {
using engine::Head;

namespace {
// The bytes sent to a rank that it has not reported as taken, at most.
constexpr size_t kMostInFlight = size_t{16} << 20;
// The time that the mesh gets to say why a rank is gone. A job waits longer than its
// time-out by as much, so that a rank which itself waits for another one is the first
// to report that one.
constexpr uint64_t kGraceMs = 1'000;
// The rounds without work after which the thread rests.
constexpr uint32_t kIdleRounds = 1'000;
// The time that the device has to end what was issued when the group has failed.
constexpr uint64_t kPatienceMs = 5'000;
// The time between two checks for lost ranks, while the thread waits for ranks, and
// while it has no job.
constexpr uint64_t kLookMs = 20;
constexpr uint64_t kIdleMs = 1'000;

// Whether the job is done when another rank has answered, rather than when the message is sent.
bool is_answered(const Head& head) {
  return head.kind == kFetch || head.kind == kQuery || (head.kind == kAtomic && head.call != 0);
}
}  // namespace

// ---- creation and end

DeviceProxy::DeviceProxy(const TransportContext& context)
    : context_(context),
      unreachable_(ranks()),
      losses_(ranks()),
      in_flight_(ranks()),
      queries_(ranks()),
      replies_(ranks()),
      unsettled_(ranks()) {}

std::shared_ptr<DeviceProxy> DeviceProxy::open(
    const TransportContext& context, const IntranodeDevice& device) {
  std::shared_ptr<DeviceProxy> proxy(new DeviceProxy(context));
  try {
    proxy->share_ = EngineShare::of_process(context.addresses);
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    proxy->unreachable_.assign(proxy->ranks(), error.what());
    return proxy;
  }

  proxy->open_engine(device);
  return proxy;
}

// Makes what a process with a message engine needs: the pinned words through which streams and
// the proxy's thread tell each other of calls (a slot a call, all free), and the endpoint,
// which calls this object from now on. It is opened with the device current, for an engine that
// allocates on it.
void DeviceProxy::open_engine(const IntranodeDevice& device) {
  pinned_ = device.open_pinned_stream(kPinnedBytes);
  std::memset(pinned_->host(), 0, kSlots * sizeof(Slot));
  for (uint32_t i = 0; i < kSlots; ++i) {
    free_slots_.push_back(i);
  }

  device.run_attached([&] {
    endpoint_ = engine::open_endpoint(
        context_.group, context_.rank, context_.size, *this, context_.revocation);
  });
}

DeviceProxy::~DeviceProxy() { endpoint_.reset(); }

void DeviceProxy::connect(int rank, const EngineShare& theirs) {
  require_same_stamp(layouts::remote, context_.rank, rank, theirs.remote);
  if (!endpoint_ || context_.machines.together(rank, context_.rank)) return;

  if (std::strcmp(theirs.name, share_.name) == 0) {
    endpoint_->connect(rank, theirs.engine_address());
    return;
  }
  unreachable_[static_cast<size_t>(rank)] = format("it has %s, where rank %d has %s",
      *theirs.name != '\0' ? theirs.name : "no UCX", context_.rank, share_.name);
}

void DeviceProxy::begin() {
  if (!endpoint_) return;
  // Before the thread starts, because it may end at once.
  ended_ = false;
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
  wake();
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

// ---- calls, on threads of the caller

void DeviceProxy::require_reach(int rank, const char* call) const {
  const std::string& reason = unreachable_[static_cast<size_t>(rank)];
  if (!reason.empty()) {
    throw Error(Status::unsupported,
        format("%s: rank %d is on another machine, and %s", call, rank, reason.c_str()));
  }
}

void DeviceProxy::issue_change(int rank, Head head, const AtomicChange& change, void* fetched,
    uint64_t timeout_ms, IntranodeDevice& device, void* stream) {
  // The number of the reply is chosen when the stream comes to the call.
  head.call = fetched != nullptr ? 1 : 0;
  const auto* const at = static_cast<const std::byte*>(fetched);
  issue({"atomic", rank, head, at, change.bytes, timeout_ms, change.compare}, device, stream);
}

void DeviceProxy::issue(const Job& call, IntranodeDevice& device, void* stream) {
  if (device.is_captured(stream)) {
    throw Error(Status::unsupported,
        format("%s: rank %d is on another machine, where no captured graph reaches", call.call,
            call.rank));
  }

  // The job is made in a list of its own: moving it from there allocates nothing.
  Jobs made(1, call);
  Job& job = made.front();
  const auto take_slot = [&] {
    const std::lock_guard lock(mutex_);
    revocation().throw_if_revoked();
    if (free_slots_.empty()) return false;

    job.slot = free_slots_.back();
    job.number = ++numbers_;
    free_slots_.pop_back();
    return true;
  };
  if (!retry_until(take_slot, deadline(call.timeout_ms, 0))) {
    throw Error(Status::timeout,
        format("%s: %u calls were issued before that have not begun", call.call, kSlots));
  }

  const uint64_t number = job.number;
  const DeviceAddress words = pinned_->address() + job.slot * sizeof(Slot);
  try {
    device.issue_store(words + offsetof(Slot, go), number, stream);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(job.slot);
    throw;
  }

  {
    const std::lock_guard lock(mutex_);
    if (!over_) pending_.splice(pending_.end(), made);
  }
  if (!made.empty()) revocation().throw_if_revoked();
  if (!is_answered(call.head)) ++issued_;
  wake();
  device.issue_wait(words + offsetof(Slot, done), number, stream);
}

void DeviceProxy::settle(IntranodeDevice& device, void* stream) {
  if (settled_ != issued_ && !device.is_captured(stream)) {
    issue("barrier", -1, {.kind = kQuery}, nullptr, 0, context_.timeout_ms, device, stream);
  }
}

// ---- messages from other ranks

std::byte* DeviceProxy::place(int source, const Head& head) noexcept {
  bool refused = head.kind != kFetchReply;
  if (head.kind == kPut) memories_.find(head.memory, head.offset, head.bytes, &refused);
  if (head.kind == kAtomic) refused = head.bytes != sizeof(AtomicChange::compare);
  if (refused || head.bytes > kMessage) return nullptr;

  const std::lock_guard lock(mutex_);
  try {
    auto room =
        with_reserve([&] { return std::make_unique_for_overwrite<std::byte[]>(head.bytes); });
    std::byte* const at = room.get();
    with_reserve([&] { landing_[{source, head.sequence}] = std::move(room); });
    return at;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void DeviceProxy::arrived(int source, const Head& head) noexcept {
  {
    const std::lock_guard lock(mutex_);
    auto payload = landing_.extract({source, head.sequence});
    with_reserve([&] { arrivals_.reserve(arrivals_.size() + 1); });
    arrivals_.push_back({source, head, payload ? std::move(payload.mapped()) : nullptr});
  }
  wake();
}

void DeviceProxy::lost(int peer, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  with_reserve([&] { losses_[static_cast<size_t>(peer)] = reason; });
}

bool DeviceProxy::receive() {
  std::vector<Arrival> arrivals;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
  }

  for (const auto& [source, head, payload] : arrivals) {
    receive_one(source, head, payload.get());
    if (payload) {
      endpoint_->dispatch(source, {.kind = kCredit, .value = head.bytes}, {}, nullptr);
    }
  }
  return !arrivals.empty();
}

void DeviceProxy::receive_one(int source, const Head& head, const std::byte* payload) {
  const auto from = static_cast<size_t>(source);
  switch (head.kind) {
    case kPut: {
      const auto memory = payload != nullptr ? find(head, head.bytes, 1) : nullptr;
      if (memory) bring(destination(*memory, head), payload, head.bytes);
      return drain();
    }

    case kFill: {
      const Copies copies{head.value, head.channel, head.call};
      const bool known = copies.bytes == 1 || copies.bytes == 2 || copies.bytes == 4 ||
                         copies.bytes == sizeof head.value;
      const auto memory = known ? find(head, copies.count, copies.bytes) : nullptr;
      if (memory) pinned_->fill(destination(*memory, head), copies);
      return drain();
    }

    case kValue: {
      const auto memory = find(head, 1, sizeof(uint64_t));
      if (memory) pinned_->store64(destination(*memory, head), head.value);
      return drain();
    }

    case kSignal: return bring_signal(source, head);
    case kFetch: {
      Jobs asked(1, {"get", source, head, nullptr, head.value, context_.timeout_ms});
      asked.front().head.kind = kFetchReply;
      const std::lock_guard lock(mutex_);
      return pending_.splice(pending_.end(), asked);
    }

    case kFetchReply: return bring_fetched(source, head, payload);
    case kAtomic: return change_word(source, head, payload);
    case kAtomicReply: return bring_word(source, head);
    case kCredit: in_flight_[from] -= std::min(in_flight_[from], head.value); return;
    case kQuery:
      return endpoint_->dispatch(source, {.kind = kQueryReply, .call = head.call}, {}, nullptr);
    case kQueryReply: replies_[from] = head.call; return;
    default: return;
  }
}

// The memory that has `count` words where the message says. The caller holds it until
// the device has written; null: the memory was released, or the words do not lie in it.
std::shared_ptr<const MemoryView> DeviceProxy::find(
    const Head& head, uint64_t count, uint64_t word_bytes) {
  if (count > SIZE_MAX / word_bytes || head.offset % word_bytes != 0) return nullptr;
  bool refused = false;
  return memories_.find(head.memory, head.offset, count * word_bytes, &refused);
}

// Through pinned memory: a copy from any other memory of the host waits inside the driver.
void DeviceProxy::bring(const std::byte* to, const std::byte* payload, size_t bytes) {
  pinned_->copy(to, std::memcpy(buffer(kIncoming), payload, bytes), bytes);
}

void DeviceProxy::bring_signal(int source, const Head& head) {
  const auto memory = find(head, 0, 1);
  if (memory && head.channel < memory->channels) {
    const size_t index = head.channel * ranks() + static_cast<size_t>(source);
    const bool adds = static_cast<SignalOp>(head.call) == SignalOp::add;

    uint64_t word = 0;
    {
      const std::lock_guard lock(mutex_);
      uint64_t& stored = signals_[{head.memory, index}];
      stored = head.value + (adds ? stored : 0);
      word = stored;
    }
    pinned_->store64(memory->pads[me()] + index * sizeof word, word);
  }
  drain();
}

void DeviceProxy::bring_fetched(int source, const Head& head, const std::byte* payload) {
  const auto job = std::find_if(waiting_.begin(), waiting_.end(), [&](const Job& one) {
    return one.head.kind == kFetch && one.rank == source && one.head.call == head.call &&
           head.offset <= one.head.value && head.bytes <= one.head.value - head.offset;
  });
  if (job == waiting_.end()) return;
  if (head.value == 0) {
    throw Error(Status::unavailable, format("get: rank %d has released the memory", source));
  }

  if (payload != nullptr) bring(job->at + head.offset, payload, head.bytes);
  drain();
  job->bytes -= std::min(job->bytes, head.bytes);
  if (job->bytes == 0) finish(waiting_, job);
}

// A kernel changes the word, since programs and kernels of other GPUs of this machine may change it
// at the same time.
void DeviceProxy::change_word(int source, const Head& head, const std::byte* payload) {
  uint64_t compare = 0;
  if (payload != nullptr) std::memcpy(&compare, payload, sizeof compare);
  const auto change = change_of(head, compare);
  if (!change) return;

  const auto memory = find(head, 1, change->bytes);
  if (memory && memory->on_host[me()] && !pinned_->changes_memory_of_host()) {
    throw Error(Status::unsupported,
        format("atomic: rank %d changes a word in the block of rank %d, which is memory of the "
               "host, and the link from its device to the host carries no atomic operations",
            source, context_.rank));
  }

  Head reply{.kind = kAtomicReply, .call = head.call};
  if (memory) {
    std::byte* const before = buffer(kIncoming);
    // A shorter word leaves the other bytes unwritten.
    std::memset(before, 0, sizeof reply.value);
    const auto fetched = pinned_->address() + static_cast<size_t>(before - pinned_->host());
    pinned_->change(destination(*memory, head), *change, fetched);
    drain();
    std::memcpy(&reply.value, before, sizeof reply.value);
    reply.channel = 1;
  }
  if (head.call != 0) endpoint_->dispatch(source, reply, {}, nullptr);
}

void DeviceProxy::bring_word(int source, const Head& head) {
  const auto job = std::find_if(waiting_.begin(), waiting_.end(), [&](const Job& one) {
    return one.head.kind == kAtomic && one.rank == source && one.head.call == head.call;
  });
  if (job == waiting_.end()) return;
  if (head.channel == 0) {
    throw Error(Status::unavailable, format("atomic: rank %d has released the memory", source));
  }

  // The lower bytes of the value come first.
  bring(job->at, reinterpret_cast<const std::byte*>(&head.value), job->bytes);
  drain();
  finish(waiting_, job);
}

// Waits until the device has done what this thread issued.
void DeviceProxy::drain() {
  const auto has_ended = [&] { return pinned_->has_ended(); };
  const auto never = [] { return false; };
  Waiter waiter{0};
  LazyDeadline until(context_.timeout_ms);
  const WaitEnd end = wait_condition({has_ended, never, {}, false}, waiter, revocation(),
      {.spins = 100, .yields = kIdleRounds}, until);

  if (end == WaitEnd::timed_out) {
    throw Error(Status::timeout,
        "the device has not copied in time what goes between machines: do "
        "CUDA_DEVICE_MAX_CONNECTIONS streams wait?");
  }
  if (end == WaitEnd::revoked) {
    // The work may lie behind a stream that waits for a job.
    finish_all();
    retry_until(has_ended, Deadline::after_ms(kPatienceMs));
    revocation().throw_if_revoked();
  }
  pinned_->check();
}

// ---- messages to other ranks

// Does the first job that its stream has reached, or begins it if other ranks answer it.
// Returns false if there is no such job.
bool DeviceProxy::start_job() {
  {
    const std::lock_guard lock(mutex_);
    const auto due =
        std::find_if(pending_.begin(), pending_.end(), [&](const Job& job) { return is_due(job); });
    if (due == pending_.end()) return false;
    current_.splice(current_.end(), pending_, due);
  }

  Job& job = current_.front();
  job.until = deadline(job.timeout_ms, kGraceMs);
  if (is_answered(job.head)) {
    await_answers(job);
    return true;
  }

  switch (job.head.kind) {
    case kFetchReply: send_reply_to_fetch(job); break;
    case kPut: send_bytes(job, job.at); break;
    case kAtomic: send_change(job); break;
    default: send(job, job.head); break;
  }
  if (job.head.kind != kFetchReply) {
    unsettled_[static_cast<size_t>(job.rank)] = true;
    ++done_;
  }
  finish(current_, current_.begin());
  return true;
}

void DeviceProxy::send_reply_to_fetch(Job& job) {
  Head& head = job.head;
  bool refused = false;
  const auto memory = memories_.find(head.memory, head.offset, job.bytes, &refused);
  const std::byte* const from = memory ? destination(*memory, head) : nullptr;

  head.value = memory ? 1 : 0;
  // From here on `offset` is the offset of a part of the reply.
  head.offset = 0;
  if (memory) {
    send_bytes(job, from);
  } else {
    send(job, head);
  }
}

// A get waits for the bytes, and an atomic for the word. A barrier waits until each rank has
// replied to a query sent after all that was sent to it: messages to a rank are taken in their
// order, so all of that has arrived.
void DeviceProxy::await_answers(Job& job) {
  Head& head = job.head;
  if (head.kind != kQuery) {
    head.call = ++fetches_;
  } else {
    head.value = done_;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      if (!unsettled_[rank]) continue;
      unsettled_[rank] = false;
      const uint64_t query = ++queries_[rank];
      endpoint_->dispatch(static_cast<int>(rank), {.kind = kQuery, .call = query}, {}, nullptr);
    }
  }

  job.replies = queries_;
  {
    const std::lock_guard lock(mutex_);
    waiting_.splice(waiting_.end(), current_);
  }
  if (head.kind == kFetch) send(job, head);
  if (head.kind == kAtomic) send_change(job);
}

// Finishes barriers that have all replies, and throws if an answer is overdue.
void DeviceProxy::check_waiting_jobs() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto job = next++;
    const bool is_barrier = job->head.kind == kQuery;
    const auto owes_nothing = [&](int rank) {
      if (!is_barrier) return rank != job->rank;
      const auto index = static_cast<size_t>(rank);
      return replies_[index] >= job->replies[index] || revocation().departed(rank);
    };

    // A get is finished where its bytes are received.
    bool complete = is_barrier;
    for (int rank = 0; rank < context_.size; ++rank) {
      if (owes_nothing(rank)) continue;
      require_answer_in_time(*job, rank);
      complete = false;
    }
    if (!complete) continue;
    settled_ = std::max<uint64_t>(settled_, job->head.value);
    finish(waiting_, job);
  }
}

void DeviceProxy::require_answer_in_time(Job& job, int rank) {
  revocation().throw_if_revoked();
  std::string reason = "has left the group";
  if (!revocation().departed(rank)) {
    const std::lock_guard lock(mutex_);
    reason = losses_[static_cast<size_t>(rank)];
  }

  if (!reason.empty() && !job.grace) job.grace = Deadline::after_ms(kGraceMs);
  const bool gone = job.grace && job.grace->expired();
  if (!gone && !job.until.expired()) return;
  throw Error(context_.blame(rank, gone ? Status::peer_failed : Status::timeout,
      text(job.call, ": ", context_.rank_name(rank), " ",
          gone ? reason : "has not answered before the deadline")));
}

bool DeviceProxy::send(const Job& job, const Head& head, std::span<const std::byte> payload) {
  LazyDeadline until(job.timeout_ms);
  return send_unless_left(*endpoint_, context_, job.rank, head, payload, until, job.call);
}

// The rank reports every payload as taken, also that of a change.
void DeviceProxy::send_change(const Job& job) {
  const auto change = change_of(job.head, job.compare);
  const auto payload = payload_of(*change);
  if (send(job, job.head, payload)) in_flight_[static_cast<size_t>(job.rank)] += payload.size();
}

// One part is copied from the device while the part before is sent. At most
// kMostInFlight bytes are under way to a rank; until it has taken some, this thread
// receives, or both could wait for ever.
void DeviceProxy::send_bytes(Job& job, const std::byte* from) {
  uint64_t& in_flight = in_flight_[static_cast<size_t>(job.rank)];
  const auto part_bytes = [&](size_t at) { return std::min<size_t>(kMessage, job.bytes - at); };
  const auto outgoing = [&](size_t at) { return buffer(at / kMessage % 2); };
  const auto fetch_part = [&](size_t at) {
    pinned_->copy(outgoing(at), from + at, part_bytes(at));
  };

  Head head = job.head;
  fetch_part(0);
  for (size_t at = 0; at < job.bytes; at += kMessage) {
    drain();
    if (at + kMessage < job.bytes) fetch_part(at + kMessage);

    while (in_flight + part_bytes(at) > kMostInFlight && !revocation().departed(job.rank)) {
      const uint32_t seen = woken_.load();
      const uint32_t events = revocation().events().load();
      require_answer_in_time(job, job.rank);
      if (!receive()) {
        sleep_while(woken_, seen, &revocation().events(), events, Deadline::after_ms(kLookMs));
      }
    }

    head.offset = job.head.offset + at;
    if (send(job, head, {outgoing(at), part_bytes(at)})) in_flight += part_bytes(at);
  }
}

// ---- the thread

Deadline DeviceProxy::deadline(uint64_t timeout_ms, uint64_t more_ms) {
  return timeout_ms == Deadline::kInfinite ? Deadline::never()
                                           : Deadline::after_ms(timeout_ms + more_ms);
}

void DeviceProxy::wake() noexcept {
  woken_.fetch_add(1);
  wake_all(woken_);
}

void DeviceProxy::finish(Jobs& list, Jobs::iterator job) noexcept {
  Jobs finished;
  const std::lock_guard lock(mutex_);
  if (job->slot != kNoSlot) {
    slot(job->slot).done.store(job->number, std::memory_order_release);
    // Allocates nothing: the vector has held all slots before.
    free_slots_.push_back(job->slot);
  }
  finished.splice(finished.end(), list, job);
}

// From here on nothing is sent, and no stream waits.
void DeviceProxy::finish_all() noexcept {
  {
    // A thread that is about to add a job has done so, or will see `over_`.
    const std::lock_guard lock(mutex_);
    over_ = true;
    waiting_.splice(waiting_.end(), pending_);
    waiting_.splice(waiting_.end(), current_);
  }
  while (!waiting_.empty()) {
    finish(waiting_, waiting_.begin());
  }
}

void DeviceProxy::rest(uint32_t seen, uint32_t events) {
  if (++idle_ < kIdleRounds) return cpu_relax();

  bool polls = false;
  bool awaits = false;
  {
    const std::lock_guard lock(mutex_);
    polls = !pending_.empty();
    awaits = !waiting_.empty();
  }
  if (!polls) {
    const Deadline until = Deadline::after_ms(awaits ? kLookMs : kIdleMs);
    sleep_while(woken_, seen, &revocation().events(), events, until);
    return;
  }

  // A stream that reaches a job wakes no thread, so the thread has to look.
  const auto has_work = [&] {
    const std::lock_guard lock(mutex_);
    return woken_.load() != seen || std::any_of(pending_.begin(), pending_.end(),
                                        [&](const Job& job) { return is_due(job); });
  };
  retry_until(has_work, Deadline::after_ms(1));
}

bool DeviceProxy::is_over() {
  const std::lock_guard lock(mutex_);
  return over_ || revocation().revoked() || (closing_ && pending_.empty() && waiting_.empty());
}

void DeviceProxy::fail(const Failure& failure) noexcept {
  {
    const std::lock_guard lock(calling_);
    if (context_.fail && !revocation().revoked()) context_.fail(failure);
  }
  finish_all();
}

void DeviceProxy::run() noexcept {
  log::deliver_elsewhere();
  pinned_->run_attached([&] {
    while (!is_over()) {
      const uint32_t seen = woken_.load();
      const uint32_t events = revocation().events().load();
      try {
        bool any = receive();
        any |= start_job();
        check_waiting_jobs();
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

    finish_all();
    try {
      drain();
    } catch (const Error&) {
      // The device has failed, so it does nothing any more.
    }
    ended_ = true;
  });
}
}  // namespace symm::multinode
