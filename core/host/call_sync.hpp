// Keeps one collective call in step with its peers: implements Sync of
// kernels/host/execution.hpp with the words of the control segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/futex.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/pieces.hpp"

namespace symm::host {
// Everything that follows from a call's arguments other than the operands' addresses. Programs
// repeat their calls, so the last one is kept: making it takes as long as a small collective.
struct PreparedCall {
  PlanInput input{{.root = -1}, {}};  // a root that no call has: nothing is prepared yet
  Plan plan;
  uint32_t hash = 0;
  uint64_t shown = 0;                 // how the rank's page shows the call
  std::span<const Member> members{};  // the calls that it is made of, if it is made of several
};

// The progress of this rank's calls.
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
  [[noreturn]] void disagree(int peer, const PieceLengths& lengths) override;

  // At the end of a call of `bytes`: prefetches for writing the lines that the next call writes if
  // it is like this one. Peers read these lines last in the call before this one.
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
