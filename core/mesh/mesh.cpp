// Sends, receives and ends over the links to all ranks. Waits for messages are in
// peer_events.cpp.
#include "core/mesh/mesh.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh_process.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/fdpass.hpp"

namespace symm {
namespace {
using State = PeerEvents::State;
constexpr uint64_t kMonitorMs = 1'000;  // enough for the monitor to read what has arrived
}  // namespace

Mesh::Mesh(int rank, int size)
    : rank_(rank),
      size_(size),
      generation_(process::fork_generation()),
      events_(std::make_shared<PeerEvents>(rank, size)) {}

Mesh::~Mesh() {
  if (in_child()) return;

  say_bye();
  events_->look([](State& state) { state.mesh_is_gone = true; });
  events_->stop_links();
  if (cookie_ != 0) MeshProcess::current().leave(cookie_);

  // A rank that was killed could not remove the directory in which the ranks met.
  if (!met_in_.empty()) sweep(met_in_);
}

const PeerIdentity& Mesh::peer(int rank) const { return events_->identity(rank); }

bool Mesh::in_child() const noexcept { return generation_ != process::fork_generation(); }

void Mesh::require_process() const {
  if (in_child()) {
    throw Error(Status::invalid_handle, "group: it belongs to the parent of this process");
  }
}

void Mesh::require_peer(int peer) const {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw Error(Status::invalid_argument, format("rank %d is not a peer of rank %d", peer, rank_));
  }
}

void Mesh::send(int peer, const Topic& topic, std::span<const std::byte> body,
    std::span<const int> fds, Deadline deadline) {
  require_process();
  require_peer(peer);
  if (body.size() > kMaxBody || fds.size() > kMaxFds) {
    throw Error(Status::internal, "message too long");
  }

  std::shared_ptr<PeerLink> link;
  std::optional<Failure> failure;
  events_->look([&](State& state) {
    failure = state.groups.failure(peer, topic.group);
    link = state.links[static_cast<size_t>(peer)];
  });
  if (failure) throw Error(std::move(*failure));

  SYMM_POINT("mesh.send");
  const fdpass::Sent sent = link ? link->send(topic, body, fds, deadline) : fdpass::Sent::closed;
  if (sent == fdpass::Sent::done) return;
  if (sent != fdpass::Sent::closed) {
    const char* how = sent == fdpass::Sent::crowded
                          ? "could be sent nothing: the kernel had too many descriptors of this "
                            "user in flight, or no memory"
                          : "takes no messages: its queue stayed full until the deadline";
    throw Error(blame(Status::timeout, peer, topic, how));
  }

  // The connection is closed. The monitor reads the peer's last packets, which say whether it left,
  // and why; otherwise it died. A rank that was stopped past its deadline has not read them yet.
  events_->await(nullptr, Deadline::after_ms(kMonitorMs), [&](State& state) {
    failure = state.groups.failure(peer, topic.group);
    return failure.has_value();
  });
  if (failure) throw Error(std::move(*failure));
  throw Error(blame(Status::peer_failed, peer, topic, "is gone: its connection closed"));
}

Message Mesh::receive(int peer, const Topic& topic, size_t body_size, size_t fd_count,
    const Revocation* revocation, Deadline deadline) {
  require_process();
  require_peer(peer);

  // A message that came in time is delivered, whatever became of its sender since.
  std::optional<Arrival> arrival;
  std::optional<Failure> failure;
  const bool ended = events_->await(revocation, deadline, [&](State& state) {
    arrival = state.inbox.take(peer, topic);
    if (!arrival && (revocation == nullptr || !revocation->revoked())) {
      failure = state.groups.failure(peer, topic.group);
    }
    return arrival || failure;
  });

  if (failure) throw Error(std::move(*failure));
  if (ended) return checked(peer, topic, std::move(*arrival), body_size, fd_count);
  throw Error(blame(Status::timeout, peer, topic, "sent nothing before the deadline"));
}

std::optional<Mesh::News> Mesh::receive_any(std::span<const int> peers, const Topic& topic,
    uint64_t later, size_t body_size, Deadline deadline) {
  require_process();
  for (const int peer : peers) {
    require_peer(peer);
  }

  std::optional<Arrival> arrival;
  News news;
  const bool ended = events_->await(nullptr, deadline, [&](State& state) {
    const auto found = std::find_if(peers.begin(), peers.end(), [&](int peer) {
      arrival = state.inbox.take(peer, topic);
      return arrival || state.groups.failure(peer, topic.group);
    });
    if (found != peers.end()) {
      news.peer = *found;
      return true;
    }

    // All that these peers have said on `topic` was read.
    for (const int peer : peers) {
      const auto tag = state.inbox.highest_tag(peer, topic.kind, topic.group);
      if (tag && *tag >= later) news.later_tag = std::max(*tag, news.later_tag.value_or(0));
    }
    return news.later_tag.has_value();
  });

  if (!ended) return std::nullopt;
  if (arrival) news.message = checked(news.peer, topic, std::move(*arrival), body_size, 0);
  return news;
}

std::optional<Topic> Mesh::other(int peer, const Topic& topic) const {
  return events_->look([&](State& state) { return state.inbox.other(peer, topic); });
}

