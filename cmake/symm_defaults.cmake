# Language, visibility and build type; included before the first target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The build type is a choice of the user's cache; all other settings of this file hold for
# this directory alone.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# The tool is build/<preset>/bin/symm, the library build/<preset>/lib/libsymm.so.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# An installed program finds the library beside itself, wherever the prefix is moved.
file(
  RELATIVE_PATH
  symm_libdir_from_bindir
  ${CMAKE_INSTALL_FULL_BINDIR}
  ${CMAKE_INSTALL_FULL_LIBDIR}
)
set(CMAKE_INSTALL_RPATH "$ORIGIN/${symm_libdir_from_bindir}")

find_program(SYMM_CCACHE ccache)
mark_as_advanced(SYMM_CCACHE)
foreach(language IN ITEMS C CXX)
  if(PROJECT_IS_TOP_LEVEL AND SYMM_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    # Objects are shared between checkouts (base directory, no directory hashed) and
    # with precompiled headers (sloppiness).
    set(
      CMAKE_${language}_COMPILER_LAUNCHER
      ${CMAKE_COMMAND}
      -E
      env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros
      ${SYMM_CCACHE}
    )
  endif()
endforeach()

find_package(Threads REQUIRED)
