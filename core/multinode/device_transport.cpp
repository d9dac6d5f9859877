// The transport of a group of GPUs on several machines: calls within a machine go to the back
// end's transport, those between machines to NCCL or to the proxy.
#include "core/multinode/device_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/backend/stats.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/nccl.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/device_proxy.hpp"
#include "core/multinode/forwarding_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/compare.hpp"

namespace symm::multinode {
namespace {
// A rank's stream engine, in the bytes that follow its back end's share.
struct StreamEngineShare {
  char name[64] = "";
  engine::StreamEngine::Id id{};
};

engine::Progress progress_of(const StreamInterval& interval) {
  switch (interval.state()) {
    case StreamInterval::State::waits: return engine::Progress::waits;
    case StreamInterval::State::runs: return engine::Progress::runs;
    case StreamInterval::State::over: break;
  }
  return engine::Progress::over;
}
}  // namespace

DeviceMultinodeTransport::DeviceMultinodeTransport(
    TransportContext context, std::unique_ptr<Transport> local, IntranodeDevice& device)
    : WithRemoteRanks(std::move(local)),
      context_(std::move(context)),
      device_(device),
      size_(static_cast<size_t>(context_.size)),
      me_(static_cast<size_t>(context_.rank)),
      in_line_(context_.machines.in_line()),
      proxy_(DeviceProxy::open(context_, device)),
      engine_({context_.rank, context_.size, context_.pids, context_.revocation, context_.fail}) {
  stats_.barriers = std::vector<Counter>(1);
  if (me_ == 0) id_ = engine_.draw_id();

  const Machines& machines = context_.machines;
  machine_ = static_cast<size_t>(machines.machine_of[me_]);
  const int place = machines.local_rank(context_.rank);
  for (int rank = 0; rank < context_.size; ++rank) {
    all_ranks_.push_back(rank);
    if (maps(rank)) local_.push_back(rank);
    if (machines.local_rank(rank) == place) rail_.push_back(rank);
  }
}

// ---- creation and end

// This rank's message to the others when the group is formed: the share of the local
// transport, then NCCL's name and communicator, then the message engine's address. connect()
// takes them off in the opposite order.
OutgoingMessage DeviceMultinodeTransport::share() const {
  OutgoingMessage share = ForwardingTransport::share();
  StreamEngineShare mine{{}, id_};
  write_text(mine.name, engine_.name());
  append(share, mine);
  append(share, proxy_->share());
  return share;
}

void DeviceMultinodeTransport::connect(int peer, Message message, const PeerIdentity& identity) {
  proxy_->connect(peer, take_last<EngineShare>(message));
  const auto theirs = take_last<StreamEngineShare>(message);
  if (theirs.name != engine_.name()) {
    throw Error({Status::mismatch, peer, 0,
        format("engine: rank %d has %s, rank %d has %s", context_.rank, engine_.name().c_str(),
            peer, theirs.name)});
  }

  if (peer == 0) id_ = theirs.id;
  ForwardingTransport::connect(peer, std::move(message), identity);
}

void DeviceMultinodeTransport::ready() {
  ForwardingTransport::ready();
  // The same on all ranks, though rails may differ in length: ranks divide long calls alike.
  const size_t slots = size_ + 2 * static_cast<size_t>(context_.machines.count);
  slot_bytes_ = device_.stages_of(context_.rank).size() / slots / kPackBytes * kPackBytes;
  device_.run_attached([&] {
    engine_.connect(id_, context_.until);
    proxy_->begin();
  });
}

void DeviceMultinodeTransport::let_go() noexcept {
  proxy_->let_go();
  engine_.await_end();
}

void DeviceMultinodeTransport::memory_added(const std::shared_ptr<const MemoryView>& memory) {
  ForwardingTransport::memory_added(memory);
  proxy_->memory_added(memory);
}

void DeviceMultinodeTransport::memory_removed(const MemoryView& memory) noexcept {
  proxy_->memory_removed(memory);
  ForwardingTransport::memory_removed(memory);
}

// ---- in the order of streams

void DeviceMultinodeTransport::exchange(uint64_t timeout_ms, void* stream,
    std::span<const int32_t> ranks,
    const std::function<std::span<const std::byte>(size_t)>& outgoing,
    const std::function<std::span<std::byte>(size_t)>& incoming) {
  engine_.together(timeout_ms, [&] {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == context_.rank) continue;
      if (const auto from = outgoing(i); !from.empty()) {
        engine_.send(from.data(), from.size(), ranks[i], stream);
      }
      if (const auto to = incoming(i); !to.empty()) {
        engine_.recv(to.data(), to.size(), ranks[i], stream);
      }
    }
  });
}

void DeviceMultinodeTransport::in_order(const char* call, uint64_t timeout_ms, void* stream,
    std::vector<int32_t> ranks, const std::function<void()>& issue) {
  const std::unique_ptr<IssueTurn> turn = device_.take_turn(call, timeout_ms, stream);
  const Revocation& revocation = *context_.revocation;
  revocation.throw_if_revoked();
  for (const int32_t rank : ranks) {
    if (!revocation.departed(rank)) continue;
    context_.fail(context_.blame_departed(rank, call));
    revocation.throw_if_revoked();
  }

  turn->begin();
  issue();
  const std::shared_ptr<const StreamInterval> interval = turn->end();
  if (interval == nullptr) return;
  engine_.watch(call, timeout_ms, std::move(ranks), [interval] { return progress_of(*interval); });
}

