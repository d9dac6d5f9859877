// SPDX-License-Identifier: Apache-2.0
//
// A rank is killed, and the others go on without it: docs/tutorial/06-survive-a-dead-rank.md
#include <symm/symm.hpp>

#include <csignal>
#include <cstdio>

// The ranks of `old` but `dead` move up, and meet where the launcher has let them meet before.
symm::Group without(const symm::Group& old, int dead) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = old.rank() - (old.rank() > dead ? 1 : 0);
  config.size = old.size() - 1;
  config.name = "survivors";
  return symm::Group::create(config);
}

void work(const symm::Group& group) {
  float ones[] = {1};
  group.allreduce(ones, ones, SYMM_OP_SUM);
  std::printf("rank %d: %g ranks at work\n", group.rank(), static_cast<double>(ones[0]));
}

int main() try {
  symm::Group group = symm::Group::create();
  if (group.size() < 2) return std::puts("start at least two ranks"), 2;
  work(group);
  if (group.rank() == 1) std::raise(SIGKILL);
  try {
    for (;;) group.barrier();
  } catch (const symm::Error& error) {
    if (error.status() != SYMM_ERR_PEER_FAILED) throw;
    std::printf("rank %d lost rank %d\n", group.rank(), error.rank());
    group = without(group, error.rank());
  }
  work(group);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
