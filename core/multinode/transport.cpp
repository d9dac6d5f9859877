// The transport of a group of processes on several machines, but for its collectives
// (collective.cpp, allreduce.cpp): one-sided calls, barriers, and the messages by which they
// reach ranks that share no memory.
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
#include "core/base/layouts.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/control.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/standstill.hpp"
#include "core/host/transport.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/device_transport.hpp"
#include "core/multinode/messages.hpp"
#include "core/multinode/packed_pieces.hpp"
#include "core/multinode/remote_mailbox.hpp"
#include "kernels/compare.hpp"
#include "kernels/host/copy_pieces.hpp"
#include "kernels/host/words.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/text.hpp"

namespace symm::multinode {
namespace {
using engine::Head;

// The time that the mesh needs, at most, to say why a line broke.
constexpr uint64_t kReasonMs = 100;

// Adds the channel of the transport's own rounds to those that callers have.
TransportContext with_rounds(TransportContext context) {
  ++context.channels;
  return context;
}

Thresholds thresholds_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::host, key); };
  return {.gather = value("gather"),
      .slices = value("slices"),
      .round = value("round"),
      .direct = static_cast<int>(value("direct")),
      .tell = static_cast<int>(value("tell"))};
}
}  // namespace

// A part of a block on another machine, or a word of it, which a call waits for.
struct MultinodeTransport::Fetch {
  int rank;
  // The destination of a part; null if a word is awaited.
  std::byte* to = nullptr;
  size_t bytes = 0;
  uint64_t word = 0;
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
      share_(EngineShare::of_process(context_.addresses)),
      thresholds_(thresholds_of(values)),
      local_size_(context_.machines.local_size(context_.rank)),
      in_line_(context_.machines.in_line()),
      taken_(static_cast<size_t>(context_.size)),
      losses_(static_cast<size_t>(context_.size)),
      states_(static_cast<size_t>(context_.size)),
      mailboxes_(static_cast<size_t>(context_.size)),
      discarded_(new std::byte[kMessage]),
      endpoint_(engine::open_endpoint(
          context_.group, context_.rank, context_.size, *this, context_.revocation)) {
  for (int rank = 0; rank < context_.size; ++rank) {
    if (context_.machines.local_rank(rank) == 0) firsts_.push_back(rank);
  }
  if (context_.size > thresholds_.tell) everybody_.clear();
  engine_ = share_.name;
}

// ---- creation and end

OutgoingMessage MultinodeTransport::share() const {
  OutgoingMessage share = HostTransport::share();
  append(share, share_);
  return share;
}

void MultinodeTransport::connect(int peer, Message message, const PeerIdentity& identity) {
  const auto theirs = take_last<EngineShare>(message);
  if (theirs.name != engine_ || theirs.address_bytes > kMostAddressBytes) {
    throw Error({Status::mismatch, peer, 0,
        format(
            "engine: rank %d has %s, rank %d has %s; install the same UCX on all machines, or set "
            "SYMM_ENGINE=secure on all ranks, which needs none",
            context_.rank, engine_.c_str(), peer, theirs.name)});
  }
  require_same_stamp(layouts::remote, context_.rank, peer, theirs.remote);
  if (maps(peer)) return HostTransport::connect(peer, std::move(message), identity);

  require_same_layout(peer, message);
  endpoint_->connect(peer, theirs.engine_address());
}

void MultinodeTransport::let_go() noexcept {
  for (int rank = 0; rank < context_.size; ++rank) {
    if (!maps(rank)) endpoint_->cut(rank);
  }
}

// ---- messages to ranks of other machines

bool send_unless_left(engine::Endpoint& endpoint, const TransportContext& context, int rank,
    const Head& head, std::span<const std::byte> payload, LazyDeadline& deadline,
    const char* call) {
  const Revocation& revocation = *context.revocation;
  // A rank that has left looks at its memory no more, so nothing is lost.
  if (revocation.departed(rank)) return false;

  try {
    endpoint.send(rank, head, payload, deadline);
    return true;
  } catch (const Error& error) {
    retry_until([&] { return revocation.revoked() || revocation.departed(rank); },
        Deadline::after_ms(kReasonMs));
    revocation.throw_if_revoked();
    if (revocation.departed(rank)) return false;
    throw Error(context.blame(
        rank, error.status(), text(call, ": ", context.rank_name(rank), ": ", error.what())));
  }
}

void MultinodeTransport::send(int rank, const Head& head, std::span<const std::byte> payload,
    LazyDeadline& deadline, const char* call) {
  const bool settles_later =
      (head.kind >= kSignal && head.kind <= kPut) || head.kind == kAtomic || head.kind == kPutRows;
  try {
    if (send_unless_left(*endpoint_, context_, rank, head, payload, deadline, call) &&
        settles_later) {
      states_[static_cast<size_t>(rank)].sent.fetch_add(1, std::memory_order_acq_rel);
    }
  } catch (const Error& error) {
    context_.revocation->throw_if_revoked();
    controls_.fail(error.failure());
  }
}

void MultinodeTransport::to_remote(const char* call, const MemoryView& memory, int rank, Head head,
    std::span<const std::byte> payload, uint64_t timeout_ms, void* stream) {
  require_no_stream(stream);
  head.memory = memory.id;
  LazyDeadline deadline(timeout_ms);
  if (head.kind == kFill) return fill_remote(rank, head, deadline);
  send_in_parts(call, rank, head, payload, deadline);
}

void MultinodeTransport::tell_signal(
    const MemoryView& memory, int rank, int channel, uint64_t value) noexcept {
  if (maps(rank)) {
    HostTransport::tell_signal(memory, rank, channel, value);
    return;
  }
  if (context_.revocation->revoked() || context_.revocation->departed(rank)) return;

  const Head head{.kind = kSignal,
      .channel = static_cast<uint16_t>(channel),
      .memory = memory.id,
      .value = value,
      .call = static_cast<uint64_t>(SignalOp::set)};
  endpoint_->dispatch(rank, head, {}, nullptr);
  states_[static_cast<size_t>(rank)].sent.fetch_add(1, std::memory_order_acq_rel);
}

void MultinodeTransport::send_in_parts(const char* call, int rank, Head head,
    std::span<const std::byte> payload, LazyDeadline& deadline) {
  do {
    const auto part = payload.first(std::min(payload.size(), kMessage));
    send(rank, head, part, deadline, call);
    payload = payload.subspan(part.size());
    head.offset += part.size();
  } while (!payload.empty());
}

void MultinodeTransport::fill_remote(int rank, const Head& head, LazyDeadline& deadline) {
  const Copies copies{head.value, head.channel, head.call};
  const size_t all = copies.all_bytes();
  // They are words, so that copies of any size are aligned.
  std::vector<uint64_t> words(std::min(all, kMessage) / sizeof(uint64_t) + 1);
  store_copies(words.data(), {copies.value, copies.bytes, std::min(all, kMessage) / copies.bytes});

  const auto bytes = std::as_bytes(std::span(words));
  for (size_t at = 0; at < all; at += kMessage) {
    const size_t part = std::min(kMessage, all - at);
    const Head put{.kind = kPut, .memory = head.memory, .offset = head.offset + at};
    send_in_parts("fill", rank, put, bytes.first(part), deadline);
  }
}

void MultinodeTransport::get(const MemoryView& memory, int rank, size_t offset, void* to,
    size_t bytes, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) return HostTransport::get(memory, rank, offset, to, bytes, timeout_ms, stream);
  require_no_stream(stream);
  LazyDeadline deadline(timeout_ms);
  fetch_in_parts(memory, rank, offset, static_cast<std::byte*>(to), bytes, deadline, "get");
}

