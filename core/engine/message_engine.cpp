// The one message engine of a process: lines, peers, sequence numbers, and the thread that
// makes progress when no other does. Everything but the waits runs with its lock held; it reads
// no payload.
#include "core/engine/message_engine.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/socket/tcp.hpp"

namespace symm::engine {
// The time for which the message engine's own thread rests while other threads poll;
// less if the last of them goes to sleep.
constexpr uint64_t kRestMs = 1;
// The messages of one peer that may have overtaken another, at most.
constexpr size_t kMostEarly = 1U << 16;
// The time for messages under way to end after their line was closed (measured: 0.06).
constexpr uint64_t kEndMs = 2'000;
// The time for them to end by themselves, on a line of one group and on one of several.
constexpr uint64_t kOwnEndMs = 20;
constexpr uint64_t kSharedEndMs = 100;
// The time for the group to say why a peer was lost.
constexpr uint64_t kReasonMs = 100;

struct Peer {
  struct Group* group = nullptr;
  uint16_t rank = 0;
  int line = -1;
  // The key of the peer's process.
  Key key{};
  // The sequence numbers of the next message in each direction.
  uint64_t next_out = 0;
  uint64_t next_in = 0;
  // Messages that have overtaken another, by sequence number.
  std::map<uint64_t, Head> early;
  // Answers to messages that came before connect().
  std::vector<std::unique_ptr<Envelope>> unconnected;
  // Messages that are under way.
  uint32_t sending = 0;
  uint32_t receiving = 0;
  bool gone = false;
  // Why the peer is gone.
  std::string reason;
};

struct Group {
  uint64_t number;
  uint16_t rank;
  Receiver& receiver;
  std::vector<Peer> peers;
  // Rung when a message was sent.
  Word bell{0};
  Waiter waiter{0};
  // The deadlines of all messages under way to and from peers that are given up: on lines of
  // this group, and on shared ones. Set when the first peer is given up.
  std::optional<std::array<Deadline, 2>> ends = std::nullopt;
};

namespace {
// A line to another process, for all present and future groups. Groups do not have lines of
// their own, for two reasons: an engine pairs the ends of lines in the order in which processes
// open them, and for groups that are created at the same time this order may differ; and a
// process that closes a line cannot know whether the other is about to use it.
struct Line {
  Bytes address;
  std::vector<Peer*> users;
};

// All functions but serve(), stop() and progress() are called with the lock held.
class EngineImpl final : public MessageEngine, public Sink {
 public:
  explicit EngineImpl(const std::function<std::unique_ptr<Link>(Sink&)>& open)
      : waker(make_fd(eventfd, 0, EFD_CLOEXEC | EFD_NONBLOCK)),
        link(open(*this)),
        own_name(link->name()),
        where(link->where()) {
    if (!waker) throw system_error(errno, "eventfd");
  }

  std::unique_ptr<Endpoint> open_endpoint(
      uint64_t group, int rank, int size, Receiver&, std::shared_ptr<Revocation>) override;

  const std::string& name() const override { return own_name; }

  Bytes address() override {
    const auto lock = hold();
    Bytes address(own_key.begin(), own_key.end());
    const Bytes& of_link = require_link().address();
    address.insert(address.end(), of_link.begin(), of_link.end());
    return address;
  }

  bool progress() noexcept {
    // If the lock is taken, another thread makes progress already.
    const std::unique_lock lock(mutex, std::try_to_lock);
    return lock && turn();
  }

  void stop() noexcept override {
    const auto lock = hold();
    stopped = true;
    eventfd_write(waker.get(), 1);
  }

  void serve() noexcept override;

  void leave() noexcept {
    const auto lock = hold();
    stopped = true;
    left_link = link.release();
  }

  std::unique_lock<std::mutex> hold() noexcept {
    // While threads want the lock, serve() does not take it.
    wanted.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex);
    wanted.fetch_sub(1, std::memory_order_relaxed);
    return lock;
  }

  Link& require_link() const {
    if (link == nullptr) {
      throw Error(Status::unavailable, own_name + " was given up in this process");
    }
    return *link;
  }

  bool turn() noexcept {
    if (link == nullptr) return false;
    bool any = link->progress();
    any |= send_answers();
    for (const auto& [line, reason] : std::exchange(lost_lines, {})) {
      break_off(line, reason);
    }
    return any;
  }

