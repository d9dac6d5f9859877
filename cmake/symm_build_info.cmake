# Writes generated/build_info.hpp, which holds the text of symm_build_info(). The git
# revision is looked up in every build, all other values when CMake configures.

function(symm_json_array out)
  list(TRANSFORM ARGN APPEND "\"")
  list(TRANSFORM ARGN PREPEND "\"")
  list(JOIN ARGN ", " joined)
  set(${out} "[${joined}]" PARENT_SCOPE)
endfunction()
symm_json_array(symm_json_back_ends ${symm_back_ends})
symm_json_array(symm_json_cuda_architectures ${symm_cuda_architectures})

# The revision stays a placeholder in the first of two passes.
set(symm_git_revision "@symm_git_revision@")
set(symm_build_info_hpp ${CMAKE_CURRENT_BINARY_DIR}/generated/build_info.hpp)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.hpp.in ${symm_build_info_hpp}.in @ONLY)
set(
  symm_write_build_info
  ${CMAKE_COMMAND}
  -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}
  -DIN=${symm_build_info_hpp}.in
  -DOUT=${symm_build_info_hpp}
  -P
  ${CMAKE_CURRENT_LIST_DIR}/write_build_info.cmake
)
execute_process(COMMAND ${symm_write_build_info} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(
  symm_build_info
  ALL
  COMMAND ${symm_write_build_info}
  BYPRODUCTS ${symm_build_info_hpp}
  VERBATIM
)
add_dependencies(symm_options symm_build_info)
