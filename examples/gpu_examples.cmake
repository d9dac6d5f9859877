# Examples that nvcc compiles, with the CUDA runtime linked in statically. nvcc is called
# directly, as in kernels/cuda, but for the oldest architecture only: a newer GPU takes its PTX.
#
# Sets symm_gpu_examples to the names of the programs; none where nvcc makes no programs.
set(symm_gpu_examples)
if(NOT symm_cuda_architectures OR NOT symm_nvcc_makes_programs)
  return()
endif()
list(GET symm_cuda_architectures 0 oldest)
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/capi/include/symm/*)
foreach(
  source
  IN
  ITEMS
    05-a-kernel-of-your-own/gather_matvec
    05-a-kernel-of-your-own/all_reduce_gelu
    12-signals-in-a-graph/laps
)
  get_filename_component(name ${source} NAME)
  list(APPEND symm_gpu_examples ${name})
  if(TARGET symm_${name})
    continue()
  endif()
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/symm_${name})
  add_custom_command(
    OUTPUT ${program}
    COMMAND
      ${SYMM_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++17 -O3 -Xcompiler=-Wall,-Wextra
      -I${PROJECT_SOURCE_DIR}/capi/include -arch=sm_${oldest} -o ${program}
      ${CMAKE_CURRENT_LIST_DIR}/${source}.cu -L$<TARGET_FILE_DIR:symm> -lsymm
      -Xlinker=-rpath,$<TARGET_FILE_DIR:symm>
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${source}.cu ${headers} symm
    COMMENT "Building the example ${name} for ${oldest}"
    VERBATIM
  )
  add_custom_target(symm_${name} ALL DEPENDS ${program})
endforeach()
