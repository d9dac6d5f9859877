// SPDX-License-Identifier: Apache-2.0
#include "core/group/vote.hpp"

#include "core/base/failure_codec.hpp"

namespace symm {
namespace {

// A ballot on its way: the values, then the failure, filled with zeros to a length that the receiver knows.
constexpr size_t kBallotSize = sizeof Ballot::value + kFailureHeader + kMaxFailureText;

Bytes encode(const Ballot& ballot) {
  Writer out;
  for (const uint64_t value : ballot.value) out.number(value);
  encode(out, ballot.failure);
  out.bytes_.resize(kBallotSize);
  return std::move(out.bytes_);
}

Ballot decode(int rank, const Bytes& body) {
  Reader in(body);
  Ballot ballot;
  for (uint64_t& value : ballot.value) value = in.number<uint64_t>();
  auto failure = in.rest();
  while (failure.size() > kFailureHeader && failure.back() == std::byte{}) failure = failure.first(failure.size() - 1);
  if (const char* fault = decode(Reader(failure), ballot.failure))
    throw Error({Status::mismatch, rank, 0, format("rank %d voted something else than a ballot: %s", rank, fault)});
  return ballot;
}

std::string list(const Group& group, const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    text += format("%srank %d (pid %lld)", text.empty() ? "" : ", ", rank, static_cast<long long>(group.identity(rank).pid));
  }
  return text;
}

}  // namespace

std::vector<Ballot> vote(Group& group, const Topic& topic, const Ballot& mine, Deadline deadline) {
  const Bytes body = encode(mine);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank()) group.send(peer, topic, body, {}, deadline);
  }
  std::vector<Ballot> ballots(static_cast<size_t>(group.size()));
  ballots[static_cast<size_t>(group.rank())] = mine;
  std::vector<int> missing;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    try {
      ballots[static_cast<size_t>(peer)] = decode(peer, group.receive(peer, topic, kBallotSize, 0, deadline).body);
    } catch (const Error& error) {
      if (error.status() != Status::timeout) throw;
      missing.push_back(peer);  // go on: those that did vote shall not be called missing
    }
  }
  if (!missing.empty()) {
    throw Error({Status::timeout, missing.front(), group.identity(missing.front()).pid,
                 list(group, missing) + " did not come before the deadline"});
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    Failure failure = ballots[static_cast<size_t>(rank)].failure;
    if (failure.status == Status::ok) continue;
    if (failure.rank < 0 || failure.rank >= group.size()) failure.rank = rank;
    if (failure.pid == 0) failure.pid = group.identity(failure.rank).pid;
    failure.message = format("rank %d: %s", rank, failure.message.c_str());
    throw Error(std::move(failure));
  }
  return ballots;
}

}  // namespace symm
