// The lease ring belongs to one exporter and one importer. The importer writes into it
// what it claims and releases; the exporter takes it from there when it wants to know,
// and need only look at a ring whose count has moved.
//
// So an importer that has a block mapped can take a lease on a piece of it without
// asking: it writes the claim, then looks at the validity board. The exporter that
// makes tokens void writes the board, then looks at the rings. Both have full barriers
// in between, so either the importer sees that its token is void, and gives up its
// claim, or the exporter sees the claim.
//
// Every word has one writer. What the other side wrote is copied before it is looked
// at, and checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"

namespace symm::ipc {
struct alignas(4096) LeaseRing {
  enum class Kind : uint32_t {
    claim = 1,    // a lease, taken without asking
    release = 2,  // over when `position` is passed, on this ring's words
    // A lease that was claimed or requested will not be used, whether it was granted or not.
    cancel = 3,
  };
  struct Event {
    Kind kind{};
    uint32_t word = kNoWord;
    uint64_t value = 0;
    uint64_t lease = 0;
    uint64_t block = 0;
    uint64_t number = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t spare = 0;
  };
  static_assert(sizeof(Event) == 64);
  static constexpr uint64_t kEvents = 256;

  alignas(64) std::atomic<uint64_t> written;  // by the importer: events
  // Written by the importer: it has further events, for which there was no room.
  std::atomic<uint32_t> crowded;
  alignas(64) std::atomic<uint64_t> taken;  // by the exporter
  // Written by the exporter: it wants to hear of each release.
  std::atomic<uint32_t> waiting;
  alignas(64) Event ring[kEvents];                          // by the importer
  alignas(4096) std::atomic<uint64_t> words[kStreamWords];  // by the importer's streams
};

// The importer's end.
class LeaseRingWriter {
 public:
  explicit LeaseRingWriter(std::shared_ptr<host::Segment> segment) noexcept
      : segment_(std::move(segment)) {}
  const std::shared_ptr<host::Segment>& segment() const noexcept { return segment_; }
  std::span<std::atomic<uint64_t>> words() const noexcept { return ring().words; }

  bool write(const LeaseRing::Event& event) noexcept;  // false if the ring is full
  // Writes an event, or defers it until there is room.
  void write_or_defer(const LeaseRing::Event& event);
  // Writes the deferred events. True if none is left.
  bool flush();
  void drop_deferred() noexcept { deferred_.clear(); }
  // The exporter reads the ring when it wants to know. It is asked to when it waits for
  // releases, and when the ring fills up.
  bool exporter_waits() const noexcept {
    return ring().waiting.load(std::memory_order_seq_cst) != 0;
  }
  bool nudge_is_due(bool now) noexcept;  // the caller nudges if it is
 private:
  LeaseRing& ring() const noexcept { return *reinterpret_cast<LeaseRing*>(segment_->data()); }

  std::shared_ptr<host::Segment> segment_;
  uint64_t written_ = 0;
  uint64_t nudged_at_ = 0;
  std::vector<LeaseRing::Event> deferred_;
  bool crowded_ = false;  // as the ring says
};

// The exporter's end, which makes it.
class LeaseRingReader {
 public:
  LeaseRingReader() : segment_(host::Segment::create(sizeof(LeaseRing), "symm-ipc-leases")) {}
  int fd() const noexcept { return segment_->fd(); }
  void will_not_be_shared() noexcept { segment_->will_not_be_shared(); }
  std::span<const std::atomic<uint64_t>> words() const noexcept { return ring().words; }

  // Take what was written since. True if that was anything. Throws Error(peer_failed)
  // for nonsense, and what `take` throws.
  bool drain(const std::function<void(const LeaseRing::Event&)>& take);
  bool is_crowded() const noexcept { return ring().crowded.load(std::memory_order_seq_cst) != 0; }
  void want_to_hear(bool each_release) noexcept {
    ring().waiting.store(each_release ? 1 : 0, std::memory_order_seq_cst);
  }

 private:
  LeaseRing& ring() const noexcept { return *reinterpret_cast<LeaseRing*>(segment_->data()); }

  std::shared_ptr<host::Segment> segment_;
  uint64_t taken_ = 0;
};
}  // namespace symm::ipc
