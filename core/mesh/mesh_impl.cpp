// SPDX-License-Identifier: Apache-2.0
//
// Sending and receiving.
#include "core/mesh/mesh_impl.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "core/base/process.hpp"
#include "core/mesh/mesh_process.hpp"

namespace symm {

namespace {
constexpr uint64_t kLastWordsMs = 1'000;  // the monitor is at them already
}

std::string name_of_peer(int rank, int64_t pid) {
  return pid > 0 ? format("rank %d (pid %lld)", rank, static_cast<long long>(pid)) : format("rank %d", rank);
}

MeshImpl::MeshImpl(int rank, int size)
    : rank_(rank), generation_(process::fork_generation()), peers_(static_cast<size_t>(size)), inbox_(size) {}

MeshImpl::~MeshImpl() {
  if (in_child()) return;
  say_bye();
  for (Peer& peer : peers_) {
    if (peer.link) peer.link->connection().stop();
  }
  if (cookie_ != 0) MeshProcess::current().leave(cookie_);
}

bool MeshImpl::in_child() const noexcept { return generation_ != process::fork_generation(); }

void MeshImpl::require_process() const {
  if (in_child()) throw Error(Status::invalid_handle, "group: it belongs to the parent of this process");
}

void MeshImpl::require_peer(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank_)
    throw Error(Status::invalid_argument, format("rank %d is no peer of rank %d", peer, rank_));
}

void MeshImpl::changed() noexcept {
  changes_.fetch_add(1);
  wake_all(changes_);
}

template <class Look>
bool MeshImpl::wait(const Revocation* revocation, Deadline deadline, Look look) {
  for (;;) {
    const uint32_t seen = changes_.load();
    const uint32_t events = revocation != nullptr ? revocation->events().load() : 0;
    {
      const std::lock_guard lock(mutex_);
      if (look()) return true;
    }
    if (revocation != nullptr) revocation->throw_if_revoked();
    if (deadline.expired()) return false;
    sleep_while(changes_, seen, revocation != nullptr ? &revocation->events() : nullptr, events, deadline);
  }
}

void MeshImpl::send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline) {
  require_process();
  require_peer(peer);
  if (body.size() > kMaxBody || fds.size() > kMaxFds) throw Error(Status::internal, "message too long");
  std::shared_ptr<PeerLink> link;
  std::shared_ptr<MeshImpl> local;
  Failure gone;
  {
    const std::lock_guard lock(mutex_);
    if (auto trouble = trouble_with(peer, topic.group)) throw Error(std::move(*trouble));
    link = at(peer).link;
    local = at(peer).local.lock();
    const int as_rank = rank_in(topic.group, peer);
    gone = {Status::peer_failed, as_rank, at(peer).identity.pid, name_of_peer(as_rank, at(peer).identity.pid)};
  }
  if (local) {
    Arrival arrival;
    arrival.message.body.assign(body.begin(), body.end());
    for (const int fd : fds) {
      Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!copy) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)");
      arrival.message.fds.push_back(std::move(copy));
    }
    return local->on_message(rank_, topic, std::move(arrival));
  }
  wire::Header header;
  header.type = static_cast<wire::Type>(topic.kind);
  header.nfds = static_cast<uint16_t>(fds.size());
  header.source = static_cast<uint16_t>(rank_);
  header.group = topic.group;
  header.tag = topic.tag;
  header.sequence = topic.sequence;
  const wire::Buffer packet = wire::encode(header, body);
  const fdpass::Sent sent = link ? link->connection().send(packet, fds, deadline) : fdpass::Sent::closed;
  if (sent == fdpass::Sent::done) return;
  if (sent == fdpass::Sent::would_block) {
    gone.status = Status::timeout;
    gone.message += " takes no messages: its queue stayed full until the deadline";
    throw Error(std::move(gone));
  }
  // Whether it died, or left and why, is known when the monitor has read its last words.
  std::optional<Failure> trouble;
  wait(nullptr, Deadline::after_ms(std::min<uint64_t>(kLastWordsMs, deadline.remaining_ns() / 1'000'000)), [&] {
    trouble = trouble_with(peer, topic.group);
    return trouble.has_value();
  });
  if (trouble) throw Error(std::move(*trouble));
  gone.message += " is gone: its connection closed";
  throw Error(std::move(gone));
}

