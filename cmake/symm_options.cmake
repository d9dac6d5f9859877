# Options with which all targets of this project are compiled. They are never installed.
add_library(symm_options INTERFACE)
target_compile_options(
  symm_options
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${SYMM_WERROR}>:-Werror>
)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: false alarms on std::string.
  target_compile_options(symm_options INTERFACE -Wno-restrict)
endif()
target_include_directories(
  symm_options
  INTERFACE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/generated
)
target_link_libraries(symm_options INTERFACE Threads::Threads)

# A sanitizer's build takes twice as long, a good part of it for json, so headers are
# precompiled there. Other builds do without: once a system header is precompiled, GCC 12
# warns of its contents, all of it false alarms, and the release keeps its warnings. (GCC
# does not warn where it does not optimise, as in tests.)
set(SYMM_PRECOMPILED_HEADERS ${SYMM_SANITIZE})
if(
  SYMM_PRECOMPILED_HEADERS
  AND CMAKE_CXX_COMPILER_ID STREQUAL GNU
  AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13
)
  target_compile_options(symm_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
# Checks of every use of a pointer take a quarter of the time of a file. The library has
# them; tests and the tool have this property, and have them not.
define_property(TARGET PROPERTY SYMM_UBSAN_SKIP_NULL INITIALIZE_FROM_VARIABLE SYMM_UBSAN_SKIP_NULL)
if(SYMM_SANITIZE STREQUAL "address")
  set(symm_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SYMM_SANITIZE STREQUAL "thread")
  set(symm_sanitizer_flags -fsanitize=thread)
elseif(SYMM_SANITIZE)
  message(FATAL_ERROR "SYMM_SANITIZE is '${SYMM_SANITIZE}'; known are address, thread and nothing")
endif()
if(SYMM_SANITIZE)
  target_compile_options(
    symm_options
    INTERFACE
      ${symm_sanitizer_flags}
      -fno-omit-frame-pointer
      $<$<BOOL:$<TARGET_PROPERTY:SYMM_UBSAN_SKIP_NULL>>:-fno-sanitize=null,alignment,vptr>
  )
  target_link_options(symm_options INTERFACE ${symm_sanitizer_flags})
endif()

# Most of the time of a file goes into headers that its neighbours include as well. A header
# which a file forgot is found by lint.tidy, which compiles each file by itself, and by the
# debug build. With SYMM_UNITY=most the files of symm_hot() are compiled one by one, with
# SYMM_UNITY=tests all files of the library and the tool are.
if(NOT SYMM_UNITY MATCHES "^(|tests|most|all|few)$")
  message(FATAL_ERROR "SYMM_UNITY is '${SYMM_UNITY}'; known are tests, most, all, few and nothing")
endif()
if(SYMM_UNITY MATCHES "most|all|few")
  set(CMAKE_UNITY_BUILD ON)
endif()
if(SYMM_UNITY MATCHES "most|all|few" AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC collects no garbage below this heap size, in kB.
  target_compile_options(symm_options INTERFACE --param=ggc-min-heapsize=500000)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# symm_hot(target)
#
# Says that each call goes through the target: GCC inlines less in a large unit, which takes a
# nanosecond or two of a call that takes 50.
function(symm_hot target)
  if(SYMM_UNITY STREQUAL most)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# symm_by_itself(target files ...)
#
# Compiles each of the files by itself, since its names, or those of its headers, collide
# with those of the target's other files.
function(symm_by_itself target)
  set_source_files_properties(
    ${ARGN}
    TARGET_DIRECTORY ${target}
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
  )
endfunction()
