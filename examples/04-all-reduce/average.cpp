// The average of an array over all ranks, in symmetric
// memory and in a vector: docs/tutorial/04-all-reduce.md
#include <cstdio>
#include <vector>

#include "symm/symm.h"
#include <symm/symm.hpp>

int main() try {
  constexpr size_t kCount = 1 << 20;
  const symm::Group group = symm::Group::create();
  const symm::Memory memory = group.rendezvous(group.allocate(kCount * sizeof(float)));
  const symm::Span<float> gradient = memory.span<float>();

  for (float& element : gradient) {
    element = static_cast<float>(group.rank() + 1);
  }
  group.allreduce(gradient, gradient, SYMM_OP_AVG);  // in place, without a copy

  const std::vector<double> mine = {1.0, 2.0, 3.0};
  std::vector<double> total(mine.size());
  group.allreduce(mine, total, SYMM_OP_SUM);  // any memory will do

  const symm_plan_info_t plan =
      group.plan(SYMM_COLLECTIVE_ALLREDUCE, gradient, gradient, gradient.size(), SYMM_OP_AVG);
  std::printf("rank %d: average %g, total %g (%s)\n", group.rank(),
      static_cast<double>(gradient[kCount - 1]), total[2], plan.reason);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
