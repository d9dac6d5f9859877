// Votes and exchanges of messages between all ranks of a group, by the mesh. The caller chooses
// the contents of the messages (Phases).
#include "core/group/exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/page.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/group.hpp"
#include "core/group/heap.hpp"
#include "core/group/memory.hpp"
#include "core/group/neighbor_exchange.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
// The encoding of a vote: the values, then the failure, filled with zeros to a length that the
// receiver knows.
constexpr size_t kVoteSize = sizeof Vote::value + kFailureHeader + kMaxFailureText;

Bytes encode(const Vote& vote) {
  Writer out;
  for (const uint64_t value : vote.value) {
    out.number(value);
  }
  encode(out, vote.failure);
  out.bytes_.resize(kVoteSize);
  return std::move(out.bytes_);
}

Vote decode(int rank, const Bytes& body) {
  Reader in(body);
  Vote vote;
  for (uint64_t& value : vote.value) {
    value = in.number<uint64_t>();
  }

  auto failure = in.rest();
  while (failure.size() > kFailureHeader && failure.back() == std::byte{}) {
    failure = failure.first(failure.size() - 1);
  }
  if (const char* fault = decode(Reader(failure), vote.failure)) {
    throw Error({Status::mismatch, rank, 0,
        format("rank %d sent something else than a vote: %s", rank, fault)});
  }
  return vote;
}

std::string list(const Group& group, const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    text += format("%srank %d (pid %ld)", text.empty() ? "" : ", ", rank, group.identity(rank).pid);
  }
  return text;
}

// The ranks that have not come to a round, and how their absence was found.
struct Absence {
  std::vector<int> missing;
  uint64_t began_ns = 0;     // when the round began
  bool was_stopped = false;  // this rank went on only long after the deadline

  void add(int peer, Deadline deadline) {
    // A rank that waits wakes within milliseconds of its deadline, unless it is stopped, or lacks a
    // processor for so long that it may as well be.
    constexpr uint64_t kStoppedMs = 200;
    if (missing.empty()) was_stopped = deadline.expired_for_ms(kStoppedMs);
    missing.push_back(peer);
  }
};

// Throws for a rank that was stopped past its deadline. It knows less than the ranks that were
// not stopped: they have ended meanwhile, and perhaps because of this rank. It throws the
// failure that they report. If they report none, its own failure counts from now, so that any
// failure of another rank comes before it.
[[noreturn]] void throw_stopped(const Group& group, Failure failure) {
  constexpr uint64_t kNewsMs = 500;  // for news of the others to arrive
  retry_until([&] { return group.revocation().revoked(); }, Deadline::after_ms(kNewsMs));
  group.revocation().throw_if_revoked();
  const int named = failure.rank;
  throw BlameUnknown(std::move(failure), named);
}

// Throws that ranks have not come before the deadline, this rank's or another's that blames a
// rank. The failure counts from the beginning of the failed round: a rank that is a round ahead
// began that round when all had come to this one, so the rank that it blames knows better.
[[noreturn]] void throw_late(const Group& group, const Absence& absence) {
  const std::vector<int>& missing = absence.missing;
  const int first = missing.front();
  Failure failure{Status::timeout, first, group.identity(first).pid,
      list(group, missing) + " did not come before the deadline"};
  if (absence.was_stopped) throw_stopped(group, std::move(failure));

  const uint64_t began_ns = absence.began_ns;
  const Failure cause = group.revocation().cause();
  const bool is_first = cause.status == Status::ok;
  const bool is_late = cause.status == Status::timeout;
  const bool blames_this = is_late && cause.rank == group.rank();
  if (is_first) failure.when_ns = began_ns;
  // The time of the cause may be by the clock of another machine, so this failure is
  // made the earlier one.
  if (blames_this) failure.when_ns = std::min(began_ns, cause.when_ns - 1);

  const int named = is_first ? first : cause.rank;
  const bool is_clear = blames_this || (missing.size() == 1 && named == first);
  if (is_clear || !(is_first || is_late)) throw Error(std::move(failure));
  throw BlameUnknown(std::move(failure), named);
}

const char* name_of_wait(const Group& group, const Topic& topic) {
  if ((*group.revocation().page())->backend < 0) return "create";
  return topic.kind == MessageKind::split ? "split" : "rendezvous";
}

MessageCall call_with(uint64_t tag) {
  if (tag == Heap::kTag) return MessageCall::heap_create;
  return tag == NeighborExchange::kTag ? MessageCall::exchange_create : MessageCall::rendezvous;
}

const char* name_with(uint64_t tag) {
  if (tag == Memory::kMoveTag) return "memory_move";
  return tag == Heap::kMoveTag ? "heap_move" : name_of(call_with(tag));
}

