// Attempts in a shared directory, as rank 0 makes them and as the other ranks join them. It
// reads and writes locks and marks of that directory only; directory_rendezvous.hpp has the
// rules.
#include "core/bootstrap/directory_rendezvous.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/rank_lock.hpp"
#include "core/bootstrap/store.hpp"
#include "core/bootstrap/tombstone.hpp"
#include "core/socket/directory.hpp"

namespace symm {
namespace {
// The time that a conflict must last: long enough for a process of an earlier job that was just
// killed to be gone, short enough to report a rank that was given twice.
constexpr uint64_t kGraceMs = 1000;
constexpr char kSealed[] = "sealed";
// A link whose target is rank 0's stamp: the number of the files' layout and the version of its
// library, in decimal. Its name and form are equal in all versions.
constexpr char kStampName[] = "symm";
// A failure that rank 0 writes in advance, for a rank that cannot write its own.
constexpr char kSpareFailure[] = "cannot";
constexpr size_t kMaxDeclared = 2048;  // bytes of a declared failure's text: it names directories
// Ranks of one launch may begin so long after its first failure. It is less than kRestartMs, so
// that ranks of a next launch, which begins when all of this one have ended, begin later.
constexpr uint64_t kStaggerMs = 250;
constexpr uint64_t kLongestLifeMs = 3'600'000;  // of a tombstone, if the deadline is far away

void leave_stamp(int directory, const std::string& path) {
  const std::string text = format("%u %u", layouts::directory.number, layouts::library);
  if (symlinkat(text.c_str(), directory, kStampName) != 0) {
    throw system_error(errno, "symlink", path + "/" + kStampName);
  }
}

// All zero if rank 0 has left none: the versions before 0.2 did not.
Stamp read_stamp(int directory) {
  char text[64] = "";
  const ssize_t size = readlinkat(directory, kStampName, text, sizeof text - 1);
  Stamp stamp;
  if (size <= 0 || std::sscanf(text, "%u %u", &stamp.number, &stamp.library) != 2) return {};
  return stamp;
}
}  // namespace

void DirectoryRendezvous::GracePeriod::raise(Failure why) {
  if (failure && failure->message == why.message) return;
  failure = std::move(why);
  grace = Deadline::after_ms(failure->status == Status::peer_failed ? kRestartMs : kGraceMs);
}

DirectoryRendezvous::DirectoryRendezvous(DirectoryRendezvousConfig config, Deadline deadline)
    : config_(std::move(config)),
      prefix_(format("%s%016lx", kSharedPrefix, mix(fnv1a(config_.name), fnv1a(config_.job)))),
      in_order_ns_(process::boot_time_ns()),
      lifetime_ns_(std::min(deadline.remaining_ns(), kLongestLifeMs * kMillisecondNs)),
      exceptions_(std::uncaught_exceptions()) {
  try {
    if (config_.rank == 0) {
      lead(deadline);
    } else {
      GracePeriod grace_period;
      GracePeriod mourning;
      const auto follows = [&] { return follow(grace_period, mourning); };
      if (!retry_until(follows, deadline)) throw Error(missing());
    }
  } catch (...) {
    const Failure failure = current_failure();

    if (config_.rank != 0) tell(failure);
    bury(failure);

    leave_attempt();
    // The kernel frees a killed rank's locks some time after it closes its connections, so those
    // that heard of it at once may have left the attempt's directory behind.
    sweep(config_.base);
    remove_base();
    throw;
  }
}

DirectoryRendezvous::~DirectoryRendezvous() {
  // If the creation failed, the lock is dropped without leave(), so that the others see that.
  if (std::uncaught_exceptions() <= exceptions_) {
    if (config_.rank == 0) forget_failed_attempts();
    rank_lock_->leave();
  }
  rank_lock_.reset();
  place_.reset();

  // Swept once more, as where the creation failed.
  if (config_.rank == 0) sweep(config_.base);
  remove_base();
}

// A rank may leave the tombstone of an attempt when rank 0 has already made its next one. Now that
// all ranks have met, none comes late for an earlier attempt.
void DirectoryRendezvous::forget_failed_attempts() const noexcept {
  try {
    remove_older_tombstones(open_private_directory(config_.base, false).get());
  } catch (const std::exception&) {
    return;  // they go when they expire
  }
}

// Tells the ranks that have come not to wait for this one. A timeout is not told: each rank has a
// deadline of its own.
void DirectoryRendezvous::tell(Failure failure) const noexcept {
  if (!place_ || failure.status == Status::timeout) return;
  try {
    failure = blamed(failure, config_.rank, getpid(), config_.description.c_str());
  } catch (const std::bad_alloc&) {
    // Out of memory: the failure is told without this rank's name.
  }

  // If there is no descriptor or no room on the disk, the spare failure is renamed, which needs
  // neither.
  declare(fd(), failure);
  if (!exists(fd(), kFailedFile)) renameat(fd(), kSpareFailure, fd(), kFailedFile);
}

void DirectoryRendezvous::leave_attempt() noexcept {
  attempt_.clear();
  if (rank_lock_) rank_lock_->withdraw();
  rank_lock_.reset();
  place_.reset();
}

void DirectoryRendezvous::remove_base() const noexcept {
  if (config_.remove_base) ::rmdir(config_.base.c_str());  // fails while others use it
}

// Rank 0 makes an attempt, waits until all ranks are in it, and seals it.
void DirectoryRendezvous::lead(Deadline deadline) {
  open_private_directory(config_.base, true);
  sweep(config_.base);
  try {
    await_departure_of_rival(deadline);
    attempt_ = fresh_name(prefix_);  // of the tombstone, if there is no room for an attempt
    open_attempt();
  } catch (...) {
    throw Error(blamed(current_failure(), 0, getpid()));
  }

  GracePeriod grace_period;
  try {
    replace_older();
    if (!retry_until([&] { return all_have_come(grace_period); }, deadline)) throw Error(missing());
    SYMM_POINT("directory.seal");
    const Fd sealed =
        make_fd(::openat, fd(), kSealed, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!sealed) throw system_error(errno, "open", path() + "/" + kSealed);
  } catch (...) {
    // A failure that is in the directory already may be another rank's.
    Failure failure = current_failure();
    if (!exists(fd(), kFailedFile)) failure = blamed(std::move(failure), 0, getpid());
    declare(fd(), failure);
    throw Error(std::move(failure));
  }
}

void DirectoryRendezvous::open_attempt() {
  place_ = SharedDirectory::make(config_.base, prefix_);
  attempt_ = place_->name();
  leave_stamp(fd(), path());

  declare(fd(),
      {Status::system, -1, 0,
          "a rank came to " + config_.description +
              " and had no descriptors or no room to take part"},
      kSpareFailure);

  rank_lock_ = RankLock::take(fd(), 0, config_.size);
  if (!rank_lock_) {
    throw Error(
        Status::internal, "rank 0 is taken in the directory that it has just made: " + path());
  }
}

// A living rank 0 of an equal name is a mistake in the launch, unless it is about to die or is
// stopped for good.
void DirectoryRendezvous::await_departure_of_rival(Deadline deadline) const {
  std::optional<Attempt> rival;
  const auto has_no_rival = [&] {
    rival = newest_attempt();
    return !rival || rival->leader.state != RankLockState::held;
  };
  if (!retry_until(has_no_rival, Deadline::after_ms(kGraceMs)) || deadline.expired()) {
    if (rival && rival->leader.state == RankLockState::held) {
      throw Error(taken(0, rival->leader.pid));
    }
  }
}

// Rank 0 takes one look at the locks of all ranks in its attempt. True when living processes
// hold all of them, stopped or not. Throws when a rank has been dead for longer than it may
// take to be started again, and when a newer attempt, whose rank 0 lives, shows that there are
// two ranks 0.
bool DirectoryRendezvous::all_have_come(GracePeriod& grace_period) {
  const auto newest = newest_attempt();
  if (newest && newest->name > place_->name() && newest->leader.state == RankLockState::held) {
    throw Error(taken(0, newest->leader.pid));
  }
  throw_if_declared();

  bool all = true;
  bool any_died = false;
  for (int rank = 1; rank < config_.size; ++rank) {
    const RankLockInfo rank_lock = look_at_rank_lock(fd(), rank);
    if (rank_lock.state == RankLockState::dead && !any_died) {
      grace_period.raise(died(rank, rank_lock.pid));
      any_died = true;
    }
    all = all &&
          (rank_lock.state == RankLockState::held || rank_lock.state == RankLockState::stopped);
  }

  if (!any_died) {
    grace_period.failure.reset();
    in_order_ns_ = process::boot_time_ns();
  }
  if (grace_period.lasting()) throw Error(*grace_period.failure);
  return all;
}

// Another rank than 0 takes one look at how things stand. True when it is in a sealed attempt.
bool DirectoryRendezvous::follow(GracePeriod& grace_period, GracePeriod& mourning) {
  // The newest attempt is looked for before the seal: meanwhile rank 0 may seal this attempt,
  // finish, and make its next one.
  const auto newest = newest_attempt();
  if (place_) {
    if (exists(fd(), kSealed)) return is_in_sealed(grace_period);
    if (!leave_if_void(grace_period, newest)) return false;
  }
  if (grace_period.lasting()) throw Error(*grace_period.failure);

  if (!newest) {
    mourn(mourning);
    return false;
  }
  mourning.failure.reset();
  too_late_for_.reset();

  place_ = SharedDirectory::enter(config_.base, newest->name);
  if (place_ && exists(fd(), kSealed)) place_.reset();
  if (place_) {
    in_order_ns_ = process::boot_time_ns();
    try_to_lock(grace_period, newest->leader);
  }
  return false;
}

// Whether this rank is in the attempt, which is sealed. If it is not, it leaves.
bool DirectoryRendezvous::is_in_sealed(const GracePeriod& grace_period) {
  SYMM_POINT("directory.sealed");
  if (rank_lock_) return true;

  // The process that kept this rank out has got in.
  if (grace_period.failure) throw Error(*grace_period.failure);
  leave_attempt();
  return false;
}

// Leaves an attempt that is not sealed if its rank 0 is gone or there is a newer one, and returns
// true: then this rank may enter another. Otherwise it tries to lock its rank, if it has not.
bool DirectoryRendezvous::leave_if_void(
    GracePeriod& grace_period, const std::optional<Attempt>& newest) {
  const RankLockInfo leader = look_at_rank_lock(fd(), 0);
  const bool leader_died = leader.state == RankLockState::dead;
  if (leader_died) grace_period.raise(died(0, leader.pid));
  const bool superseded = newest && newest->name > place_->name();
  if (!superseded && rank_lock_) throw_if_declared();

  // A failed attempt in which this rank has no lock is an earlier one, perhaps of another size,
  // that its ranks have not left yet. This rank looks again later.
  if (!rank_lock_ && exists(fd(), kFailedFile)) {
    leave_attempt();
    return false;
  }

  if (leader_died || leader.state == RankLockState::absent || superseded) {
    const bool mourns = leader_died && !superseded;
    const std::string mourned = mourns ? attempt_ : "";
    if (mourns) came_ = ranks_that_came();
    leave_attempt();
    attempt_ = mourned;
    return true;
  }
  in_order_ns_ = process::boot_time_ns();
  if (!rank_lock_) try_to_lock(grace_period, leader);
  return false;
}

// Tries to lock this rank in the attempt.
void DirectoryRendezvous::try_to_lock(GracePeriod& grace_period, const RankLockInfo& leader) {
  std::string differs =
      stamp_difference(layouts::directory, read_stamp(fd()), format("rank 0 (pid %ld)", leader.pid),
          format("rank %d of %s (pid %d)", config_.rank, config_.description.c_str(), getpid()));
  if (!differs.empty()) {
    grace_period.raise({Status::mismatch, config_.rank, getpid(), std::move(differs)});
  } else if (leader.size != config_.size) {
    grace_period.raise({Status::mismatch, config_.rank, getpid(),
        format("rank %d of %s (pid %d) was told that there are %d ranks, rank 0 (pid %ld) that "
               "there are %d",
            config_.rank, config_.description.c_str(), getpid(), config_.size, leader.pid,
            leader.size)});
  } else {
    rank_lock_ = RankLock::take(fd(), config_.rank, config_.size);
    if (rank_lock_) {
      attempt_ = place_->name();
      grace_period.failure.reset();
    } else {
      const RankLockInfo holder = look_at_rank_lock(fd(), config_.rank);
      if (holder.state == RankLockState::held) grace_period.raise(taken(config_.rank, holder.pid));
      if (holder.state == RankLockState::stopped) grace_period.failure.reset();
    }
  }

  if (grace_period.lasting()) {
    declare(fd(), *grace_period.failure);
    throw Error(*grace_period.failure);
  }
}

// Declares older attempts failed whose rank 0 is stopped. If such a rank 0 goes on one
// day, its attempt must not compete with the groups that come after this one.
// Tombstones of older attempts go: the ranks that come late have this one.
void DirectoryRendezvous::replace_older() const {
  const Fd base = open_private_directory(config_.base, true);
  remove_older_tombstones(base.get());
  for (const Attempt& older : open_attempts()) {
    const auto place =
        older.name < place_->name() ? SharedDirectory::enter(config_.base, older.name) : nullptr;
    if (place) declare(place->fd(), taken(0, older.leader.pid));
  }
}

void DirectoryRendezvous::remove_older_tombstones(int base) const {
  for (const std::string& name : names_with(name_of_tombstone(prefix_), base)) {
    if (name < name_of_tombstone(place_->name())) unlinkat(base, name.c_str(), 0);
  }
}

// The names that fresh_name() has made with this prefix, the newest first.
std::vector<std::string> DirectoryRendezvous::names_with(
    const std::string& prefix, int base) const {
  std::vector<std::string> names;
  list_directory(base, [&](const char* name) {
    if (std::string(name).rfind(prefix + "-", 0) == 0) names.emplace_back(name);
  });
  std::sort(names.rbegin(), names.rend());
  return names;
}

// The attempts that are neither sealed nor failed and whose rank 0 is alive, perhaps
// stopped. The newest comes first.
std::vector<DirectoryRendezvous::Attempt> DirectoryRendezvous::open_attempts() const {
  const Fd base = open_private_directory(config_.base, true);
  std::vector<Attempt> open;
  for (const std::string& name : names_with(prefix_, base.get())) {
    const Fd directory = make_fd(
        ::openat, base.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!directory || exists(directory.get(), kSealed) || exists(directory.get(), kFailedFile)) {
      continue;
    }

    const RankLockInfo leader = look_at_rank_lock(directory.get(), 0);
    if (leader.state == RankLockState::held || leader.state == RankLockState::stopped) {
      open.push_back({name, leader});
    }
  }
  return open;
}

std::optional<DirectoryRendezvous::Attempt> DirectoryRendezvous::newest_attempt() const {
  const std::vector<Attempt> open = open_attempts();
  return open.empty() ? std::nullopt : std::optional(open.front());
}

void DirectoryRendezvous::look_at_next_rank() {
  next_rank_ = (next_rank_ + 1) % config_.size;
  if (next_rank_ == config_.rank) return;
  const RankLockInfo rank_lock = look_at_rank_lock(fd(), next_rank_);
  if (rank_lock.state != RankLockState::dead && rank_lock.state != RankLockState::absent) return;
  throw_if_declared();  // a rank that failed while the attempt was sealed left its failure
  throw Error(died(next_rank_, rank_lock.pid));
}

// ---- failures, and how the ranks tell them to each other

Failure DirectoryRendezvous::taken(int rank, int64_t pid) const {
  return {Status::mismatch, rank, pid,
      format("rank %d of %s is claimed by two processes: pid %ld, and pid %d of this one", rank,
          config_.description.c_str(), pid, getpid())};
}

Failure DirectoryRendezvous::died(int rank, int64_t pid) const {
  return {Status::peer_failed, rank, pid,
      format("rank %d of %s (pid %ld) died or gave up while the group was being formed", rank,
          config_.description.c_str(), pid)};
}

Failure DirectoryRendezvous::missing() const {
  const std::string place = config_.description +
                            (config_.name.empty() ? "" : " (group \"" + config_.name + "\")") +
                            (config_.job.empty() ? "" : " (job \"" + config_.job + "\")");
  if (!place_) {
    const std::string late = format("rank 0 did not come to %s before the deadline", place.c_str());
    if (!too_late_for_) return {Status::timeout, 0, 0, late};

    const Failure& before = too_late_for_->tombstone.failure;
    note_reader(too_late_for_->path, too_late_for_->tombstone, config_.rank);
    if (!config_.job.empty()) return before;
    return {Status::timeout, 0, 0,
        late +
            "; an attempt that was made before this process began had failed: " + before.message};
  }

  const std::vector<bool> came = ranks_that_came();
  if (std::find(came.begin(), came.end(), false) != came.end()) return missing_ranks(came, place);
  return {Status::timeout, -1, 0,
      format("the ranks came to %s, but not all at once before the deadline", place.c_str())};
}

// Makes all ranks in an attempt fail with one message.
void DirectoryRendezvous::declare(
    int directory, const Failure& failure, const char* file) noexcept {
  try {
    const std::string temporary = format("new.%016lx", process::random64());
    const Fd made = make_fd(
        ::openat, directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    Writer text;
    encode(text, failure, kMaxDeclared);
    if (made && write_whole(made.get(), text.bytes_.data(), text.bytes_.size())) {
      // The first declared failure counts: it is not an error if there is one.
      [[maybe_unused]] const int linked = linkat(directory, temporary.c_str(), directory, file, 0);
    }
    unlinkat(directory, temporary.c_str(), 0);
  } catch (...) {
    return;  // the deadlines of the others remain
  }
}

std::optional<Failure> DirectoryRendezvous::declared() const {
  const Fd file = make_fd(::openat, fd(), kFailedFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (!file) return std::nullopt;
  std::byte text[kFailureHeader + kMaxDeclared];
  const ssize_t size = read_whole(file.get(), text, sizeof text);
  if (size < 0) throw system_error(errno, "read", path() + "/" + kFailedFile);

  Failure failure;
  if (decode(Reader({text, static_cast<size_t>(size)}), failure, kMaxDeclared) != nullptr) {
    return Failure{
        Status::mismatch, -1, 0, "another rank failed and left an unreadable reason in " + path()};
  }
  return failure;
}

void DirectoryRendezvous::throw_if_declared() const {
  if (auto failure = declared()) throw Error(std::move(*failure));
}

// ---- tombstones, for ranks that come too late for an attempt

// Leaves a tombstone of the attempt in which this rank has failed. The attempt of a rank 0 that
// has been replaced has none: the ranks that come late have the other rank 0.
void DirectoryRendezvous::bury(const Failure& failure) const noexcept {
  if (attempt_.empty() || failure.status == Status::timeout) return;
  if (failure.status == Status::mismatch && failure.rank == 0) return;
  try {
    Tombstone tombstone;
    const auto common = place_ ? declared() : std::nullopt;
    tombstone.failure = common ? *common : failure;
    tombstone.know = place_ ? ranks_that_came() : came_;
    tombstone.know.resize(static_cast<size_t>(config_.size));
    for (const int rank : {config_.rank, tombstone.failure.rank}) {
      if (rank >= 0 && rank < config_.size) tombstone.know[static_cast<size_t>(rank)] = true;
    }
    tombstone.failed_ns = in_order_ns_ + kStaggerMs * kMillisecondNs;
    tombstone.until_ns = process::boot_time_ns() + lifetime_ns_;

    const std::string path = config_.base + "/" + name_of_tombstone(attempt_);
    if (set_tombstone(path, tombstone)) return;
    if (const auto first = read_tombstone(path)) note_reader(path, *first, config_.rank);
  } catch (const std::exception&) {
    return;  // the deadlines of the others remain
  }
}

// Returns the newest tombstone of which this rank does not know.
std::optional<DirectoryRendezvous::Grave> DirectoryRendezvous::newest_grave() const {
  const Fd base = open_private_directory(config_.base, true);
  for (const std::string& name : names_with(name_of_tombstone(prefix_), base.get())) {
    const std::string path = config_.base + "/" + name;
    const auto tombstone = read_tombstone(path);
    if (tombstone) {
      return tombstone->is_known_to(config_.rank) ? std::nullopt
                                                  : std::optional(Grave{path, *tombstone});
    }
  }
  return std::nullopt;
}

// A rank that has found no open attempt looks whether it has come too late for one.
void DirectoryRendezvous::mourn(GracePeriod& mourning) {
  too_late_for_ = newest_grave();
  if (!too_late_for_) {
    mourning.failure.reset();
    return;
  }

  const Tombstone& tombstone = too_late_for_->tombstone;
  const uint64_t began_ns = process::began_ns();
  if (began_ns == 0 || began_ns > tombstone.failed_ns) return;
  mourning.raise(tombstone.failure);
  if (!mourning.lasting()) return;
  note_reader(too_late_for_->path, tombstone, config_.rank);
  throw Error(tombstone.failure);
}

std::vector<bool> DirectoryRendezvous::ranks_that_came() const {
  std::vector<bool> came(static_cast<size_t>(config_.size));
  for (int rank = 0; rank < config_.size; ++rank) {
    came[static_cast<size_t>(rank)] = rank == config_.rank || was_locked(fd(), rank);
  }
  return came;
}
}  // namespace symm
