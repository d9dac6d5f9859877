// Both ends of the ring in which an importer writes claims and releases. lease_ring.hpp has the
// order of accesses on which it rests.
#include "core/ipc/lease_ring.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "core/base/error.hpp"

namespace symm::ipc {
bool LeaseRingWriter::write(const LeaseRing::Event& event) noexcept {
  if (written_ - ring().taken.load(std::memory_order_seq_cst) >= LeaseRing::kEvents) return false;
  ring().ring[written_ % LeaseRing::kEvents] = event;
  ring().written.store(++written_, std::memory_order_seq_cst);
  return true;
}

// An event that finds no room is written when the exporter says that there is some. The exporter
// makes room and then looks whether the ring is marked as crowded; the importer marks the ring as
// crowded and then looks for room once more. So one of the two sees the other.
bool LeaseRingWriter::flush() {
  for (;;) {
    size_t told = 0;
    while (told < deferred_.size() && write(deferred_[told])) {
      ++told;
    }
    deferred_.erase(deferred_.begin(), deferred_.begin() + static_cast<std::ptrdiff_t>(told));
    const bool crowded = !deferred_.empty();
    if (crowded == crowded_) return !crowded;
    crowded_ = crowded;
    ring().crowded.store(crowded ? 1 : 0, std::memory_order_seq_cst);
  }
}

void LeaseRingWriter::write_or_defer(const LeaseRing::Event& event) {
  if (flush() && write(event)) return;
  deferred_.push_back(event);
  flush();
}

bool LeaseRingWriter::nudge_is_due(bool now) noexcept {
  constexpr uint64_t kMany = LeaseRing::kEvents / 2;
  if (!now && (written_ - ring().taken.load(std::memory_order_acquire) < kMany ||
                  written_ - nudged_at_ < kMany / 2)) {
    return false;
  }
  nudged_at_ = written_;
  return true;
}

bool LeaseRingReader::drain(const std::function<void(const LeaseRing::Event&)>& take) {
  const uint64_t written = ring().written.load(std::memory_order_seq_cst);
  if (written == taken_) return false;
  if (written - taken_ > LeaseRing::kEvents) {
    throw Error(Status::peer_failed, "it wrote more events than its ring holds");
  }

  while (taken_ != written) {
    LeaseRing::Event event;  // a copy, which it cannot change while we look
    std::memcpy(&event, &ring().ring[taken_ % LeaseRing::kEvents], sizeof event);
    take(event);
    ++taken_;
  }

  ring().taken.store(taken_, std::memory_order_seq_cst);
  return true;
}
}  // namespace symm::ipc
