// The kernels, compiled for the host.
#include "kernels/cuda/ll.cu"  // NOLINT(bugprone-suspicious-include)
