// The kernels, compiled for the host.
#include "kernels/cuda/pipeline_move.cu"  // NOLINT(bugprone-suspicious-include)
