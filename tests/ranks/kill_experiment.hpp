// One rank of a working group is killed at a random moment. What the others see of it, how soon, and what is left afterwards. The
// test asks whether it is right, the benchmark how fast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace support {

// What the ranks are busy with when it happens.
enum class Phase { create, rendezvous, split, barrier, signals, collectives, everything };
inline constexpr Phase kPhases[] = {Phase::create,  Phase::rendezvous,  Phase::split,     Phase::barrier,
                                    Phase::signals, Phase::collectives, Phase::everything};
const char* name_of(Phase phase);

struct KillReport {
  int size = 0;
  Phase phase{};
  int victim = 0;
  std::vector<double> latencies_ms;  // kill() to the error in each survivor that was told of the death
  int missed = 0;                    // survivors for whom the dead rank just did not come: killed before it had joined a creation
  int hangs = 0;                     // survivors that were still not done long after every deadline
  int leaks = 0;                     // survivors with more descriptors, mappings or threads than before; files left behind
  std::vector<std::string> problems;  // everything that is not as documented, hangs and leaks included
};

// `seed` decides everything but the scheduling: phase, victim, moment, and the calls made.
KillReport kill_one(uint64_t seed, int size);

}  // namespace support