bool Mesh::is_gone(int peer, uint64_t group) const {
  return peer != rank_ &&
         events_->look([&](State& state) { return state.groups.failure(peer, group).has_value(); });
}

bool Mesh::carries_descriptors(int peer) const {
  return peer == rank_ || events_->look([&](State& state) {
    return state.links[static_cast<size_t>(peer)]->carries_descriptors();
  });
}

std::shared_ptr<PeerLink> Mesh::link_if_in(int peer, uint64_t group) const {
  if (peer == rank_ || this->peer(peer).same_process) return nullptr;
  auto link = events_->look([&](State& state) {
    return state.groups.has_left(peer, group) ? nullptr : state.links[static_cast<size_t>(peer)];
  });
  return link && !link->is_dead() ? link : nullptr;
}

std::shared_ptr<const Followed> Mesh::follow(uint64_t group) const {
  auto followed = std::make_shared<const Followed>(events_, group);
  events_->look([&](State& state) { state.groups.follow(group); });
  return followed;
}

Followed::Followed(std::shared_ptr<PeerEvents> events, uint64_t group)
    : events_(std::move(events)), group_(group), generation_(process::fork_generation()) {}

Followed::~Followed() {
  if (generation_ != process::fork_generation()) return;
  const bool mesh_is_gone = events_->look([&](State& state) {
    state.groups.unfollow(group_);
    return state.mesh_is_gone;
  });
  if (mesh_is_gone) events_->stop_links();
}

bool Followed::has_left(int peer) const {
  return events_->look([&](State& state) { return state.groups.has_left(peer, group_); });
}

Failure Mesh::blame(Status status, int peer, const Topic& topic, const std::string& how) const {
  const int as_rank =
      events_->look([&](State& state) { return state.groups.rank_in(topic.group, peer); });
  const PeerIdentity& theirs = this->peer(peer);
  return {status, as_rank, theirs.pid, name_of_peer(as_rank, theirs.pid, theirs.host) + " " + how};
}

Message Mesh::checked(
    int peer, const Topic& topic, Arrival arrival, size_t body_size, size_t fd_count) {
  Message& message = arrival.message;
  const bool fits = message.body.size() == body_size && message.fds.size() == fd_count;
  if (fits && !arrival.fds_lost) return std::move(message);

  if (arrival.fds_lost) {
    const Failure lost = blame(Status::system, peer, topic,
        "were lost: this process may open no more (EMFILE); ulimit -n 4096 allows more");
    throw Error({Status::system, -1, 0, "recvmsg: descriptors from " + lost.message, EMFILE, 0});
  }

  const std::string how =
      format("broke the protocol: %zu bytes and %zu descriptors came where %zu and %zu belong",
          message.body.size(), message.fds.size(), body_size, fd_count);
  events_->on_lost(peer, how);
  throw Error(blame(Status::peer_failed, peer, topic, how));
}

void Mesh::attach(uint64_t group, const std::vector<int>& members,
    const std::shared_ptr<Revocation>& revocation) {
  require_process();
  events_->change([&](State& state) { return state.groups.attach(group, members, revocation); });
}

void Mesh::detach(uint64_t group) noexcept {
  if (in_child()) return;

  pass_on_failure(group);
  try {
    const auto others = with_reserve([&] {
      return events_->look([&](State& state) {
        state.inbox.drop_group(group);
        return state.groups.detach(group);
      });
    });
    for (const int member : others) {
      post(member, wire::Type::leave, group, nullptr);
    }
  } catch (const std::bad_alloc&) {
    return;  // the others hear of it when this mesh is destroyed
  }
}

void Mesh::broadcast_failure(uint64_t group, const Failure& failure) noexcept {
  if (in_child()) return;
  try {
    const auto concerned = [&](State& state) { return state.groups.concerned(group); };
    for (const int member : with_reserve([&] { return events_->look(concerned); })) {
      post(member, wire::Type::failure, group, &failure);
    }
  } catch (const std::bad_alloc&) {
    return;  // their deadlines remain
  }
}

// Tells the other members why a group is revoked, before this rank leaves it. A peer that has not
// heard of the failure yet, and waits for this rank, would take the leaving for the cause.
void Mesh::pass_on_failure(uint64_t group) noexcept {
  const std::shared_ptr<Revocation> revocation =
      events_->look([&](State& state) { return state.groups.revocation(group); });
  try {
    if (revocation && revocation->revoked()) {
      broadcast_failure(group, with_reserve([&] { return revocation->cause(); }));
    }
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Mesh::post(int peer, wire::Type type, uint64_t group, const Failure* failure) noexcept {
  const std::shared_ptr<PeerLink> link =
      events_->look([&](State& state) { return state.links[static_cast<size_t>(peer)]; });
  if (link) link->post(type, group, failure);
}

void Mesh::say_bye() noexcept {
  if (said_bye_.exchange(true)) return;
  try {
    const auto attached = [](State& state) { return state.groups.attached(); };
    for (const uint64_t group : with_reserve([&] { return events_->look(attached); })) {
      pass_on_failure(group);
    }
  } catch (const std::bad_alloc&) {
    // Out of memory: the peers get the bye without the reasons.
  }

  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) post(peer, wire::Type::bye, 0, nullptr);
  }
}
}  // namespace symm
