// The kernel, compiled for the host.
#include "kernels/cuda/marked.cu"  // NOLINT(bugprone-suspicious-include)
