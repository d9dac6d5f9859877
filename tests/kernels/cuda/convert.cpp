// The kernels, compiled for the host, with the arithmetic that they have on a GPU.
#define SYMM_REAL_ARITHMETIC
#include "kernels/cuda/convert.cu"  // NOLINT(bugprone-suspicious-include)
