// The time for which a wait looks at a word before it sleeps, given the processors
// that the ranks share.
#pragma once

#include <sched.h>

#include <bitset>
#include <cstdint>

namespace symm {
using Processors = std::bitset<CPU_SETSIZE>;  // processors beyond that number are not counted
// The processors that the calling thread may use.
Processors usable_processors();

// The number of looks before a sleep. The variable SYMM_SPIN, a number of spins, overrides it.
struct SpinPolicy {
  uint32_t spins = 0;   // looks in a row
  uint32_t yields = 0;  // further looks, with the processor offered to others between them
  // `processors`: those that any of the ranks may use. A launcher often binds each rank to its
  // own. `remote`: a look also asks for news of other machines.
  static SpinPolicy for_ranks(int ranks, const Processors& processors, bool remote = false);
};
}  // namespace symm