  Transfer send(Peer& peer, Envelope& envelope) noexcept {
    if (peer.gone || link == nullptr) return Transfer::broken;

    envelope.head.source = peer.group->rank;
    envelope.head.target = peer.rank;
    envelope.head.group = peer.group->number;
    envelope.head.bytes = envelope.payload.size();
    envelope.head.sequence = peer.next_out++;
    envelope.head.key = peer.key;
    encode(envelope.head, envelope.bytes);
    envelope.sink = this;
    envelope.line = peer.line;
    envelope.peer = &peer;

    const Transfer state = link->send(envelope);
    if (state == Transfer::under_way &&
        with_reserve([&] { return under_way.insert(&envelope).second; })) {
      ++peer.sending;
    }
    return state;
  }

  bool send_answers() noexcept {
    if (answers.empty()) return false;

    auto queued = std::exchange(answers, {});
    for (auto& [peer, envelope] : queued) {
      if (!peer->gone && peer->line < 0) {
        with_reserve([&peer = peer, &envelope = envelope] {
          peer->unconnected.push_back(std::move(envelope));
        });
      } else if (send(*peer, *envelope) == Transfer::under_way) {
        // sent() deletes the envelope.
        envelope.release();  // NOLINT(bugprone-unused-return-value)
        // The engine's thread is woken because there may be no other thread that
        // makes progress.
        wake();
      }
    }
    return !queued.empty();
  }

  // Messages under way to and from the peer end before this returns. If the engine does not end
  // them, it is given up. The line is not closed at once: if both sides do that, each with a
  // message half sent, UCX's TCP asks a connection that it has just freed whether it can be
  // written to (seen with 1.13 after 8 of 2,790 kills; the code of 1.20 can do so, too).
  void end(Peer& peer) noexcept {
    peer.gone = true;
    const auto has_ended = [&] { return peer.sending + peer.receiving == 0; };
    const auto ended = [&] {
      constexpr int kRounds = 1'000;
      for (int i = 0; i < kRounds && link != nullptr && !has_ended(); ++i) {
        if (!link->progress()) break;
      }
      return has_ended();
    };

    const auto line = lines.find(peer.line);
    const bool shared = line != lines.end() && line->second.users.size() > 1;
    auto& ends = peer.group->ends;
    if (!ends) ends = {Deadline::after_ms(kOwnEndMs), Deadline::after_ms(kSharedEndMs)};
    if (retry_until(ended, (*ends)[shared ? 1 : 0])) return;
    break_off(peer.line, format("another group had to end what it did for rank %d", peer.rank));
    if (!retry_until(ended, Deadline::after_ms(kEndMs))) {
      give_up(format("it did not end what it did for rank %d", peer.rank));
    }
  }

  // Closes a line, with which all its peers are lost.
  void break_off(int number, const std::string& reason) noexcept {
    auto line = lines.extract(number);
    if (line.empty()) return;
    for (Peer* peer : line.mapped().users) {
      lose(*peer, reason);
    }
    if (link != nullptr) link->close(number);
  }

  void give_up(const std::string& reason) noexcept {
    link.reset();
    while (!lines.empty()) {
      break_off(lines.begin()->first, reason);
    }

    for (const auto& [key, group] : groups) {
      for (Peer& peer : group->peers) {
        peer.receiving = 0;
      }
    }
    for (Envelope* envelope : std::exchange(under_way, {})) {
      sent(*envelope, Transfer::broken);
    }
  }

  void lose(Peer& peer, const std::string& reason) noexcept {
    if (std::exchange(peer.gone, true)) return;
    peer.reason = with_reserve(
        [&] { return format("%s lost rank %d: %s", own_name.c_str(), peer.rank, reason.c_str()); });
    peer.group->receiver.lost(peer.rank, reason);
  }

  void wake() noexcept {
    if (asleep.exchange(false)) eventfd_write(waker.get(), 1);
  }

  void polls(Polling what) noexcept {
    if (what == Polling::ends) {
      --pollers;
    } else {
      polled = what == Polling::begins;
    }
    if (what == Polling::begins) ++pollers;
    if (what == Polling::sleeps && pollers == 0 && resting.exchange(false)) {
      eventfd_write(waker.get(), 1);
    }
  }

  // Whether the sender knows this process's key. The time that this takes tells nothing of it.
  bool is_genuine(const Head& head) const noexcept {
    std::byte different{0};
    for (size_t i = 0; i < own_key.size(); ++i) {
      different |= own_key[i] ^ head.key[i];
    }
    return different == std::byte{0};
  }

