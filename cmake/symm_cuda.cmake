# SPDX-License-Identifier: Apache-2.0
#
# SYMM_CUDA=auto uses a CUDA back end where it can be built, off never does, on insists. There is none to build yet, so
# auto and off give the library whose CUDA back end answers SYMM_ERR_UNAVAILABLE, and on stops here.
if(SYMM_CUDA STREQUAL "on")
  message(FATAL_ERROR "SYMM_CUDA=on, but this version of symm has no CUDA back end. "
                      "Configure with -DSYMM_CUDA=auto or -DSYMM_CUDA=off to build the host back end.")
elseif(NOT SYMM_CUDA MATCHES "^(auto|off)$")
  message(FATAL_ERROR "SYMM_CUDA is '${SYMM_CUDA}'; known are auto, on and off")
endif()
set(symm_back_ends host)
set(symm_cuda_architectures "")
message(STATUS "symm: CUDA back end not built (SYMM_CUDA=${SYMM_CUDA}): this version has none")
