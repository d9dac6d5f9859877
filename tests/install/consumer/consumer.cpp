// The program of consumer.c in C++, first by symm.hpp, then by symm.h.
#include <symm/fused.hpp>
#include <symm/symm.hpp>

#define main main_in_c
#include "consumer.c"
#undef main

int main() {
  try {
    const symm::Group group = symm::Group::create();
    float value = 2;
    group.allreduce(symm::Span(&value, 1), symm::Span(&value, 1), SYMM_OP_SUM);

    // A call of fused.h, which takes the symbol version of its own.
    alignas(16) float row[] = {2, 2, 2, 2, 2, 2, 2, 2};
    alignas(16) const float weight[] = {1, 1, 1, 1, 1, 1, 1, 1};
    symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;
    norm.weight = weight;
    norm.norm_out = row;
    symm::allreduce_rmsnorm(group, row, 8, norm);
    if (row[7] < 0.99F || row[7] > 1.01F) return 1;

    group.finalize();
    printf("consumer by symm.hpp: %d rank(s), sum %g\n", group.size(), value);
  } catch (const symm::Error& error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return main_in_c();
}
