// The kernels of pipeline_move.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/pipeline_move.cu"
