// Computes where each part of a control segment lies, and how much scratch it has.
#include "core/host/control.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/backend/segment.hpp"
#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/host/mailbox.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
namespace {
constexpr size_t kPage = 4096;

size_t align(size_t offset, size_t unit) { return (offset + unit - 1) / unit * unit; }

}  // namespace

Control::Offsets Control::offsets(int size, int channels) {
  const auto n = static_cast<size_t>(size);
  const auto c = static_cast<size_t>(channels) + 1;
  Offsets o{};
  o.lanes = lane::kBarriers + static_cast<uint32_t>(c);
  o.waiting = kBarriers + 2 * c * kLine;
  o.waiters = o.waiting + o.lanes * sizeof(WaitLine);
  o.pair_waiter = align(o.waiters + n, kLine);
  o.message_waiter = o.pair_waiter + kLine;
  o.pairs = o.message_waiter + kLine;
  o.scratch = align(o.pairs + c * n * kPairWords * sizeof(Word), kPage);
  return o;
}

// A half holds a few chunks in flight, while the halves of all ranks together stay well inside a
// last-level cache. Groups on several machines get more, since their scratch has a slot for each
// rank.
size_t Control::scratch_half(int size, int together, uint64_t most) {
  const auto part_of = [](size_t all, int ranks, size_t few, size_t many) {
    return align(std::clamp(all / static_cast<size_t>(ranks), few, many), kPage);
  };

  const size_t least = align(minimum_scratch(together == 0 ? size : 2 * size), kPage);
  const size_t half =
      together == 0 ? part_of(size_t{4} << 20, size, size_t{32} << 10, size_t{512} << 10)
                    : std::max(least,
                          part_of(size_t{16} << 20, together, size_t{256} << 10, size_t{2} << 20));
  if (most == 0 || most >= 2 * half) return half;

  if (most < 2 * least) {
    throw Error(Status::invalid_argument,
        format("config.scratch_bytes: %lu, and %d ranks need at least %zu", most, size, 2 * least));
  }

  return most / 2 / kPage * kPage;
}

size_t Control::bytes(int size, int channels, size_t half, const MailboxShape& mailboxes) {
  return offsets(size, channels).scratch + 2 * half + mailboxes.all_bytes();
}

Control::Control(std::shared_ptr<Segment> segment, int size, int channels, size_t half,
    const MailboxShape& mailboxes)
    : segment_(std::move(segment)),
      base_(segment_->data()),
      size_(size),
      half_(half),
      mailboxes_(mailboxes),
      at_(offsets(size, channels)) {}
}  // namespace symm::host
