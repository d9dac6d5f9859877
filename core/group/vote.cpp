// SPDX-License-Identifier: Apache-2.0
#include "core/group/vote.hpp"

#include <algorithm>
#include <cstring>

namespace symm {
namespace {

struct Wire {
  int32_t status;
  int32_t rank;
  int64_t pid;
  uint64_t value[2];
  char message[256];
};

Wire encode(const Ballot& ballot) {
  Wire wire{};
  wire.status = static_cast<int32_t>(ballot.failure.status);
  wire.rank = ballot.failure.rank;
  wire.pid = ballot.failure.pid;
  std::copy(std::begin(ballot.value), std::end(ballot.value), std::begin(wire.value));
  const size_t length = std::min(ballot.failure.message.size(), sizeof wire.message - 1);
  std::memcpy(wire.message, ballot.failure.message.data(), length);
  return wire;
}

Ballot decode(const Bytes& body) {
  Wire wire{};
  std::memcpy(&wire, body.data(), sizeof wire);
  wire.message[sizeof wire.message - 1] = '\0';
  Ballot ballot;
  ballot.failure = {static_cast<Status>(wire.status), wire.rank, wire.pid, wire.message};
  std::copy(std::begin(wire.value), std::end(wire.value), std::begin(ballot.value));
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
  const Wire wire = encode(mine);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank()) group.send(peer, topic, std::as_bytes(std::span(&wire, 1)), {}, deadline);
  }
  std::vector<Ballot> ballots(static_cast<size_t>(group.size()));
  ballots[static_cast<size_t>(group.rank())] = mine;
  std::vector<int> missing;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    try {
      ballots[static_cast<size_t>(peer)] = decode(group.receive(peer, topic, sizeof(Wire), 0, deadline).body);
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
    if (failure.rank < 0) failure.rank = rank;
    if (failure.pid == 0) failure.pid = group.identity(rank).pid;
    failure.message = format("rank %d: %s", rank, failure.message.c_str());
    throw Error(std::move(failure));
  }
  return ballots;
}

}  // namespace symm
