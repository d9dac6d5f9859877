// The kernels of signal.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/signal.cu"
