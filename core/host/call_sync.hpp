// How one collective call keeps step with its peers: kernels/host/execution.hpp's Sync
// on the words of the control segments.
#pragma once

#include "core/host/controls.hpp"

namespace symm::host {
// What follows from a call's arguments alone, operands
// apart. Programs repeat their calls, so the last one's is
// kept: a small collective takes no longer than making this.
struct PreparedCall {
  PlanInput input{{.root = -1}, {}};  // which no call has: nothing prepared yet
  Plan plan;
  uint32_t hash = 0;
  uint64_t shown = 0;  // of it in the rank's page
};

// How far the calls of this rank are.
struct CallCounters {
  explicit CallCounters(int size) : known(static_cast<size_t>(size)) {}
  uint32_t op = 0;              // calls entered
  uint32_t step = 0;            // arrivals announced in all calls
  std::vector<uint32_t> known;  // last call that each peer is known to have entered
};

class CallSync final : public Sync {
 public:
  CallSync(
      Controls& controls, CallCounters& calls, const PreparedCall& prepared, uint64_t timeout_ms);

  void enter(const void* payload, size_t size) override;
  const std::byte* await_entry(int peer) override;
  void arrive() override;
  void await(int peer) override;
  [[noreturn]] void disagree(int peer, size_t sent, size_t expected) override;

  // At the end of a call of `bytes`: prefetch for writing what the next one will write
  // if it is like this one. Others read it last in the call before this.
  void prefetch_next_for_write(size_t bytes) const noexcept;

  uint32_t op() const noexcept { return op_; }
  LazyDeadline& deadline() noexcept { return deadline_; }

 private:
  void await_former_call();
  [[noreturn]] void report_mismatch();
  void await_word(Word& word, uint32_t target, int peer);

  Controls& controls_;
  CallCounters& calls_;
  const int size_;
  const int rank_;
  const PreparedCall& prepared_;
  LazyDeadline deadline_;
  uint32_t op_;
};
}  // namespace symm::host
