// A rank is killed, and the others go on without it: docs/tutorial/06-survive-a-dead-rank.md
#include <signal.h>

#include <csignal>
#include <cstdio>

#include "symm/symm.h"
#include <symm/symm.hpp>

void work(const symm::Group& group) {
  float ones[] = {1};
  group.allreduce(ones, ones, SYMM_OP_SUM);
  std::printf("rank %d: %g ranks at work\n", group.rank(), static_cast<double>(ones[0]));
}

int main() try {
  symm::Group group = symm::Group::create();
  if (group.size() < 2) {
    std::puts("start at least two ranks");
    return 2;
  }

  try {
    work(group);
    if (group.rank() == 1) std::raise(SIGKILL);
    for (;;) {
      group.barrier();
    }
  } catch (const symm::Error& error) {
    if (error.status() != SYMM_ERR_PEER_FAILED) throw;
    std::printf("rank %d lost rank %d\n", group.rank(), error.rank());
    group = group.shrink();
  }

  work(group);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
