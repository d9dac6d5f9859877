// The program of consumer.c in C++, first by symm.hpp, then by symm.h.
#include <symm/symm.hpp>

#define main main_in_c
#include "consumer.c"
#undef main

int main() {
  try {
    const symm::Group group = symm::Group::create();
    float value = 2;
    group.allreduce(symm::Span(&value, 1), symm::Span(&value, 1), SYMM_OP_SUM);
    group.finalize();
    printf("consumer by symm.hpp: %d rank(s), sum %g\n", group.size(), value);
  } catch (const symm::Error& error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return main_in_c();
}
