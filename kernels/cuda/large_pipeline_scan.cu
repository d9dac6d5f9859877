// The kernel of pipeline_scan.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/pipeline_scan.cu"
