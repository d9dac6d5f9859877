# SYMM_CUDA=auto builds the CUDA kernels where there is an nvcc that is new enough, off never
# builds them, on insists. Without kernels the library is complete but for its CUDA back end,
# which answers SYMM_ERR_UNAVAILABLE with the reason. The host side of the back end needs no
# toolkit and is always built.
#
# `./dev setup` fetches an nvcc into .deps/cuda where there is none on PATH
# (kernels/cuda/dev); SYMM_CUDA=off in its environment keeps it from that.
#
# SYMM_NVCC may also be kernels/cuda/nvrtc, which compiles by CUDA 12 from Python wheels
# (`./dev setup cuda12`), and only kernels.
set(SYMM_NVCC_CCBIN ${CMAKE_CXX_COMPILER} CACHE FILEPATH "The compiler that nvcc preprocesses with")
set(SYMM_NVCC_FLAGS "" CACHE STRING "More options for nvcc, as a list")
mark_as_advanced(SYMM_NVCC_CCBIN SYMM_NVCC_FLAGS)
symm_switch(SYMM_CUDA auto)
set(symm_back_ends host)
set(symm_cuda_architectures "")
# CUDA 12 is the last that knows 7.0 (V100).
set(default_architectures 80 90 100)
# Does the compiler make programs, too, with code of the host?
set(symm_nvcc_makes_programs TRUE)
if(NOT SYMM_CUDA STREQUAL "off")
  find_program(
    SYMM_NVCC
    nvcc
    HINTS ${PROJECT_SOURCE_DIR}/.deps/cuda/bin
    ENV CUDA_HOME
    ENV CUDA_PATH
    PATH_SUFFIXES bin
  )
  if(NOT SYMM_NVCC)
    find_program(SYMM_NVCC nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin)
  endif()
  mark_as_advanced(SYMM_NVCC)
  set(symm_cuda_reason "no nvcc was found")
  if(SYMM_NVCC)
    execute_process(
      COMMAND ${SYMM_NVCC} --version
      OUTPUT_VARIABLE version
      ERROR_VARIABLE version
      RESULT_VARIABLE failed
    )
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" found "${version}")
    if(failed OR NOT found)
      set(symm_cuda_reason "${SYMM_NVCC} does not say its version")
    elseif(CMAKE_MATCH_1 LESS 12 OR (CMAKE_MATCH_1 EQUAL 12 AND CMAKE_MATCH_2 LESS 8))
      set(
        symm_cuda_reason
        "${SYMM_NVCC} is of version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, and 12.8 is needed"
      )
    else()
      set(symm_cuda_reason "")
      if(CMAKE_MATCH_1 EQUAL 12)
        list(PREPEND default_architectures 70)
      endif()
      if(version MATCHES "for code of devices only")
        set(symm_nvcc_makes_programs FALSE)
      endif()
    endif()
  endif()
  set(
    SYMM_CUDA_ARCHITECTURES
    "${default_architectures}"
    CACHE STRING
    "Compute capabilities to compile kernels for; the last one also as PTX"
  )
  if(NOT symm_cuda_reason AND NOT "70" IN_LIST default_architectures)
    if("70" IN_LIST SYMM_CUDA_ARCHITECTURES)
      message(
        FATAL_ERROR
        "SYMM_CUDA_ARCHITECTURES has 70, which ${SYMM_NVCC} does not know: CUDA 12 is the last "
        "that does. Name one by -DSYMM_NVCC=; docs/gpu.md says how to get it from wheels."
      )
    endif()
  endif()
  if(NOT symm_cuda_reason)
    list(APPEND symm_back_ends cuda)
    set(symm_cuda_architectures ${SYMM_CUDA_ARCHITECTURES})
    message(STATUS "symm: CUDA kernels for ${symm_cuda_architectures} by ${SYMM_NVCC}")
  elseif(SYMM_CUDA STREQUAL "on")
    message(
      FATAL_ERROR
      "SYMM_CUDA=on, but ${symm_cuda_reason}. Name one by -DSYMM_NVCC=, or configure with "
      "-DSYMM_CUDA=auto or off."
    )
  else()
    message(STATUS "symm: no CUDA kernels: ${symm_cuda_reason}")
  endif()
endif()