  // Null for a stranger's message, and for one of a group that is not here.
  Peer* peer_of(const Head& head) noexcept {
    if (!is_genuine(head)) return nullptr;
    const auto group = groups.find({head.group, head.target});
    if (group == groups.end() || head.source >= group->second->peers.size()) return nullptr;
    return &group->second->peers[head.source];
  }

  std::byte* place(const Head& head) noexcept override {
    Peer* const peer = peer_of(head);
    if (peer == nullptr || peer->gone) return nullptr;

    std::byte* const at = peer->group->receiver.place(peer->rank, head);
    if (at == nullptr) {
      lose(*peer, "it has broken the protocol: a message of its has no place here");
    } else {
      ++peer->receiving;
    }
    return at;
  }

  void arrived(const Head& head, Transfer ended) noexcept override {
    Peer* const peer = peer_of(head);
    if (peer != nullptr && head.bytes != 0) --peer->receiving;
    if (peer == nullptr || peer->gone) return;
    if (ended != Transfer::whole) return lose(*peer, "a message of its broke off");

    const auto keep = [&] { return peer->early.emplace(head.sequence, head).second; };
    if (head.sequence == peer->next_in && peer->early.empty()) {
      ++peer->next_in;
      return peer->group->receiver.arrived(peer->rank, head);
    }
    if (head.sequence < peer->next_in || peer->early.size() == kMostEarly || !with_reserve(keep)) {
      return lose(*peer, "it has broken the protocol: a message of its is out of order");
    }

    auto next = peer->early.begin();
    while (next != peer->early.end() && next->first == peer->next_in) {
      peer->group->receiver.arrived(peer->rank, next->second);
      next = peer->early.erase(next);
      ++peer->next_in;
    }
  }

  void sent(Envelope& envelope, Transfer ended) noexcept override {
    under_way.erase(&envelope);
    if (envelope.peer != nullptr) --envelope.peer->sending;
    if (envelope.owned) return std::unique_ptr<Envelope>(&envelope).reset();

    // The group lives as long as a thread is in send().
    Group& group = *envelope.peer->group;
    envelope.state.store(ended, std::memory_order_release);
    ring(group.bell, group.waiter);
  }

  void lost(int line, const std::string& reason) noexcept override {
    with_reserve([&] { lost_lines.emplace_back(line, reason); });
  }

