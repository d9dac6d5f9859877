#include "core/group/group.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backends.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/log.hpp"
#include "core/base/page.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/group/agreement.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/memory.hpp"
#include "core/group/stragglers.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/transport.hpp"

namespace symm {
namespace {
// sequence of the first exchange, with which no rendezvous collides
constexpr uint64_t kCreation = INT64_MAX;

// Groups made of one by different calls have different ids.
constexpr uint64_t kFromRanks = 0x66726f6d'72616e6b;
constexpr uint64_t kShrunk = 0x73687275'6e6b656e;

struct SeveralMachines {};  // found by all ranks alike, which begin anew

PeerFacts own_facts(const Backend& backend) {
  PeerFacts facts{.backend = static_cast<int32_t>(backend.kind()), .device = backend.device()};
  gethostname(facts.host, sizeof facts.host - 1);
  const std::string_view named = environment("SYMM_MACHINE");
  write_text(facts.machine, named.empty() ? process::boot_id() : std::string(named));
  write_text(facts.uuid, std::string(device_info(backend.kind(), backend.device()).uuid));
  Stragglers::name_revoked(facts.revoked);
  return facts;
}

// The rank that became `index` when those gone were left out; `otherwise` if there is none.
int rank_of_living(const std::vector<bool>& gone, int index, int otherwise) {
  for (size_t rank = 0; rank < gone.size() && index >= 0; ++rank) {
    if (!gone[rank] && index-- == 0) return static_cast<int>(rank);
  }
  return otherwise;
}

// Of a peer, whose words are checked.
PeerFacts checked(PeerFacts facts) {
  for (auto* text : {&facts.host, &facts.machine, &facts.uuid}) {
    (*text)[sizeof *text - 1] = '\0';
    std::replace_if(std::begin(*text), std::begin(*text) + std::strlen(*text), is_control, ' ');
  }
  return facts;
}
}  // namespace

Group::Group(
    std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const std::string& name)
    : mesh_(std::move(mesh)), members_(std::move(members)), id_(id), addresses_(rank_) {
  size_ = static_cast<int>(members_.size());
  machines_.of.resize(members_.size());
  rank_ = static_cast<int>(
      std::find(members_.begin(), members_.end(), mesh_->rank()) - members_.begin());
  std::vector<int64_t> pids(members_.size());
  for (int rank = 0; rank < size_; ++rank) {
    pids[static_cast<size_t>(rank)] = identity(rank).host.empty() ? identity(rank).pid : 0;
  }
  revocation_ = std::make_shared<Revocation>(
      size_, std::make_shared<Page>(mesh_->nonce(), id_, rank_, name, pids));
  past_ = Stragglers::of(*this);
}

Group::~Group() {
  past_->group_goes();
  mesh_->detach(id_);
}

std::shared_ptr<Group> Group::create(const GroupConfig& asked) {
  const Trace traced(nullptr, "group_create");
  GroupConfig config = asked;
  if (config.create_timeout_ms == 0) {
    config.create_timeout_ms = milliseconds("SYMM_CREATE_TIMEOUT_MS");
  }
  if (config.timeout_ms == 0) config.timeout_ms = milliseconds("SYMM_TIMEOUT_MS");
  if (config.channels == 0) config.channels = kDefaultChannels;
  require_channels(config.channels, "config.channels");
  if (std::strcmp(environment("SYMM_CHECK"), "0") != 0) config.check = true;
  if (const std::string_view order = environment("SYMM_ORDER"); order == "any") {
    config.any_order = true;
  } else if (order != "ranks") {
    throw Error(Status::invalid_argument, "SYMM_ORDER: is neither 'ranks' nor 'any'");
  }
  if (config.bootstrap.empty()) config.bootstrap = environment("SYMM_BOOTSTRAP");
  const Deadline deadline = Deadline::after_ms(config.create_timeout_ms);
  const BootstrapResult result = symm::bootstrap(
      {config.bootstrap, config.callbacks, config.rank, config.size, config.name}, deadline);
  std::shared_ptr<Mesh> mesh;
  std::vector<int> members;
  try {
    members.resize(static_cast<size_t>(result.size));
    mesh = Mesh::connect(*result.store, result.rank, result.size, config.name, deadline);
  } catch (...) {
    result.store->tell(current_failure());
    throw;
  }
  for (int rank = 0; rank < result.size; ++rank) {
    members[static_cast<size_t>(rank)] = rank;
  }
  const uint64_t id = mesh->nonce();
  return form(mesh, std::move(members), id, config, nullptr, result.description, deadline);
}

std::shared_ptr<Group> Group::form(const std::shared_ptr<Mesh>& mesh, std::vector<int> members,
    uint64_t id, const GroupConfig& config, std::shared_ptr<Backend> inherited,
    const std::string& bootstrap, Deadline deadline, std::shared_ptr<Group> lender,
    const Group* whole) {
  std::shared_ptr<Group> group;
  std::shared_ptr<void> heard;
  try {
    group.reset(new Group(mesh, std::move(members), id, config.name));
    group->config_ = config;
    group->bootstrap_ = bootstrap;
    group->backend_ = std::move(inherited);
    group->lender_ = std::move(lender);
    mesh->attach(id, group->members_, group->revocation_);
    if (whole != nullptr) heard = whole->revocation_->listen([&] { group->end_with(*whole); });
  } catch (...) {
    mesh->broadcast_failure(id, current_failure());
    throw;
  }
  try {
    SYMM_POINT("group.attached");
    group->connect_transport(deadline);
  } catch (const std::exception& error) {
    group->give_up(error);  // a rank that already succeeded learns that this one did not
  }
  Page::set((*group->revocation_->page())->backend, static_cast<int64_t>(group->backend_->kind()));
  Stragglers::met(*group);
  log::write(log::Level::info, "group %016lx '%s': rank %d of %d, %s", id, group->name().c_str(),
      group->rank_, group->size_, group->bootstrap_.c_str());
  return group;
}

// Equal where descriptors can travel and SYMM_MACHINE is the
// same. The mesh decides on the first by machines, so the
// lowest rank that they can come from stands for all of one.
uint64_t Group::machine_key() const {
  int first = 0;
  while (!mesh_->carries_descriptors(members_[static_cast<size_t>(first)])) {
    ++first;
  }
  return mix(
      fnv1a(std::string_view(environment("SYMM_MACHINE"))), static_cast<uint64_t>(first) + 1);
}

void Group::connect_transport(Deadline deadline) {
  facts_.resize(members_.size());
  bool knows_machines = false;
  const bool inherits = backend_ != nullptr;
  Phases phases;
  phases.prepare = [&] {
    if (!inherits) {
      transport_.reset();
      backend_ = open_backend(config_.backend, config_.device, machines_.local_rank(rank_));
    }
    if (config_.shared_scratch && backend_->kind() == BackendKind::host) {
      throw Error(Status::unsupported,
          "config.flags: SYMM_GROUP_SHARED_SCRATCH, but on the host ranks read each other's "
          "scratch after a call");
    }
    TransportContext context;
    static_cast<TransportOptions&>(context) = config_;
    context.rank = rank_;
    context.size = size_;
    context.group = id_;
    context.machines = machines_;
    context.until = deadline;
    if (lender_) {
      context.lender = lender_->transport_->lender();
      for (int rank = 0; rank < size_; ++rank) {
        context.lender_ranks.push_back(lender_->rank_of(*this, rank));
      }
    }
    for (int peer = 0; peer < size_; ++peer) {
      context.pids.push_back(identity(peer).pid);
    }
    context.revocation = revocation_;
    context.fail = [this](const Failure& failure) { fail(failure); };
    context.directory = &addresses_;
    transport_ = machines_.count > 1 ? multinode::open(*backend_, std::move(context))
                                     : backend_->make_transport(std::move(context));
    facts_[static_cast<size_t>(rank_)] = own_facts(*backend_);
    OutgoingMessage share = transport_->share();
    append(share, facts_[static_cast<size_t>(rank_)]);
    return Offer{
        {static_cast<uint64_t>(backend_->kind()), machine_key(),
            fnv1a(std::as_bytes(std::span(members_))), static_cast<uint64_t>(config_.channels),
            config_.scratch_bytes, config_.shared_scratch ? 1U : 0U, config_.any_order ? 1U : 0U,
            config_.same_offsets ? 1U : 0U},
        std::move(share)};
  };
  phases.agree = [&](std::span<const Vote> votes) {
    machines_.count = 0;  // nothing is allocated here, which would fail on this rank alone
    for (size_t peer = 0; peer < votes.size(); ++peer) {
      const int rank = static_cast<int>(peer);
      size_t first = 0;
      while (votes[first].value[1] != votes[peer].value[1]) {
        ++first;
      }
      machines_.of[peer] = first == peer ? machines_.count++ : machines_.of[first];
      if (votes[peer].value[0] != votes[0].value[0]) {
        throw Error({Status::mismatch, rank, 0,
            format("config.backend: rank %d has another back end than rank 0", rank)});
      }
      if (votes[peer].value[2] != votes[0].value[2]) {
        throw Error({Status::mismatch, rank, 0, "ranks: not all name them in the same order"});
      }
      for (const auto& [name, value] : {std::pair("channels", 3), std::pair("scratch_bytes", 4),
               std::pair("flags & SYMM_GROUP_SHARED_SCRATCH", 5),
               std::pair("flags & SYMM_GROUP_ANY_ORDER", 6),
               std::pair("flags & SYMM_GROUP_SAME_OFFSETS", 7)}) {
        if (votes[peer].value[value] == votes[0].value[value]) continue;
        throw Error({Status::mismatch, rank, 0,
            format("config.%s: rank 0 has %lu, rank %d has %lu", name, votes[0].value[value], rank,
                votes[peer].value[value])});
      }
    }
    if (machines_.count > 1 && !knows_machines) throw SeveralMachines();
  };
  phases.accept = [&](int peer, Message message) {
    PeerFacts& facts = facts_[static_cast<size_t>(peer)];
    std::memcpy(&facts, message.body.data() + message.body.size() - sizeof facts, sizeof facts);
    facts = checked(facts);
    message.body.resize(message.body.size() - sizeof facts);
    transport_->connect(peer, std::move(message), identity(peer));
  };
  phases.finish = [&] { transport_->ready(); };
  try {
    exchange(*this, MessageKind::control, 0, kCreation, phases, deadline);
  } catch (const SeveralMachines&) {
    knows_machines = true;
    exchange(*this, MessageKind::control, 0, kCreation - 1, phases, deadline);
  }
}

// While a part is formed, a rank that has heard what ended the whole may never come to it.
void Group::end_with(const Group& whole) noexcept {
  try {
    Failure failure = with_reserve([&] { return whole.revocation_->failure(); });
    if (failure.status == Status::ok) return;
    failure.rank = rank_of(whole, failure.rank);
    revocation_->revoke(blamed(std::move(failure)));
  } catch (const std::bad_alloc&) {
    return;  // the deadline remains
  }
}

template <class Choose>
std::shared_ptr<Group> Group::form_part(uint64_t id, Deadline deadline, const Choose& choose,
    std::shared_ptr<Group> lender, const Group* whole) {
  std::vector<int> members;
  GroupConfig config;
  try {
    Part part = choose();
    SYMM_POINT("part.form");
    members = std::move(part.ranks);
    for (int& rank : members) {
      rank = members_[static_cast<size_t>(rank)];
    }
    config = config_;
    config.name = std::move(part.name);
  } catch (...) {
    mesh_->broadcast_failure(id, current_failure());  // the others shall not wait for this rank
    throw;
  }
  return form(mesh_, std::move(members), id, config, backend_, bootstrap_, deadline,
      std::move(lender), whole);
}

template <class Choose>
std::shared_ptr<Group> Group::part(uint64_t id, Deadline deadline, const Choose& choose) {
  try {
    return form_part(
        id, deadline, choose, config_.shared_scratch ? shared_from_this() : nullptr, this);
  } catch (...) {
    revocation_->throw_if_revoked();
    throw Error(blamed(current_failure()));
  }
}

std::shared_ptr<Group> Group::split(int color, int key) {
  const Trace traced(page(), "group_split");
  require_usable();
  const Deadline deadline = create_deadline();
  const uint64_t sequence = splits_++;
  Vote vote;
  vote.value[0] = static_cast<uint64_t>(static_cast<int64_t>(color));
  vote.value[1] = static_cast<uint64_t>(static_cast<int64_t>(key));
  std::vector<Vote> votes;
  try {
    votes = commit_vote(*this, {MessageKind::split, id_, 0, sequence}, vote, deadline);
  } catch (const std::exception& error) {
    give_up(error);
  }
  SYMM_POINT("split.voted");
  if (color < 0) return nullptr;
  const uint64_t id = mix(mix(id_, sequence + 1), static_cast<uint64_t>(color) + 1);
  return part(id, deadline, [&] {
    std::vector<int> chosen;
    for (int rank = 0; rank < size_; ++rank) {
      if (votes[static_cast<size_t>(rank)].value[0] == vote.value[0]) chosen.push_back(rank);
    }
    std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
      return static_cast<int64_t>(votes[static_cast<size_t>(a)].value[1]) <
             static_cast<int64_t>(votes[static_cast<size_t>(b)].value[1]);
    });
    return Part{std::move(chosen), name() + "/" + std::to_string(color)};
  });
}

