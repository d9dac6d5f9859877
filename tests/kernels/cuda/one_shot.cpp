// The kernels, compiled for the host.
#include "kernels/cuda/one_shot.cu"  // NOLINT(bugprone-suspicious-include)