  std::mutex mutex;
  // The threads that poll.
  std::atomic<int> pollers = 0;
  // The threads that are about to take the lock.
  std::atomic<uint32_t> wanted = 0;
  // The state of the message engine's own thread.
  std::atomic<bool> asleep = false;
  std::atomic<bool> resting = false;
  std::atomic<bool> stopped = false;
  // Whether another thread has polled since that thread last looked.
  std::atomic<bool> polled = false;
  Fd waker;
  // Null: the engine was given up.
  std::unique_ptr<Link> link;
  // The link of a process that ends. It is never destroyed, because other threads may be in a
  // call of it, and stays reachable, so that it is not reported as a leak.
  Link* left_link = nullptr;
  const std::string own_name;
  const std::string where;
  const Key own_key = process::random_id();
  // By number and own rank.
  std::map<std::pair<uint64_t, uint16_t>, Group*> groups;
  std::map<int, Line> lines;
  std::unordered_set<Envelope*> under_way;
  std::vector<std::pair<Peer*, std::unique_ptr<Envelope>>> answers;
  // The lines that were lost, and why.
  std::vector<std::pair<int, std::string>> lost_lines;
};

// This thread rests while other threads poll, or have just done so: incoming messages
// would wake it, and it would take a processor from them. It looks for them without the
// lock, which they hold most of the time.
void EngineImpl::serve() noexcept {
  while (!stopped) {
    int ready = -1;
    // `resting` is stored before this thread looks for polling threads; polls() reports a
    // thread before it reads `resting`.
    resting = true;
    const bool others = polled.exchange(false) || pollers != 0;
    if (!others) {
      retry_until(
          [&] { return wanted.load(std::memory_order_relaxed) == 0; }, Deadline::after_ms(1));
      const std::lock_guard lock(mutex);
      resting = false;
      if (turn()) continue;
      ready = link != nullptr ? link->arm() : waker.get();
      if (ready < 0) continue;
      asleep = true;
    }

    pollfd descriptors[] = {{waker.get(), POLLIN, 0}, {ready, POLLIN, 0}};
    try {
      poll_until(descriptors, Deadline::after_ms(others ? kRestMs : 1'000));
    } catch (const Error& error) {
      const auto lock = hold();
      return give_up(
          std::string(error.what()) + "; has the program closed descriptors that it did not open?");
    }

    asleep = false;
    resting = false;
    eventfd_t count = 0;
    eventfd_read(waker.get(), &count);
  }
}

class GroupEndpoint final : public Endpoint {
 public:
  GroupEndpoint(EngineImpl& engine, uint64_t number, int rank, int size, Receiver& receiver,
      std::shared_ptr<Revocation> revocation)
      : engine_(engine),
        revocation_(std::move(revocation)),
        group_{number, static_cast<uint16_t>(rank), receiver, {}} {
    group_.peers = std::vector<Peer>(static_cast<size_t>(size));
    for (int rank_of_peer = 0; rank_of_peer < size; ++rank_of_peer) {
      Peer& peer = peer_of(rank_of_peer);
      peer.group = &group_;
      peer.rank = static_cast<uint16_t>(rank_of_peer);
    }

    const auto lock = engine.hold();
    engine.require_link();
    if (!engine.groups.emplace(std::pair(number, group_.rank), &group_).second) {
      throw Error(Status::internal, format("rank %d has an endpoint of this group already", rank));
    }
  }

  ~GroupEndpoint() override {
    const auto lock = engine_.hold();
    engine_.send_answers();
    for (Peer& peer : group_.peers) {
      peer.gone = true;
    }
    for (Peer& peer : group_.peers) {
      if (peer.receiving != 0) engine_.end(peer);
      if (const auto line = engine_.lines.find(peer.line); line != engine_.lines.end()) {
        std::erase(line->second.users, &peer);
      }
    }

    for (Envelope* envelope : engine_.under_way) {
      if (envelope->peer != nullptr && envelope->peer->group == &group_) envelope->peer = nullptr;
    }
    engine_.groups.erase({group_.number, group_.rank});
    engine_.wake();
  }

  void connect(int rank, std::span<const std::byte> address) override {
    if (address.size() < sizeof(Key)) {
      throw Error({Status::mismatch, rank, 0, format("rank %d has no address of an engine", rank)});
    }
    const auto lock = engine_.hold();
    Peer& peer = peer_of(rank);
    Link& link = engine_.require_link();
    if (peer.gone || peer.line >= 0) return;

    std::copy_n(address.begin(), peer.key.size(), peer.key.begin());
    address = address.subspan(peer.key.size());

    for (auto& [number, line] : engine_.lines) {
      if (std::equal(address.begin(), address.end(), line.address.begin(), line.address.end())) {
        peer.line = number;
      }
    }
    if (peer.line < 0) peer.line = link.connect(address);
    Line& line = engine_.lines[peer.line];
    line.address.assign(address.begin(), address.end());
    line.users.push_back(&peer);

    for (auto& envelope : std::exchange(peer.unconnected, {})) {
      engine_.answers.emplace_back(&peer, std::move(envelope));
    }
    engine_.send_answers();
    engine_.wake();
  }

  void send(
      int rank, Head head, std::span<const std::byte> payload, LazyDeadline& deadline) override {
    Peer& peer = peer_of(rank);
    // On the stack, because this call does not return before the transfer has ended.
    Envelope envelope;
    envelope.head = head;
    envelope.payload = payload;
    {
      const auto lock = engine_.hold();
      if (peer.line < 0 && !peer.gone) {
        throw Error(Status::internal, format("rank %d was not connected", rank));
      }
      envelope.state = engine_.send(peer, envelope);
    }
    if (envelope.state == Transfer::under_way) await_sent(peer, envelope, deadline);
    if (envelope.state == Transfer::whole) return;

    wait([] { return false; }, std::min(deadline.get().remaining_ns(), nanoseconds_of(kReasonMs)));
    revocation_->throw_if_revoked();
    const auto lock = engine_.hold();
    throw Error({Status::peer_failed, rank, 0,
        peer.reason.empty() ? format("rank %d was cut off", rank) : peer.reason, 0, 0});
  }

  void answer(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept override {
    auto envelope = with_reserve([] { return std::make_unique<Envelope>(); });
    envelope->head = head;
    envelope->payload = payload;
    envelope->keep = std::move(keep);
    envelope->owned = true;
    with_reserve([&] { engine_.answers.emplace_back(&peer_of(rank), std::move(envelope)); });
  }

  void dispatch(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept override {
    const auto lock = engine_.hold();
    answer(rank, head, payload, std::move(keep));
    engine_.send_answers();
  }

  bool progress() noexcept override { return engine_.progress(); }

  void polls(Polling what) noexcept override { engine_.polls(what); }

  void cut(int rank) noexcept override {
    const auto lock = engine_.hold();
    engine_.end(peer_of(rank));
  }

 private:
  Peer& peer_of(int rank) { return group_.peers.at(static_cast<size_t>(rank)); }

  // Waits until the transfer has ended; if that does not happen in time, the peer is
  // left, and the transfer ends with that.
  void await_sent(Peer& peer, const Envelope& envelope, LazyDeadline& deadline) {
    const auto ended = [&] {
      engine_.progress();
      return envelope.state.load(std::memory_order_acquire) != Transfer::under_way;
    };
    const WaitEnd end = wait(ended, deadline.get().remaining_ns());

    if (end != WaitEnd::reached) {
      const auto lock = engine_.hold();
      engine_.end(peer);
      if (peer.reason.empty()) {
        peer.reason = format("rank %d has not taken a message of %zu bytes in time",
            static_cast<int>(peer.rank), envelope.payload.size());
      }
    }
    if (end == WaitEnd::timed_out && envelope.state != Transfer::whole) {
      throw Error({Status::timeout, peer.rank, 0, peer.reason, 0, 0});
    }
  }

  static uint64_t milliseconds_of(uint64_t ns) {
    if (ns == Deadline::kInfinite) return ns;
    return ns == 0 ? Deadline::kNow : ns / 1'000'000 + 1;
  }

  template <class Ask>
  WaitEnd wait(const Ask& ask, uint64_t ns) {
    const Word* const bells[] = {&group_.bell};
    LazyDeadline until(milliseconds_of(ns));
    const auto before_sleep = [&] {
      engine_.polls(Polling::sleeps);
      return false;
    };
    return wait_condition(
        {ask, before_sleep, bells}, group_.waiter, *revocation_, {50, 200}, until);
  }

  EngineImpl& engine_;
  const std::shared_ptr<Revocation> revocation_;
  Group group_;
};

std::unique_ptr<Endpoint> EngineImpl::open_endpoint(uint64_t group, int rank, int size,
    Receiver& receiver, std::shared_ptr<Revocation> revocation) {
  return std::make_unique<GroupEndpoint>(*this, group, rank, size, receiver, std::move(revocation));
}

std::unique_ptr<Link> open_link(Sink& sink, const std::vector<std::string>& addresses) {
  const std::string_view asked = one_of("SYMM_ENGINE", {"ucx", "secure"});
  if (asked == "secure") return open_secure(sink, addresses);

  // A library or an engine that the user names is used, or its absence is an error.
  if (asked.empty() && *environment("SYMM_UCX") == '\0' && !ucx_is_installed()) {
    log::write(log::Level::info, "engine: no UCX is installed: symm's own connections carry data");
    return open_secure(sink, addresses);
  }
  return open_ucx(sink, interfaces_with(addresses));
}

// The message engine of a process, and its thread.
struct ProcessEngine {
  explicit ProcessEngine(const std::vector<std::string>& addresses)
      : engine([&](Sink& sink) { return open_link(sink, addresses); }) {
    process::start_thread("symm-engine", [this] {
      log::deliver_elsewhere();
      log::write(log::Level::info, "engine: %s", engine.where.c_str());
      engine.serve();
    });
    static const Leaving before_the_engine;
  }

  // At the end of the process an engine destroys the objects that its threads use, and
  // must not be called any more.
  struct Leaving {
    ~Leaving() {
      if (auto* const here = PerProcess<ProcessEngine>::existing()) here->engine.leave();
    }
  };

  EngineImpl engine;
};

// A child that was forked since the engine was made has none.
EngineImpl& engine() {
  ProcessEngine* const here = PerProcess<ProcessEngine>::existing();
  if (here == nullptr) throw Error(Status::internal, "this process has no message engine");
  return here->engine;
}
}  // namespace

std::unique_ptr<MessageEngine> make_message_engine(
    const std::function<std::unique_ptr<Link>(Sink&)>& open) {
  return std::make_unique<EngineImpl>(open);
}

void open_engine(const std::vector<std::string>& addresses) {
  PerProcess<ProcessEngine>::current(addresses);
}

std::unique_ptr<Endpoint> open_endpoint(uint64_t group, int rank, int size, Receiver& receiver,
    std::shared_ptr<Revocation> revocation) {
  return engine().open_endpoint(group, rank, size, receiver, std::move(revocation));
}

Bytes engine_address() { return engine().address(); }

std::string engine_name() { return engine().name(); }
}  // namespace symm::engine
