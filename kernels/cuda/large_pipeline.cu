// The kernels of pipeline.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/pipeline.cu"
