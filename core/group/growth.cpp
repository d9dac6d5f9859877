// Groups that grow: newcomers, which come by a ticket, take the numbers of the dead or follow the
// living. The steps of a call of grow():
//   1. agree:  the living agree on which ranks live (agreement.hpp), and that all of them grow the
//              group in the way in which the lowest of them does, who leads.
//   2. gather: the leader gathers as many newcomers as are wanted (ticket.hpp), makes a directory
//              for all to meet in, and tells the living.
//   3. enter:  the others enter it. If a rank has died meanwhile, the call goes on with step 2; if
//              a rank could not do its part, all fail as it did, and nothing has happened.
//   4. form:   the leader offers the newcomers their ranks. Old ranks and new ones wire up a mesh
//              and form a group, as at its creation.
//   5. agree:  the ranks of the new group agree that all of them have it.
// Who fails in step 4 or 5 gives its half of the new group up, which is news to the others before
// they could have agreed in step 5: it has told them nothing yet. So either all that live have the
// group, or none. In that case the old ranks agree on the failure (6), each newcomer goes on
// waiting, and the old group is what it was.
//
// Spares (spares.hpp) are newcomers that have met with the ranks before: a call that admits them
// makes a mesh in step 4, and no group. A later call takes them, if as many answer as are wanted:
// then there is no place to meet in, step 1 tells which spares they are, and step 4 forms a group
// on that mesh.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backends.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/log.hpp"
#include "core/base/page.hpp"
#include "core/base/process.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/agreement.hpp"
#include "core/group/checks.hpp"
#include "core/group/flags.hpp"
#include "core/group/group.hpp"
#include "core/group/spares.hpp"
#include "core/group/ticket.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/socket.hpp"
#include "symm/symm.h"

namespace symm {
// The ranks of the group that a call is to form, and where they meet.
struct Growth {
  std::vector<int> old_ranks;  // by new rank: the rank in the old group; -1: a newcomer
  int leader = -1;             // the old rank of the leader
  Deadline deadline = Deadline::never();
  std::unique_ptr<SharedDirectory> place;
  std::string path;                      // of the place
  std::unique_ptr<Newcomers> newcomers;  // of the leader
  bool takes_spares = false;
  std::vector<int> spares{};  // their mesh ranks, if it takes them

