// Somebody else's kernel, built against the installed headers only.
#include <symm/exchange.cuh>
#include <symm/multimem.cuh>

__global__ void hello(const symm::device::Memory memory, int* code) {
  *symm::device::pointer<int>(memory, (memory.rank + 1) % memory.size) = memory.rank;
  *code = symm::device::barrier_block(memory, 0).code;
}
