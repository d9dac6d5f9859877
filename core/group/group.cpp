// A group in use: its ranks, its failure, the calls that all ranks make, and the mesh addressed
// by group ranks. formation.cpp forms a group, subgroups.cpp makes others of it, and checks.cpp
// checks the arguments of its calls.
#include "core/group/group.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/log.hpp"
#include "core/base/page.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/memory.hpp"
#include "core/group/request.hpp"
#include "core/group/requests.hpp"
#include "core/group/stragglers.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"
#include "kernels/types.hpp"

namespace symm {
Group::~Group() {
  past_->group_goes();
  mesh_->detach(id_);
}

// ---- ranks

int Group::unwatched_peers() const {
  int count = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !identity(peer).same_process && !identity(peer).watched) ++count;
  }
  return count;
}

std::vector<int> Group::gone_ranks() const {
  std::vector<int> ranks;
  const Failure failure = revocation_->failure();
  for (int rank = 0; rank < size_; ++rank) {
    // Another rank may have noticed the death before this one's mesh does.
    const bool was_told = failure.status == Status::peer_failed && failure.rank == rank;
    if (was_told || mesh_->is_gone(members_[static_cast<size_t>(rank)], id_)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::vector<Straggler> Group::stragglers() const {
  std::vector<Straggler> found;
  if (revocation_->revoked() && transport_) transport_->let_go();
  for (int rank = 0; rank < size_ && revocation_->revoked(); ++rank) {
    // Messages from ranks of other machines are not taken any more, so these cannot write. But
    // a rank of another host of this machine stores by NVLink, also when it is cut off.
    if (!maps(rank)) continue;
    if (auto link = mesh_->link_if_in(members_[static_cast<size_t>(rank)], id_)) {
      found.push_back({rank, members_[static_cast<size_t>(rank)], identity(rank), std::move(link)});
    }
  }
  return found;
}

// Groups of one mesh know each other's ranks. In other groups a rank is recognised by its process,
// if that process is no other rank of either group.
int Group::rank_of(const Group& other, int rank_there) const {
  const auto find_only = [](const Group& group, const auto& is_it) {
    int found = -1;
    for (int rank = 0; rank < group.size_; ++rank) {
      if (!is_it(rank)) continue;
      if (found >= 0) return -1;
      found = rank;
    }
    return found;
  };

  if (mesh_ == other.mesh_) {
    const int member = other.members_[static_cast<size_t>(rank_there)];
    return find_only(
        *this, [&](int rank) { return members_[static_cast<size_t>(rank)] == member; });
  }
  if (rank_there == other.rank_) return rank_;

  const auto& process = other.identity(rank_there).process;
  const int only_there =
      find_only(other, [&](int rank) { return other.identity(rank).process == process; });
  if (only_there < 0) return -1;
  return find_only(*this, [&](int rank) { return identity(rank).process == process; });
}

// ---- failure

// Returns the descriptor by which an event loop hears that the group has failed: it becomes
// readable when the group is revoked, and stays so. It is made at the first call.
int Group::failure_fd() {
  const std::lock_guard lock(failure_fd_mutex_);
  if (failure_fd_) return failure_fd_->get();

  Fd made = make_fd(eventfd, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!made) throw system_error(errno, "eventfd");
  const auto fd = std::make_shared<PeerFd>(std::move(made));
  failure_listener_ = revocation_->listen([fd, revocation = revocation_.get()] {
    const uint64_t one = 1;
    // A write that fails finds the descriptor readable already.
    if (revocation->revoked() && ::write(fd->get(), &one, sizeof one) < 0) return;
  });
  failure_fd_ = fd;
  return fd->get();
}

// Each call checks the heartbeats before it issues work, so the clock is read once
// for all hosts.
bool Group::hears_all() const noexcept {
  if (distant_.empty()) return true;
  const uint64_t now = now_ns();
  return std::all_of(
      distant_.begin(), distant_.end(), [now](const auto& link) { return link->is_heard(now); });
}

// Called before work is issued. A host that has lost its power leaves mappings behind, and a
// load or a store there can cost this process its context. So nothing is issued while a host is
// silent that has memory mapped here: it is heard again, or its ranks are taken for dead.
void Group::await_heartbeats() const {
  const auto over = [&] { return revocation_->revoked() || hears_all(); };
  const bool endless = config_.timeout_ms == Deadline::kInfinite;
  const Deadline deadline = endless ? Deadline::never() : Deadline::after_ms(config_.timeout_ms);
  const bool is_over = retry_until(over, deadline);
  revocation_->throw_if_revoked();
  if (!is_over) {
    throw Error(Status::timeout, "a host whose memory is mapped here was not heard in time");
  }
}

Failure Group::blamed(Failure failure) const {
  return symm::blamed(std::move(failure), rank_, identity(rank_).pid);
}

namespace {
// Writes the failure to a place where `symm run` finds it: the command reports what failed
// first, and a rank that only heard of the failure may be the first to end.
void note_for_launcher(const Failure& failure) noexcept try {
  // The launcher has set it; a thread of symm's own may be here, beside which nothing else may be
  // read of the environment.
  const EnvironmentAtLoad variables(true);
  const char* const path = environment("SYMM_FIRST_FAILURE");
  if (*path == '\0') return;

  const std::string line = printable(failure.message);
  const Fd file = make_fd(::open, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (!file) return;
  if (!write_whole(file.get(), line.data(), line.size())) ::unlink(path);
} catch (const std::bad_alloc&) {
  return;  // the launcher then says how the rank ended
}
}  // namespace

void Group::fail(const Failure& found) noexcept {
  const process::Uncancelled whole;
  const Failure failure =
      interrupt::happened() ? blamed(interrupt::told(with_reserve([&] { return found; }))) : found;
  const Revocation::Effect effect = revocation_->revoke(failure);
  if (effect.counts) note_for_launcher(failure);
  if (effect.counts || effect.tell) mesh_->broadcast_failure(id_, revocation_->cause());
  if (!effect.counts) return;

  // The log comes after the other ranks were told: its listeners may hold this thread up.
  log::write(log::Level::warning, "group %016lx '%s': revoked: %s", id_, name().c_str(),
      failure.message.c_str());
}

void Group::give_up(const std::exception& error, const char* what) {
  constexpr uint64_t kAnswerMs = 500;
  Failure failure = blamed(current_failure());
  failure.message = what + failure.message;
  fail(failure);

  if (const auto* unclear = dynamic_cast<const BlameUnknown*>(&error)) {
    retry_until([&] { return revocation_->failure().rank != unclear->named; },
        Deadline::after_ms(kAnswerMs));
  }
  throw Error(revocation_->failure());
}

void Group::tell_refusal(const char* what, const Error& error) noexcept try {
  const Status status = error.status();
  const bool refuses = status == Status::invalid_argument || status == Status::unsupported;
  if (!config_.check || !refuses) return;
  transport_->note_refusal(std::string(what) + ": " + error.what());
} catch (const std::bad_alloc&) {
  return;  // their deadlines remain
}

// ---- calls of all ranks

void Group::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  const Trace traced(page(), "barrier");
  const auto call = [&] {
    require_usable();
    require_barrier(ranks, channel);
    const uint64_t timeout = timeout_or_look(timeout_ms);
    if (timeout == Deadline::kNow) return transport_->barrier(ranks, channel, timeout, stream);
    in_turn([&] { transport_->barrier(ranks, channel, timeout, stream); });
  };
  transport_->stats().counted([&] { with_refusals_told("barrier", call); });
}

// ---- messages between two ranks

void Group::require_side(const MessageSide& side) const {
  require_rank("rank", side.rank);
  require_channel(side.channel, config_.channels);
  if (side.data == nullptr && side.bytes != 0) {
    throw Error(Status::invalid_argument, format("%s: is NULL, and bytes is %zu",
                                              side.is_send ? "source" : "destination", side.bytes));
  }
}

void Group::pass_message(MessageSide& side, uint64_t timeout_ms, void* stream) {
  const Trace traced(page(), side.is_send ? "send" : "recv", side.rank, side.bytes);
  transport_->stats().counted([&] {
    require_usable();
    require_side(side);
    if (side.is_send) require_waiting(timeout_ms, "options.timeout_ms");
    transport_->pass_messages({&side, 1}, timeout_or_default(timeout_ms), stream);
  });
}

void Group::pass_messages(
    std::span<MessageSide> sides, uint64_t timeout_ms, void* stream, const char* call) {
  size_t bytes = 0;
  for (const MessageSide& side : sides) {
    bytes += side.bytes;
  }
  const Trace traced(page(), call, -1, bytes);

  transport_->stats().counted([&] {
    require_usable();
    require_waiting(timeout_ms, "options.timeout_ms");
    for (size_t i = 0; i < sides.size(); ++i) {
      naming_message(i, [&] { require_side(sides[i]); });
    }
    transport_->pass_messages(sides, timeout_or_default(timeout_ms), stream);
  });
}

namespace {
// Messages under way. The group goes last, since it owns the transport.
struct MessagesOfRequest {
  std::shared_ptr<Group> group;
  std::vector<MessageSide> sides;
  std::unique_ptr<PostedMessages> posted;
};

uint64_t received_by(std::span<const MessageSide> sides) {
  uint64_t bytes = 0;
  for (const MessageSide& side : sides) {
    bytes += side.is_send ? 0 : side.received;
  }
  return bytes;
}
}  // namespace

std::shared_ptr<Request> Group::start_messages(
    std::vector<MessageSide> sides, uint64_t timeout_ms, const char* call, SeeSides then) {
  Requests& requests = this->requests();
  transport_->stats().counted([&] {
    require_usable();
    const bool could_look = sides.size() == 1 && !sides[0].is_send;
    if (timeout_ms == Deadline::kNow && could_look) {
      throw Error(Status::invalid_argument,
          "options.timeout_ms: SYMM_TIMEOUT_NOW, but a request waits; the call without one looks "
          "once");
    }
    require_waiting(timeout_ms, "options.timeout_ms");
    for (size_t i = 0; i < sides.size(); ++i) {
      const auto check = [&] { require_side(sides[i]); };
      if (sides.size() == 1) {
        check();
      } else {
        naming_message(i, check);
      }
    }
  });

  // Once they are posted, any thread may be at work on them.
  size_t bytes = 0;
  for (const MessageSide& side : sides) {
    bytes += side.bytes;
  }
  const uint64_t timeout = timeout_or_default(timeout_ms);
  const auto messages =
      std::make_shared<MessagesOfRequest>(shared_from_this(), std::move(sides), nullptr);
  const auto finish = [messages, timeout, call, bytes, then = std::move(then)] {
    const Trace traced(messages->group->page(), call, -1, bytes);
    messages->group->transport().stats().counted([&] {
      if (messages->posted) messages->posted->finish(timeout);
      if (then) then(messages->sides);
    });
    return received_by(messages->sides);
  };
  return requests.start(RequestOrder::waiting, call, finish, [messages] {
    if (messages->sides.empty()) return;
    messages->posted = messages->group->transport_->post_messages(messages->sides);
  });
}

// ---- requests

Requests& Group::requests() const {
  if (backend_->kind() == BackendKind::host) {
    transport_->note_several_threads();
    return *requests_;
  }
  throw Error(Status::unsupported,
      "options.request: a CUDA group has no requests: its calls are ordered on streams, and return "
      "when their work is enqueued");
}

void Group::await_requests(RequestOrder order, const char* call, uint64_t timeout_ms) {
  const auto settle = [&] { requests_->settle(order, call, timeout_or_default(timeout_ms)); };
  if (order != RequestOrder::collective) return settle();
  in_turn(settle);
}

// ---- the end of a group, and of what was issued on its streams

void Group::finalize(uint64_t timeout_ms) {
  const Trace traced(page(), "group_finalize");
  require_usable();
  with_refusals_told("group_finalize", [&] { require_waiting(timeout_ms, "options.timeout_ms"); });

  // Before any rank can leave: a rank leaves when all have come to the barrier.
  const int64_t pid = identity(rank_).pid;
  requests_->finalize({Status::invalid_handle, rank_, pid,
                          format("request: rank %d (pid %ld) has finalized the group while the "
                                 "request was pending",
                              rank_, pid)},
      revocation_);
  try {
    settle_requests(RequestOrder::one_sided, "group_finalize", timeout_ms);
    settle_requests(RequestOrder::collective, "group_finalize", timeout_ms);
    // The transport has one channel more than users have.
    in_turn([&] { transport_->finish(config_.channels, timeout_or_default(timeout_ms)); });
  } catch (...) {
    // A revoked group has ended already, and may yet shrink or grow.
    if (!revocation_->revoked()) end();
    throw;
  }
  end();
}

// From now on calls are refused, and requests that are left end.
void Group::end() noexcept {
  finalized_ = true;
  if (backend_->kind() == BackendKind::host) revocation_->finalize();
}

namespace {
// The collective that this rank issued last, for messages.
std::string last_issued(const Group& group) {
  const uint64_t shown = group.transport().stats().shown.call.value();
  if (shown == 0) return "";
  const std::string tag = group.transport().stats().tag();
  return format("; the last collective that this rank issued is %s of %lu bytes, by %s%s",
      collective_name(static_cast<Collective>((shown & 0xFF) - 1)), shown >> 16,
      algorithm_name(static_cast<Algorithm>((shown >> 8 & 0xFF) - 1)),
      tag.empty() ? "" : format(", with the tag \"%s\"", tag.c_str()).c_str());
}
}  // namespace

void Group::synchronize(void* stream, uint64_t timeout_ms) {
  const Trace traced(page(), "group_synchronize");
  require_usable();
  const uint64_t timeout = timeout_or_default(timeout_ms);
  std::unique_ptr<MessageWait> shown;
  const auto is_done = [&] {
    if (transport_->stream_done(stream)) return true;
    if (!shown) shown = transport_->await_stream();
    if (shown) shown->look();
    return false;
  };
  if (retry_until(is_done, Deadline::after_ms(timeout))) return require_usable();

  // A kernel that began to wait together with this call gives up at about the same time, and
  // its record tells for which rank it waited, and in which call.
  constexpr uint64_t kRecordMs = 500;
  const uint64_t more_ms = timeout == Deadline::kNow ? 0 : std::min(kRecordMs, timeout / 10);
  const auto is_known = [&] {
    transport_->device().check_device_errors();
    return revocation_->revoked() || is_done();
  };
  if (retry_until(is_known, Deadline::after_ms(more_ms))) return require_usable();
  throw Error(
      Status::timeout, "synchronize: what was issued on the stream is not over by the deadline" +
                           last_issued(*this));
}

// ---- the memories that the group keeps

void Group::keep(std::list<std::shared_ptr<Memory>> one) noexcept {
  const std::lock_guard lock(kept_mutex_);
  if (std::find(kept_.begin(), kept_.end(), one.front()) == kept_.end()) {
    kept_.splice(kept_.end(), one);
  }
}

void Group::forget(const Memory& memory) noexcept {
  // Declared before the lock, so that a last reference goes after it.
  std::shared_ptr<Memory> gone;
  const std::lock_guard lock(kept_mutex_);
  const auto found = std::find_if(
      kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.get() == &memory; });
  if (found == kept_.end()) return;
  gone = std::move(*found);
  kept_.erase(found);
}

void Group::forget_memories() noexcept {
  // Declared before the lock, so that last references go after it.
  std::list<std::shared_ptr<Memory>> gone;
  const std::lock_guard lock(kept_mutex_);
  gone.swap(kept_);
}

// ---- the mesh, in group ranks

void Group::send(int peer, const Topic& topic, std::span<const std::byte> body,
    std::span<const int> fds, Deadline deadline) {
  mesh_->send(members_[static_cast<size_t>(peer)], topic, body, fds, deadline);
}

Message Group::receive(
    int peer, const Topic& topic, size_t body_size, size_t fd_count, Deadline deadline) {
  return mesh_->receive(
      members_[static_cast<size_t>(peer)], topic, body_size, fd_count, revocation_.get(), deadline);
}

void Group::send_if_there(
    int peer, const Topic& topic, std::span<const std::byte> body, Deadline deadline) {
  // A rank that is stopped may have a full queue; it is not waited for longer than this.
  constexpr uint64_t kFullQueueMs = 1'000;
  deadline = std::min(deadline, Deadline::after_ms(kFullQueueMs));
  try {
    mesh_->send(members_[static_cast<size_t>(peer)], topic, body, {}, deadline);
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed && error.status() != Status::timeout) throw;
  }
}

std::optional<Mesh::News> Group::receive_any(
    std::span<const int> peers, const Topic& topic, size_t body_size, Deadline deadline) {
  std::vector<int> members;
  for (const int peer : peers) {
    members.push_back(members_[static_cast<size_t>(peer)]);
  }

  auto news = mesh_->receive_any(members, topic, shrinks_, body_size, deadline);
  if (news && !news->later_tag) {
    const auto at = std::find(members.begin(), members.end(), news->peer) - members.begin();
    news->peer = peers[static_cast<size_t>(at)];
  }
  return news;
}

std::optional<Topic> Group::other_vote(int peer, const Topic& topic) const {
  if (topic.kind != MessageKind::vote) return std::nullopt;
  return mesh_->other(members_[static_cast<size_t>(peer)], topic);
}

uint64_t Group::next_sequence(uint64_t tag) {
  const std::lock_guard lock(sequence_mutex_);
  return sequences_[tag]++;
}
}  // namespace symm
