// Writes and reads the records that ranks leave in the store for each other, failures among
// them.
#include "core/mesh/wireup_records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/wire.hpp"

namespace symm {
namespace {
Failure failure_in(const wire::Packet& packet, int rank) {
  Failure failure = packet.failure;
  if (failure.rank < 0) failure.rank = rank;
  return failure;
}

// Whether this process is out of descriptors for now: a packet of a peer may take the last one for
// a moment. False for a failure of another rank.
bool is_out_of_descriptors(const Error& error) {
  if (error.failure().rank >= 0) return false;
  return error.failure().os_error == EMFILE || error.failure().os_error == ENFILE;
}
}  // namespace

WireupRecords::WireupRecords(Store& store, int rank, int size, Deadline deadline)
    : store_(store),
      rank_(rank),
      size_(size),
      deadline_(deadline),
      allowed_ms_((deadline.remaining_ns() + 999'999) / 1'000'000) {}

std::string WireupRecords::key(Kind kind, int rank) const {
  const char* names[] = {"identity", "address", "commit_vote"};
  return format("mesh/%s/%d", names[static_cast<int>(kind)], rank);
}

void WireupRecords::publish_failure(const Failure& failure) {
  const wire::Header header{.type = wire::Type::failure, .source = static_cast<uint16_t>(rank_)};
  const wire::Buffer packet = with_reserve([&] { return wire::encode(header, failure); });

  for (const Kind kind : {Kind::commit_vote, Kind::identity, Kind::address}) {
    if (kind != Kind::commit_vote && published_[static_cast<int>(kind)]) continue;

    const auto set = [&] {
      try {
        with_reserve(
            [&] { store_.set(key(kind, rank_), packet, Deadline::after_ms(kPatienceMs)); });
        return true;
      } catch (const Error& error) {
        if (!is_out_of_descriptors(error)) throw;
        return false;
      }
    };

    try {
      if (!retry_until(set, Deadline::after_ms(kPatienceMs))) break;
    } catch (...) {
      break;  // the store has failed: the others notice that, or their deadline passes
    }
  }
}

// Reads a record. If the store says that a rank has gone, this looks whether that rank left a
// failure in the store: the store itself cannot tell a rank that died from one that gave up.
Bytes WireupRecords::read(Kind kind, int rank, Deadline deadline) {
  try {
    return store_.get(key(kind, rank), deadline);
  } catch (const Error& error) {
    const int gone = error.failure().rank;
    if (error.status() != Status::peer_failed || gone < 0 || gone >= size_ || gone == rank_) throw;

    wire::Packet packet;
    Bytes value;
    try {
      value = store_.get(key(Kind::commit_vote, gone), Deadline::after_ms(kLookMs));
    } catch (const Error&) {
      throw error;
    }
    if (wire::decode(value, packet) != nullptr || packet.header.type != wire::Type::failure) throw;
    throw Error(failure_in(packet, gone));
  }
}

std::optional<Failure> WireupRecords::failure_of(int rank, Deadline deadline) {
  try {
    const Bytes value = read(Kind::commit_vote, rank, deadline);
    wire::Packet packet;
    if (wire::decode(value, packet) == nullptr && packet.header.type == wire::Type::failure) {
      return failure_in(packet, rank);
    }
  } catch (const Error& error) {
    if (error.status() != Status::timeout && !is_out_of_descriptors(error)) throw;
  }
  return std::nullopt;
}

void WireupRecords::throw_missing(std::vector<int> missing) const {
  throw Error({Status::timeout, missing.front(), 0, silence_of(missing, "come")});
}

std::string WireupRecords::silence_of(std::span<const int> ranks, const char* what) const {
  std::string list;
  for (const int rank : ranks) {
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  return format("%s %s did not %s within %lu ms", ranks.size() == 1 ? "rank" : "ranks",
      list.c_str(), what, allowed_ms_);
}

std::optional<wire::Packet> WireupRecords::packet(Kind kind, int rank, Deadline deadline) {
  Bytes value;
  try {
    value = read(kind, rank, deadline);
  } catch (const Error& error) {
    if (error.status() == Status::timeout) return std::nullopt;
    throw;
  }

  wire::Packet packet;
  const char* fault = wire::decode(value, packet);
  if (fault == wire::kOtherNumber) {
    throw Error({Status::mismatch, rank, 0,
        stamp_difference(
            layouts::messages, packet.stamp, format("rank %d", rank), format("rank %d", rank_))});
  }
  if (fault == nullptr && packet.header.source != rank) fault = "another rank's record";
  if (fault != nullptr) {
    throw Error({Status::mismatch, rank, 0,
        format("rank %d published something else than a record: %s", rank, fault)});
  }
  packet.body = {};  // it points into `value`, which goes out of scope
  return packet;
}

wire::Packet WireupRecords::fetch(Kind kind, int rank, const std::function<void()>& look) {
  for (;;) {
    const Deadline until =
        std::clamp(deadline_, Deadline::after_ms(kLookMs), Deadline::after_ms(kSliceMs));
    if (auto found = packet(kind, rank, until)) {
      if (found->header.type == wire::Type::failure) throw Error(failure_in(*found, rank));
      return *found;
    }

    if (deadline_.expired()) {
      std::vector<int> missing{rank};
      for (int other = rank + 1; other < size_; ++other) {
        if (other != rank_ && !packet(kind, other, Deadline::after_ms(kLookMs))) {
          missing.push_back(other);
        }
      }
      throw_missing(std::move(missing));
    }
    look();
  }
}
}  // namespace symm
