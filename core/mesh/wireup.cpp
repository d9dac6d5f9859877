// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/wireup.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/base/hash.hpp"
#include "core/base/process.hpp"
#include "core/base/process_stat.hpp"
#include "core/mesh/mesh_process.hpp"

namespace symm {
namespace {

constexpr uint64_t kSliceMs = 100;       // between two looks for ranks that failed
constexpr uint64_t kLookMs = 20;         // enough for a store to answer about a key that is there
constexpr uint64_t kPatienceMs = 1'000;  // how long a rank that failed waits to hear whether it was the first

int severity(const Failure& failure) noexcept {
  switch (failure.status) {
    case Status::ok: return 0;
    case Status::timeout: return 1;
    case Status::peer_failed: return 2;
    default: return 3;
  }
}

}  // namespace

const Failure& worse(const Failure& a, const Failure& b) noexcept {
  if (severity(a) != severity(b)) return severity(a) > severity(b) ? a : b;
  return a.rank <= b.rank ? a : b;
}

Wireup::Wireup(Store& store, int rank, int size, const std::string& name, Deadline deadline)
    : store_(store),
      rank_(rank),
      size_(size),
      name_hash_(fnv1a(name)),
      deadline_(deadline),
      allowed_ms_((deadline.remaining_ns() + 999'999) / 1'000'000),
      mesh_(std::make_shared<MeshImpl>(rank, size)),
      identities_(static_cast<size_t>(size)),
      known_(static_cast<size_t>(size)) {}

std::string Wireup::key(Record record, int rank) const {
  const char* names[] = {"identity", "address", "verdict"};
  return format("mesh/%s/%d", names[static_cast<int>(record)], rank);
}

void Wireup::publish(Record record, const wire::Buffer& packet) {
  store_.set(key(record, rank_), packet, deadline_);
  if (record != Record::verdict) published_[static_cast<int>(record)] = true;
}

Failure Wireup::failure_of(const wire::Packet& packet, int rank) const {
  Failure failure = packet.failure;
  if (failure.rank < 0) failure.rank = rank;
  return failure;
}

// A store may tell that a rank has gone. It cannot know whether that rank died, or gave up for a reason that it left there.
Bytes Wireup::read(Record record, int rank, Deadline deadline) {
  try {
    return store_.get(key(record, rank), deadline);
  } catch (const Error& error) {
    const int gone = error.failure().rank;
    if (error.status() != Status::peer_failed || gone < 0 || gone >= size_ || gone == rank_) throw;
    wire::Packet packet;
    Bytes value;
    try {
      value = store_.get(key(Record::verdict, gone), Deadline::after_ms(kLookMs));
    } catch (const Error&) {
      throw error;
    }
    if (wire::decode(value, packet) != nullptr || packet.header.type != wire::Type::failure) throw;
    throw Error(failure_of(packet, gone));
  }
}

std::optional<Failure> Wireup::failure_in_store(int rank, Deadline deadline) {
  try {
    const Bytes value = read(Record::verdict, rank, deadline);
    wire::Packet packet;
    if (wire::decode(value, packet) == nullptr && packet.header.type == wire::Type::failure) return failure_of(packet, rank);
  } catch (const Error& error) {
    if (error.status() != Status::timeout) throw;
  }
  return std::nullopt;
}

void Wireup::throw_missing(std::vector<int> missing) const {
  std::string list;
  for (const int rank : missing) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  throw Error({Status::timeout, missing.front(), 0,
               format("%s %s did not come within %llu ms", missing.size() == 1 ? "rank" : "ranks", list.c_str(),
                      static_cast<unsigned long long>(allowed_ms_))});
}

void Wireup::look_for_failures(const std::vector<int>& awaited) {
  if (auto bad = mesh_->bad_verdict()) throw Error(std::move(*bad));
  for (const int rank : awaited) {
    const wire::Identity& identity = identities_[static_cast<size_t>(rank)];
    if (!known_[static_cast<size_t>(rank)] || mesh_->joined(rank)) continue;
    if (auto failure = failure_in_store(rank, Deadline::after_ms(1))) throw Error(std::move(*failure));
    // A rank that introduced itself and died since: nothing but its process could tell us.
    if (identity.start_time == 0 || identity.pid_namespace == 0 || identity.pid_namespace != pid_namespace()) continue;
    const auto stat = process_stat(identity.pid);
    if (stat && stat->start == identity.start_time && stat->state != 'Z' && stat->state != 'X') continue;
    throw Error(
        {Status::peer_failed, rank, identity.pid, name_of_peer(rank, identity.pid) + " died while the group was being formed"});
  }
}

wire::Packet Wireup::fetch(Record record, int rank) {
  const auto get = [&](int from, Deadline deadline) -> std::optional<wire::Packet> {
    Bytes value;
    try {
      value = read(record, from, deadline);
    } catch (const Error& error) {
      if (error.status() == Status::timeout) return std::nullopt;
      throw;
    }
    wire::Packet packet;
    const char* fault = wire::decode(value, packet);
    if (fault == nullptr && packet.header.source != from) fault = "another rank's record";
    if (fault != nullptr)
      throw Error({Status::mismatch, from, 0, format("rank %d published something else than a record: %s", from, fault)});
    packet.body = {};  // lies in `value`
    return packet;
  };
  std::vector<int> all;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_) all.push_back(other);
  }
  for (;;) {
    const uint64_t left_ms = deadline_.remaining_ns() / 1'000'000;
    if (auto packet = get(rank, Deadline::after_ms(std::min(std::max(left_ms, kLookMs), kSliceMs)))) {
      if (packet->header.type == wire::Type::failure) throw Error(failure_of(*packet, rank));
      return *packet;
    }
    if (deadline_.expired()) {
      std::vector<int> missing;
      for (const int other : all) {
        if (other == rank || (other > rank && !get(other, Deadline::after_ms(kLookMs)))) missing.push_back(other);
      }
      throw_missing(std::move(missing));
    }
    look_for_failures(all);
  }
}

wire::Identity Wireup::describe_self() const {
  wire::Identity self;
  self.process = MeshProcess::current().token();
  self.cookie = mesh_->cookie();
  while (self.nonce == 0) self.nonce = process::random64();
  self.name_hash = name_hash_;
  self.pid = getpid();
  if (const auto stat = process_stat(self.pid)) self.start_time = stat->start;
  self.pid_namespace = pid_namespace();
  self.machine = fnv1a(process::boot_id());
  self.size = static_cast<uint32_t>(size_);
  return self;
}

void Wireup::check(int rank, const wire::Identity& identity) const {
  if (identity.size != static_cast<uint32_t>(size_)) {
    throw Error({Status::mismatch, rank, identity.pid,
                 format("rank %d has a group of %u ranks, rank %d one of %d", rank, identity.size, rank_, size_)});
  }
  if (identity.name_hash != name_hash_) {
    throw Error({Status::mismatch, rank, identity.pid, format("ranks %d and %d use different names for the group", rank, rank_)});
  }
  if (identity.machine != identities_[static_cast<size_t>(rank_)].machine) {
    throw Error({Status::unavailable, rank, identity.pid, format("rank %d is on another machine than rank %d", rank, rank_)});
  }
}

void Wireup::introduce() {
  mesh_->enter_process();
  const auto me = static_cast<size_t>(rank_);
  identities_[me] = describe_self();
  known_[me] = true;
  wire::Header header;
  header.type = wire::Type::identity;
  header.source = static_cast<uint16_t>(rank_);
  publish(Record::identity, wire::encode(header, identities_[me]));
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const wire::Packet packet = fetch(Record::identity, rank);
    if (packet.header.type != wire::Type::identity)
      throw Error({Status::mismatch, rank, 0, format("rank %d did not introduce itself", rank)});
    check(rank, packet.identity);
    identities_[static_cast<size_t>(rank)] = packet.identity;
    known_[static_cast<size_t>(rank)] = true;
  }
  mesh_->set_nonce(identities_[0].nonce);
  PeerIdentity self;
  self.pid = getpid();
  self.process = identities_[me].process;
  self.same_process = true;
  mesh_->join_self(self);
}

