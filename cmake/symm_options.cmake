# What all targets of ours are compiled with. Never part of what is installed.
add_library(symm_options INTERFACE)
target_compile_options(symm_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${SYMM_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # false alarms on std::string, GCC bug 105651
  target_compile_options(symm_options INTERFACE -Wno-restrict)
endif()
target_include_directories(symm_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/generated)
target_link_libraries(symm_options INTERFACE Threads::Threads)

# A sanitizer's build takes twice as long, and a good part of it json.
# The others do without: GCC 12 warns of what is in a system header
# once that is precompiled, all of it false alarms, and the release
# keeps its warnings. (Tests are not optimised, and then it does not.)
set(SYMM_PRECOMPILED_HEADERS ${SYMM_SANITIZE})
if(SYMM_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(symm_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
# Every use of a pointer is a quarter of what a file takes to compile; it is checked in
# the library, not in tests and the tool.
define_property(TARGET PROPERTY SYMM_UBSAN_SKIP_NULL INITIALIZE_FROM_VARIABLE SYMM_UBSAN_SKIP_NULL)
if(SYMM_SANITIZE STREQUAL "address")
  set(symm_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SYMM_SANITIZE STREQUAL "thread")
  set(symm_sanitizer_flags -fsanitize=thread)
elseif(SYMM_SANITIZE)
  message(FATAL_ERROR "SYMM_SANITIZE is '${SYMM_SANITIZE}'; known are address, thread and nothing")
endif()
if(SYMM_SANITIZE)
  target_compile_options(symm_options INTERFACE ${symm_sanitizer_flags} -fno-omit-frame-pointer
    $<$<BOOL:$<TARGET_PROPERTY:SYMM_UBSAN_SKIP_NULL>>:-fno-sanitize=null,alignment,vptr>)
  target_link_options(symm_options INTERFACE ${symm_sanitizer_flags})
endif()

# Most of what a file takes to compile is the headers it shares with its neighbours. The
# library and the tool are compiled file by file where the tests alone are not, so a
# header that one of them forgot is found there, and not first by who builds as it is.
if(NOT SYMM_UNITY MATCHES "^(|tests|all|few)$")
  message(FATAL_ERROR "SYMM_UNITY is '${SYMM_UNITY}'; known are tests, all, few and nothing")
endif()
if(SYMM_UNITY MATCHES "all|few")
  set(CMAKE_UNITY_BUILD ON)
endif()
if(SYMM_UNITY MATCHES "all|few" AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # until then it looks for no garbage
  target_compile_options(symm_options INTERFACE --param=ggc-min-heapsize=500000)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# symm_by_itself(target files ...): files whose own names, or whose headers, do not go
# together with those of the target's other files.
function(symm_by_itself target)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
