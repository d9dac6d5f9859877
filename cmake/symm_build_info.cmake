# Writes generated/build_info.hpp: what symm_build_info() says. The git revision is looked up in every build, the rest here.

# Which instruction sets the arithmetic is compiled for is decided by Highway's headers for this compiler and these flags, so ask them.
get_target_property(symm_highway_include symm_highway INTERFACE_INCLUDE_DIRECTORIES)
separate_arguments(symm_cxx_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} ${symm_cxx_flags} -std=c++20 -E -P -I${symm_highway_include} -I${PROJECT_SOURCE_DIR}
          -x c++ ${CMAKE_CURRENT_LIST_DIR}/simd_targets.in
  OUTPUT_VARIABLE symm_simd_output
  ERROR_VARIABLE symm_simd_error
  RESULT_VARIABLE symm_simd_result)
if(NOT symm_simd_result EQUAL 0)
  message(FATAL_ERROR "cannot ask Highway for its targets: ${symm_simd_error}")
endif()
string(REGEX MATCHALL "simd_target [a-z0-9]+" symm_simd_lines "${symm_simd_output}")
string(REPLACE "simd_target " "" symm_simd_targets "${symm_simd_lines}")
message(STATUS "symm: SIMD targets ${symm_simd_targets}")

function(symm_json_array out)
  list(TRANSFORM ARGN APPEND "\"")
  list(TRANSFORM ARGN PREPEND "\"")
  list(JOIN ARGN ", " joined)
  set(${out} "[${joined}]" PARENT_SCOPE)
endfunction()
symm_json_array(symm_json_back_ends ${symm_back_ends})
symm_json_array(symm_json_cuda_architectures ${symm_cuda_architectures})
symm_json_array(symm_json_simd_targets ${symm_simd_targets})

set(symm_git_revision "@symm_git_revision@") # stays a placeholder in the first of two passes
set(symm_build_info_hpp ${CMAKE_CURRENT_BINARY_DIR}/generated/build_info.hpp)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.hpp.in ${symm_build_info_hpp}.in @ONLY)
set(symm_write_build_info
    ${CMAKE_COMMAND} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR} -DIN=${symm_build_info_hpp}.in
    -DOUT=${symm_build_info_hpp} -P ${CMAKE_CURRENT_LIST_DIR}/write_build_info.cmake)
execute_process(COMMAND ${symm_write_build_info} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(symm_build_info ALL COMMAND ${symm_write_build_info} BYPRODUCTS ${symm_build_info_hpp} VERBATIM)
add_dependencies(symm_options symm_build_info)