Message MeshImpl::receive(int peer, const Topic& topic, size_t body_size, size_t fd_count, const Revocation* revocation,
                          Deadline deadline) {
  require_process();
  require_peer(peer);
  std::optional<Arrival> arrival;
  std::optional<Failure> trouble;
  // A message that came in time is delivered, whatever became of its sender since.
  const bool ended = wait(revocation, deadline, [&] {
    arrival = inbox_.take(peer, topic);
    if (!arrival && (revocation == nullptr || !revocation->revoked())) trouble = trouble_with(peer, topic.group);
    return arrival || trouble;
  });
  if (trouble) throw Error(std::move(*trouble));
  std::string name;
  int as_rank = peer;
  int64_t pid = 0;
  {
    const std::lock_guard lock(mutex_);
    as_rank = rank_in(topic.group, peer);
    pid = at(peer).identity.pid;
    name = name_of_peer(as_rank, pid);
  }
  if (!ended) throw Error({Status::timeout, as_rank, pid, name + " sent nothing before the deadline"});
  if (arrival->fds_lost) {
    throw Error(Status::system,
                format("recvmsg: descriptors from %s were lost: this process may open no more (EMFILE)", name.c_str()));
  }
  Message& message = arrival->message;
  if (message.body.size() != body_size || message.fds.size() != fd_count) {
    const std::string how = format("broke the protocol: %zu bytes and %zu descriptors came where %zu and %zu belong",
                                   message.body.size(), message.fds.size(), body_size, fd_count);
    on_gone(peer, how);
    throw Error({Status::peer_failed, as_rank, pid, name + " " + how});
  }
  return std::move(message);
}

bool MeshImpl::confirmed_dead(int rank) const noexcept {
  const std::lock_guard lock(mutex_);
  return at(rank).confirmed_dead;
}

std::optional<Failure> MeshImpl::wait_verdict(int peer, Deadline deadline) {
  std::optional<Failure> verdict;
  wait(nullptr, deadline, [&] {
    verdict = at(peer).verdict;
    return verdict || at(peer).state == State::left || at(peer).state == State::failed;
  });
  return verdict;
}

std::optional<Failure> MeshImpl::bad_verdict() const {
  const std::lock_guard lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.verdict && peer.verdict->status != Status::ok) return peer.verdict;
  }
  return std::nullopt;
}

void MeshImpl::tell(int peer, wire::Type type, uint64_t group, const Failure* failure) noexcept {
  try {
    std::shared_ptr<PeerLink> link;
    std::shared_ptr<MeshImpl> local;
    {
      const std::lock_guard lock(mutex_);
      link = at(peer).link;
      local = at(peer).local.lock();
    }
    if (local) {
      switch (type) {
        case wire::Type::leave: return local->on_leave(rank_, group);
        case wire::Type::bye: return local->on_bye(rank_);
        case wire::Type::failure: return local->on_failure(rank_, group, *failure);
        default: return local->on_verdict(rank_, *failure);
      }
    }
    if (!link) return;
    wire::Header header;
    header.type = type;
    header.source = static_cast<uint16_t>(rank_);
    header.group = group;
    if (failure == nullptr) return link->connection().post(wire::encode(header));
    link->connection().post(wire::encode(header, *failure));
  } catch (const std::exception&) {
    return;  // out of memory; the peer's deadline remains
  }
}

void MeshImpl::send_verdict(int peer, const Failure& verdict) noexcept { tell(peer, wire::Type::verdict, 0, &verdict); }

void MeshImpl::say_bye() noexcept {
  if (said_bye_.exchange(true)) return;
  std::vector<uint64_t> groups;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, group] : groups_) groups.push_back(id);
  } catch (const std::bad_alloc&) {
    groups.clear();
  }
  for (const uint64_t group : groups) pass_on_failure(group);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) tell(peer, wire::Type::bye, 0, nullptr);
  }
}

}  // namespace symm
