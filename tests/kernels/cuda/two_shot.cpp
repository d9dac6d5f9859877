// The kernels, compiled for the host.
#include "kernels/cuda/two_shot.cu"  // NOLINT(bugprone-suspicious-include)
