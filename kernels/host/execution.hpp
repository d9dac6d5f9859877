// The input of an algorithm of the host back end: the operands of one collective call, and the
// means to keep step with the other ranks. core/host implements Sync; the algorithms know nothing
// of groups, segments or deadlines.
//
// The protocol. Every rank makes the same calls in the same order. A rank *enters*
// a call, which publishes 56 bytes of the algorithm's choice (for LL, the operand
// itself). After that, ranks keep step by *arriving*. An arrival promises that
// everything the rank wrote before is visible, and that it has finished everything
// it read before. An algorithm performs the same number of arrivals on every rank.
//
// Scratch. Each rank owns a scratch area that all ranks can read and write. It has two halves,
// which alternate from call to call.
//   1. Before run() is called, and so before this rank enters, the executor waits until every rank
//      has entered the previous call.
//   2. A rank that has entered the previous call has finished the call before that one.
//   3. So no rank still reads or writes the half that this call uses, and this rank may write its
//      own half at once.
// An algorithm therefore needs no arrival at its end to protect scratch. It needs one if a rank
// could return while others still read its operands, or before others have written them: on
// return the operands belong to the caller again. An algorithm only reads other ranks' scratch.
// It writes its own half and, in zero-copy forms, the operands of other ranks.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/collective_call.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/pieces.hpp"

namespace symm::host {
inline constexpr size_t kEntryPayload = 56;
using EntryPayload = std::array<std::byte, kEntryPayload>;

class Sync {
 public:
  virtual ~Sync() = default;

  // Enters the call and publishes `size` <= 56 bytes. A rank that awaits the entry sees everything
  // that this rank wrote before. Every rank calls this once in a call.
  virtual void enter(const void* payload, size_t size) = 0;
  // Waits until `peer`, which may be this rank, has entered this call. Returns its 56 bytes,
  // valid until this rank's next call.
  virtual const std::byte* await_entry(int peer) = 0;
  // Announces this rank's next step to all ranks.
  virtual void arrive() = 0;
  // Waits until `peer`, which may be this rank, has arrived at least as often in this
  // call as this rank.
  virtual void await(int peer) = 0;

  // Ends the call on all ranks: `peer` sends other lengths to this rank than this one expects.
  [[noreturn]] virtual void disagree(int peer, const PieceLengths& lengths) = 0;

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

// One collective call under way: its arguments, and what was found out about its operands.
// Values are equal on all ranks unless marked "mine".
struct Execution {
  const CollectiveCall& call;  // mine: its send and recv
  const Plan& plan;
  int rank;  // mine
  int size;
  // The addresses at which each rank's operands are mapped here. Valid only if plan.zero_copy; then
  // the call has been entered and all entries awaited before the algorithm starts.
  const std::byte* const* peer_send;
  std::byte* const* peer_recv;
  // In a collective in pieces, whose peer_send may be null for some ranks: the bytes from peer_send
  // to the end of its memory.
  const size_t* peer_room;
  std::byte* const* scratch;  // each rank's half for this call, 64-byte aligned
  Sync& sync;

  const std::byte* send() const noexcept { return static_cast<const std::byte*>(call.send); }
  std::byte* recv() const noexcept { return static_cast<std::byte*>(call.recv); }
};
using Run = void (*)(const Execution& x);

// Runs the algorithm of x.plan. The caller (core/host) enters the call beforehand, and awaits
// all entries, if and only if plan.entered is set; otherwise run() enters it exactly once,
// whatever the count and the size.
void run(const Execution& x);

// Prepares a collective in pieces before the call is entered: writes the table of this rank's
// pieces into its scratch. If the pieces are `staged`, because other ranks cannot read this
// rank's send, the first chunk of each is written there as well.
void lay_out_pieces(const Execution& x, bool staged);
}  // namespace symm::host
