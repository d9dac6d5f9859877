// The kernel, compiled for the host.
#include "kernels/cuda/hybrid.cu"  // NOLINT(bugprone-suspicious-include)
