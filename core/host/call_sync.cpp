// SPDX-License-Identifier: Apache-2.0
#include "core/host/call_sync.hpp"

#include <algorithm>
#include <cstring>

namespace symm::host {
namespace {

bool has_op(int32_t collective) {
  switch (static_cast<Collective>(collective)) {
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::reduce: return true;
    case Collective::allgather:
    case Collective::broadcast:
    case Collective::alltoall: return false;
  }
  return false;
}

bool has_root(int32_t collective) {
  return collective == static_cast<int32_t>(Collective::broadcast) || collective == static_cast<int32_t>(Collective::reduce);
}

// What must agree on all ranks, in one comparable form.
DetailLine detail_of(const CollectiveCall& call) {
  DetailLine d{};
  d.collective = static_cast<int32_t>(call.collective);
  d.dtype = static_cast<int32_t>(call.dtype);
  d.op = has_op(d.collective) ? static_cast<int32_t>(call.op) : 0;
  d.root = has_root(d.collective) ? call.root : 0;
  d.algorithm = static_cast<int32_t>(call.algorithm);
  d.count = call.count;
  return d;
}

// Every field has bits of its own but the count, whose high half is folded in by an odd multiplier: calls that differ in the
// small fields only, which is what a mistake looks like, always differ here.
uint32_t signature_of(const DetailLine& d) {
  const uint64_t small = (static_cast<uint64_t>(static_cast<uint32_t>(d.dtype)) << 32) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.root) & 0xFFFFU) << 16) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.collective)) << 12) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.op)) << 8) |
                         static_cast<uint64_t>(static_cast<uint32_t>(d.algorithm));
  uint64_t mixed = (small ^ (d.count * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
  mixed ^= mixed >> 32;
  return static_cast<uint32_t>(mixed);
}

std::string describe(const DetailLine& d) {
  std::string text = format("%s(%s", name_of(static_cast<Collective>(d.collective)), name_of(static_cast<DType>(d.dtype)));
  if (has_op(d.collective)) text += format(", %s", name_of(static_cast<Op>(d.op)));
  text += format(", count %llu", static_cast<unsigned long long>(d.count));
  if (has_root(d.collective)) text += format(", root %d", d.root);
  if (d.algorithm != 0) text += format(", algorithm %s", name_of(static_cast<Algorithm>(d.algorithm)));
  return text + ")";
}

}  // namespace

CallSync::CallSync(HostPlane& plane, const CollectiveCall& call)
    : plane_(plane),
      call_(call),
      deadline_(call.timeout_ms),
      op_(++plane.op_),
      detail_(detail_of(call)),
      signature_(signature_of(detail_)) {
  await_former_call();
}

void CallSync::await_word(Word& word, uint32_t target, int peer) {
  if (reached(word, target)) return;
  Sleeper& sleeper = plane_.controls_[static_cast<size_t>(peer)].sleepers()[static_cast<size_t>(plane_.context_.rank)];
  plane_.await(word, target, sleeper, peer, deadline_, name_of(call_.collective));
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
  plane_.mine_.detail(op_) = detail_;
  EntryLine& line = plane_.mine_.entry(op_);
  if (size != 0) std::memcpy(line.payload, payload, size);
  line.signature = signature_;
  publish(line.op, op_, plane_.mine_.sleepers());
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
  if (entry.signature != signature_) report_mismatch(peer);
}

void CallSync::report_mismatch(int peer) {
  const std::string theirs = describe(plane_.controls_[static_cast<size_t>(peer)].detail(op_));
  const std::string ours = describe(detail_);
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

void CallSync::arrive() { publish(plane_.mine_.step(), ++plane_.step_, plane_.mine_.sleepers()); }

void CallSync::await(int peer) {
  if (peer == plane_.context_.rank) return;
  await_word(plane_.controls_[static_cast<size_t>(peer)].step(), plane_.step_, peer);
}

}  // namespace symm::host
