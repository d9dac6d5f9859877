#include "core/multinode/transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/backend/hardware.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/error.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/control.hpp"
#include "core/host/transport.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/device_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/compare.hpp"
#include "kernels/text.hpp"

namespace symm::multinode {
namespace {
using engine::Head;

constexpr uint64_t kReasonMs = 100;  // that the mesh takes at most to say why a line broke

TransportContext with_rounds(TransportContext context) {
  ++context.channels;
  return context;
}

Thresholds thresholds_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::host, key); };
  return {value("gather"), value("slices"), value("round"), static_cast<int>(value("direct")),
      static_cast<int>(value("tell"))};
}
}  // namespace

// What a rank waits for: the bytes of a block on another machine.
struct MultinodeTransport::Fetch {
  int rank;
  std::byte* to;
  size_t bytes;
  bool found = false;
  Word done{0};
  Waiter waiter{0};
};

std::unique_ptr<Transport> open(Backend& backend, TransportContext context) {
  if (backend.kind() == BackendKind::host) {
    const PlanTable table = PlanTable::from_environment(BackendKind::host);
    const PlanValues values = table.values(BackendKind::host, context.size, host::processor_name);
    return std::make_unique<MultinodeTransport>(std::move(context), values);
  }

  std::unique_ptr<Transport> local = backend.make_transport(context);
  IntranodeDevice* const device = local->device().intranode();
  if (device == nullptr) {
    throw Error(Status::unsupported, "groups of this back end are within one machine");
  }
  return std::make_unique<DeviceMultinodeTransport>(std::move(context), std::move(local), *device);
}

MultinodeTransport::MultinodeTransport(TransportContext context, const PlanValues& values)
    : WithRemoteRanks(with_rounds(std::move(context)), values, this),
      thresholds_(thresholds_of(values)),
      local_size_(context_.machines.local_size(context_.rank)),
      taken_(static_cast<size_t>(context_.size)),
      losses_(static_cast<size_t>(context_.size)),
      told_(static_cast<size_t>(context_.size)),
      nowhere_(new std::byte[kMessage]),
      endpoint_(engine::open_endpoint(
          context_.group, context_.rank, context_.size, *this, context_.revocation)) {
  in_line_ = context_.machines.in_line();
  for (int rank = 0; rank < context_.size; ++rank) {
    if (context_.machines.local_rank(rank) == 0) firsts_.push_back(rank);
  }
  if (context_.size > thresholds_.tell) everybody_.clear();
  mine_ = EngineShare::of_process();
  engine_ = mine_.name;
}

// ---- creation

OutgoingMessage MultinodeTransport::share() const {
  OutgoingMessage share = HostTransport::share();
  append(share, mine_);
  return share;
}

void MultinodeTransport::connect(int peer, Message message, const PeerIdentity& identity) {
  const auto theirs = take_last<EngineShare>(message);
  if (theirs.name != engine_ || theirs.address_bytes > kMostAddressBytes) {
    throw Error({Status::mismatch, peer, 0,
        format("engine: rank %d has %s, rank %d has %s", context_.rank, engine_.c_str(), peer,
            theirs.name)});
  }
  if (maps(peer)) return HostTransport::connect(peer, std::move(message), identity);
  const Bytes mine = HostTransport::share().body;
  if (std::memcmp(mine.data(), message.body.data(), sizeof(uint64_t)) != 0) {
    throw Error({Status::mismatch, peer, 0,
        format("rank %d has a control segment of another size: different versions of the library?",
            peer)});
  }
  endpoint_->connect(peer, theirs.engine_address());
}

void MultinodeTransport::let_go() noexcept {
  for (int rank = 0; rank < context_.size; ++rank) {
    if (!maps(rank)) endpoint_->cut(rank);
  }
}

// ---- to ranks of other machines

bool send(engine::Endpoint& endpoint, const TransportContext& context, int rank, const Head& head,
    std::span<const std::byte> payload, LazyDeadline& deadline, const char* what) {
  const Revocation& revocation = *context.revocation;
  if (revocation.departed(rank)) return false;  // as into memory that nobody looks at
  try {
    return endpoint.send(rank, head, payload, deadline), true;
  } catch (const Error& error) {
    retry_until([&] { return revocation.revoked() || revocation.departed(rank); },
        Deadline::after_ms(kReasonMs));
    revocation.throw_if_revoked();
    if (revocation.departed(rank)) return false;
    throw Error(context.blame(
        rank, error.status(), text(what, ": ", context.name_of(rank), ": ", error.what())));
  }
}

