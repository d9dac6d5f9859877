# With libsodium, ranks of several machines authenticate each other. SYMM_SODIUM=auto takes what
# is there, on insists, off does without. These are tried one after the other:
#   - the archive that -DSYMM_SODIUM_LIBRARY= names,
#   - the sources in third_party/ of a source package, or in -DSYMM_SODIUM_SOURCE=,
#   - libsodium.a and sodium.h of this machine,
#   - with on, the sources, which packaging/third_party fetches.
#
# Sources become part of libsymm.so or libsymm.a. So does an archive of libsymm.so; but a program
# with libsymm.a links the archive, too: symmConfig.cmake, symm.pc and the build script of the Rust
# crates name it.
#
# Sets symm_sodium to ON if there is a libsodium, and symm_sodium_archive if it is an archive.
set(symm_sodium OFF)
set(symm_sodium_archive OFF)
symm_switch(SYMM_SODIUM auto)

# packaging/third_party reads these: the sources, and the checksum of what it takes of them.
set(symm_sodium_repository jedisct1/libsodium)
set(symm_sodium_commit 148f62784b6805b9ede95275edf9d3776bc5ad5e)
set(symm_sodium_checksum a994d663436aa7912564632ead44d90661ec9c0a4562f66881df340f07389c7f)
# The functions that symm calls are in these files, with all that they call.
set(
  symm_sodium_files
  crypto_aead/aegis128l/aead_aegis128l.c
  crypto_aead/aegis128l/aegis128l_soft.c
  crypto_aead/aegis256/aead_aegis256.c
  crypto_aead/aegis256/aegis256_soft.c
  crypto_core/ed25519/ref10/ed25519_ref10.c
  crypto_core/hchacha20/core_hchacha20.c
  crypto_core/salsa/ref/core_salsa_ref.c
  crypto_core/softaes/softaes.c
  crypto_generichash/blake2b/ref/blake2b-compress-avx2.c
  crypto_generichash/blake2b/ref/blake2b-compress-ref.c
  crypto_generichash/blake2b/ref/blake2b-compress-sse41.c
  crypto_generichash/blake2b/ref/blake2b-compress-ssse3.c
  crypto_generichash/blake2b/ref/blake2b-ref.c
  crypto_generichash/blake2b/ref/generichash_blake2b.c
  crypto_generichash/crypto_generichash.c
  crypto_onetimeauth/poly1305/donna/poly1305_donna.c
  crypto_onetimeauth/poly1305/onetimeauth_poly1305.c
  crypto_onetimeauth/poly1305/sse2/poly1305_sse2.c
  crypto_pwhash/argon2/argon2-core.c
  crypto_pwhash/argon2/argon2-fill-block-avx2.c
  crypto_pwhash/argon2/argon2-fill-block-ref.c
  crypto_pwhash/argon2/argon2-fill-block-ssse3.c
  crypto_pwhash/argon2/blake2b-long.c
  crypto_scalarmult/crypto_scalarmult.c
  crypto_scalarmult/curve25519/ref10/x25519_ref10.c
  crypto_scalarmult/curve25519/scalarmult_curve25519.c
  crypto_secretstream/xchacha20poly1305/secretstream_xchacha20poly1305.c
  crypto_stream/chacha20/dolbeau/chacha20_dolbeau-avx2.c
  crypto_stream/chacha20/dolbeau/chacha20_dolbeau-ssse3.c
  crypto_stream/chacha20/ref/chacha20_ref.c
  crypto_stream/chacha20/stream_chacha20.c
  crypto_stream/salsa20/ref/salsa20_ref.c
  crypto_stream/salsa20/stream_salsa20.c
  crypto_stream/salsa20/xmm6int/salsa20_xmm6int-avx2.c
  crypto_stream/salsa20/xmm6int/salsa20_xmm6int-sse2.c
  crypto_verify/verify.c
  randombytes/randombytes.c
  randombytes/sysrandom/randombytes_sysrandom.c
  sodium/core.c
  sodium/runtime.c
  sodium/utils.c
)

if(SYMM_SODIUM STREQUAL "off")
  message(STATUS "symm: SYMM_SODIUM is off, so groups across machines are unavailable")
  return()
endif()

find_path(
  SYMM_SODIUM_SOURCE
  src/libsodium/sodium/core.c
  PATHS ${PROJECT_SOURCE_DIR}/third_party/libsodium ${PROJECT_BINARY_DIR}/third_party/libsodium
  NO_DEFAULT_PATH
)
mark_as_advanced(SYMM_SODIUM_SOURCE)
if(SYMM_SODIUM_LIBRARY OR NOT SYMM_SODIUM_SOURCE)
  find_library(SYMM_SODIUM_LIBRARY libsodium.a)
  find_path(SYMM_SODIUM_INCLUDE sodium.h)
  mark_as_advanced(SYMM_SODIUM_LIBRARY SYMM_SODIUM_INCLUDE)
  if(SYMM_SODIUM_LIBRARY AND SYMM_SODIUM_INCLUDE)
    set(symm_sodium ON)
    set(symm_sodium_archive ON)
    return()
  endif()
