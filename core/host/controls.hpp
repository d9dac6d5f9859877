// The control segments of all ranks of a group, and how one
// rank waits for another there: with a deadline, for as long
// as nobody has failed, and so that the one to blame is found.
#pragma once

#include "core/backend/plan_table.hpp"
#include "core/host/control.hpp"

namespace symm::host {
// The ranks on other machines, of a group that has such.
// There every wait asks them for progress while it looks.
class RemoteRanks : public DeviceTransport {
 public:
  virtual bool progress() noexcept = 0;  // what has come from them is taken in; false: nothing had
  virtual void polls(Polling what) noexcept = 0;
  virtual bool has_left(int rank) noexcept = 0;  // any rank; and what it sent before is here
  // Controls::waits_for() of a rank on another machine; -1 also where it does not say.
  virtual int blocked_on(int rank) noexcept = 0;
};

class Controls {
 public:
  // `remote`: null on one machine. The segments of ranks
  // on others stay as they are now, not mapped.
  Controls(TransportContext context, const PlanValues& values, RemoteRanks* remote);

  OutgoingMessage share() const;
  void connect(int peer, Message message);

  const TransportContext& context() const noexcept { return context_; }
  const Control& operator[](int rank) const noexcept {
    return controls_[static_cast<size_t>(rank)];
  }
  const Control& mine() const noexcept { return mine_; }
  size_t scratch_half() const noexcept { return half_; }
  Fencing fencing() const noexcept { return fencing_; }
  const SpinPolicy& spin() const noexcept { return spin_; }
  RemoteRanks* remote() const noexcept { return remote_; }
  bool has_left(int rank) const noexcept {
    return remote_ != nullptr ? remote_->has_left(rank) : context_.revocation->departed(rank);
  }
  WaitEnd await_condition(const Condition& condition, Waiter& waiter, LazyDeadline& deadline) const;

  // Wait, or revoke the group and throw: `what` says what was awaited.
  void await(Word& word, uint32_t target, Waiter& waiter, int peer, LazyDeadline& deadline,
      const char* what);
  // Until `peer` has stored `target` in a word of its
  // own segment, of those for which it wakes all ranks.
  void await(Word& word, uint32_t target, int peer, LazyDeadline& deadline, const char* what) {
    if (!reached(word, target)) {
      await(word, target, (*this)[peer].waiters()[static_cast<size_t>(context_.rank)], peer,
          deadline, what);
    }
  }
  // Whom `rank`, whose segment is mapped, waits for in vain; -1: nobody.
  int waits_for(int rank) const noexcept;
  void throw_if_any_rank_aborted(LazyDeadline& deadline, const char* what);
  [[noreturn]] void fail(Failure failure);
  // Ranks make different calls: what each of those that have entered it has `said`.
  [[noreturn]] void fail_mismatch(uint32_t call, const std::function<bool(int)>& entered,
      const std::function<CallSignature(int)>& said, Deadline deadline);
  // In bytes.
  [[noreturn]] void fail_piece(const CallSignature& call, int peer, size_t sent, size_t expected);

 private:
  Fencing fencing_of_group() const noexcept;
  void give_up() noexcept;
  int culprit(int peer) const noexcept;

  TransportContext context_;
  RemoteRanks* remote_;
  PlanValues values_;
  size_t half_;            // of the scratch
  Processors processors_;  // that any rank known so far may use
  SpinPolicy spin_;
  bool registered_;  // all ranks known so far are, for asymmetric fences
  Fencing fencing_;
  std::vector<Control> controls_;  // by group rank
  Control& mine_;
  struct Peer {
    Word* gave_up;
    int rank;
  };
  std::vector<Peer> connected_;
};
}  // namespace symm::host