// Shows to the other ranks that this one waits for a message. While a group is formed of ranks
// of another group, the wait is shown to the ranks of the other group. Returns null if they
// could not see it, or if there is no memory for it.
std::unique_ptr<MessageWait> show_wait(Group& group, const Topic& topic, int peer) {
  const bool is_formed = (*group.revocation().page())->backend >= 0;
  try {
    if (is_formed) {
      const bool splits = topic.kind == MessageKind::split;
      return group.transport().await_message(
          splits ? MessageCall::group_split : call_with(topic.tag), peer, 0);
    }

    const Maker& maker = group.maker();
    const int rank = maker.group == nullptr ? -1 : maker.group->rank_of(group, peer);
    if (rank < 0) return nullptr;
    const auto about = static_cast<uint16_t>(topic.group | 1U);
    return maker.group->transport().await_message(maker.call, rank, about);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Receives a message, and shows the wait for it to other ranks. Calls look() for each half
// second in which it has not come.
template <class Look>
Message receive_seen(Group& group, int peer, const Topic& topic, size_t body_size, size_t fd_count,
    Deadline deadline, const Look& look) {
  constexpr uint64_t kLookMs = 500;
  const Page::Sleep shown(
      group.revocation().page().get(), peer, name_of_wait(group, topic), now_ns());
  const std::unique_ptr<MessageWait> wait = show_wait(group, topic, peer);

  for (;;) {
    try {
      return group.receive(
          peer, topic, body_size, fd_count, std::min(deadline, Deadline::after_ms(kLookMs)));
    } catch (const Error& error) {
      if (error.status() != Status::timeout || deadline.expired() || group.revocation().revoked()) {
        throw;
      }
    }

    look();
    try {
      if (wait) wait->look();
    } catch (const Error&) {
      // The group of whose ranks this one is formed has failed, and this one with it, which gives
      // the rank to blame its number here.
      group.revocation().throw_if_revoked();
      throw;
    }
  }
}

// Receives a peer's vote. Two ranks that wait for each other with different tags wait in vain.
// But threads of a rank may rendezvous at the same time and come in any order, so the ranks are
// reported to disagree only after several looks with the same result.
Message receive_vote(Group& group, int peer, const Topic& topic, Deadline deadline) {
  constexpr int kLooks = 4;
  std::optional<Topic> seen;
  int looks = 0;
  const auto look = [&] {
    const std::optional<Topic> other = group.other_vote(peer, topic);
    looks = other && other == seen ? looks + 1 : 0;
    seen = other;
    if (looks < kLooks) return;

    const bool is_first = group.rank() < peer;
    const auto [first, second] =
        is_first ? std::pair(topic.tag, other->tag) : std::pair(other->tag, topic.tag);
    const int right = std::min(peer, group.rank());
    const int blamed = std::max(peer, group.rank());
    const std::string what = std::string_view(name_with(first)) == name_with(second)
                                 ? format("options.tag: rank %d waits with %lu, rank %d with %lu",
                                       right, first, blamed, second)
                                 : format("rank %d makes %s, rank %d makes %s", right,
                                       name_with(first), blamed, name_with(second));
    throw Error({Status::mismatch, blamed, group.identity(blamed).pid, what});
  };
  return receive_seen(group, peer, topic, kVoteSize, 0, deadline, look);
}
}  // namespace

std::vector<Vote> commit_vote(
    Group& group, const Topic& topic, const Vote& mine, Deadline deadline) {
  const Bytes body = encode(mine);
  Absence absence{{}, now_ns()};
  std::vector<Vote> votes(static_cast<size_t>(group.size()));
  votes[static_cast<size_t>(group.rank())] = mine;

  // From here on a rank that runs out of memory would be the only one that fails, so there is a
  // reserve.
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank()) with_reserve([&] { group.send(peer, topic, body, {}, deadline); });
  }

  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    try {
      const Message theirs = receive_vote(group, peer, topic, deadline);
      votes[static_cast<size_t>(peer)] = with_reserve([&] { return decode(peer, theirs.body); });
    } catch (const Error& error) {
      if (error.status() != Status::timeout) throw;
      // The loop goes on, so that ranks that did vote are not reported as missing.
      absence.add(peer, deadline);
    }
  }
  if (!absence.missing.empty()) throw_late(group, absence);

  for (int rank = 0; rank < group.size(); ++rank) {
    Failure failure = votes[static_cast<size_t>(rank)].failure;
    if (failure.status == Status::ok) continue;
    if (failure.rank < 0 || failure.rank >= group.size()) failure.rank = rank;
    if (failure.pid == 0) failure.pid = group.identity(failure.rank).pid;
    failure.message = format("rank %d: %s", rank, failure.message.c_str());
    throw Agreed(std::move(failure));
  }
  return votes;
}

namespace {
// This rank's part in an exchange, and its vote on the outcome.
class Exchange {
 public:
  Exchange(Group& group, const Topic& topic, const Phases& phases, Deadline deadline)
      : group_(group), topic_(topic), phases_(phases), deadline_(deadline) {}