std::shared_ptr<Group> Group::create_from_ranks(std::span<const int32_t> ranks) {
  const Trace traced(page(), "group_create_from_ranks");
  require_usable();
  require_ranks(ranks);
  uint64_t set = 0;  // the same in any order, so that those meet who name another one
  for (const int32_t rank : ranks) {
    set += mix(kFromRanks, static_cast<uint64_t>(rank));
  }
  uint64_t sequence = 0;
  try {
    const std::lock_guard lock(sequence_mutex_);
    sequence = parts_[set]++;
  } catch (...) {
    fail(blamed(current_failure()));  // this rank would be out of step
    mesh_->broadcast_failure(mix(mix(id_, set), 0), current_failure());
    revocation_->throw_if_revoked();
  }
  return part(mix(mix(id_, set), sequence), create_deadline(), [&] {
    return Part{{ranks.begin(), ranks.end()},
        name() + "/" + std::to_string(ranks[0]) + ".." + std::to_string(ranks.back())};
  });
}

std::shared_ptr<Group> Group::local() {
  std::vector<int32_t> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (maps(rank)) ranks.push_back(rank);
  }
  return create_from_ranks(ranks);
}

// The living agree on who lives, form a group, and agree on how that went; until all
// have one and nobody has died meanwhile.
std::shared_ptr<Group> Group::shrink(uint64_t timeout_ms, const char* name) {
  const Trace traced(page(), "group_shrink");
  if (finalized_.load(std::memory_order_relaxed)) {
    throw Error(Status::invalid_handle, "group: it was finalized");
  }
  const Deadline deadline =
      Deadline::after_ms(timeout_ms != 0 ? timeout_ms : config_.create_timeout_ms);
  const uint64_t call = shrinks_++;
  Topic topic{MessageKind::agreement, id_, call, 0};
  View view = agree(*this, topic, {}, deadline);
  SYMM_POINT("shrink.agreed");
  if (view.by >= 0) throw Error(view.failure);
  for (;;) {
    ++topic.sequence;
    const auto living = [&] {
      Part part{{}, name != nullptr ? name : config_.name};
      for (int rank = 0; rank < size_; ++rank) {
        if (!view.gone[static_cast<size_t>(rank)]) part.ranks.push_back(rank);
      }
      return part;
    };
    Failure trouble;
    std::shared_ptr<Group> made;
    try {
      made = form_part(mix(mix(id_ ^ kShrunk, call), topic.sequence), deadline, living);
    } catch (...) {
      trouble = current_failure();
      trouble.rank = rank_of_living(view.gone, trouble.rank, rank_);
      trouble.pid = identity(trouble.rank).pid;
      trouble.message = "in the group of the survivors: " + trouble.message;
    }
    View after = agree(*this, topic, trouble, deadline);
    const bool nobody_died = after.gone == view.gone;
    if (after.by < 0 && nobody_died) return made;
    made.reset();
    if (after.by >= 0 && (nobody_died || after.failure.status != Status::peer_failed)) {
      throw Error(after.failure);
    }
    view = std::move(after);
  }
}

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
    // by another, who noticed first
    const bool told = failure.status == Status::peer_failed && failure.rank == rank;
    if (told || mesh_->is_gone(members_[static_cast<size_t>(rank)], id_)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Straggler> Group::stragglers() const {
  std::vector<Straggler> found;
  if (revocation_->revoked() && transport_) transport_->let_go();
  for (int rank = 0; rank < size_ && revocation_->revoked(); ++rank) {
    if (!maps(rank)) continue;  // what it sends is not taken any more
    if (auto link = mesh_->link_if_in(members_[static_cast<size_t>(rank)], id_)) {
      found.push_back({rank, identity(rank), std::move(link)});
    }
  }
  return found;
}

// Groups of one origin know each other's ranks; others are
// recognised by their process, where it is one rank's alone.
int Group::rank_of(const Group& other, int rank_there) const {
  const auto find = [](const Group& in, const auto& is_it) {
    int found = -1;
    for (int rank = 0; rank < in.size_; ++rank) {
      if (!is_it(rank)) continue;
      if (found >= 0) return -1;
      found = rank;
    }
    return found;
  };
  if (mesh_ == other.mesh_) {
    const int member = other.members_[static_cast<size_t>(rank_there)];
    return find(*this, [&](int rank) { return members_[static_cast<size_t>(rank)] == member; });
  }
  if (rank_there == other.rank_) return rank_;
  const auto& process = other.identity(rank_there).process;
  if (find(other, [&](int rank) { return other.identity(rank).process == process; }) < 0) return -1;
  return find(*this, [&](int rank) { return identity(rank).process == process; });
}

int Group::failure_fd() {
  const std::lock_guard lock(failure_fd_mutex_);
  if (failure_fd_) return failure_fd_->get();
  Fd made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made) throw system_error(errno, "eventfd");
  const auto fd = std::make_shared<PeerFd>(std::move(made));
  failure_listener_ = revocation_->listen([fd, revocation = revocation_.get()] {
    const uint64_t one = 1;
    // it is readable already
    if (revocation->revoked() && ::write(fd->get(), &one, sizeof one) < 0) return;
  });
  failure_fd_ = fd;
  return fd->get();
}

