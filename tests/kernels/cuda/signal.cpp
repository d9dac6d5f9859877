// The kernels, compiled for the host.
#include "kernels/cuda/signal.cu"  // NOLINT(bugprone-suspicious-include)
