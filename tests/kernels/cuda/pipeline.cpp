// The kernels, compiled for the host.
#include "kernels/cuda/pipeline.cu"  // NOLINT(bugprone-suspicious-include)