Failure Wireup::hear(int rank, Deadline deadline) {
  if (mesh_->joined(rank)) {
    if (auto verdict = mesh_->wait_verdict(rank, deadline)) return *verdict;
  }
  // It left or died without a word on its connection. If it failed before it was connected, the word is in the store.
  if (auto failure = failure_in_store(rank, Deadline::after_ms(kLookMs))) return *failure;
  if (!mesh_->joined(rank)) return {};
  const int64_t pid = mesh_->peer(rank).pid;
  if (!mesh_->gone(rank)) {
    return {Status::timeout, rank, pid,
            name_of_peer(rank, pid) +
                format(" did not finish connecting within %llu ms", static_cast<unsigned long long>(allowed_ms_))};
  }
  return {Status::peer_failed, rank, pid, name_of_peer(rank, pid) + " died while the group was being formed"};
}

void Wireup::leave_reason(const Failure& failure) {
  wire::Header header;
  header.type = wire::Type::failure;
  header.source = static_cast<uint16_t>(rank_);
  const wire::Buffer packet = wire::encode(header, failure);
  for (const Record record : {Record::verdict, Record::identity, Record::address}) {
    if (record != Record::verdict && published_[static_cast<int>(record)]) continue;
    try {
      store_.set(key(record, rank_), packet, Deadline::after_ms(kPatienceMs));
    } catch (...) {
      break;  // a store that has failed: the others find out by it or by their deadline
    }
  }
}