void MultinodeTransport::fetch_in_parts(const MemoryView& memory, int rank, size_t offset,
    std::byte* to, size_t bytes, LazyDeadline& deadline, const char* call) {
  for (size_t at = 0; at < bytes; at += kMessage) {
    fetch(memory, rank, offset + at, to + at, std::min(kMessage, bytes - at), deadline, call);
  }
}

void MultinodeTransport::fetch(const MemoryView& memory, int rank, size_t offset, std::byte* to,
    size_t bytes, LazyDeadline& deadline, const char* call) {
  Fetch fetch{.rank = rank, .to = to, .bytes = bytes};
  const Head head{.kind = kFetch, .memory = memory.id, .offset = offset, .value = bytes};
  await_reply(fetch, head, {}, deadline, call);
}

void MultinodeTransport::put_pieces(const MemoryView& memory, int rank, size_t offset,
    const void* from, const PieceCopy& pieces, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) {
    return HostTransport::put_pieces(memory, rank, offset, from, pieces, timeout_ms, stream);
  }
  require_no_stream(stream);
  LazyDeadline deadline(timeout_ms);
  const auto* const source = static_cast<const std::byte*>(from);
  each_message(
      pieces.list, offset, Direction::put,
      [&](const PackedRows& rows) { put_rows(memory, rank, source, rows, deadline); },
      [&](uint64_t to, uint64_t at, uint64_t length) {
        const Head head{.kind = kPut, .memory = memory.id, .offset = offset + to};
        send_in_parts("put_pieces", rank, head, {source + at, length}, deadline);
      });
}