void MultinodeTransport::send(int rank, const Head& head, std::span<const std::byte> payload,
    LazyDeadline& deadline, const char* what) {
  try {
    if (multinode::send(*endpoint_, context_, rank, head, payload, deadline, what) &&
        head.kind >= kSignal && head.kind <= kPut) {
      told_[static_cast<size_t>(rank)].sent.fetch_add(1, std::memory_order_acq_rel);
    }
  } catch (const Error& error) {
    context_.revocation->throw_if_revoked();
    controls_.fail(error.failure());
  }
}

void MultinodeTransport::arrive(
    int peer, int channel, uint32_t count, uint32_t set, uint64_t timeout_ms) {
  if (maps(peer)) return HostTransport::arrive(peer, channel, count, set, timeout_ms);
  Head head{
      .kind = kArrival, .channel = static_cast<uint16_t>(channel), .value = count, .call = set};
  send(peer, head, {}, timeout_ms, "barrier");
}

void MultinodeTransport::to_remote(const char* what, const MemoryView& memory, int rank, Head head,
    std::span<const std::byte> payload, void* stream) {
  require_no_stream(stream);
  head.memory = memory.id;
  if (head.kind == kFill) {
    const std::vector<uint32_t> words(
        std::min(head.call, kMessage / sizeof(uint32_t)), static_cast<uint32_t>(head.value));
    const auto bytes = std::as_bytes(std::span(words));
    for (size_t at = 0, all = head.call * sizeof(uint32_t); at < all; at += bytes.size()) {
      put(memory, rank, head.offset + at, bytes.data(), std::min(bytes.size(), all - at), stream);
    }
    return;
  }
  do {
    const auto part = payload.first(std::min(payload.size(), kMessage));
    send(rank, head, part, context_.timeout_ms, what);
    payload = payload.subspan(part.size());
    head.offset += part.size();
  } while (!payload.empty());
}

void MultinodeTransport::get(
    const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes, void* stream) {
  if (maps(rank)) return HostTransport::get(memory, rank, offset, to, bytes, stream);
  require_no_stream(stream);
  for (size_t at = 0; at < bytes; at += kMessage) {
    Fetch fetch{.rank = rank,
        .to = static_cast<std::byte*>(to) + at,
        .bytes = std::min(kMessage, bytes - at)};
    Head head{.kind = kFetch, .memory = memory.id, .offset = offset + at, .value = fetch.bytes};
    {
      const std::lock_guard lock(mutex_);
      head.call = ++next_fetch_;
      fetches_[head.call] = &fetch;
    }
    const auto forget = [&] {
      const std::lock_guard lock(mutex_);  // whoever ends it has let go of it
      fetches_.erase(head.call);
    };
    LazyDeadline deadline(context_.timeout_ms);
    try {
      send(rank, head, {}, context_.timeout_ms, "get");
      controls_.await(fetch.done, 1, fetch.waiter, rank, deadline, "get");
    } catch (...) {
      endpoint_->cut(rank);
      forget();
      throw;
    }
    forget();
    if (!fetch.found) {
      throw Error(Status::unavailable, format("rank: %d has released the memory", rank));
    }
  }
}

// ---- from ranks of other machines

