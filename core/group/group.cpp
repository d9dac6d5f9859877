// SPDX-License-Identifier: Apache-2.0
#include "core/group/group.hpp"
#include "core/backends.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/environment.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/group/exchange.hpp"

namespace symm {
namespace {

constexpr uint64_t kCreation = INT64_MAX;    // sequence of the first exchange, with which no rendezvous collides
constexpr int kFinalizeChannel = kChannels;  // one more than users have

}  // namespace

Group::Group(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id)
    : mesh_(std::move(mesh)), members_(std::move(members)), id_(id), addresses_(rank_) {
  size_ = static_cast<int>(members_.size());
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), mesh_->rank()) - members_.begin());
  revocation_ = std::make_shared<Revocation>(size_);
  mesh_->attach(id_, members_, revocation_);
}

Group::~Group() { mesh_->detach(id_); }

std::shared_ptr<Group> Group::create(const GroupConfig& asked) {
  GroupConfig config = asked;
  if (config.create_timeout_ms == 0) config.create_timeout_ms = milliseconds("SYMM_CREATE_TIMEOUT_MS");
  if (config.timeout_ms == 0) config.timeout_ms = milliseconds("SYMM_TIMEOUT_MS");
  if (std::strcmp(environment("SYMM_CHECK"), "0") != 0) config.check = true;
  if (config.bootstrap.empty()) config.bootstrap = environment("SYMM_BOOTSTRAP");
  const Deadline deadline = Deadline::after_ms(config.create_timeout_ms);
  const BootstrapResult result =
      symm::bootstrap({config.bootstrap, config.callbacks, config.rank, config.size, config.name}, deadline);
  std::shared_ptr<Mesh> mesh = Mesh::connect(*result.store, result.rank, result.size, config.name, deadline);
  std::vector<int> members(static_cast<size_t>(result.size));
  for (int rank = 0; rank < result.size; ++rank) members[static_cast<size_t>(rank)] = rank;
  const uint64_t id = mesh->nonce();
  return form(std::move(mesh), std::move(members), id, config, nullptr, result.description, deadline);
}

std::shared_ptr<Group> Group::form(std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const GroupConfig& config,
                                   std::shared_ptr<Backend> inherited, std::string bootstrap, Deadline deadline) {
  std::shared_ptr<Group> group(new Group(std::move(mesh), std::move(members), id));
  group->config_ = config;
  group->name_ = config.name;
  group->bootstrap_ = std::move(bootstrap);
  group->create_timeout_ms_ = config.create_timeout_ms;
  group->timeout_ms_ = config.timeout_ms;
  group->backend_ = std::move(inherited);
  try {
    group->connect_transport(deadline);
  } catch (...) {
    group->fail(group->blamed(current_failure()));  // a rank that already succeeded learns that this one did not
    group->revocation_->throw_if_revoked();         // the others may have failed first, and for another reason
    throw;
  }
  log::write(log::Level::info, "group %016llx '%s': rank %d of %d, %s", static_cast<unsigned long long>(id), group->name_.c_str(),
             group->rank_, group->size_, group->bootstrap_.c_str());
  return group;
}

void Group::connect_transport(Deadline deadline) {
  Phases phases;
  phases.prepare = [&] {
    if (!backend_) backend_ = open_backend(config_.backend, config_.device, rank_);
    TransportContext context;
    context.rank = rank_;
    context.size = size_;
    context.group = id_;
    context.channels = kChannels;
    context.check = config_.check;
    context.overlapping_devices = config_.overlapping_devices;
    context.multicast = config_.multicast;
    for (int peer = 0; peer < size_; ++peer) context.pids.push_back(identity(peer).pid);
    context.revocation = revocation_;
    context.fail = [this](const Failure& failure) { fail(failure); };
    context.directory = &addresses_;
    transport_ = backend_->make_transport(std::move(context));
    return Offer{{static_cast<uint64_t>(backend_->kind()), fnv1a(backend_->domain())}, transport_->share()};
  };
  phases.agree = [](std::span<const Vote> votes) {
    for (size_t peer = 0; peer < votes.size(); ++peer) {
      const int rank = static_cast<int>(peer);
      if (votes[peer].value[0] != votes[0].value[0])
        throw Error({Status::mismatch, rank, 0, format("config.backend: rank %d has another back end than rank 0", rank)});
      if (votes[peer].value[1] != votes[0].value[1])
        throw Error({Status::unavailable, rank, 0, format("rank %d is on another machine than rank 0", rank)});
    }
  };
  phases.accept = [&](int peer, Message message) { transport_->connect(peer, std::move(message), identity(peer)); };
  phases.finish = [&] { transport_->ready(); };
  exchange(*this, MessageKind::control, 0, kCreation, phases, deadline);
}

