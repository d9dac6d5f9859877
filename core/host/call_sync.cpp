#include "core/host/call_sync.hpp"
#include <algorithm>
#include <cstring>

namespace symm::host {

CallSync::CallSync(Controls& controls, CallCounters& calls, const PreparedCall& prepared, uint64_t timeout_ms)
    : controls_(controls), calls_(calls), size_(controls.context().size), rank_(controls.context().rank), prepared_(prepared),
      deadline_(timeout_ms), op_(++calls.op) {
  await_former_call();
}

void CallSync::await_word(Word& word, uint32_t target, int peer) {
  controls_.await(word, target, peer, deadline_, name_of(prepared_.input.collective));
}

// The half of the entry lines and of the scratch that this call uses was last used by call op-2. Whoever has entered call op-1 is
// done with that.
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

// All ranks that find it shall say the same, so they look at what all make: what most make is right, of equals what the lowest
// rank makes; the lowest rank that makes something else is to blame. Ranks that do not come soon are left out.
void CallSync::report_mismatch() {
  constexpr uint64_t kSoonMs = 200;
  const Revocation& revocation = *controls_.context().revocation;
  const auto entered = [&](int rank) { return rank == rank_ || reached(controls_[rank].entry(op_).op, op_); };
  const auto all_entered = [&] {
    for (int rank = 0; rank < size_; ++rank)
      if (!entered(rank) && !revocation.departed(rank)) return revocation.revoked();
    return true;
  };
  retry_until(all_entered, Deadline::after_ms(std::min(kSoonMs, deadline_.get().remaining_ns() / 1'000'000)));
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (entered(rank)) ranks.push_back(rank);
  const auto hash_of = [&](int rank) { return rank == rank_ ? prepared_.hash : controls_[rank].entry(op_).hash; };
  const auto like = [&](int rank) {
    return std::count_if(ranks.begin(), ranks.end(), [&](int other) { return hash_of(other) == hash_of(rank); });
  };
  const int right = *std::max_element(ranks.begin(), ranks.end(), [&](int a, int b) { return like(a) < like(b); });
  const int wrong = *std::find_if(ranks.begin(), ranks.end(), [&](int rank) { return hash_of(rank) != hash_of(right); });
  const auto text_of = [&](int rank) {
    const CallSignature& mine = prepared_.input;
    return (rank == rank_ ? mine : controls_[rank].signature(op_)).text();
  };
  controls_.fail({Status::mismatch, wrong, controls_.context().pids[static_cast<size_t>(wrong)],
                  format("call %u of the group: rank %d makes %s, rank %d makes %s", op_, right, text_of(right).c_str(), wrong,
                         text_of(wrong).c_str())});
}

void CallSync::disagree(int peer, size_t sent, size_t expected) {
  const size_t element = size_of(prepared_.input.dtype);
  controls_.fail({Status::mismatch, peer, controls_.context().pids[static_cast<size_t>(peer)],
                  format("%s: rank %d sends %zu elements to rank %d, which expects %zu", name_of(prepared_.input.collective),
                         peer, sent / element, rank_, expected / element)});
}

void CallSync::prefetch_next_for_write(size_t bytes) const noexcept {
  prefetch_for_write(&controls_.mine().entry(op_ + 1));
  if (bytes <= kEntryPayload) return;
  // As many lines as a processor has under way at a time.
  constexpr size_t kMost = 32 * kLine;
  const std::byte* scratch = controls_.mine().scratch(op_ + 1);
  for (size_t at = 0; at < std::min(bytes, kMost); at += kLine) prefetch_for_write(scratch + at);
}

void CallSync::arrive() { publish(controls_.mine().step(), ++calls_.step, controls_.mine().waiters(), controls_.fencing()); }

void CallSync::await(int peer) {
  if (peer == rank_) return;
  await_word(controls_[peer].step(), calls_.step, peer);
}

}  // namespace symm::host
