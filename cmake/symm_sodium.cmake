# With libsodium, ranks of several machines authenticate each other. It is linked into
# libsymm.so. A program with libsymm.a links it, too: symmConfig.cmake, symm.pc and the build
# script of the Rust crates name it. Sets symm_sodium to ON or OFF.
find_library(SYMM_SODIUM_LIBRARY libsodium.a)
find_path(SYMM_SODIUM_INCLUDE sodium.h)
mark_as_advanced(SYMM_SODIUM_LIBRARY SYMM_SODIUM_INCLUDE)
set(symm_sodium OFF)
if(NOT SYMM_SODIUM)
  message(STATUS "symm: SYMM_SODIUM is off, so groups across machines are unavailable")
elseif(NOT SYMM_SODIUM_LIBRARY OR NOT SYMM_SODIUM_INCLUDE)
  message(
    STATUS
    "symm: found no libsodium.a with sodium.h, so groups across machines are unavailable"
  )
else()
  set(symm_sodium ON)
endif()
