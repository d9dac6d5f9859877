// Groups that are made of a group: by a split, of named ranks, of the ranks of one machine, and
// of the ranks that are left when others have died.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/page.hpp"
#include "core/base/reserve.hpp"
#include "core/base/text.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/group/agreement.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/flags.hpp"
#include "core/group/group.hpp"
#include "core/mesh/mesh.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
// These constants are mixed into the ids of groups, so that groups that different calls make of
// one group have different ids.
constexpr uint64_t kFromRanks = 0x66726f6d'72616e6b;
constexpr uint64_t kShrunk = 0x73687275'6e6b656e;

// The rank that became `index` when those that are gone were left out; `otherwise` if there is
// no such rank.
int rank_of_living(const std::vector<bool>& gone, int index, int otherwise) {
  for (size_t rank = 0; rank < gone.size() && index >= 0; ++rank) {
    if (gone[rank]) continue;
    if (index == 0) return static_cast<int>(rank);
    --index;
  }
  return otherwise;
}
}  // namespace

Deadline Group::deadline_of(const SubgroupOptions& options) const {
  require_waiting(options.call_timeout_ms, "options.timeout_ms");
  return options.call_timeout_ms == 0 ? create_deadline()
                                      : Deadline::after_ms(options.call_timeout_ms);
}

void Group::require_options(const SubgroupOptions& options) {
  require_flags(options.flags, "options.flags");
  require_known_flags(options.remove_flags, "options.remove_flags");

  if (((options.flags | options.remove_flags) & SYMM_GROUP_ON_DEVICE) != 0) {
    throw Error(Status::invalid_argument,
        "options.flags: SYMM_GROUP_ON_DEVICE, but the device is that of the group");
  }
  if (((options.flags | options.remove_flags) & SYMM_GROUP_VARIABLES_AT_LOAD) != 0) {
    throw Error(Status::invalid_argument,
        "options.flags: SYMM_GROUP_VARIABLES_AT_LOAD is for symm_group_create()");
  }
  if (const uint64_t both = options.flags & options.remove_flags; both != 0) {
    throw Error(Status::invalid_argument,
        format("options.remove_flags: 0x%lx is in options.flags, too", both));
  }

  require_lasting(options.create_timeout_ms, "options.create_timeout_ms");
  require_lasting(options.timeout_ms, "options.group_timeout_ms");
  require_channels(options.channels, "options.channels");
}

GroupConfig Group::config_for(const SubgroupOptions& options) const {
  GroupConfig config = config_;
  set_flags(config, inherited_flags(flags_of(config_), options.flags, options.remove_flags));
  if (options.scratch_bytes != 0) config.scratch_bytes = options.scratch_bytes;
  if (options.channels != 0) config.channels = options.channels;
  if (options.create_timeout_ms != 0) config.create_timeout_ms = options.create_timeout_ms;
  if (options.timeout_ms != 0) config.timeout_ms = options.timeout_ms;
  return config;
}

// While a group is formed of a parent's ranks, a rank that has heard of the parent's failure
// may never come. So the parent's failure ends the new group, too.
void Group::end_with(const Group& parent) noexcept {
  try {
    Failure failure = with_reserve([&] { return parent.revocation_->cause(); });
    if (failure.status == Status::ok) return;
    failure.rank = rank_of(parent, failure.rank);
    revocation_->revoke(blamed(std::move(failure)));
  } catch (const std::bad_alloc&) {
    return;  // the deadline remains
  }
}

template <class Choose>
std::shared_ptr<Group> Group::form_part(uint64_t id, Deadline deadline,
    const SubgroupOptions& options, const Choose& choose, std::shared_ptr<Group> lender,
    const Maker& maker) {
  std::vector<int> members;
  GroupConfig config;
  try {
    Part part = choose();
    SYMM_POINT("part.form");
    members = std::move(part.ranks);
    for (int& rank : members) {
      rank = members_[static_cast<size_t>(rank)];
    }
    config = config_for(options);
    config.name = options.name != nullptr ? printable(options.name) : std::move(part.name);
  } catch (...) {
    mesh_->broadcast_failure(id, current_failure());  // the others shall not wait for this rank
    throw;
  }

  return form(mesh_, std::move(members), id, config, options, backend_, bootstrap_, deadline,
      std::move(lender), maker);
}

namespace {
// The words in a message that say who the ranks are that it names, since they have the numbers of a
// group that is formed of `ranks`; "" if these have the same numbers in both groups.
std::string who_is_who(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 16;
  std::string list;
  bool is_same = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    is_same = is_same && ranks[rank] == static_cast<int>(rank);
    if (rank < kMostNamed) list += format("%s%d", rank == 0 ? "" : ", ", ranks[rank]);
    if (rank == kMostNamed) list += ", ...";
  }
  return is_same ? "" : ", whose ranks 0, 1, ... are ranks " + list + " of this one";
}

