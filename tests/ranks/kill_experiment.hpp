// Ranks of a working group are attacked at a random moment. What the others see of it,
// how soon, what is left afterwards, and whether the history of all calls can have been
// right. The test asks whether it is, bench/soak for an hour.
#pragma once

#include <optional>

#include "tests/support/test.hpp"

namespace support {
enum class Attack {
  kill,   // one rank, or several at once, but not all
  stop,   // now and then, for less than a deadline: nobody may fail
  hang,   // for longer; goes on while the others have formed another group
  abort,  // by another thread, in the midst of calls
  leases  // tokens are withdrawn while others import them, of which one is killed
};
inline constexpr std::pair<const char*, Attack> kAttacks[] = {{"kill", Attack::kill},
    {"stop", Attack::stop}, {"hang", Attack::hang}, {"abort", Attack::abort},
    {"leases", Attack::leases}};

// The calls in which the ranks are when the attack comes.
enum class Phase { create, rendezvous, split, barrier, signals, collectives, messages, everything };
constexpr int kPhases = 8;
const char* phase_name(Phase phase);

struct AttackReport {
  Phase phase{};
  std::string what;                  // how to repeat the attack
  std::vector<double> latencies_ms;  // attack to the error in each survivor that was told of it
  // Counts by name. kills; missed: survivors that only missed the dead rank, which was killed
  // before it had joined a creation; hangs: ranks that were still not done long after every
  // deadline; crashes: ranks that ended otherwise; wrong: contradictions in the history; leaks:
  // survivors with more descriptors, mappings or threads than before, and files; problems.
  std::map<std::string, int> counts;
  std::vector<std::string> problems;  // everything that is not as documented, the above included
};

// `seed` decides everything but the scheduling: phase, victims,
// moment, and the calls made. With `apart` every rank but the
// first is in network, IPC and mount namespaces of its own. A
// phase that is given is taken instead of the one of the seed.
AttackReport attack_one(Attack attack, uint64_t seed, int size, bool apart = false,
    std::optional<Phase> given = std::nullopt);
}  // namespace support