void Group::keep(std::list<std::shared_ptr<Memory>> one) noexcept {
  const std::lock_guard lock(kept_mutex_);
  if (std::find(kept_.begin(), kept_.end(), one.front()) == kept_.end()) {
    kept_.splice(kept_.end(), one);
  }
}

void Group::forget(const Memory& memory) noexcept {
  std::shared_ptr<Memory> gone;  // outside the lock
  const std::lock_guard lock(kept_mutex_);
  const auto found = std::find_if(
      kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.get() == &memory; });
  if (found == kept_.end()) return;
  gone = std::move(*found);
  kept_.erase(found);
}

void Group::forget_memories() noexcept {
  std::list<std::shared_ptr<Memory>> gone;
  const std::lock_guard lock(kept_mutex_);
  gone.swap(kept_);
}

Failure Group::blamed(Failure failure) const {
  return symm::blamed(std::move(failure), rank_, identity(rank_).pid);
}

// For symm run, which says what failed first: a rank
// that only heard of it may be the first to end.
static void note_for_launcher(const Failure& failure) noexcept {
  const char* const path = environment("SYMM_FIRST_FAILURE");
  if (*path == '\0') return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (::write(file, failure.message.data(), failure.message.size()) < 0) ::unlink(path);
  ::close(file);
}

