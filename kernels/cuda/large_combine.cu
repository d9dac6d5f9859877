// The kernels of combine.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/combine.cu"