  void prepare() {
    attempt([&] {
      // A rank that ran out of memory after the votes would be the only one that fails.
      more_fds_.reserve(static_cast<size_t>(group_.size()));
      offer_ = phases_.prepare();
      SYMM_POINT("exchange.prepare");
      std::copy(std::begin(offer_.value), std::end(offer_.value), std::begin(vote_.value));
      vote_.value[Vote::kMoreFds] = offer_.message.more_fds.size();
    });
  }

  void agree(std::span<const Vote> votes) {
    for (size_t rank = 0; rank < votes.size(); ++rank) {
      more_fds_.push_back(votes[rank].value[Vote::kMoreFds]);
      if (more_fds_.back() < kMostParts) continue;
      throw Agreed({Status::peer_failed, static_cast<int>(rank), 0,
          format("rank %zu says that it sends %lu descriptors more", rank, more_fds_.back())});
    }

    try {
      phases_.agree(votes);
    } catch (const Error& error) {
      throw Agreed(error.failure());
    }
  }

  void swap_messages() {
    Absence absence{{}, now_ns()};
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank()) continue;
      group_.send(peer, topic_, offer_.message.body, fds_for(peer), deadline_);
      if (group_.shares_host(peer)) send_more(peer);
    }
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer != group_.rank()) take_message(peer, absence);
    }
    if (!absence.missing.empty()) throw_late(group_, absence);
  }

  void finish() {
    attempt([&] { phases_.finish(); });
  }

  std::vector<Vote> commit(uint64_t round) {
    const Topic topic{MessageKind::vote, topic_.group, topic_.tag, topic_.sequence * 2 + round};
    return commit_vote(group_, topic, vote_, deadline_);
  }

 private:
  // The first failure of this rank counts. After it, messages are taken, so that none is left
  // behind, but not accepted.
  template <class Step>
  void attempt(const Step& step) {
    try {
      if (vote_.failure.status == Status::ok) step();
    } catch (...) {
      vote_.failure = current_failure();
    }
  }

  // Descriptors go to the ranks of this host only.
  std::span<const int> fds_for(int peer) const {
    return std::span<const int>(offer_.message.fds)
        .first(group_.shares_host(peer) ? offer_.message.fds.size() : 0);
  }

  // The descriptors that not every rank sends follow in messages without a body, on the same topic.
  void send_more(int peer) {
    std::span<const int> left(offer_.message.more_fds);
    while (!left.empty()) {
      const size_t count = std::min(left.size(), kMaxFds);
      group_.send(peer, topic_, {}, left.first(count), deadline_);
      left = left.subspan(count);
    }
  }

  // Takes all messages of the peer, also after a failure, so that none is left behind. After a
  // time-out no more will come.
  std::optional<Failure> take_all(int peer, Message& message) {
    std::optional<Failure> failure;
    const auto receive = [&](size_t body_size, size_t fd_count) -> Message {
      try {
        return receive_seen(group_, peer, topic_, body_size, fd_count, deadline_, [] {});
      } catch (...) {
        if (!failure) failure = current_failure();
        return {};
      }
    };

    message = receive(offer_.message.body.size(), fds_for(peer).size());
    size_t left = group_.shares_host(peer) ? more_fds_[static_cast<size_t>(peer)] : 0;
    while (left != 0 && (!failure || failure->status != Status::timeout)) {
      const size_t count = std::min(left, kMaxFds);
      Message more = receive(0, count);
      attempt(
          [&] { std::move(more.fds.begin(), more.fds.end(), std::back_inserter(message.fds)); });
      left -= count;
    }
    return failure;
  }

  void take_message(int peer, Absence& absence) {
    Message message;
    if (const std::optional<Failure> failure = take_all(peer, message)) {
      if (failure->status == Status::timeout) {
        absence.add(peer, deadline_);
      } else if (vote_.failure.status == Status::ok) {
        vote_.failure = *failure;
      }
      return;
    }

    attempt([&] {
      // Mapping the memory of a peer takes milliseconds, which a revoked group need not spend.
      group_.revocation().throw_if_revoked();
      phases_.accept(peer, std::move(message));
    });
  }

  Group& group_;
  const Topic topic_;
  const Phases& phases_;
  const Deadline deadline_;
  Offer offer_;
  Vote vote_;
  std::vector<uint64_t> more_fds_;  // by rank
};
}  // namespace

void leave_in_step(Group& group, const std::exception& error, const char* what) {
  const Status status = current_failure().status;
  const bool late =
      status == Status::timeout || status == Status::peer_failed || status == Status::aborted;
  if (dynamic_cast<const Agreed*>(&error) != nullptr && !late) throw;
  group.give_up(error, what);
}

void exchange(Group& group, MessageKind kind, uint64_t tag, uint64_t sequence, const Phases& phases,
    Deadline deadline) {
  Exchange mine(group, {kind, group.id(), tag, sequence}, phases, deadline);
  mine.prepare();
  const std::vector<Vote> votes = mine.commit(0);
  SYMM_POINT("exchange.voted");
  mine.agree(votes);

  mine.swap_messages();
  mine.finish();
  SYMM_POINT("exchange.commit");
  mine.commit(1);
}
}  // namespace symm
