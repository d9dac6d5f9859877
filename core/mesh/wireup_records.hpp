// The records that ranks write in the store for each other while a mesh is made. A rank that fails
// says so under every key that the others may be waiting for, so that none of them waits for its
// deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/wire.hpp"

namespace symm {
class WireupRecords {
 public:
  enum class Kind {
    identity,
    address,
    commit_vote  // written only by a rank that failed
  };
  WireupRecords(Store& store, int rank, int size, Deadline deadline);

  template <class Record>
  void publish(Kind kind, wire::Type type, const Record& record) {
    store_.set(key(kind, rank_),
        wire::encode({.type = type, .source = static_cast<uint16_t>(rank_)}, record), deadline_);
    published_[static_cast<int>(kind)] = true;
  }
  void publish_failure(const Failure& failure);
  // Waits for another rank's record. Throws the failure of that rank if it failed, Error(timeout)
  // naming all ranks that are missing. `look` is called from time to time, and throws if a rank is
  // known to have failed.
  wire::Packet fetch(Kind kind, int rank, const std::function<void()>& look);
  std::optional<Failure> failure_of(int rank, Deadline deadline);
  [[noreturn]] void throw_missing(std::vector<int> missing) const;
  // "ranks 1, 2 did not come within 500 ms", where `what` is "come".
  std::string silence_of(std::span<const int> ranks, const char* what) const;
  uint64_t allowed_ms() const noexcept { return allowed_ms_; }

  static constexpr uint64_t kLookMs = 20;    // enough for a store to answer if it has the key
  static constexpr uint64_t kSliceMs = 100;  // between two looks for ranks that failed
  // The time for which a rank that failed waits to hear whether another one failed first.
  static constexpr uint64_t kPatienceMs = 1'000;

 private:
  std::string key(Kind kind, int rank) const;
  Bytes read(Kind kind, int rank, Deadline deadline);
  // Nothing if the record is not there in time.
  std::optional<wire::Packet> packet(Kind kind, int rank, Deadline deadline);

  Store& store_;
  const int rank_;
  const int size_;
  const Deadline deadline_;
  const uint64_t allowed_ms_;
  bool published_[3] = {false, false, false};
};
}  // namespace symm
