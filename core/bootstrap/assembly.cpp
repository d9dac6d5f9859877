// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/assembly.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/process.hpp"

namespace symm {
namespace {

// Long enough for a predecessor that was just killed to be gone, short enough for the report of a death or of a rank given twice.
constexpr uint64_t kGraceMs = 1000;
constexpr char kSealed[] = "sealed";

bool has(int directory, const char* name) { return faccessat(directory, name, F_OK, 0) == 0; }

std::string prefix_of(const std::string& name) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: any name becomes a short file name
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return format("%s%016llx", kSharedPrefix, static_cast<unsigned long long>(hash));
}

}  // namespace

void Assembly::Suspicion::raise(Failure why) {
  if (failure && failure->message == why.message) return;
  failure = std::move(why);
  grace = Deadline::after_ms(kGraceMs);
}

Assembly::Assembly(AssemblyConfig config, Deadline deadline)
    : config_(std::move(config)), prefix_(prefix_of(config_.name)), exceptions_(std::uncaught_exceptions()) {
  try {
    if (config_.rank == 0) {
      lead(deadline);
    } else {
      Suspicion suspicion;
      if (!retry_until([&] { return follow(suspicion); }, deadline)) throw Error(missing());
    }
  } catch (...) {
    go_out();
    remove_base();
    throw;
  }
}

Assembly::~Assembly() {
  // A rank that leaves while an exception passes through takes its claim down without a word, so that the others see that it
  // failed.
  if (std::uncaught_exceptions() <= exceptions_) claim_->leave();
  claim_.reset();
  place_.reset();
  // Once more: a killed rank's locks go some time after its connections, so what it left could not be removed when we came.
  if (config_.rank == 0) sweep(config_.base);
  remove_base();
}

void Assembly::go_out() noexcept {
  if (claim_) claim_->withdraw();
  claim_.reset();
  place_.reset();
}

void Assembly::remove_base() const noexcept {
  if (config_.remove_base) ::rmdir(config_.base.c_str());  // fails while somebody else uses it
}

