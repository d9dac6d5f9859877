// The kernel of two_shot, compiled for the host with a fault: it waits for no tokens. push_test.cpp
// shows that the model notices.
#include "kernels/cuda/push.cuh"

#define exchange_token(...) true
#define SYMM_FOR_ARITHMETICS(KERNEL) KERNEL(without_tokens, Any, 4)
#include "kernels/cuda/two_shot.cu"  // NOLINT(bugprone-suspicious-include)
