// The kernel, compiled for the host, as it must not be.
#include "kernels/cuda/push.cuh"

#define exchange_token(...) true
#define SYMM_FOR_ARITHMETICS(KERNEL) KERNEL(without_tokens, Any, 4)
#include "kernels/cuda/two_shot.cu"  // NOLINT(bugprone-suspicious-include)
