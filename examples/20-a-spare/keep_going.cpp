// A rank is killed, and a spare goes on in its place:
//   symm run -n 3 --spares 1 -- symm_keep_going
// What a program has to do for that: it grows the group when a rank has died, and then tells the
// newcomer, which knows nothing, where the others are. Here all take the largest state of any rank.
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "symm/symm.h"
#include <symm/symm.hpp>

constexpr double kSteps = 40;

int main() try {
  const bool is_spare = std::getenv("SYMM_SPARE") != nullptr;
  symm::Group group = symm::Group::create();  // a spare waits here until a rank has died
  // Optional: the spare and the ranks meet now, which takes time that nobody misses yet.
  if (!is_spare) group.keep_spares(1);

  double state[] = {0, 0};  // the steps that are done, and what they add up to
  bool may_differ = is_spare;
  while (state[0] < kSteps) {
    try {
      if (may_differ) group.allreduce(state, state, SYMM_OP_MAX);
      may_differ = false;

      double work[] = {group.rank() + 1.0};
      group.allreduce(work, work, SYMM_OP_SUM);
      state[0] += 1;
      state[1] += work[0];
      if (!is_spare && group.rank() == 1 && state[0] == kSteps / 2) std::raise(SIGKILL);
    } catch (const symm::Error& error) {
      if (error.status() != SYMM_ERR_PEER_FAILED) throw;
      std::printf("rank %d lost rank %d after %g steps\n", group.rank(), error.rank(), state[0]);
      group = group.grow();
      may_differ = true;
    }
  }

  std::printf("rank %d%s: %g steps add up to %g\n", group.rank(), is_spare ? ", a spare" : "",
      state[0], state[1]);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
