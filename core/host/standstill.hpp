// Finds ranks that wait for each other in different calls, and so would wait until a deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "kernels/collective_call.hpp"

namespace symm::host {
class Controls;

// The call in which a rank waits: its name in messages, its lane (control.hpp), and if it is a
// collective, what must agree on all ranks.
struct WaitingCall {
  const char* what;
  uint32_t lane;
  const CallSignature* signature = nullptr;
};

// A wait that a rank shows to the others.
struct ShownWait {
  int peer = -1;  // the rank that it waits for; -1: it shows no wait
  uint32_t lane = 0;
  uint64_t number = 0;   // tells the wait from others of the rank in this lane
  uint32_t looks = 0;    // how often the rank has looked for a message
  uint16_t about = 0;    // of a message: equal on ranks that are in one call; 0: not told
  bool several = false;  // several threads of the rank make calls, as for requests, or wait
  // In a group that checks: whether the rank has refused its last call, and how many calls it has
  // refused so far, in kRefusalBits.
  bool refused = false;
  uint32_t refusals = 0;
  std::optional<CallSignature> call{};
};

// What one wait that has become long finds out about the waits of all ranks.
//
// Definitions
//   Wait    a rank, a lane, and the rank that it waits for, which has not come.
//   Follow  from the wait of one rank to that of the rank it waits for: to the wait in the same
//           lane, or if there is none, to one in another lane. The second step is a switch, and so
//           is the first where both waits tell what their calls are about, and tell different
//           things: calls that make groups of different ranks.
//   Circle  waits of which each follows the one before, and the first the last.
//
// A circle that is seen twice, with equal numbers, was there all the time: what is
// awaited only grows. Its ranks cannot go on by themselves. Without a switch no other
// thread of them can help either, for a lane has one call at a time. With a switch, a
// thread of that rank might still come to the call of the lane that was left. So a
// circle with a switch counts after kPatienceNs only, and if several threads of that
// rank are known to make calls, not at all.
//
// In a group that checks, a wait is hopeless too if the rank that does not come has refused the
// arguments of its call, and has refused another number of calls than this rank: ranks that all
// refuse alike go on.
//
// A wait for a message may be shown although the message has come to the process; so its rank
// must have looked twice in the meantime.
//
// Between machines any arrival may be under way for a while, or lost with the connection
// that carries it, which heartbeats find out. A rank that has had the answer of another
// one has all that this one had sent to it before. So a circle between machines is
// concluded by its own ranks only, and it is none if its ranks make one call: then each
// waits for what another has sent.
class Standstill {
 public:
  Standstill(const Controls& controls, uint32_t lane) : controls_(controls), lane_(lane) {}

  // Looks once more. True if there is a circle that counts.
  bool look();
  // Looks once more, with less patience, for a wait whose deadline has passed.
  bool is_there_at_deadline();
  // A mismatch that names two ranks of different calls, or the one that refused its own.
  // All ranks find the same one.
  const Failure& failure() const noexcept { return failure_; }

  static constexpr uint32_t kRefusalBits = 12;

  static std::string text_of(const Controls& controls, const ShownWait& wait);

 private:
  struct Place {
    int rank;
    uint32_t followed;        // the lane of the wait that this one follows,
    uint16_t followed_about;  // and what that is about
    ShownWait wait;
    bool is_switch() const noexcept {
      return followed != wait.lane ||
             (followed_about != wait.about && followed_about != 0 && wait.about != 0);
    }
  };

  std::vector<Place> find() const;
  bool find_again();
  bool counts_after(uint64_t patience_ns) const;
  bool spans_machines() const;
  bool has_own_rank() const;
  bool is_one_call() const;
  bool are_about_one() const;
  bool blame();
  bool blame_refusal();
  bool blame_sets();

  const Controls& controls_;
  const uint32_t lane_;
  std::vector<Place> circle_;  // as it was first seen
  std::vector<Place> now_;
  uint64_t since_ns_ = 0;
  Failure failure_;
};
}  // namespace symm::host