void MultinodeTransport::put_rows(const MemoryView& memory, int rank, const std::byte* from,
    const PackedRows& rows, LazyDeadline& deadline) {
  std::vector<std::byte> payload(rows.payload());
  const auto places = std::as_bytes(std::span(rows.there));
  std::copy(places.begin(), places.end(), payload.begin());
  host::copy_pieces(payload.data() + places.size(), from, rows.list(), false);

  const Head head{.kind = kPutRows, .memory = memory.id, .value = rows.there.size()};
  send(rank, head, payload, deadline, "put_pieces");
}

void MultinodeTransport::get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
    const PieceCopy& pieces, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) {
    return HostTransport::get_pieces(memory, rank, offset, to, pieces, timeout_ms, stream);
  }
  require_no_stream(stream);
  LazyDeadline deadline(timeout_ms);
  auto* const destination = static_cast<std::byte*>(to);
  each_message(
      pieces.list, offset, Direction::get,
      [&](const PackedRows& rows) { fetch_rows(memory, rank, destination, rows, deadline); },
      [&](uint64_t at, uint64_t from, uint64_t length) {
        fetch_in_parts(
            memory, rank, offset + from, destination + at, length, deadline, "get_pieces");
      });
}

void MultinodeTransport::fetch_rows(const MemoryView& memory, int rank, std::byte* to,
    const PackedRows& rows, LazyDeadline& deadline) {
  std::vector<std::byte> packed(rows.bytes);
  Fetch fetch{.rank = rank, .to = packed.data(), .bytes = packed.size()};
  const Head head{
      .kind = kFetchRows, .memory = memory.id, .offset = packed.size(), .value = rows.there.size()};
  await_reply(fetch, head, std::as_bytes(std::span(rows.there)), deadline, "get_pieces");
  host::copy_pieces(to, packed.data(), rows.list(), false);
}

void MultinodeTransport::change_value(const MemoryView& memory, int rank, size_t offset,
    const AtomicChange& change, void* fetched, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) {
    return HostTransport::change_value(memory, rank, offset, change, fetched, timeout_ms, stream);
  }
  require_no_stream(stream);
  LazyDeadline deadline(timeout_ms);
  const uint64_t before = change_remote(memory, rank, offset, change, fetched != nullptr, deadline);
  if (fetched != nullptr) store_word(fetched, before, change.bytes);
}