// Rank 0: make an incarnation, wait until everybody is in it, seal it.
void Assembly::lead(Deadline deadline) {
  open_private_directory(config_.base, true);
  sweep(config_.base);
  await_departure_of_rival(deadline);
  place_ = SharedDirectory::make(config_.base, prefix_);
  claim_ = Claim::take(fd(), 0, config_.size);
  if (!claim_) throw Error(Status::internal, "rank 0 is taken in the directory that it has just made: " + path());
  replace_older();
  Suspicion suspicion;
  try {
    if (!retry_until([&] { return all_have_come(suspicion); }, deadline)) throw Error(missing());
    const Fd sealed(openat(fd(), kSealed, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!sealed) throw system_error(errno, "open", path() + "/" + kSealed);
  } catch (const Error& error) {
    declare(fd(), error.failure());
    throw;
  }
}

// A living rank 0 of the same name is a mistake in the launch, unless it is about to die or stopped for good.
void Assembly::await_departure_of_rival(Deadline deadline) const {
  std::optional<Incarnation> rival;
  const auto alone = [&] {
    rival = newest_incarnation();
    return !rival || rival->leader.state != ClaimState::held;
  };
  if (!retry_until(alone, Deadline::after_ms(kGraceMs)) || deadline.expired()) {
    if (rival && rival->leader.state == ClaimState::held) throw Error(taken(0, rival->leader.pid));
  }
}

bool Assembly::all_have_come(Suspicion& suspicion) const {
  const auto newest = newest_incarnation();
  if (newest && newest->name > place_->name() && newest->leader.state == ClaimState::held)
    throw Error(taken(0, newest->leader.pid));
  throw_if_declared();
  bool all = true;
  bool mourning = false;
  for (int rank = 1; rank < config_.size; ++rank) {
    const ClaimInfo claim = look_at_claim(fd(), rank);
    if (claim.state == ClaimState::dead && !mourning) {
      suspicion.raise(died(rank, claim.pid));
      mourning = true;
    }
    all = all && (claim.state == ClaimState::held || claim.state == ClaimState::stopped);
  }
  if (!mourning) suspicion.failure.reset();
  if (suspicion.lasting()) throw Error(*suspicion.failure);
  return all;
}

// The other ranks: one look at how things stand. True when this rank is in a sealed incarnation.
bool Assembly::follow(Suspicion& suspicion) {
  // Before looking at the seal: rank 0 may seal this incarnation, finish, and make its next one while we look.
  const auto newest = newest_incarnation();
  if (place_) {
    if (has(fd(), kSealed)) {
      if (claim_) return true;
      if (suspicion.failure) throw Error(*suspicion.failure);  // whoever kept us out has got in
      go_out();
      return false;
    }
    const ClaimInfo leader = look_at_claim(fd(), 0);
    if (leader.state == ClaimState::dead) suspicion.raise(died(0, leader.pid));
    const bool superseded = newest && newest->name > place_->name();
    if (!superseded && claim_) throw_if_declared();
    // Not ours: an earlier attempt, of another size perhaps, that its other ranks give up later than this one did.
    if (!claim_ && has(fd(), kFailedFile)) {
      go_out();
      return false;
    }
    if (leader.state == ClaimState::dead || leader.state == ClaimState::absent || superseded) {
      go_out();
    } else {
      if (!claim_) contest(suspicion, leader);
      return false;
    }
  }
  if (suspicion.lasting()) throw Error(*suspicion.failure);
  if (newest) {
    place_ = SharedDirectory::enter(config_.base, newest->name);
    if (place_ && has(fd(), kSealed)) place_.reset();
    if (place_) contest(suspicion, newest->leader);
  }
  return false;
}

void Assembly::contest(Suspicion& suspicion, const ClaimInfo& leader) {
  if (leader.size != config_.size) {
    suspicion.raise({Status::mismatch, config_.rank, getpid(),
                     format("rank %d of %s (pid %lld) was told that there are %d ranks, rank 0 (pid %lld) that there are %d",
                            config_.rank, config_.description.c_str(), static_cast<long long>(getpid()), config_.size,
                            static_cast<long long>(leader.pid), leader.size)});
  } else if ((claim_ = Claim::take(fd(), config_.rank, config_.size))) {
    suspicion.failure.reset();
  } else {
    const ClaimInfo holder = look_at_claim(fd(), config_.rank);
    if (holder.state == ClaimState::held) suspicion.raise(taken(config_.rank, holder.pid));
    if (holder.state == ClaimState::stopped) suspicion.failure.reset();
  }
  if (suspicion.lasting()) {
    declare(fd(), *suspicion.failure);
    throw Error(*suspicion.failure);
  }
}

// Stopped rank 0s were passed over. Should they go on one day, they and theirs must not compete with the groups that come after
// this one.
void Assembly::replace_older() const {
  for (const Incarnation& older : open_incarnations()) {
    const auto place = older.name < place_->name() ? SharedDirectory::enter(config_.base, older.name) : std::nullopt;
    if (place) declare(place->fd(), taken(0, older.leader.pid));
  }
}

// Those that are not sealed or failed and whose rank 0 is alive, perhaps stopped. The newest first.
std::vector<Assembly::Incarnation> Assembly::open_incarnations() const {
  std::vector<std::string> names;
  const Fd base = open_private_directory(config_.base, true);
  list_directory(base.get(), [&](const char* name) {
    if (std::string(name).rfind(prefix_ + "-", 0) == 0) names.emplace_back(name);
  });
  std::sort(names.rbegin(), names.rend());
  std::vector<Incarnation> open;
  for (const std::string& name : names) {
    const Fd directory(openat(base.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory || has(directory.get(), kSealed) || has(directory.get(), kFailedFile)) continue;
    const ClaimInfo leader = look_at_claim(directory.get(), 0);
    if (leader.state == ClaimState::held || leader.state == ClaimState::stopped) open.push_back({name, leader});
  }
  return open;
}

std::optional<Assembly::Incarnation> Assembly::newest_incarnation() const {
  const std::vector<Incarnation> open = open_incarnations();
  return open.empty() ? std::nullopt : std::optional(open.front());
}

void Assembly::look_at_next_rank() {
  next_rank_ = (next_rank_ + 1) % config_.size;
  if (next_rank_ == config_.rank) return;
  const ClaimInfo claim = look_at_claim(fd(), next_rank_);
  if (claim.state == ClaimState::dead || claim.state == ClaimState::absent) throw Error(died(next_rank_, claim.pid));
}

}  // namespace symm
