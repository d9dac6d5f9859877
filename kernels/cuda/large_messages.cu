// The kernel of messages.cu for large groups.
#define SYMM_LARGE_GROUPS
#include "kernels/cuda/messages.cu"