void Group::fail(const Failure& failure) noexcept {
  const process::Uncancelled whole;
  const Revocation::Effect effect = revocation_->revoke(failure);
  if (effect.counts) note_for_launcher(failure);
  if (effect.counts || effect.tell) mesh_->broadcast_failure(id_, revocation_->failure());
  if (!effect.counts) return;
  // After the others were told: its listeners may hold this thread up.
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

void Group::barrier(
    std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) {
  const Trace traced(page(), "barrier");
  transport_->stats().counted([&] {
    require_usable();
    require_channel(channel, config_.channels);
    if (!ranks.empty()) require_ranks(ranks);
    const uint64_t timeout = timeout_or_look(timeout_ms);
    if (timeout == Deadline::kNow) return transport_->barrier(ranks, channel, timeout, stream);
    in_turn([&] { transport_->barrier(ranks, channel, timeout, stream); });
  });
}

void Group::finalize(uint64_t timeout_ms) {
  const Trace traced(page(), "group_finalize");
  require_usable();
  require_waiting(timeout_ms, "options.timeout_ms");
  // One more than users have.
  in_turn([&] { transport_->finish(config_.channels, timeout_or_default(timeout_ms)); });
  finalized_ = true;
}

void Group::synchronize(void* stream, uint64_t timeout_ms) {
  const Trace traced(page(), "group_synchronize");
  require_usable();
  const uint64_t timeout = timeout_or_default(timeout_ms);
  const Deadline deadline = Deadline::after_ms(timeout);
  if (!retry_until([&] { return transport_->stream_done(stream); }, deadline)) {
    throw Error(
        Status::timeout, "synchronize: what was issued on the stream is not over by the deadline");
  }
  require_usable();
}

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
  constexpr uint64_t kFullQueueMs = 1'000;  // of a rank that is stopped, perhaps
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
  auto news = mesh_->receive_any(members, topic, body_size, deadline);
  if (news) {
    news->peer = peers[static_cast<size_t>(
        std::find(members.begin(), members.end(), news->peer) - members.begin())];
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
