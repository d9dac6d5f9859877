// The kernels of pieces.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/pieces.cu"
