// What the fake NCCL notes of its calls, for the programs of this folder and for ctypes.
#pragma once

#include <cstddef>
#include <cstdint>

// The last call of a function without a body of its own, with more arguments than any has: the
// last four words lie on the stack, by the ABI of either processor.
struct FakeCall {
  const char* name;
  uint64_t words[10];
  double reals[8];
};
