// SPDX-License-Identifier: Apache-2.0
//
// The kernels, compiled for the host.
#include "kernels/cuda/pipeline.cu"  // NOLINT(bugprone-suspicious-include)