Failure Wireup::vote(const Failure& mine) {
  if (mine.status != Status::ok) leave_reason(mine);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && mesh_->joined(rank)) mesh_->send_verdict(rank, mine);
  }
  Failure worst = mine;
  const uint64_t left_ms = std::max(deadline_.remaining_ns() / 1'000'000, 2 * kLookMs);
  const Deadline patience =
      mine.status == Status::ok ? Deadline::after_ms(left_ms) : Deadline::after_ms(std::min(left_ms, kPatienceMs));
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    // Having failed, this rank takes only news from others, not their silence.
    Failure theirs;
    try {
      theirs = hear(rank, patience);
    } catch (...) {
      theirs = current_failure();
    }
    const bool silence = theirs.status == Status::timeout && theirs.rank == rank && mine.status != Status::ok;
    if (!silence) worst = worse(worst, theirs);
  }
  // Others may still be on the way to this rank, and find it gone.
  if (mine.status == Status::ok && worst.status != Status::ok) leave_reason(worst);
  return worst;
}

std::shared_ptr<Mesh> Wireup::run() {
  Failure mine;
  try {
    introduce();
    open();
    join();
  } catch (...) {
    mine = current_failure();
  }
  if (mine.status != Status::ok && mine.rank < 0) {
    mine = {mine.status, rank_, getpid(), name_of_peer(rank_, getpid()) + ": " + mine.message};
  }
  pending_.clear();
  if (mine.status == Status::ok) listener_.reset();
  const Failure worst = vote(mine);
  listener_.reset();
  if (worst.status != Status::ok) throw Error(worst);
  mesh_->set_rejected(rejected_);
  return mesh_;
}

std::shared_ptr<Mesh> Mesh::connect(Store& store, int rank, int size, const std::string& name, Deadline deadline) {
  if (size < 1 || size > wire::kMaxRanks)
    throw Error(Status::invalid_argument, format("%d ranks: 1 to %d are possible", size, wire::kMaxRanks));
  if (rank < 0 || rank >= size) throw Error(Status::invalid_argument, format("rank %d is not in 0 .. %d", rank, size - 1));
  return Wireup(store, rank, size, name, deadline).run();
}

}  // namespace symm