std::byte* MultinodeTransport::place(int from, const Head& head) noexcept {
  if (head.kind == kRound || head.kind == kStep) return place_of(controls_.mine(), from, head);
  if (head.kind == kFetchReply) {
    const std::lock_guard lock(mutex_);
    const auto found = fetches_.find(head.call);
    return found != fetches_.end() && found->second->rank == from &&
                   found->second->bytes == head.bytes
               ? found->second->to
               : nullptr;
  }
  bool refused = false;
  std::shared_ptr<const MemoryView> view =
      memories_.find(head.memory, head.offset, head.bytes, &refused);
  if (head.kind != kPut || refused || head.bytes > kMessage) return nullptr;
  if (!view) return nowhere_.get();
  std::byte* const to = view->blocks[static_cast<size_t>(context_.rank)] + head.offset;
  try {
    with_reserve([&] { landing_[{from, head.sequence}] = std::move(view); });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return to;
}

void MultinodeTransport::arrived(int from, const Head& head) noexcept {
  bool refused = false;
  switch (head.kind) {
    case kRound:
    case kStep:
      return place_of(controls_.mine(), from, head) == nullptr ? void()
                                                               : note(controls_.mine(), from, head);
    case kArrival:
      if (head.channel >= context_.channels) return;
      return note_arrival(controls_.mine(), head.channel, from, static_cast<uint32_t>(head.value),
          static_cast<uint32_t>(head.call));
    case kSignal: {
      const auto view = memories_.find(head.memory, 0, 0, &refused);
      if (!view || head.channel >= view->channels || !is_valid(static_cast<SignalOp>(head.call))) {
        return;
      }
      return note_signal(
          *view, context_.rank, head.channel, from, static_cast<SignalOp>(head.call), head.value);
    }
    case kValue: {
      const auto view = memories_.find(head.memory, head.offset, head.channel, &refused);
      if (!view || (head.channel != 4 && head.channel != 8) || head.offset % head.channel != 0) {
        return;
      }
      return note_value(*view, context_.rank, from, head.offset, head.value, head.channel);
    }
    case kPut: landing_.erase({from, head.sequence}); return;
    case kFetch: return answer(from, head);
    case kFetchReply: {
      const std::lock_guard lock(mutex_);
      const auto found = fetches_.find(head.call);
      if (found == fetches_.end() || found->second->rank != from) return;
      found->second->found = head.value != 0;
      return publish(found->second->done, 1, {&found->second->waiter, 1});
    }
    case kQuery: return tell(from, head);
    case kQueryReply: {
      NotifyState& told = told_[static_cast<size_t>(from)];
      const std::lock_guard lock(mutex_);
      told.last = head;
      return publish(told.times, told.times.load(std::memory_order_relaxed) + 1, {&told.waiter, 1});
    }
    default: return;
  }
}

void MultinodeTransport::tell(int to, const Head& question) noexcept {
  const host::Control& mine = controls_.mine();
  const auto count = static_cast<uint32_t>(question.value);
  Head head;
  head.kind = kQueryReply;
  head.channel =
      question.channel < context_.channels && reached(mine.barrier(question.channel, count), count);
  head.offset = static_cast<uint64_t>(int64_t{controls_.waits_for(context_.rank)} + 1);
  {
    const std::lock_guard lock(mutex_);
    head.call = mine.pair(rounds_channel(), context_.rank).load(std::memory_order_acquire);
    std::tie(head.value, head.memory) = said_by_me(static_cast<uint32_t>(head.call));
  }
  endpoint_->answer(to, head, {}, nullptr);
}

// How often it has answered when it has answered this,
// and all that was sent to it before has arrived.
uint32_t MultinodeTransport::ask(int rank, int channel, uint32_t count) noexcept {
  NotifyState& told = told_[static_cast<size_t>(rank)];
  Head head{.kind = kQuery, .channel = static_cast<uint16_t>(channel), .value = count};
  const std::lock_guard turn(asking_);
  endpoint_->dispatch(rank, head, {}, nullptr);
  return ++told.asked;
}

std::optional<Head> MultinodeTransport::where_is(int rank, int channel, uint32_t count) noexcept {
  NotifyState& told = told_[static_cast<size_t>(rank)];
  const uint32_t answer = ask(rank, channel, count);
  const bool in_time =
      retry_until([&] { return reached(told.times, answer); }, Deadline::after_ms(kReasonMs));
  const std::lock_guard lock(mutex_);
  return in_time ? std::optional(told.last) : std::nullopt;
}

int MultinodeTransport::blocked_on(int rank) noexcept {
  const std::optional<Head> told = where_is(rank);
  return !told || told->offset > static_cast<uint64_t>(context_.size)
             ? -1
             : static_cast<int>(told->offset) - 1;
}

// ---- a barrier of many: those of a machine come to their
// first, the firsts meet in rounds, and let theirs go

constexpr uint32_t kAll = 0;  // no set's hash, or one in 2^32

void MultinodeTransport::settle_puts(int channel, LazyDeadline& deadline) {
  std::vector<std::tuple<int, uint32_t, uint32_t>> asked;
  for (int rank = 0; rank < context_.size; ++rank) {
    NotifyState& told = told_[static_cast<size_t>(rank)];
    const uint32_t sent = told.sent.load(std::memory_order_acquire);
    if (told.settled.load(std::memory_order_acquire) != sent) {
      asked.emplace_back(rank, ask(rank), sent);
    }
    if (untaken_set(channel, rank) != 0) fail_sets(channel, rank);
  }
  for (const auto& [rank, answer, sent] : asked) {
    NotifyState& told = told_[static_cast<size_t>(rank)];
    controls_.await(told.times, answer, told.waiter, rank, deadline, "barrier");
    told.settled.store(sent, std::memory_order_release);
  }
}

bool MultinodeTransport::has_come(int peer, int channel, uint32_t count) {
  if (maps(peer)) return HostTransport::has_come(peer, channel, count);
  const std::optional<Head> told = where_is(peer, channel, count);
  return told && told->channel != 0;
}

void MultinodeTransport::await_everybody(int channel, uint32_t count, LazyDeadline& deadline) {
  const int machines = context_.machines.count;
  const int mine = context_.machines.of[static_cast<size_t>(context_.rank)];
  const int32_t first = firsts_[static_cast<size_t>(mine)];
  if (first != context_.rank) return meet(channel, kAll, {}, {&first, 1}, deadline);
  std::vector<int32_t> others;
  for (int rank = first + 1; rank < context_.size; ++rank) {
    if (maps(rank)) others.push_back(rank);
  }
  for (const int rank : others) {
    controls_.await(controls_[rank].barrier(channel, count), count, rank, deadline, "barrier");
  }
  for (int way = 1; way < machines; way *= 2) {
    const auto at = [&](int machine) { return &firsts_[static_cast<size_t>(machine % machines)]; };
    meet(channel, kAll, {at(mine + way), 1}, {at(mine + machines - way), 1}, deadline);
  }
  meet(channel, kAll, others, {}, deadline);
}

void MultinodeTransport::answer(int from, const Head& head) noexcept {
  bool refused = false;
  const auto view = memories_.find(head.memory, head.offset, head.value, &refused);
  Head reply{.kind = kFetchReply, .call = head.call};
  if (!view) return endpoint_->answer(from, reply, {}, nullptr);
  reply.value = 1;
  const std::byte* const at = view->blocks[static_cast<size_t>(context_.rank)] + head.offset;
  endpoint_->answer(from, reply, {at, static_cast<size_t>(head.value)}, view);
}

// ---- who is there

void MultinodeTransport::lost(int peer, const std::string& how) noexcept {
  const std::lock_guard lock(mutex_);
  PeerLoss& loss = losses_[static_cast<size_t>(peer)];
  with_reserve([&] { loss.how = how; });
  loss.until = Deadline::after_ms(kReasonMs);
}

// The mesh tells of a departure, and of a death, by another
// way than what was sent before; where the engine breaks and
// the mesh says nothing, whoever waits for the rank says so.
bool MultinodeTransport::has_left(int rank) noexcept {
  constexpr uint64_t kOnTheWayMs = 1'000;
  const bool departed = context_.revocation->departed(rank);
  if (maps(rank)) return departed;
  Failure failure = context_.blame(rank, Status::peer_failed, "");
  {
    const std::lock_guard lock(mutex_);
    PeerLoss& loss = losses_[static_cast<size_t>(rank)];
    if (departed && !loss.until) loss.until = Deadline::after_ms(kOnTheWayMs);
    if (departed) return !loss.how.empty() || loss.until->expired();
    if (!loss.until || !loss.until->expired()) return false;
    failure.message = with_reserve(
        [&] { return format("%s lost rank %d: %s", engine_.c_str(), rank, loss.how.c_str()); });
  }
  context_.fail(failure);
  return false;
}
}  // namespace symm::multinode
