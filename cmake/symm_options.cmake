# SPDX-License-Identifier: Apache-2.0
#
# What all targets of ours are compiled with. Never part of what is installed.
add_library(symm_options INTERFACE)
target_compile_options(symm_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(symm_options INTERFACE -Wno-restrict) # false alarms on std::string, GCC bug 105651
endif()
target_include_directories(symm_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/generated)
target_link_libraries(symm_options INTERFACE Threads::Threads)


# A sanitizer's build takes twice as long, half of it in GoogleTest, CLI11 and json. The others do without: GCC 12 warns of what is
# in a system header once that is precompiled, all of it false alarms, and the release keeps its warnings.
set(SYMM_PRECOMPILED_HEADERS ${SYMM_SANITIZE})
if(SYMM_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(symm_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(SYMM_SANITIZE STREQUAL "address")
  set(symm_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SYMM_SANITIZE STREQUAL "thread")
  set(symm_sanitizer_flags -fsanitize=thread)
elseif(SYMM_SANITIZE)
  message(FATAL_ERROR "SYMM_SANITIZE is '${SYMM_SANITIZE}'; known are address, thread and nothing")
endif()
if(SYMM_SANITIZE)
  target_compile_options(symm_options INTERFACE ${symm_sanitizer_flags} -fno-omit-frame-pointer)
  target_link_options(symm_options INTERFACE ${symm_sanitizer_flags})
endif()
