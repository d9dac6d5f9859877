// Enters a collective call and keeps step in it, by words of the control segments, in the
// thread of the caller.
#include "core/host/call_sync.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/prefetch.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/pieces.hpp"
#include "kernels/types.hpp"

namespace symm::host {
CallSync::CallSync(
    Controls& controls, CallCounters& calls, const PreparedCall& prepared, uint64_t timeout_ms)
    : controls_(controls),
      calls_(calls),
      size_(controls.context().size),
      rank_(controls.context().rank),
      prepared_(prepared),
      deadline_(timeout_ms),
      op_(++calls.op) {
  await_former_call();
}

void CallSync::await_word(Word& word, uint32_t target, int peer) {
  controls_.await(word, target, peer, deadline_,
      {collective_name(prepared_.input.collective), lane::kCollective, &prepared_.input});
}

// This call reuses the half of the entry lines and of the scratch that call op-2 used. A rank that
// has entered call op-1 no longer reads that half.
void CallSync::await_former_call() {
  for (int peer = 0; peer < size_; ++peer) {
    uint32_t& known = calls_.known[static_cast<size_t>(peer)];
    if (known == op_ - 1) continue;
    await_word(controls_[peer].entry(op_ - 1).op, op_ - 1, peer);
    known = op_ - 1;
  }
}

void CallSync::enter(const void* payload, size_t size) {
  SYMM_POINT("call.enter");
  controls_.mine().signature(op_) = prepared_.input;
  controls_.show_members(op_, prepared_.members);
  EntryLine& line = controls_.mine().entry(op_);
  if (size != 0) std::memcpy(line.payload, payload, size);
  line.hash = prepared_.hash;
  publish(line.op, op_, controls_.mine().waiters(), controls_.fencing());
  calls_.known[static_cast<size_t>(rank_)] = op_;
  SYMM_POINT("call.entered");
  if (controls_.context().check) await_all_entries(size_);
}

const std::byte* CallSync::await_entry(int peer) {
  EntryLine& entry = controls_[peer].entry(op_);
  if (peer != rank_) {
    await_word(entry.op, op_, peer);
    calls_.known[static_cast<size_t>(peer)] = op_;
    if (entry.hash != prepared_.hash) report_mismatch();
  }
  return entry.payload;
}

void CallSync::report_mismatch() {
  controls_.fail_mismatch(
      op_, [&](int rank) { return rank == rank_ || reached(controls_[rank].entry(op_).op, op_); },
      [&](int rank) { return controls_[rank].signature(op_); },
      [&](int rank) { return controls_.members_of(rank, op_); }, deadline_.get());
}

void CallSync::disagree(int peer, const PieceLengths& lengths) {
  controls_.fail_piece(prepared_.input, peer, lengths);
}

void CallSync::prefetch_next_for_write(size_t bytes) const noexcept {
  prefetch_for_write(&controls_.mine().entry(op_ + 1));
  if (bytes <= kEntryPayload) return;
  // A processor has about as many cache lines in flight at a time.
  constexpr size_t kMost = 32 * kLine;
  const std::byte* scratch = controls_.mine().scratch(op_ + 1);
  for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) {
    prefetch_for_write(scratch + at);
  }
}

void CallSync::arrive() {
  publish(controls_.mine().step(), ++calls_.step, controls_.mine().waiters(), controls_.fencing());
}

void CallSync::await(int peer) {
  if (peer == rank_) return;
  await_word(controls_[peer].step(), calls_.step, peer);
}
}  // namespace symm::host
