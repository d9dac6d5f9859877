// SPDX-License-Identifier: Apache-2.0
#include "core/host/call_sync.hpp"

#include <algorithm>
#include <cstring>

#include "core/host/agreement.hpp"

namespace symm::host {

CallSync::CallSync(HostPlane& plane, const PreparedCall& prepared, uint64_t timeout_ms)
    : plane_(plane), prepared_(prepared), deadline_(timeout_ms), op_(++plane.op_) {
  await_former_call();
}

void CallSync::await_word(Word& word, uint32_t target, int peer) {
  if (reached(word, target)) return;
  Sleeper& sleeper = plane_.controls_[static_cast<size_t>(peer)].sleepers()[static_cast<size_t>(plane_.context_.rank)];
  plane_.await(word, target, sleeper, peer, deadline_, name_of(prepared_.input.collective));
}

// The half of the entry lines and of the scratch that this call uses was last used by call op-2. Whoever has entered call op-1 is
// done with that.
void CallSync::await_former_call() {
  for (int peer = 0; peer < plane_.context_.size; ++peer) {
    uint32_t& known = plane_.known_op_[static_cast<size_t>(peer)];
    if (known == op_ - 1) continue;
    await_word(plane_.controls_[static_cast<size_t>(peer)].entry(op_ - 1).op, op_ - 1, peer);
    known = op_ - 1;
  }
}

void CallSync::enter(const void* payload, size_t size) {
  plane_.mine_.detail(op_) = prepared_.detail;
  EntryLine& line = plane_.mine_.entry(op_);
  if (size != 0) std::memcpy(line.payload, payload, size);
  line.signature = prepared_.signature;
  publish(line.op, op_, plane_.mine_.sleepers(), plane_.fencing_);
  plane_.known_op_[static_cast<size_t>(plane_.context_.rank)] = op_;
  if (plane_.context_.check) await_all_entries(plane_.context_.size);
}

const std::byte* CallSync::await_entry(int peer) {
  EntryLine& entry = plane_.controls_[static_cast<size_t>(peer)].entry(op_);
  if (peer != plane_.context_.rank) {
    await_word(entry.op, op_, peer);
    plane_.known_op_[static_cast<size_t>(peer)] = op_;
    compare(peer, entry);
  }
  return entry.payload;
}

void CallSync::compare(int peer, const EntryLine& entry) {
  if (entry.signature != prepared_.signature) report_mismatch(peer);
}

void CallSync::report_mismatch(int peer) {
  const std::string theirs = describe(plane_.controls_[static_cast<size_t>(peer)].detail(op_));
  const std::string ours = describe(prepared_.detail);
  plane_.fail({Status::mismatch, peer, plane_.context_.pids[static_cast<size_t>(peer)],
               format("call %u of the group: rank %d makes %s, rank %d makes %s", op_, plane_.context_.rank, ours.c_str(), peer,
                      theirs.c_str())});
}

void CallSync::claim_next(size_t bytes) const noexcept {
  claim(&plane_.mine_.entry(op_ + 1));
  if (bytes <= kEntryPayload) return;
  // As many lines as a processor has under way at a time.
  constexpr size_t kMost = 32 * kLine;
  const std::byte* scratch = plane_.mine_.scratch(op_ + 1);
  for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) claim(scratch + at);
}

void CallSync::arrive() { publish(plane_.mine_.step(), ++plane_.step_, plane_.mine_.sleepers(), plane_.fencing_); }

void CallSync::await(int peer) {
  if (peer == plane_.context_.rank) return;
  await_word(plane_.controls_[static_cast<size_t>(peer)].step(), plane_.step_, peer);
}

}  // namespace symm::host