void DeviceMultinodeTransport::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  const bool within_machine = !ranks.empty() && std::all_of(ranks.begin(), ranks.end(),
                                                    [&](int32_t rank) { return maps(rank); });
  if (within_machine) {
    ForwardingTransport::barrier(ranks, channel, timeout_ms, stream);
  } else {
    barrier_of_machines(ranks, timeout_ms, stream);
  }
  stats_.barriers[0].add_shared(1);
}

// Each rank exchanges a byte with every other rank.
void DeviceMultinodeTransport::barrier_of_machines(
    std::span<const int32_t> ranks, uint64_t timeout_ms, void* stream) {
  proxy_->settle(device_, stream);
  const std::vector<int32_t> members =
      ranks.empty() ? all_ranks_ : std::vector<int32_t>(ranks.begin(), ranks.end());
  const auto outgoing = [&](size_t) { return std::span(slot(size_), 1); };
  const auto incoming = [&](size_t i) {
    return std::span(slot(static_cast<size_t>(members[i])), 1);
  };
  in_order("barrier", timeout_ms, stream, members,
      [&] { exchange(timeout_ms, stream, members, outgoing, incoming); });
}

void DeviceMultinodeTransport::finish(int channel, uint64_t timeout_ms) {
  // The longest time that the engine needs to say why a call has not ended in time.
  constexpr uint64_t kReasonMs = 2'000;
  void* const stream = device_.stream();
  barrier({}, channel, timeout_ms, stream);

  const Revocation& revocation = *context_.revocation;
  const bool endless = timeout_ms == Deadline::kInfinite;
  const Deadline deadline =
      endless ? Deadline::never() : Deadline::after_ms(timeout_ms + kReasonMs);
  const bool over =
      retry_until([&] { return revocation.revoked() || stream_done(stream); }, deadline);
  revocation.throw_if_revoked();
  if (!over) throw Error(Status::timeout, "finalize: not all ranks came before the deadline");
}

// ---- calls on memory of other machines

void DeviceMultinodeTransport::require_reach(int rank, const char* call) const {
  if (!maps(rank)) proxy_->require_reach(rank, call);
}

void DeviceMultinodeTransport::take_signal(
    const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) {
  require_reach(rank, "wait_signal");
  ForwardingTransport::take_signal(memory, rank, channel, timeout_ms, stream);
}

void DeviceMultinodeTransport::wait_signals(const MemoryView& memory,
    std::span<const SignalWait> waits, bool any, uint64_t timeout_ms, size_t* out_index,
    uint64_t* out_seen, void* stream) {
  // The local transport refuses outputs, before anything else.
  const bool has_outputs = out_index != nullptr || out_seen != nullptr;
  for (const SignalWait& wait : waits) {
    if (!has_outputs) require_reach(wait.rank, "wait_signals");
  }
  ForwardingTransport::wait_signals(memory, waits, any, timeout_ms, out_index, out_seen, stream);
}

void DeviceMultinodeTransport::to_remote(const char* call, const MemoryView& memory, int rank,
    engine::Head head, std::span<const std::byte> payload, uint64_t timeout_ms, void* stream) {
  proxy_->require_reach(rank, call);
  head.memory = memory.id;
  if (head.kind == kValue && head.channel == sizeof(uint32_t)) {
    head.kind = kFill;
    head.call = 1;
  }
  proxy_->issue(call, rank, head, payload.data(), payload.size(), timeout_ms, device_, stream);
}

void DeviceMultinodeTransport::pass_messages(
    std::span<MessageSide> /*sides*/, uint64_t /*timeout_ms*/, void* /*stream*/) {
  throw Error(Status::unsupported,
      "group: its ranks are GPUs of several machines, between which there is no send and receive: "
      "NCCL, which carries data there, knows neither channels nor the length of a message that is "
      "on its way");
}

void DeviceMultinodeTransport::change_value(const MemoryView& memory, int rank, size_t offset,
    const AtomicChange& change, void* fetched, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) {
    ForwardingTransport::change_value(memory, rank, offset, change, fetched, timeout_ms, stream);
    return;
  }
  require_reach(rank, "atomic");
  engine::Head head = head_of(change, offset);
  head.memory = memory.id;
  proxy_->issue_change(rank, head, change, fetched, timeout_ms, device_, stream);
}

// Bytes from another machine go to memory by streams, and a call without a stream
// cannot wait for a stream.
uint64_t DeviceMultinodeTransport::read_value(
    const MemoryView& memory, int rank, size_t offset, size_t bytes, uint64_t timeout_ms) {
  if (maps(rank)) {
    return ForwardingTransport::read_value(memory, rank, offset, bytes, timeout_ms);
  }
  throw Error(Status::unsupported,
      format("read_value: rank %d is on another machine, whose words SYMM_ATOMIC_FETCH reads on a "
             "stream",
          rank));
}

void DeviceMultinodeTransport::get(const MemoryView& memory, int rank, size_t offset, void* to,
    size_t bytes, uint64_t timeout_ms, void* stream) {
  if (maps(rank)) {
    ForwardingTransport::get(memory, rank, offset, to, bytes, timeout_ms, stream);
    return;
  }
  const std::span room(static_cast<const std::byte*>(to), bytes);
  const engine::Head head{.kind = kFetch, .offset = offset, .value = bytes};
  to_remote("get", memory, rank, head, room, timeout_ms, stream);
}
}  // namespace symm::multinode
