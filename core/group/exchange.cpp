#include "core/group/exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/page.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/group.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
// A vote on its way: the values, then the failure,
// filled with zeros to a length that the receiver knows.
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

// These have not come, and the deadline has passed, or another rank's that blames one.
// A failure counts from when the round that failed began: whoever is a round ahead
// began it when all had come to this one, so that whom it blames knows better.
[[noreturn]] void throw_late(
    const Group& group, const std::vector<int>& missing, uint64_t began_ns) {
  const int first = missing.front();
  Failure failure{Status::timeout, first, group.identity(first).pid,
      list(group, missing) + " did not come before the deadline"};
  const Failure cause = group.revocation().failure();
  const bool is_first = cause.status == Status::ok;
  const bool is_late = cause.status == Status::timeout;
  const bool blames_this = is_late && cause.rank == group.rank();
  if (is_first) failure.when_ns = began_ns;
  // clocks of machines differ
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

// Ranks that each wait with a tag that the other has not come with
// wait in vain. Threads of a rank may rendezvous at once and come in
// any order, so that is only said when it has been so for a while.
Message receive_vote(Group& group, int peer, const Topic& topic, Deadline deadline) {
  const Page::Sleep shown(
      group.revocation().page().get(), peer, name_of_wait(group, topic), now_ns());
  constexpr uint64_t kLookMs = 500;
  constexpr int kLooks = 4;
  std::optional<Topic> seen;
  for (int looks = 0;;) {
    try {
      return group.receive(
          peer, topic, kVoteSize, 0, std::min(deadline, Deadline::after_ms(kLookMs)));
    } catch (const Error& error) {
      if (error.status() != Status::timeout || deadline.expired() || group.revocation().revoked()) {
        throw;
      }
    }
    const std::optional<Topic> other = group.other_vote(peer, topic);
    looks = other && other == seen ? looks + 1 : 0;
    seen = other;
    if (looks < kLooks) continue;
    const bool is_first = group.rank() < peer;
    const auto [first, second] =
        is_first ? std::pair(topic.tag, other->tag) : std::pair(other->tag, topic.tag);
    const int blamed = std::max(peer, group.rank());
    throw Error({Status::mismatch, blamed, group.identity(blamed).pid,
        format("options.tag: rank %d waits with %lu, rank %d with %lu",
            std::min(peer, group.rank()), first, blamed, second)});
  }
}
}  // namespace

std::vector<Vote> commit_vote(
    Group& group, const Topic& topic, const Vote& mine, Deadline deadline) {
  const Bytes body = encode(mine);
  const uint64_t began_ns = now_ns();
  std::vector<Vote> votes(static_cast<size_t>(group.size()));
  votes[static_cast<size_t>(group.rank())] = mine;
  std::vector<int> missing;
  // From here on a rank that has no memory would be the only one that fails.
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
      missing.push_back(peer);  // go on: those that did vote shall not be called missing
    }
  }
  if (!missing.empty()) throw_late(group, missing, began_ns);
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

void exchange(Group& group, MessageKind kind, uint64_t tag, uint64_t sequence, const Phases& phases,
    Deadline deadline) {
  Offer offer;
  Vote vote;
  // The first failure counts; after it, messages are
  // taken, so that none is left behind, but not accepted.
  const auto attempt = [&](const auto& step) {
    try {
      if (vote.failure.status == Status::ok) step();
    } catch (...) {
      vote.failure = current_failure();
    }
  };
  const auto commit = [&](uint64_t round) {
    return commit_vote(
        group, {MessageKind::vote, group.id(), tag, sequence * 2 + round}, vote, deadline);
  };

  attempt([&] {
    offer = phases.prepare();
    SYMM_POINT("exchange.prepare");
    std::copy(std::begin(offer.value), std::end(offer.value), std::begin(vote.value));
  });
  const std::vector<Vote> votes = commit(0);
  SYMM_POINT("exchange.voted");
  try {
    phases.agree(votes);
  } catch (const Error& error) {
    throw Agreed(error.failure());
  }

  const Topic topic{kind, group.id(), tag, sequence};
  const uint64_t began_ns = now_ns();
  std::vector<int> missing;
  const auto fds_for = [&](int peer) {
    return std::span<const int>(offer.message.fds)
        .first(group.maps(peer) ? offer.message.fds.size() : 0);
  };
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank()) group.send(peer, topic, offer.message.body, fds_for(peer), deadline);
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    Message message;
    try {
      const Page::Sleep shown(
          group.revocation().page().get(), peer, name_of_wait(group, topic), now_ns());
      message =
          group.receive(peer, topic, offer.message.body.size(), fds_for(peer).size(), deadline);
    } catch (...) {
      const Failure failure = current_failure();
      if (failure.status == Status::timeout) {
        missing.push_back(peer);
      } else if (vote.failure.status == Status::ok) {
        vote.failure = failure;
      }
      continue;
    }
    attempt([&] {
      group.revocation().throw_if_revoked();  // to map the memory of the others takes milliseconds
      phases.accept(peer, std::move(message));
    });
  }
  if (!missing.empty()) throw_late(group, missing, began_ns);
  attempt([&] { phases.finish(); });
  SYMM_POINT("exchange.commit");
  commit(1);
}
}  // namespace symm