endif()

if(NOT SYMM_SODIUM_SOURCE AND SYMM_SODIUM STREQUAL "on")
  message(STATUS "symm: found no libsodium.a with sodium.h; fetching the sources of libsodium")
  find_package(Python3 QUIET COMPONENTS Interpreter)
  execute_process(
    COMMAND
      "${Python3_EXECUTABLE}" -B ${PROJECT_SOURCE_DIR}/packaging/third_party
      ${PROJECT_BINARY_DIR}/third_party sodium
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said
  )
  if(failed)
    message(
      FATAL_ERROR
      "SYMM_SODIUM=on, but no libsodium.a with sodium.h was found, and its sources cannot be "
      "fetched: ${said}\nInstall it (Debian: libsodium-dev), name one by -DSYMM_SODIUM_LIBRARY= "
      "and -DSYMM_SODIUM_INCLUDE=, or configure with -DSYMM_SODIUM=auto or off for a library whose "
      "groups stay on one machine."
    )
  endif()
  set(
    SYMM_SODIUM_SOURCE
    ${PROJECT_BINARY_DIR}/third_party/libsodium
    CACHE PATH
    "The sources of libsodium"
    FORCE
  )
endif()
if(NOT SYMM_SODIUM_SOURCE)
  message(
    STATUS
    "symm: found no libsodium.a with sodium.h, so groups across machines are unavailable"
  )
  return()
endif()

set(symm_sodium ON)
set(sources ${SYMM_SODIUM_SOURCE}/src/libsodium)
list(TRANSFORM symm_sodium_files PREPEND ${sources}/)
add_library(symm_sodium_objects OBJECT ${symm_sodium_files})
set_target_properties(symm_sodium_objects PROPERTIES C_STANDARD 11 UNITY_BUILD OFF)

# version.h is written by libsodium's own configure step, like the definitions below.
set(VERSION 1.0.20)
set(SODIUM_LIBRARY_VERSION_MAJOR 26)
set(SODIUM_LIBRARY_VERSION_MINOR 2)
set(SODIUM_LIBRARY_MINIMAL_DEF "")
file(READ ${sources}/include/sodium/version.h.in version)
string(REPLACE "\"export.h\"" "\"sodium/export.h\"" version "${version}")
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/sodium)
file(CONFIGURE OUTPUT ${generated}/sodium/version.h CONTENT "${version}" @ONLY)
unset(VERSION)

# A program that links libsymm.a may link another libsodium, so each name that the linker sees
# begins with symm_ here. install.static finds a name that the list lacks.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/symm_sodium_names.txt names)
list(TRANSFORM names REPLACE "(.+)" "#define \\1 symm_\\1\n")
list(JOIN names "" names)
file(CONFIGURE OUTPUT ${generated}/names.h CONTENT "${names}" @ONLY)

target_include_directories(
  symm_sodium_objects
  SYSTEM
  PUBLIC ${sources}/include ${generated}
  PRIVATE ${sources}/include/sodium ${generated}/sodium
)
target_compile_options(symm_sodium_objects PUBLIC "SHELL:-include ${generated}/names.h" PRIVATE -w)
target_compile_definitions(
  symm_sodium_objects
  PUBLIC SODIUM_STATIC=1
  PRIVATE
    _GNU_SOURCE
    CONFIGURED=1
    NATIVE_LITTLE_ENDIAN=1
    TLS=_Thread_local
    HAVE_ATOMIC_OPS=1
    HAVE_C11_MEMORY_FENCES=1
    HAVE_CLOCK_GETTIME=1
    HAVE_EXPLICIT_BZERO=1
    HAVE_GCC_MEMORY_FENCES=1
    HAVE_GETPID=1
    HAVE_GETRANDOM=1
    HAVE_INLINE_ASM=1
    HAVE_LINUX_COMPATIBLE_GETRANDOM=1
    HAVE_MADVISE=1
    HAVE_MLOCK=1
    HAVE_MMAP=1
    HAVE_MPROTECT=1
    HAVE_NANOSLEEP=1
    HAVE_POSIX_MEMALIGN=1
    HAVE_PTHREAD=1
    HAVE_RAISE=1
    HAVE_SYSCONF=1
    HAVE_SYS_AUXV_H=1
    HAVE_SYS_MMAN_H=1
    HAVE_SYS_PARAM_H=1
    HAVE_SYS_RANDOM_H=1
    HAVE_TI_MODE=1
    HAVE_WEAK_SYMBOLS=1
)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  # Which of these instructions there are is found out at run time.
  target_compile_definitions(
    symm_sodium_objects
    PRIVATE
      HAVE_CPUID=1
      HAVE_MMINTRIN_H=1
      HAVE_EMMINTRIN_H=1
      HAVE_PMMINTRIN_H=1
      HAVE_TMMINTRIN_H=1
      HAVE_SMMINTRIN_H=1
      HAVE_AVXINTRIN_H=1
      HAVE_AVX2INTRIN_H=1
  )
endif()