std::shared_ptr<Group> Group::split(int color, int key) {
  require_usable();
  const Deadline deadline = create_deadline();
  uint64_t sequence = 0;
  {
    const std::lock_guard lock(sequence_mutex_);
    sequence = splits_++;
  }
  Vote vote;
  vote.value[0] = static_cast<uint64_t>(static_cast<int64_t>(color));
  vote.value[1] = static_cast<uint64_t>(static_cast<int64_t>(key));
  std::vector<Vote> votes;
  try {
    votes = commit_vote(*this, {MessageKind::split, id_, 0, sequence}, vote, deadline);
  } catch (...) {
    fail(blamed(current_failure()));
    revocation_->throw_if_revoked();
    throw;
  }
  if (color < 0) return nullptr;
  std::vector<int> chosen;
  for (int rank = 0; rank < size_; ++rank) {
    if (votes[static_cast<size_t>(rank)].value[0] == vote.value[0]) chosen.push_back(rank);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
    return static_cast<int64_t>(votes[static_cast<size_t>(a)].value[1]) <
           static_cast<int64_t>(votes[static_cast<size_t>(b)].value[1]);
  });
  for (int& rank : chosen) rank = members_[static_cast<size_t>(rank)];
  GroupConfig config = config_;
  config.name = name_ + "/" + std::to_string(color);
  const uint64_t id = mix(mix(id_, sequence + 1), static_cast<uint64_t>(color) + 1);
  try {
    return form(mesh_, std::move(chosen), id, config, backend_, bootstrap_, deadline);
  } catch (const Error&) {
    // A rank that heard of a death in the vote above never came to the part, and is missed there; the whole knows why.
    revocation_->throw_if_revoked();
    throw;
  }
}

int Group::unwatched_peers() const {
  int count = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !identity(peer).same_process && !identity(peer).watched) ++count;
  }
  return count;
}

void Group::require_usable() const {
  transport_->device().check_device_errors();
  revocation_->throw_if_revoked();
  if (finalized_.load(std::memory_order_relaxed)) throw Error(Status::invalid_handle, "group: it was finalized");
}

void Group::require_rank(const char* argument, int rank) const {
  if (rank < 0 || rank >= size_)
    throw Error(Status::invalid_argument, format("%s: %d is not in 0 .. %d", argument, rank, size_ - 1));
}

void Group::require_channel(int channel) const {
  if (channel < 0 || channel >= kChannels) {
    throw Error(Status::invalid_argument, format("channel: %d is not in 0 .. %d", channel, kChannels - 1));
  }
}

Failure Group::blamed(Failure failure) const {
  if (failure.rank >= 0) return failure;
  return {failure.status, rank_, identity(rank_).pid, format("rank %d: %s", rank_, failure.message.c_str())};
}

void Group::fail(const Failure& failure) noexcept {
  if (!revocation_->revoke(failure)) return;
  log::write(log::Level::warning, "group %016llx '%s': revoked: %s", static_cast<unsigned long long>(id_), name_.c_str(),
             failure.message.c_str());
  mesh_->broadcast_failure(id_, failure);
}

void Group::barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  require_usable();
  require_channel(channel);
  bool among = ranks.empty();
  std::vector<bool> seen(ranks.empty() ? 0 : static_cast<size_t>(size_));
  for (const int32_t rank : ranks) {
    require_rank("ranks", rank);
    if (seen[static_cast<size_t>(rank)]) throw Error(Status::invalid_argument, format("ranks: %d is named twice", rank));
    seen[static_cast<size_t>(rank)] = true;
    among = among || rank == rank_;
  }
  if (!among) throw Error(Status::invalid_argument, format("ranks: this rank, %d, is not among them", rank_));
  transport_->barrier(ranks, channel, timeout_or_default(timeout_ms), stream);
}

void Group::finalize(uint64_t timeout_ms) {
  require_usable();
  transport_->finish(kFinalizeChannel, timeout_or_default(timeout_ms));
  finalized_ = true;
}

void Group::synchronize(void* stream, uint64_t timeout_ms) {
  require_usable();
  const uint64_t timeout = timeout_or_default(timeout_ms);
  const Deadline deadline = timeout == Deadline::kInfinite ? Deadline::never() : Deadline::after_ms(timeout);
  if (!retry_until([&] { return transport_->stream_done(stream); }, deadline)) {
    throw Error(Status::timeout, "synchronize: what was issued on the stream is not over by the deadline");
  }
  require_usable();
}

void Group::send(int peer, const Topic& topic, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline) {
  mesh_->send(members_[static_cast<size_t>(peer)], topic, body, fds, deadline);
}

Message Group::receive(int peer, const Topic& topic, size_t body_size, size_t fd_count, Deadline deadline) {
  return mesh_->receive(members_[static_cast<size_t>(peer)], topic, body_size, fd_count, revocation_.get(), deadline);
}

uint64_t Group::next_sequence(uint64_t tag) {
  const std::lock_guard lock(sequence_mutex_);
  return sequences_[tag]++;
}

}  // namespace symm