// A failure of a group that is formed of `ranks`, as the group that they belong to tells it.
Failure told_outside(Failure failure, const std::vector<int>& ranks) {
  const std::string who = who_is_who(ranks);
  if (who.empty()) return failure;
  const auto rank = static_cast<size_t>(failure.rank);
  if (failure.rank >= 0 && rank < ranks.size()) failure.rank = ranks[rank];
  failure.message = "in the new group" + who + ": " + failure.message;
  return failure;
}
}  // namespace

template <class Choose>
std::shared_ptr<Group> Group::part(MessageCall call, uint64_t id, Deadline deadline,
    const SubgroupOptions& options, const Choose& choose) {
  const bool lends =
      config_.shared_scratch && (options.remove_flags & SYMM_GROUP_SHARED_SCRATCH) == 0;
  std::vector<int> ranks;
  const auto chosen = [&] {
    Part part = choose();
    ranks = part.ranks;
    return part;
  };
  try {
    return form_part(
        id, deadline, options, chosen, lends ? shared_from_this() : nullptr, {this, call});
  } catch (...) {
    revocation_->throw_if_revoked();
    throw Error(blamed(told_outside(current_failure(), ranks)));
  }
}

std::shared_ptr<Group> Group::split(int color, int key, const SubgroupOptions& options) {
  const Trace traced(page(), "group_split");
  require_usable();
  require_options(options);
  const Deadline deadline = deadline_of(options);
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
  return part(MessageCall::group_split, id, deadline, options, [&] {
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

std::shared_ptr<Group> Group::create_from_ranks(
    std::span<const int32_t> ranks, const SubgroupOptions& options) {
  return part_of(MessageCall::group_create_from_ranks, ranks, options);
}

std::shared_ptr<Group> Group::part_of(
    MessageCall call, std::span<const int32_t> ranks, const SubgroupOptions& options) {
  const Trace traced(page(), name_of(call));
  require_usable();
  require_ranks(ranks);
  require_options(options);
  const Deadline deadline = deadline_of(options);

  // The sum is equal for any order of the ranks, so that ranks which name them in different
  // orders meet, and get the error.
  uint64_t set = 0;
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

  return part(call, mix(mix(id_, set), sequence), deadline, options, [&] {
    return Part{{ranks.begin(), ranks.end()},
        name() + "/" + std::to_string(ranks[0]) + ".." + std::to_string(ranks.back())};
  });
}

std::shared_ptr<Group> Group::local(const SubgroupOptions& options) {
  std::vector<int32_t> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (maps(rank)) ranks.push_back(rank);
  }
  return part_of(MessageCall::group_local, ranks, options);
}

// Each rank counts its calls for itself, and a call that failed is made again. So a rank may be
// in an earlier call than the others, which then wait for it in vain. It gives up its own call
// as soon as it hears of a later one, and takes the number of that one.
//
// The living agree on who lives, form a group, and agree on how that went, until all of them have
// one and nobody has died meanwhile.
std::shared_ptr<Group> Group::shrink(const SubgroupOptions& options) {
  const Trace traced(page(), "group_shrink");
  if (finalized_.load(std::memory_order_relaxed)) {
    throw Error(Status::invalid_handle, "group: it was finalized");
  }
  require_options(options);
  const Deadline deadline = deadline_of(options);
  const uint64_t timeout_ms =
      options.call_timeout_ms != 0 ? options.call_timeout_ms : config_.create_timeout_ms;

  const TimedLock turn(shrinking_, timeout_ms, "shrink");
  for (;;) {
    const uint64_t call = shrinks_++;
    try {
      return shrink_in(call, deadline, options);
    } catch (const Overtaken& overtaken) {
      shrinks_ = overtaken.call;
    }
  }
}

std::shared_ptr<Group> Group::shrink_in(
    uint64_t call, Deadline deadline, const SubgroupOptions& options) {
  Topic topic{MessageKind::agreement, id_, call, 0};
  View view = agree(*this, topic, {}, deadline);
  SYMM_POINT("shrink.agreed");
  if (view.by >= 0) throw Error(view.failure);

  for (;;) {
    ++topic.sequence;
    const auto living = [&] {
      Part part{{}, config_.name};
      for (int rank = 0; rank < size_; ++rank) {
        if (!view.gone[static_cast<size_t>(rank)]) part.ranks.push_back(rank);
      }
      return part;
    };
    Failure trouble;
    std::shared_ptr<Group> made;
    try {
      made = form_part(mix(mix(id_ ^ kShrunk, call), topic.sequence), deadline, options, living);
    } catch (...) {
      trouble = current_failure();
      trouble.rank = rank_of_living(view.gone, trouble.rank, rank_);
      trouble.pid = identity(trouble.rank).pid;
      trouble.message =
          "in the group of the survivors" + who_is_who(living().ranks) + ": " + trouble.message;
    }

    View after = agree(*this, topic, trouble, deadline);
    const bool nobody_died = after.gone == view.gone;
    if (after.by < 0 && nobody_died) {
      made->pool_ = pool_;
      made->inherit_spares(*this);
      return made;
    }
    made.reset();
    if (after.by >= 0 && (nobody_died || after.failure.status != Status::peer_failed)) {
      throw Error(after.failure);
    }
    view = std::move(after);
  }
}
}  // namespace symm
