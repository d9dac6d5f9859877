// The control segments of all ranks of a group, and the waits of one rank for another. Every wait
// has a deadline, ends when any rank of the group fails, and finds the rank to blame.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/spin_policy.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/message_port.hpp"
#include "core/host/standstill.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/pieces.hpp"

namespace symm::host {
// The ranks on other machines, in a group that spans several. Every wait in such a group makes
// progress on their messages while it polls.
class RemoteRanks : public DeviceTransport {
 public:
  // Takes in the messages that have arrived; false if there were none.
  virtual bool progress() noexcept = 0;
  virtual void polls(Polling what) noexcept = 0;
  // Whether `rank`, on any machine, has left the group, and all that it sent before has arrived.
  virtual bool has_left(int rank) noexcept = 0;
  // Controls::wait_of() for a rank on another machine; none also if that rank does not answer.
  virtual ShownWait wait_of(int rank, uint32_t lane) noexcept = 0;
  // The mailboxes of a rank on another machine; the port stays.
  virtual MessagePort& message_port(int rank) = 0;
};

class Controls {
 public:
  // `remote` is null in a group on one machine. The segments of ranks on other machines are never
  // mapped.
  Controls(TransportContext context, const PlanValues& values, RemoteRanks* remote);

  OutgoingMessage share() const;
  // Throws Error(mismatch) if the rank that sent the share has memory of another layout.
  void require_same_layout(int peer, const Message& message) const;
  void connect(int peer, Message message);

  const TransportContext& context() const noexcept { return context_; }
  const Control& operator[](int rank) const noexcept {
    return controls_[static_cast<size_t>(rank)];
  }
  const Control& mine() const noexcept { return mine_; }
  size_t scratch_half() const noexcept { return half_; }
  Fencing fencing() const noexcept { return fencing_; }
  const SpinPolicy& spin() const noexcept { return spin_; }
  const MailboxShape& mailboxes() const noexcept { return mailboxes_; }
  RemoteRanks* remote() const noexcept { return remote_; }
  bool has_left(int rank) const noexcept {
    if (context_.revocation->finalized()) return true;
    return remote_ != nullptr ? remote_->has_left(rank) : context_.revocation->departed(rank);
  }
  WaitEnd await_condition(const Condition& condition, Waiter& waiter, LazyDeadline& deadline) const;

  // Waits until `word` has reached `target`; otherwise revokes the group and throws.
  void await(Word& word, uint32_t target, Waiter& waiter, int peer, LazyDeadline& deadline,
      const WaitingCall& call);
  // Waits until `peer` has stored `target` in a word of its own segment for which it wakes all
  // ranks.
  void await(
      Word& word, uint32_t target, int peer, LazyDeadline& deadline, const WaitingCall& call) {
    if (!reached(word, target)) {
      await(word, target, (*this)[peer].waiters()[static_cast<size_t>(context_.rank)], peer,
          deadline, call);
    }
  }
  // Shows, as long as the object lives, that this rank waits for a message of `peer`.
  std::unique_ptr<MessageWait> await_message(uint32_t lane, int peer, uint16_t about = 0);
  // The wait of `rank` in `lane` that is not over yet; if there is none, one in another lane.
  ShownWait wait_of(int rank, uint32_t lane) const noexcept;
  // The channels of barriers that users have; the next one is that of finalize.
  int user_channels() const noexcept { return context_.channels - (remote_ == nullptr ? 0 : 1); }
  // The rank to blame when `peer` does not come in time.
  int culprit(int peer, uint32_t lane) const noexcept;
  // This rank refused the arguments of a call of all ranks, or makes such a call.
  void note_refusal(const std::string& what) noexcept;
  // Several threads of this rank make calls.
  void note_several_threads() noexcept { mine_.threads().store(2, std::memory_order_relaxed); }
  void forget_refusal() noexcept { mine_.refusal().stands.store(0, std::memory_order_relaxed); }
  // Two ranks that came to barriers of different sets.
  Failure different_sets(int channel, int rank, int other) const;
  void throw_if_any_rank_aborted(LazyDeadline& deadline, const WaitingCall& call);
  [[noreturn]] void fail(Failure failure);
  // Fails with a mismatch: ranks make different calls. `call_of` gives the signature of each rank
  // that has `entered` call number `call`, and `members_of` the calls that the call of a rank is
  // made of, none if that cannot be found out.
  [[noreturn]] void fail_mismatch(uint32_t call, const std::function<bool(int)>& entered,
      const std::function<CallSignature(int)>& call_of,
      const std::function<std::vector<CallSignature>(int)>& members_of, Deadline deadline);
  // Shows the peers the calls that call number `op` is made of, before this rank enters it.
  void show_members(uint32_t op, std::span<const Member> members) const noexcept;
  // The calls that a rank whose segment is mapped has shown.
  std::vector<CallSignature> members_of(int rank, uint32_t op) const;
  // Fails with a mismatch: `peer` sent other lengths than this rank expected.
  [[noreturn]] void fail_piece(const CallSignature& call, int peer, const PieceLengths& lengths);

 private:
  size_t segment_bytes() const;
  Fencing fencing_of_group() const noexcept;
  void give_up() noexcept;
  class ShownMessageWait;
  ShownWait shown_wait(int rank, uint32_t lane) const noexcept;
  void note_long_wait(const WaitingCall& call, uint32_t target) noexcept;
  bool is_told_by_culprit(int peer, const WaitingCall& call, const LazyDeadline& deadline) const;
  Failure late(int peer, const WaitingCall& call, const LazyDeadline& deadline) const;

  TransportContext context_;
  RemoteRanks* remote_;
  PlanValues values_;
  size_t half_;  // bytes of one half of the scratch
  MailboxShape mailboxes_;
  Processors processors_;  // processors that any rank connected so far may use
  SpinPolicy spin_;
  bool registered_;  // every rank connected so far has registered for asymmetric fences
  Fencing fencing_;
  std::vector<Control> controls_;  // by group rank
  Control& mine_;
  struct Peer {
    Word* gave_up;
    int rank;
  };
  std::vector<Peer> connected_;
  std::atomic<const void*> first_thread_{nullptr};  // that was seen in a long wait
  // The threads that wait for messages in each of the lanes before those of barriers.
  std::array<std::atomic<uint32_t>, lane::kBarriers> message_waits_{};
};
}  // namespace symm::host
