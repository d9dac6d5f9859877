// The kernel of exchange.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/exchange.cu"
