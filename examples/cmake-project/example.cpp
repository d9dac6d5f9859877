// Each rank gives its number, and all get the sum: symm run -n 4 -- build/example
#include <cstdio>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

int main() try {
  const symm::Group group = symm::Group::create();
  std::vector<float> x = {static_cast<float>(group.rank())};
  group.allreduce(x, x, SYMM_OP_SUM);
  std::printf("rank %d of %d: the sum is %g\n", group.rank(), group.size(), x[0]);
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
