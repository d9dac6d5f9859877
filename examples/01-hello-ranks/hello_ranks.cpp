// Ranks find each other and say who they are: docs/tutorial/01-hello-ranks.md
#include <unistd.h>

#include <cstdio>

#include <symm/symm.hpp>

int main() try {
  const symm::Group group = symm::Group::create();
  std::printf(
      "rank %d of %d is process %d\n", group.rank(), group.size(), static_cast<int>(getpid()));
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