  int size() const { return static_cast<int>(old_ranks.size()); }
  size_t wanted() const {
    return static_cast<size_t>(std::count(old_ranks.begin(), old_ranks.end(), -1));
  }
  int new_rank(int old_rank) const {
    return static_cast<int>(
        std::find(old_ranks.begin(), old_ranks.end(), old_rank) - old_ranks.begin());
  }
};

namespace {
// Mixed into the ids of groups that take spares.
constexpr uint64_t kGrown = 0x67726f77'73706172;

// What the leader tells the living: how it was asked to grow, the path of the place, which is "" if
// the leader could not do its part, and the spares that the group takes. Filled with zeros.
constexpr size_t kGrowthBody = 2'048;
constexpr size_t kGrowthFixed = 3 * sizeof(uint32_t) + 2 * sizeof(uint16_t);
constexpr size_t kLongestPath = kGrowthBody - kGrowthFixed - kMostSpares * sizeof(uint32_t);

Bytes body_of(const GrowOptions& options, const Growth& growth, const std::string& path) {
  if (path.size() > kLongestPath) {
    throw Error(Status::unavailable,
        format("the directory '%s' has too long a path for ranks to meet in", path.c_str()));
  }
  Writer out;
  out.numbers(static_cast<int32_t>(options.mode), options.count,
      static_cast<uint32_t>(growth.takes_spares), static_cast<uint16_t>(growth.spares.size()),
      static_cast<uint16_t>(path.size()));
  for (const int spare : growth.spares) {
    out.numbers(spare);
  }
  out.text(path);
  out.bytes_.resize(kGrowthBody);
  return std::move(out.bytes_);
}

const char* name_of(GrowOptions::Mode mode) {
  if (mode == GrowOptions::Mode::spare) return "SYMM_GROW_SPARE";
  return mode == GrowOptions::Mode::fill_dead ? "SYMM_GROW_FILL_DEAD" : "SYMM_GROW_APPEND";
}

const char* name_of(BackendKind kind) { return kind == BackendKind::cuda ? "CUDA" : "host"; }

// What the leader has told of a growth.
struct Told {
  std::string path;
  bool takes_spares = false;
  std::vector<int> spares;
};

// Reads what the leader, `rank`, has told. Throws if the leader grows the group in another way.
Told read_body(const Bytes& body, const GrowOptions& mine, int rank, int64_t pid) {
  Reader in(body);
  GrowOptions theirs;
  Told told;
  uint32_t takes_spares = 0;
  uint16_t spares = 0;
  uint16_t path_size = 0;
  int32_t mode = 0;
  in.numbers(mode, theirs.count, takes_spares, spares, path_size);
  theirs.mode = static_cast<GrowOptions::Mode>(mode);
  if (path_size > kLongestPath || spares > kMostSpares) {
    throw Error({Status::peer_failed, rank, pid,
        name_of_peer(rank, pid) + " told something else than a place to meet"});
  }

  if (theirs.mode != mine.mode) {
    throw Error(Status::mismatch, format("options.mode: %s, and rank %d has %s", name_of(mine.mode),
                                      rank, name_of(theirs.mode)));
  }
  if (theirs.count != mine.count) {
    throw Error(Status::mismatch,
        format("options.count: %d newcomers, and rank %d has %d", mine.count, rank, theirs.count));
  }
  told.takes_spares = takes_spares != 0;
  told.spares.resize(spares);
  for (int& spare : told.spares) {
    in.numbers(spare);
  }
  told.path = in.text(path_size);
  return told;
}

// Enters the directory that `leader` made; peer_failed if it is gone.
std::unique_ptr<SharedDirectory> enter_place(const std::string& path, int leader, int64_t pid) {
  const size_t slash = path.rfind('/');
  auto place = slash == std::string::npos
                   ? nullptr
                   : SharedDirectory::enter(path.substr(0, slash), path.substr(slash + 1));
  if (!place) {
    throw Error({Status::peer_failed, leader, pid,
        name_of_peer(leader, pid) + " gave up while the group grew"});
  }
  return place;
}

Growth growth_of(const View& view, const GrowOptions& options, Deadline deadline) {
  Growth growth;
  growth.deadline = deadline;
  const bool fills = options.mode == GrowOptions::Mode::fill_dead;
  for (size_t rank = 0; rank < view.gone.size(); ++rank) {
    if (!view.gone[rank]) {
      growth.old_ranks.push_back(static_cast<int>(rank));
      if (growth.leader < 0) growth.leader = static_cast<int>(rank);
    } else if (fills) {
      growth.old_ranks.push_back(-1);
    }
  }
  if (!fills) growth.old_ranks.insert(growth.old_ranks.end(), options.count, -1);
  return growth;
}

// A failure of the new group, as the old one tells it.
Failure told_by_old(Failure failure, const Growth& growth) {
  const auto rank = static_cast<size_t>(failure.rank);
  if (failure.rank >= 0 && rank < growth.old_ranks.size()) failure.rank = growth.old_ranks[rank];
  failure.message = "in the group that was to be: " + failure.message;
  return failure;
}

// The topic of the step before.
Topic before(Topic topic) {
  --topic.sequence;
  return topic;
}

uint64_t remaining_ms(Deadline deadline) {
  const uint64_t left = deadline.remaining_ns();
  return left == Deadline::kInfinite ? left : left / kMillisecondNs + 1;
}

std::vector<int> ranks_below(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
}  // namespace

// ---- members

void Group::require_growable() const {
  if (finalized_.load(std::memory_order_relaxed)) {
    throw Error(Status::invalid_handle, "group: it was finalized");
  }
  if (machines_.count > 1) {
    throw Error(Status::unsupported,
        format("group: is on %d machines, and newcomers come to groups of one machine so far",
            machines_.count));
  }
}

Bytes Group::invite(uint64_t lifetime_ms) const {
  require_growable();
  return make_ticket(pool_, name(), lifetime_ms);
}

std::shared_ptr<Group> Group::grow(const GrowOptions& options) {
  const Trace traced(page(), "group_grow");
  require_growable();
  require_waiting(options.call_timeout_ms, "options.timeout_ms");
  if (options.mode == GrowOptions::Mode::append &&
      (options.count < 1 || options.count > kMostRanks - size_)) {
    throw Error(Status::invalid_argument,
        format("options.count: %d; SYMM_GROW_APPEND takes 1 to %d newcomers into this group",
            options.count, kMostRanks - size_));
  }
  if (options.mode == GrowOptions::Mode::spare &&
      (options.count < 1 || options.count > kMostSpares || options.count > kMostRanks - size_)) {
    throw Error(Status::invalid_argument,
        format("options.count: %d; SYMM_GROW_SPARE admits 1 to %d spares to this group",
            options.count, std::min(kMostSpares, kMostRanks - size_)));
  }
  if (options.mode == GrowOptions::Mode::fill_dead && options.count != 0) {
    throw Error(Status::invalid_argument,
        format("options.count: %d, but SYMM_GROW_FILL_DEAD takes as many as ranks are gone",
            options.count));
  }

  const uint64_t timeout_ms =
      options.call_timeout_ms != 0 ? options.call_timeout_ms : config_.create_timeout_ms;
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  const TimedLock turn(shrinking_, timeout_ms, "grow");
  for (;;) {
    const uint64_t call = shrinks_++;
    try {
      return grow_in(call, deadline, options);
    } catch (const Overtaken& overtaken) {
      shrinks_ = overtaken.call;
    }
  }
}

std::shared_ptr<Group> Group::grow_in(
    uint64_t call, Deadline deadline, const GrowOptions& options) {
  constexpr MessageCall kGrow = MessageCall::group_grow;
  Topic topic{MessageKind::agreement, id_, call, 0};
  View view = agree(*this, topic, {}, deadline, kGrow);
  if (view.by >= 0) throw Error(view.failure);

  // Takes a step with the others, and agrees with them on its outcome.
  const auto together = [&](const auto& step) {
    ++topic.sequence;
    Failure trouble;
    try {
      step();
    } catch (...) {
      trouble = current_failure();
    }
    View after = agree(*this, topic, trouble, deadline_to_hear(deadline), kGrow);
    if (after.by >= 0) throw Error(after.failure);
    return after;
  };
  const auto leads = [&](const Growth& growth) { return growth.leader == rank_; };
  Growth growth = growth_of(view, options, deadline);
  together([&] {
    if (!leads(growth)) return;
    choose_spares(growth, options);
    tell_place(growth, topic, options);
  });
  const View entered = together([&] {
    if (!leads(growth)) hear_place(growth, before(topic), options);
  });
  bool is_met = growth.takes_spares && entered.gone == view.gone;
  view = entered;

  while (!is_met) {
    Growth next = growth_of(view, options, deadline);
    next.newcomers = std::move(growth.newcomers);
    growth = std::move(next);

    together([&] {
      if (leads(growth)) gather(growth, topic, options);
    });
    const View gathered = together([&] {
      if (!leads(growth)) hear_place(growth, before(topic), options);
    });
    is_met = gathered.gone == view.gone;
    view = gathered;
  }

  Failure trouble;
  std::shared_ptr<Mesh> mesh;
  try {
    if (options.mode == GrowOptions::Mode::spare) {
      mesh = connect_grown(growth, true);
    } else {
      return form_grown(growth, mix(mix(id_ ^ kGrown, call), topic.sequence));
    }
  } catch (...) {
    trouble = told_by_old(current_failure(), growth);
  }
  growth.newcomers.reset();
  ++topic.sequence;
  const View after = agree(*this, topic, trouble, deadline_to_hear(deadline), kGrow);
  if (trouble.status == Status::ok && after.by < 0) {
    keep_spares(growth, mesh);
    return nullptr;
  }
  throw Error(after.by >= 0 ? after.failure : trouble);
}

// The ranks have a mesh with their spares.
void Group::keep_spares(const Growth& growth, const std::shared_ptr<Mesh>& mesh) {
  SparePlaces kept{
      std::make_shared<Spares>(mesh, growth.size() - static_cast<int>(growth.wanted())),
      std::vector<int>(static_cast<size_t>(size_), -1)};
  for (int rank = 0; rank < growth.size(); ++rank) {
    const int old_rank = growth.old_ranks[static_cast<size_t>(rank)];
    if (old_rank >= 0) kept.places[static_cast<size_t>(old_rank)] = rank;
  }
  set_spares(std::move(kept));
}

// The leader tells how it grows the group, and where the ranks are to meet. It does so before it
// agrees with the others that it has, so these need not wait for it in vain: what it told comes, or
// its death does.
void Group::tell_place(const Growth& growth, const Topic& topic, const GrowOptions& options) {
  const Bytes body = body_of(options, growth, growth.path);
  SYMM_POINT("grow.tell");
  const Topic told{MessageKind::growth, topic.group, topic.tag, topic.sequence};
  for (const int rank : growth.old_ranks) {
    if (rank >= 0 && rank != rank_) send_if_there(rank, told, body, growth.deadline);
  }
}

// Hears where the ranks are to meet, and goes there; or which spares the group takes. Does neither
// if the leader is gone, or could not do its part. `topic` is that of the step in which the leader
// told so. Throws if the leader grows the group in another way.
void Group::hear_place(Growth& growth, const Topic& topic, const GrowOptions& options) {
  const int leader = members_[static_cast<size_t>(growth.leader)];
  const int64_t pid = identity(growth.leader).pid;
  const Topic told{MessageKind::growth, topic.group, topic.tag, topic.sequence};
  Message message;
  try {
    SYMM_POINT("grow.hear");
    message = mesh_->receive(leader, told, kGrowthBody, 0, nullptr, growth.deadline);
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed) throw;
    return;  // the agreement that follows finds that the leader is gone
  }

