// SPDX-License-Identifier: Apache-2.0
#include "core/host/call_sync.hpp"

#include <algorithm>
#include <cstring>

namespace symm::host {

CallSync::CallSync(HostTransport& transport, const PreparedCall& prepared, uint64_t timeout_ms)
    : transport_(transport), prepared_(prepared), deadline_(timeout_ms), op_(++transport.op_) {
  await_former_call();
}

void CallSync::await_word(Word& word, uint32_t target, int peer) {
  if (reached(word, target)) return;
  Waiter& waiter = transport_.controls_[static_cast<size_t>(peer)].waiters()[static_cast<size_t>(transport_.context_.rank)];
  transport_.await(word, target, waiter, peer, deadline_, name_of(prepared_.input.collective));
}

// The half of the entry lines and of the scratch that this call uses was last used by call op-2. Whoever has entered call op-1 is
// done with that.
void CallSync::await_former_call() {
  for (int peer = 0; peer < transport_.context_.size; ++peer) {
    uint32_t& known = transport_.known_op_[static_cast<size_t>(peer)];
    if (known == op_ - 1) continue;
    await_word(transport_.controls_[static_cast<size_t>(peer)].entry(op_ - 1).op, op_ - 1, peer);
    known = op_ - 1;
  }
}

void CallSync::enter(const void* payload, size_t size) {
  transport_.mine_.signature(op_) = prepared_.input;
  EntryLine& line = transport_.mine_.entry(op_);
  if (size != 0) std::memcpy(line.payload, payload, size);
  line.hash = prepared_.hash;
  publish(line.op, op_, transport_.mine_.waiters(), transport_.fencing_);
  transport_.known_op_[static_cast<size_t>(transport_.context_.rank)] = op_;
  if (transport_.context_.check) await_all_entries(transport_.context_.size);
}

const std::byte* CallSync::await_entry(int peer) {
  EntryLine& entry = transport_.controls_[static_cast<size_t>(peer)].entry(op_);
  if (peer != transport_.context_.rank) {
    await_word(entry.op, op_, peer);
    transport_.known_op_[static_cast<size_t>(peer)] = op_;
    compare(peer, entry);
  }
  return entry.payload;
}

void CallSync::compare(int peer, const EntryLine& entry) {
  if (entry.hash != prepared_.hash) report_mismatch(peer);
}

void CallSync::report_mismatch(int peer) {
  const CallSignature its = transport_.controls_[static_cast<size_t>(peer)].signature(op_);
  const std::string theirs = its.text();
  const std::string ours = prepared_.input.text();
  transport_.fail({Status::mismatch, peer, transport_.context_.pids[static_cast<size_t>(peer)],
                   format("call %u of the group: rank %d makes %s, rank %d makes %s", op_, transport_.context_.rank, ours.c_str(),
                          peer, theirs.c_str())});
}

void CallSync::prefetch_next_for_write(size_t bytes) const noexcept {
  prefetch_for_write(&transport_.mine_.entry(op_ + 1));
  if (bytes <= kEntryPayload) return;
  // As many lines as a processor has under way at a time.
  constexpr size_t kMost = 32 * kLine;
  const std::byte* scratch = transport_.mine_.scratch(op_ + 1);
  for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) prefetch_for_write(scratch + at);
}

void CallSync::arrive() { publish(transport_.mine_.step(), ++transport_.step_, transport_.mine_.waiters(), transport_.fencing_); }

void CallSync::await(int peer) {
  if (peer == transport_.context_.rank) return;
  await_word(transport_.controls_[static_cast<size_t>(peer)].step(), transport_.step_, peer);
}

}  // namespace symm::host
