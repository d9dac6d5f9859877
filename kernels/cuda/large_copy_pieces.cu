// The kernel of copy_pieces.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/copy_pieces.cu"