  Told heard = read_body(message.body, options, growth.leader, pid);
  growth.takes_spares = heard.takes_spares;
  growth.spares = std::move(heard.spares);
  if (!heard.path.empty()) growth.place = enter_place(heard.path, growth.leader, pid);
}

// The leader chooses the spares that the group takes, if as many answer as are wanted.
void Group::choose_spares(Growth& growth, const GrowOptions& options) const {
  const auto spares = spare_places().spares;
  const size_t wanted = growth.wanted();
  if (!spares || options.mode == GrowOptions::Mode::spare || wanted > spares->waiting().size()) {
    return;
  }
  if (wanted != 0) growth.spares = spares->ask(wanted, growth.deadline);
  growth.takes_spares = growth.spares.size() == wanted;
  if (!growth.takes_spares) growth.spares.clear();
}

// The leader chooses spares, or gathers newcomers and makes the place, and tells it.
void Group::gather(Growth& growth, const Topic& topic, const GrowOptions& options) {
  choose_spares(growth, options);
  if (growth.takes_spares) return tell_place(growth, topic, options);
  if (const auto spares = spare_places().spares) {
    spares->release(growth.deadline);  // they are found as newcomers then
  }
  if (!growth.newcomers) growth.newcomers = std::make_unique<Newcomers>(pool_);
  const size_t wanted = growth.wanted();
  if (!growth.newcomers->gather(wanted, deadline_to_tell(growth.deadline))) {
    const std::string how_many = format(
        "newcomers that are wanted: %zu; that wait with a ticket "
        "of this group, and answer: %zu",
        wanted, growth.newcomers->gathered());
    throw Error({Status::timeout, -1, 0, how_many});
  }

  SYMM_POINT("grow.gathered");
  growth.place = SharedDirectory::make(default_parent(), "g");
  growth.path = growth.place->path();
  tell_place(growth, topic, options);
}

// What a newcomer or a spare has to know of the group; its rank is missing.
RankOffer Group::offer_of(const Growth& growth) const {
  RankOffer offer;
  offer.size = growth.size();
  offer.asker = growth.new_rank(rank_);
  offer.backend = static_cast<int32_t>(backend_->kind());
  offer.channels = config_.channels;
  offer.deadline_ms = remaining_ms(growth.deadline);
  offer.pool = pool_;
  offer.flags = flags_of(config_) & ~kOwnFlags;
  offer.scratch_bytes = config_.scratch_bytes;
  offer.create_timeout_ms = config_.create_timeout_ms;
  offer.timeout_ms = config_.timeout_ms;
  offer.place = growth.path;
  offer.name = name();
  return offer;
}

// Offers each newcomer its rank, or its place as a spare.
void Group::offer_ranks(Growth& growth, bool as_spares) const {
  RankOffer offer = offer_of(growth);
  if (as_spares) offer.first_spare = growth.size() - static_cast<int>(growth.wanted());
  size_t next = 0;
  for (int rank = 0; rank < growth.size(); ++rank) {
    if (growth.old_ranks[static_cast<size_t>(rank)] >= 0) continue;
    Newcomers::Ready& newcomer = growth.newcomers->ready()[next++];
    newcomer.rank = rank;
    offer.rank = rank;
    SYMM_POINT("grow.offer");
    growth.newcomers->offer(newcomer, offer);
  }
}

// Throws if a rank of the new group is gone, as far as this one can see.
void Group::require_no_loss(const Growth& growth) const {
  for (int rank = 0; rank < growth.size(); ++rank) {
    const int old_rank = growth.old_ranks[static_cast<size_t>(rank)];
    if (old_rank < 0 || !mesh_->is_gone(members_[static_cast<size_t>(old_rank)], id_)) continue;
    const int64_t pid = identity(old_rank).pid;
    throw Error(
        {Status::peer_failed, rank, pid, name_of_peer(rank, pid) + " died while the group grew"});
  }
  if (growth.newcomers) growth.newcomers->require_there();
}

// Connects the living ranks with newcomers, who are to be ranks or, if `as_spares`, spares.
std::shared_ptr<Mesh> Group::connect_grown(Growth& growth, bool as_spares) {
  PlaceStore store(std::move(growth.place), [&] { require_no_loss(growth); });
  try {
    if (growth.newcomers) offer_ranks(growth, as_spares);
    return Mesh::connect(store, growth.new_rank(rank_), growth.size(), name(), growth.deadline);
  } catch (...) {
    store.tell(current_failure());
    throw;
  }
}

// `id`: of the new group, if it is formed on the mesh of its spares.
std::shared_ptr<Group> Group::form_grown(Growth& growth, uint64_t id) {
  if (growth.takes_spares) return form_with_spares(growth, id);
  const std::shared_ptr<Mesh> mesh = connect_grown(growth, false);
  auto made = form(mesh, ranks_below(growth.size()), mesh->nonce(), config_for({}), {}, backend_,
      bootstrap_, growth.deadline);
  made->pool_ = pool_;
  made->agree_on_birth(growth.deadline);
  return made;
}

// Tells the spares that the group takes which ranks they become.
void Group::offer_to_spares(const Growth& growth, const Spares& spares, uint64_t id,
    const std::vector<int>& members) const {
  SpareCall call{id, offer_of(growth), members};
  call.offer.first_spare = spares.first();
  for (int rank = 0; rank < growth.size(); ++rank) {
    if (growth.old_ranks[static_cast<size_t>(rank)] >= 0) continue;
    call.offer.rank = rank;
    spares.offer(members[static_cast<size_t>(rank)], call, growth.deadline);
  }
}

std::shared_ptr<Group> Group::form_with_spares(const Growth& growth, uint64_t id) {
  const SparePlaces known = spare_places();
  std::vector<int> members;
  size_t next = 0;
  for (const int old_rank : growth.old_ranks) {
    if (old_rank < 0) {
      members.push_back(growth.spares.at(next++));
    } else {
      members.push_back(known.spares ? known.places[static_cast<size_t>(old_rank)] : -1);
    }
  }
  if (!known.spares || std::count(members.begin(), members.end(), -1) != 0) {
    throw Error(Status::unavailable, "this rank has not met the spares that the others know");
  }

  try {
    if (growth.leader == rank_) offer_to_spares(growth, *known.spares, id, members);
  } catch (...) {
    // The others shall not wait for this rank.
    known.spares->mesh()->broadcast_failure(id, current_failure());
    throw;
  }
  auto made = form(
      known.spares->mesh(), members, id, config_for({}), {}, backend_, bootstrap_, growth.deadline);
  made->pool_ = pool_;
  made->agree_on_birth(growth.deadline);
  known.spares->take(members);
  made->set_spares({known.spares, std::move(members)});
  return made;
}

SparePlaces Group::spare_places() const {
  const std::lock_guard lock(spares_mutex_);
  return spares_;
}

void Group::set_spares(SparePlaces spares) {
  const std::lock_guard lock(spares_mutex_);
  std::swap(spares_, spares);
}

int Group::spares() const {
  const auto spares = spare_places().spares;
  return spares ? static_cast<int>(spares->waiting().size()) : 0;
}

// A group of the living ranks of this one keeps its spares.
void Group::inherit_spares(const Group& from) {
  SparePlaces kept = from.spare_places();
  if (!kept.spares) return;
  std::vector<int> places(static_cast<size_t>(size_), -1);
  for (int rank = 0; rank < size_; ++rank) {
    const int there = from.rank_of(*this, rank);
    if (there >= 0) places[static_cast<size_t>(rank)] = kept.places[static_cast<size_t>(there)];
  }
  set_spares({std::move(kept.spares), std::move(places)});
}

// Ends the formation of a group of old ranks and newcomers: all of them have it, or none.
void Group::agree_on_birth(Deadline deadline) {
  SYMM_POINT("grow.formed");
  Failure failure = agree_on_outcome({}, deadline);
  if (failure.status != Status::ok) throw Error(std::move(failure));
}

Failure Group::agree_on_outcome(const Failure& mine, Deadline deadline) {
  const Topic topic{MessageKind::agreement, id_, shrinks_++, 0};
  View view;
  try {
    view = agree(*this, topic, mine, deadline, MessageCall::group_grow);
  } catch (const Overtaken& overtaken) {
    shrinks_ = overtaken.call;
    throw;
  }
  if (view.by >= 0) return view.failure;

  const auto gone = std::find(view.gone.begin(), view.gone.end(), true);
  if (gone == view.gone.end()) return {};
  Failure cause = revocation_->failure();
  if (cause.status != Status::ok) return cause;
  const int rank = static_cast<int>(gone - view.gone.begin());
  const int64_t pid = identity(rank).pid;
  return {Status::peer_failed, rank, pid, name_of_peer(rank, pid) + " died meanwhile"};
}

// ---- newcomers

namespace {
// Refuses what a newcomer cannot choose.
void require_newcomer(const GroupConfig& config) {
  const std::pair<const char*, bool> given[] = {
      {"rank", config.rank != 0},
      {"size", config.size != 0},
      {"bootstrap", !config.bootstrap.empty()},
      {"store", config.callbacks != nullptr},
      {"id", !config.id.empty()},
      {"name", !config.name.empty()},
      {"channels", config.channels != 0},
      {"scratch_bytes", config.scratch_bytes != 0},
      {"timeout_ms", config.timeout_ms != 0},
  };
  for (const auto& [name, is_given] : given) {
    if (!is_given) continue;
    throw Error(Status::invalid_argument,
        format("config.%s: is given, but a newcomer has it from the group", name));
  }

  if (const uint64_t theirs = flags_of(config) & ~kOwnFlags; theirs != 0) {
    const uint64_t bit = theirs & ~(theirs - 1);
    throw Error(Status::invalid_argument,
        format("config.flags: has %s, but a newcomer has it from the group", flag_name(bit)));
  }
}
}  // namespace

namespace {
// Makes an attempt to become rank `rank`. Null if it fails by what other ranks did wrong, or by a
// death, which ends the growth, and not the wait for the next.
template <class Become>
std::shared_ptr<Group> attempt(
    const Ticket& ticket, int rank, std::string& trouble, const Become& become) {
  try {
    return become();
  } catch (const Error& error) {
    const bool is_own = error.failure().rank == rank || error.failure().rank < 0;
    const bool may_pass = error.status() == Status::timeout ||
                          error.status() == Status::peer_failed ||
                          error.status() == Status::aborted;
    if (is_own && !may_pass) throw;
    trouble = error.what();
    log::write(
        log::Level::info, "newcomer of the group '%s': %s", ticket.group.c_str(), trouble.c_str());
    return nullptr;
  }
}

// The configuration of a rank that has it from the group, but for what is its own. Throws if this
// process has asked for another back end than the group's.
GroupConfig config_by(const RankOffer& offer, const GroupConfig& own) {
  const auto theirs = static_cast<BackendKind>(offer.backend);
  if (own.backend != BackendKind::automatic && own.backend != theirs) {
    throw Error(Status::mismatch,
        format("config.backend: asks for the %s back end, and the group is on the %s back end",
            name_of(own.backend), name_of(theirs)));
  }
  GroupConfig config = own;
  config.backend = theirs;
  set_flags(config, (flags_of(own) & kOwnFlags) | offer.flags);
  config.channels = offer.channels;
  config.scratch_bytes = offer.scratch_bytes;
  config.create_timeout_ms = offer.create_timeout_ms;
  config.timeout_ms = offer.timeout_ms;
  config.name = offer.name;
  return config;
}

// Connects a newcomer with the ranks that have made the offer.
std::shared_ptr<Mesh> connect_newcomer(const Accepted& accepted, Deadline until) {
  const RankOffer& offer = accepted.offer;
  const int64_t pid = identify(accepted.member.get()).pid;
  PlaceStore store(enter_place(offer.place, offer.asker, pid), [&] {
    if (!accepted.is_over()) return;
    throw Error({Status::peer_failed, offer.asker, pid,
        name_of_peer(offer.asker, pid) + " died or gave up while the group grew"});
  });
  try {
    return Mesh::connect(store, offer.rank, offer.size, offer.name, until);
  } catch (...) {
    store.tell(current_failure());
    throw;
  }
}
}  // namespace

std::shared_ptr<Group> Group::join(std::span<const std::byte> bytes, const GroupConfig& config) {
  const Trace traced(nullptr, "group_join");
  require_newcomer(config);
  const Ticket ticket = read_ticket(bytes);
  const GroupConfig own = completed(config);

  const Deadline deadline = Deadline::after_ms(own.create_timeout_ms);
  Newcomer newcomer(ticket);
  // In a process that has threads the kernel takes some 10 ms for this, once. Nobody waits for this
  // process yet.
  register_for_asymmetric_fences();
  SYMM_POINT("join.waits");
  std::string trouble;
  for (;;) {
    Accepted accepted;
    try {
      accepted = newcomer.await_offer(deadline);
    } catch (const Error& error) {
      if (error.status() != Status::timeout) throw;
      Failure failure = error.failure();
      const std::string whose = ticket.group.empty() ? "" : " of the group '" + ticket.group + "'";
      failure.message = "ticket" + whose + ": " + failure.message;
      if (!trouble.empty()) failure.message += "; it failed to grow before: " + trouble;
      throw Error(std::move(failure));
    }

    const auto made = attempt(ticket, accepted.offer.rank, trouble, [&] {
      const bool is_spare = accepted.offer.first_spare >= 0;
      if (is_spare) return stand_by(ticket, accepted, own, trouble, deadline);
      return take_rank(accepted, own, deadline);
    });
    if (made) return made;
  }
}

std::shared_ptr<Group> Group::take_rank(
    const Accepted& accepted, const GroupConfig& own, Deadline deadline) {
  const RankOffer& offer = accepted.offer;
  const Deadline until = std::min(deadline, Deadline::after_ms(offer.deadline_ms));
  SYMM_POINT("join.offered");
  const GroupConfig config = config_by(offer, own);
  const std::shared_ptr<Mesh> mesh = connect_newcomer(accepted, until);
  auto made = form(mesh, ranks_below(offer.size), mesh->nonce(), config, {}, nullptr,
      format("ticket:%016lx", offer.pool), until);
  made->pool_ = offer.pool;
  made->agree_on_birth(until);
  return made;
}

// The back end of a spare, which has done what takes long at the first group on a device: its
// context is there, and the kernels are loaded. Null where the device follows from the rank, which
// a spare has not got yet.
std::shared_ptr<Backend> Group::warm_up(const GroupConfig& config) {
  if (config.backend == BackendKind::host) return open_backend(config.backend, config.device, 0);
  if (config.device < 0) return nullptr;
  GroupConfig alone = config;
  alone.rank = 0;
  alone.size = 1;
  alone.bootstrap = format("thread://spare-%016lx", process::random64());
  return create(alone)->backend_;
}

// Waits as a spare, until a group takes this process. Null if it is a newcomer again.
std::shared_ptr<Group> Group::stand_by(const Ticket& ticket, const Accepted& accepted,
    const GroupConfig& own, std::string& trouble, Deadline deadline) {
  const RankOffer& place = accepted.offer;
  SYMM_POINT("join.spare");
  const GroupConfig config = config_by(place, own);
  const std::shared_ptr<Mesh> mesh =
      connect_newcomer(accepted, std::min(deadline, Deadline::after_ms(place.deadline_ms)));
  const std::shared_ptr<Backend> backend = warm_up(config);

  for (;;) {
    const auto call = await_call(*mesh, place.first_spare, deadline);
    if (!call) return nullptr;

    const RankOffer& offer = call->offer;
    const auto take = [&] {
      const Deadline until = std::min(deadline, Deadline::after_ms(offer.deadline_ms));
      SYMM_POINT("spare.called");
      auto made = form(mesh, call->members, call->id, config_by(offer, own), {}, backend,
          format("ticket:%016lx", offer.pool), until);
      made->pool_ = offer.pool;
      made->agree_on_birth(until);
      auto spares = std::make_shared<Spares>(mesh, place.first_spare);
      spares->take(call->members);
      made->set_spares({std::move(spares), call->members});
      return made;
    };
    if (auto made = attempt(ticket, offer.rank, trouble, take)) return made;
  }
}
}  // namespace symm