uint64_t MultinodeTransport::read_value(
    const MemoryView& memory, int rank, size_t offset, size_t bytes, uint64_t timeout_ms) {
  if (maps(rank)) return HostTransport::read_value(memory, rank, offset, bytes, timeout_ms);
  LazyDeadline deadline(timeout_ms);
  return change_remote(memory, rank, offset, {AtomicOp::fetch, bytes}, true, deadline);
}

// Returns the former value of the word if the call waits for it.
uint64_t MultinodeTransport::change_remote(const MemoryView& memory, int rank, size_t offset,
    const AtomicChange& change, bool waits, LazyDeadline& deadline) {
  Head head = head_of(change, offset);
  head.memory = memory.id;
  if (!waits) {
    send(rank, head, payload_of(change), deadline, "atomic");
    return 0;
  }

  Fetch fetch{.rank = rank};
  await_reply(fetch, head, payload_of(change), deadline, "atomic");
  return fetch.word;
}

// Sends a message that the rank answers, and waits for the answer, which has the number that the
// message is given here.
void MultinodeTransport::await_reply(Fetch& fetch, Head head, std::span<const std::byte> payload,
    LazyDeadline& deadline, const char* call) {
  const int rank = fetch.rank;
  {
    const std::lock_guard lock(mutex_);
    head.call = ++next_fetch_;
    fetches_[head.call] = &fetch;
  }
  // A thread that ends the fetch holds the mutex, so it has let go of the fetch after this.
  const auto forget = [&] {
    const std::lock_guard lock(mutex_);
    fetches_.erase(head.call);
  };

  try {
    send(rank, head, payload, deadline, call);
    controls_.await(fetch.done, 1, fetch.waiter, rank, deadline, {call, host::lane::kGet});
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

// ---- messages from ranks of other machines

std::byte* MultinodeTransport::place(int source, const Head& head) noexcept {
  switch (head.kind) {
    case kRound:
    case kStep: return place_of(controls_.mine(), source, head);
    case kFetchReply: return place_of_fetched(source, head);
    case kPut: return place_of_put(source, head);
    case kAtomic: return place_of_compare(source, head);
    case kPutRows:
    case kFetchRows: return place_of_rows(source, head);
    case kSlot:
    case kSlotPart: {
      RemoteMailbox* const mailbox = find_mailbox_of(source);
      return mailbox != nullptr ? mailbox->place(head) : nullptr;
    }
    default: return nullptr;
  }
}

std::byte* MultinodeTransport::place_of_fetched(int source, const Head& head) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = fetches_.find(head.call);
  if (found == fetches_.end()) return nullptr;
  const Fetch& fetch = *found->second;
  return fetch.rank == source && fetch.bytes == head.bytes ? fetch.to : nullptr;
}

std::byte* MultinodeTransport::place_of_put(int source, const Head& head) noexcept {
  bool refused = false;
  std::shared_ptr<const MemoryView> memory =
      memories_.find(head.memory, head.offset, head.bytes, &refused);
  if (refused || head.bytes > kMessage) return nullptr;
  if (!memory) return discarded_.get();

  std::byte* const to = memory->blocks[static_cast<size_t>(context_.rank)] + head.offset;
  try {
    with_reserve([&] { landing_[{source, head.sequence}] = std::move(memory); });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return to;
}

std::byte* MultinodeTransport::place_of_compare(int source, const Head& head) noexcept {
  if (head.bytes != sizeof(uint64_t)) return nullptr;
  try {
    uint64_t* const compare = with_reserve([&] { return &compares_[{source, head.sequence}]; });
    return reinterpret_cast<std::byte*>(compare);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::byte* MultinodeTransport::place_of_rows(int source, const Head& head) noexcept {
  if (head.bytes > kPackedMessage) return nullptr;
  try {
    return with_reserve([&] {
      std::vector<std::byte>& payload = rows_[{source, head.sequence}];
      payload.resize(head.bytes);
      return payload.data();
    });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void MultinodeTransport::arrived(int source, const Head& head) noexcept {
  switch (head.kind) {
    case kRound:
    case kStep:
      if (place_of(controls_.mine(), source, head) == nullptr) return;
      return note(controls_.mine(), source, head);
    case kArrival:
      if (head.channel >= context_.channels) return;
      return note_arrival(controls_.mine(), head.channel, source, static_cast<uint32_t>(head.value),
          static_cast<uint32_t>(head.call));

    case kSignal: return signal_arrived(source, head);
    case kValue: return value_arrived(source, head);
    case kPut: landing_.erase({source, head.sequence}); return;
    case kFetch: return reply_to_fetch(source, head);
    case kFetchReply: return fetched(source, head);
    case kAtomic: return atomic_arrived(source, head);
    case kAtomicReply: return fetched(source, head);
    case kPutRows:
    case kFetchRows: return rows_arrived(source, head);
    case kQuery: return reply_to_query(source, head);
    case kQueryReply: return query_answered(source, head);
    case kSlot:
    case kSlotWord:
    case kSlotPart:
      if (RemoteMailbox* const mailbox = find_mailbox_of(source)) mailbox->arrived(head);
      return;
    default: return;
  }
}

void MultinodeTransport::signal_arrived(int source, const Head& head) noexcept {
  bool refused = false;
  const auto memory = memories_.find(head.memory, 0, 0, &refused);
  const auto op = static_cast<SignalOp>(head.call);
  if (!memory || head.channel >= memory->channels || !is_valid(op)) return;
  note_signal(*memory, context_.rank, head.channel, source, op, head.value);
}

void MultinodeTransport::value_arrived(int source, const Head& head) noexcept {
  bool refused = false;
  const size_t bytes = head.channel;
  const auto memory = memories_.find(head.memory, head.offset, bytes, &refused);
  if (!memory || (bytes != 4 && bytes != 8) || head.offset % bytes != 0) return;
  note_value(*memory, context_.rank, source, head.offset, head.value, bytes);
}

// The word is changed here, on the thread that receives. So changes by ranks of other machines and
// by ranks of this machine are atomic to each other.
void MultinodeTransport::atomic_arrived(int source, const Head& head) noexcept {
  const auto compared = compares_.extract({source, head.sequence});
  const auto change = change_of(head, compared ? compared.mapped() : 0);
  if (!change) return;

  bool refused = false;
  const auto memory = memories_.find(head.memory, head.offset, change->bytes, &refused);
  Head reply{.kind = kAtomicReply, .call = head.call};
  if (memory) {
    reply.channel = 1;
    reply.value = note_change(*memory, context_.rank, source, head.offset, *change);
  }
  if (head.call != 0) endpoint_->answer(source, reply, {}, nullptr);
}

void MultinodeTransport::rows_arrived(int source, const Head& head) noexcept {
  const auto found = rows_.extract({source, head.sequence});
  if (!found) return;
  try {
    with_reserve([&] {
      if (head.kind == kPutRows) return put_arrived_rows(head, found.mapped());
      reply_to_fetch_of_rows(source, head, found.mapped());
    });
  } catch (const std::bad_alloc&) {
    // The source hears nothing, and blames this rank when its deadline has passed.
  }
}

void MultinodeTransport::put_arrived_rows(const Head& head, std::span<const std::byte> payload) {
  bool refused = false;
  const auto memory = memories_.find(head.memory, 0, 0, &refused);
  const size_t places = head.value * sizeof(RemoteRows);
  if (!memory || head.value > payload.size() / sizeof(RemoteRows)) return;

  const auto bytes = payload.subspan(places);
  const auto pieces = unpacked(payload, head.value, memory->bytes, bytes.size(), Direction::put);
  if (!pieces) return;
  std::byte* const block = memory->blocks[static_cast<size_t>(context_.rank)];
  host::copy_pieces(block, bytes.data(), {pieces->data(), pieces->size()}, false);
}

void MultinodeTransport::reply_to_fetch_of_rows(
    int source, const Head& head, std::span<const std::byte> payload) {
  bool refused = false;
  const auto memory = memories_.find(head.memory, 0, 0, &refused);
  Head reply{.kind = kFetchReply, .call = head.call};
  if (!memory) return endpoint_->answer(source, reply, {}, nullptr);

  const auto packed_bytes = static_cast<size_t>(std::min<uint64_t>(head.offset, kPackedMessage));
  const auto pieces = unpacked(payload, head.value, memory->bytes, packed_bytes, Direction::get);
  if (!pieces) return;
  const auto packed = std::make_shared<std::vector<std::byte>>(packed_bytes);
  const std::byte* const block = memory->blocks[static_cast<size_t>(context_.rank)];
  host::copy_pieces(packed->data(), block, {pieces->data(), pieces->size()}, false);
  reply.value = 1;
  endpoint_->answer(source, reply, *packed, packed);
}

void MultinodeTransport::fetched(int source, const Head& head) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = fetches_.find(head.call);
  if (found == fetches_.end()) return;

  Fetch& fetch = *found->second;
  const bool is_word = head.kind == kAtomicReply;
  if (fetch.rank != source || is_word != (fetch.to == nullptr)) return;
  fetch.found = (is_word ? head.channel : head.value) != 0;
  if (is_word) fetch.word = head.value;
  publish(fetch.done, 1, {&fetch.waiter, 1});
}

void MultinodeTransport::query_answered(int source, const Head& head) noexcept {
  NotifyState& state = states_[static_cast<size_t>(source)];
  const std::lock_guard lock(mutex_);
  state.last = head;
  const uint32_t replies = state.replies.load(std::memory_order_relaxed) + 1;
  publish(state.replies, replies, {&state.waiter, 1});
}

void MultinodeTransport::reply_to_fetch(int source, const Head& head) noexcept {
  bool refused = false;
  const auto memory = memories_.find(head.memory, head.offset, head.value, &refused);
  Head reply{.kind = kFetchReply, .call = head.call};
  if (!memory) return endpoint_->answer(source, reply, {}, nullptr);

  reply.value = 1;
  const std::byte* const at = memory->blocks[static_cast<size_t>(context_.rank)] + head.offset;
  endpoint_->answer(source, reply, {at, static_cast<size_t>(head.value)}, memory);
}

// ---- messages that programs send and receive

// A short message to a rank that the engine has lost would go nowhere, and its sender would not
// wait: such a loss is found here, and fails the group.
void MultinodeTransport::find_lost(std::span<const MessageSide> sides) {
  for (const MessageSide& side : sides) {
    if (!maps(side.rank)) has_left(side.rank);
  }
}

void MultinodeTransport::pass_messages(
    std::span<MessageSide> sides, uint64_t timeout_ms, void* stream) {
  find_lost(sides);
  HostTransport::pass_messages(sides, timeout_ms, stream);
}

std::unique_ptr<PostedMessages> MultinodeTransport::post_messages(std::span<MessageSide> sides) {
  find_lost(sides);
  return HostTransport::post_messages(sides);
}

// The mailboxes of a rank, which are made at the first use, by this rank or by what comes.
RemoteMailbox& MultinodeTransport::mailbox_of(int rank) {
  const std::lock_guard lock(mailboxes_mutex_);
  std::unique_ptr<RemoteMailbox>& one = mailboxes_[static_cast<size_t>(rank)];
  if (one == nullptr) {
    const auto shape = host::MailboxShape::of(context_.size, context_.channels);
    one = std::make_unique<RemoteMailbox>(*endpoint_, rank, shape,
        controls_.mine().message_waiter(), states_[static_cast<size_t>(rank)].sent);
  }
  return *one;
}

RemoteMailbox* MultinodeTransport::find_mailbox_of(int rank) noexcept {
  try {
    return with_reserve([&] { return &mailbox_of(rank); });
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// ---- queries: where a rank of another machine is

void MultinodeTransport::reply_to_query(int source, const Head& question) noexcept {
  const host::Control& mine = controls_.mine();
  const auto count = static_cast<uint32_t>(question.value);
  const bool has_come =
      question.channel < context_.channels && reached(mine.barrier(question.channel, count), count);
  const auto asked = static_cast<uint32_t>(std::min<uint64_t>(question.offset, mine.lanes() - 1));
  const host::ShownWait wait = controls_.wait_of(context_.rank, asked);

  Head reply;
  reply.kind = kQueryReply;
  reply.channel =
      static_cast<uint16_t>((has_come ? kHasCome : 0) | (wait.several ? kSeveralThreads : 0) |
                            (wait.refused ? kRefused : 0) | wait.refusals * kRefusal);
  reply.offset = uint64_t{wait.about} << 48 | (uint64_t{wait.looks} & 0xFFFF) << 32 |
                 uint64_t{wait.lane} << 16 | static_cast<uint16_t>(wait.peer + 1);
  {
    const std::lock_guard lock(mutex_);
    reply.call = mine.pair(rounds_channel(), context_.rank).load(std::memory_order_acquire);
    std::tie(reply.value, reply.memory) =
        announced(static_cast<uint32_t>(reply.call), question.memory);
  }
  endpoint_->answer(source, reply, {}, nullptr);
}

// Sends a query. Returns how many replies there are when this one is answered; then all
// that was sent to the rank before has arrived.
uint32_t MultinodeTransport::query(
    int rank, int channel, uint32_t count, uint32_t lane, uint32_t member) noexcept {
  NotifyState& state = states_[static_cast<size_t>(rank)];
  const Head head{.kind = kQuery,
      .channel = static_cast<uint16_t>(channel),
      .memory = member,
      .offset = lane,
      .value = count};
  const std::lock_guard turn(querying_);
  endpoint_->dispatch(rank, head, {}, nullptr);
  return ++state.queries;
}

// Sends a query and waits for the reply; none if it is late.
std::optional<Head> MultinodeTransport::ask(
    int rank, int channel, uint32_t count, uint32_t lane, uint32_t member) noexcept {
  NotifyState& state = states_[static_cast<size_t>(rank)];
  const uint32_t replies = query(rank, channel, count, lane, member);
  const bool in_time =
      retry_until([&] { return reached(state.replies, replies); }, Deadline::after_ms(kReasonMs));
  const std::lock_guard lock(mutex_);
  return in_time ? std::optional(state.last) : std::nullopt;
}

host::ShownWait MultinodeTransport::wait_of(int rank, uint32_t lane) noexcept {
  const std::optional<Head> reply = ask(rank, 0, 0, lane);
  if (!reply) return {};
  const uint32_t next = static_cast<uint16_t>(reply->offset);
  const uint32_t found = static_cast<uint16_t>(reply->offset >> 16);
  host::ShownWait wait{.lane = found,
      .number = reply->call,
      .looks = static_cast<uint16_t>(reply->offset >> 32),
      .several = (reply->channel & kSeveralThreads) != 0,
      .refused = (reply->channel & kRefused) != 0,
      .refusals = static_cast<uint32_t>(reply->channel / kRefusal)};
  if (next == 0 || next > static_cast<uint32_t>(context_.size) ||
      found >= controls_.mine().lanes()) {
    return wait;
  }

  wait.peer = static_cast<int>(next) - 1;
  if (found == host::lane::kCollective) wait.call = signature_of(reply->value, reply->memory);
  if (host::lane::is_of_messages(found)) {
    wait.about = static_cast<uint16_t>(reply->offset >> 48);
  }
  return wait;
}

// ---- barriers. In a barrier of many ranks, those of a machine arrive at its first
// rank, the first ranks meet in rounds, and each lets the others of its machine go.

// The set of a barrier of all ranks; only one other set in 2^32 has this hash.
constexpr uint32_t kAll = 0;

void MultinodeTransport::arrive(
    int peer, int channel, uint32_t count, uint32_t set, uint64_t timeout_ms) {
  if (maps(peer)) return HostTransport::arrive(peer, channel, count, set, timeout_ms);
  const Head head{
      .kind = kArrival, .channel = static_cast<uint16_t>(channel), .value = count, .call = set};
  send(peer, head, {}, timeout_ms, "barrier");
}

void MultinodeTransport::settle_puts(int channel, LazyDeadline& deadline) {
  struct Pending {
    int rank;
    uint32_t replies;
    uint32_t sent;
  };
  std::vector<Pending> pending;
  for (int rank = 0; rank < context_.size; ++rank) {
    NotifyState& state = states_[static_cast<size_t>(rank)];
    const uint32_t sent = state.sent.load(std::memory_order_acquire);
    if (state.settled.load(std::memory_order_acquire) != sent) {
      pending.push_back({rank, query(rank), sent});
    }
    if (untaken_set(channel, rank) != 0) fail_sets(channel, rank);
  }

  for (const auto& [rank, replies, sent] : pending) {
    NotifyState& state = states_[static_cast<size_t>(rank)];
    controls_.await(state.replies, replies, state.waiter, rank, deadline, barrier_on(channel));
    state.settled.store(sent, std::memory_order_release);
  }
}

bool MultinodeTransport::has_come(int peer, int channel, uint32_t count) {
  if (maps(peer)) return HostTransport::has_come(peer, channel, count);
  const std::optional<Head> reply = ask(peer, channel, count);
  return reply && (reply->channel & kHasCome) != 0;
}

void MultinodeTransport::await_everybody(int channel, uint32_t count, LazyDeadline& deadline) {
  const int machines = context_.machines.count;
  const int machine = context_.machines.machine_of[static_cast<size_t>(context_.rank)];
  const int32_t first = firsts_[static_cast<size_t>(machine)];
  if (first != context_.rank) return meet(channel, kAll, {}, {&first, 1}, deadline);

  std::vector<int32_t> others;
  for (int rank = first + 1; rank < context_.size; ++rank) {
    if (maps(rank)) others.push_back(rank);
  }
  for (const int rank : others) {
    controls_.await(
        controls_[rank].barrier(channel, count), count, rank, deadline, barrier_on(channel));
  }

  const auto first_of = [&](int one) { return &firsts_[static_cast<size_t>(one % machines)]; };
  for (int way = 1; way < machines; way *= 2) {
    meet(channel, kAll, {first_of(machine + way), 1}, {first_of(machine + machines - way), 1},
        deadline);
  }
  meet(channel, kAll, others, {}, deadline);
}

// ---- ranks that are gone

void MultinodeTransport::lost(int peer, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  PeerLoss& loss = losses_[static_cast<size_t>(peer)];
  with_reserve([&] { loss.reason = reason; });
  loss.until = Deadline::after_ms(kReasonMs);
}

// The mesh reports departures and deaths. Its reports travel apart from the messages
// that were sent before them. If the engine breaks and the mesh is silent, a call that
// waits for the rank reports it.
bool MultinodeTransport::has_left(int rank) noexcept {
  // The time for messages of a rank that has left to arrive.
  constexpr uint64_t kOnTheWayMs = 1'000;
  const bool departed = context_.revocation->departed(rank);
  if (maps(rank)) return departed;

  Failure failure = context_.blame(rank, Status::peer_failed, "");
  {
    const std::lock_guard lock(mutex_);
    PeerLoss& loss = losses_[static_cast<size_t>(rank)];
    if (departed && !loss.until) loss.until = Deadline::after_ms(kOnTheWayMs);
    if (departed) return !loss.reason.empty() || loss.until->expired();
    if (!loss.until || !loss.until->expired()) return false;
    failure.message = with_reserve(
        [&] { return format("%s lost rank %d: %s", engine_.c_str(), rank, loss.reason.c_str()); });
  }
  context_.fail(failure);
  return false;
}
}  // namespace symm::multinode
