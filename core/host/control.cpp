// SPDX-License-Identifier: Apache-2.0
#include "core/host/control.hpp"

#include <algorithm>

namespace symm::host {
namespace {

constexpr size_t kPage = 4096;

size_t align(size_t offset, size_t unit) { return (offset + unit - 1) / unit * unit; }

struct Offsets {
  size_t waiters, pair_waiter, pairs, scratch, end;
};

Offsets offsets(int size, int channels, size_t barriers) {
  const auto n = static_cast<size_t>(size);
  const auto c = static_cast<size_t>(channels) + 1;
  Offsets o{};
  o.waiters = barriers + 2 * c * kLine;
  o.pair_waiter = align(o.waiters + n, kLine);
  o.pairs = o.pair_waiter + kLine;
  o.scratch = align(o.pairs + c * n * sizeof(Word), kPage);
  o.end = o.scratch + 2 * Control::scratch_half(size);
  return o;
}

}  // namespace

// Enough for a few chunks in flight, while all ranks' halves together stay well inside a last-level cache.
size_t Control::scratch_half(int size) {
  return align(std::clamp<size_t>((size_t{4} << 20) / static_cast<size_t>(size), size_t{32} << 10, size_t{512} << 10), kPage);
}

size_t Control::bytes(int size, int channels) { return offsets(size, channels, kBarriers).end; }

Control::Control(std::shared_ptr<Segment> segment, int size, int channels)
    : segment_(std::move(segment)), base_(segment_->data()), size_(size) {
  const Offsets o = offsets(size, channels, kBarriers);
  waiters_ = o.waiters;
  pair_waiter_ = o.pair_waiter;
  pairs_ = o.pairs;
  scratch_ = o.scratch;
  half_ = scratch_half(size);
}

}  // namespace symm::host
