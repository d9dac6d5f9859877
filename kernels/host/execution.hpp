// What an algorithm of the host back end is given: the operands of one collective call
// and the means to keep step with the other ranks. core/host implements Sync; the
// algorithms know nothing of groups, segments or deadlines.
//
// The protocol. Every rank makes the same calls in the same order. A call
// begins when a rank *enters* it, which publishes 56 bytes of its choice (its
// inlined data, for LL). After that ranks keep step by *arriving*: each
// arrival says "what I wrote before is there, what I read before I am done
// with". An algorithm must perform the same number of arrivals on every rank.
//
// Scratch. Each rank owns a scratch area that all ranks can read and write, in two
// halves which alternate from call to call. Before run() is called (so before this rank
// enters, and not only when it does) the executor waits until every rank has entered
// the previous call. Who has entered the previous call has finished the one before it,
// so the half that this call uses is no longer read or written by anybody, and this
// rank may write its own half at once; an algorithm needs no arrival at its end to
// protect scratch. It needs one where a rank leaves while others still read its
// operands, or before others have written them: those are the caller's again on return.
// Of other ranks' scratch an algorithm here only reads. A rank writes its own half, and
// the operands of others in zero-copy forms.
#pragma once

#include <array>

#include "kernels/host/plan.hpp"

namespace symm::host {
inline constexpr size_t kEntryPayload = 56;
using EntryPayload = std::array<std::byte, kEntryPayload>;

class Sync {
 public:
  virtual ~Sync() = default;

  // Enter the call and publish `size` <= 56 bytes. What this rank wrote before is
  // visible to whoever awaits the entry. Once a call, by every rank.
  virtual void enter(const void* payload, size_t size) = 0;
  // Wait until `peer` has entered this call; returns its 56 bytes, valid until this
  // rank's next call. Own rank allowed.
  virtual const std::byte* await_entry(int peer) = 0;
  // Announce my next step to all ranks.
  virtual void arrive() = 0;
  // Wait until `peer` has arrived as often in this call as I have. At once if it has
  // arrived more often, and own rank allowed.
  virtual void await(int peer) = 0;

  // What `peer` sends to this rank is not what this
  // rank expects: ends the call on all ranks. In bytes.
  [[noreturn]] virtual void disagree(int peer, size_t sent, size_t expected) = 0;

  void await_all_entries(int size) {
    for (int peer = 0; peer < size; ++peer) {
      await_entry(peer);
    }
  }
  void await_all(int size) {
    for (int peer = 0; peer < size; ++peer) {
      await(peer);
    }
  }
};

// One collective call under way: what was asked for, and what was found out. Values are
// equal on all ranks unless marked "mine".
struct Execution {
  const CollectiveCall& call;  // its send and recv are mine
  const Plan& plan;
  int rank;  // mine
  int size;
  // Where each rank's operands are mapped here; valid only if plan.zero_copy, in which
  // case the call has been entered and all entries awaited before the algorithm starts.
  const std::byte* const* peer_send;
  std::byte* const* peer_recv;
  // Of a collective in pieces, where peer_send may be
  // null for some: bytes of their memory from there on.
  const size_t* peer_room;
  std::byte* const* scratch;  // each rank's half for this call, 64-byte aligned
  Sync& sync;

  const std::byte* send() const noexcept { return static_cast<const std::byte*>(call.send); }
  std::byte* recv() const noexcept { return static_cast<std::byte*>(call.recv); }
};
using Run = void (*)(const Execution& x);

// Run the algorithm of x.plan. The caller (core/host) enters the call beforehand, and
// awaits all entries, if and only if plan.entered is set; otherwise run() enters it
// exactly once, whatever the count and the size.
void run(const Execution& x);

// Of a collective in pieces, before the call is entered: leave
// in my scratch where my pieces lie and, if they are `staged`
// because others cannot read my send, the first of their chunks.
void lay_out_pieces(const Execution& x, bool staged);
}  // namespace symm::host
