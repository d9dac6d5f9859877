// The kernels of marked.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/marked.cu"
