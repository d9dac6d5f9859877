# `cmake --install` installs headers, library, tool, find_package(symm), symm.pc and
# documents. No file of these names the prefix, so the tree can be moved. cpack makes
# archives and packages of it.
include(CMakePackageConfigHelpers)

# The library needs libc only.
set_target_properties(symm PROPERTIES INSTALL_RPATH "")
install(
  TARGETS symm symm_headers
  EXPORT symm-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
)
install(
  DIRECTORY capi/include/symm
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.hpp"
  PATTERN "*.cuh"
)

# The Fortran module is installed as source, since no compiler reads another's modules. It is
# left out where the generator's parser of headers is missing.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(
  sources
  capi/include/symm/symm.h
  capi/include/symm/fused.h
  bindings/generator/generate.py
  bindings/generator/header.py
  bindings/generator/prose.py
  bindings/generator/fortran.py
)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
execute_process(
  COMMAND
    "${Python3_EXECUTABLE}" -B bindings/generator/generate.py fortran capi/include/symm
    ${PROJECT_BINARY_DIR}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  RESULT_VARIABLE result
  OUTPUT_VARIABLE said
  ERROR_VARIABLE said
)
if(result EQUAL 0)
  install(FILES ${PROJECT_BINARY_DIR}/symm.f90 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/symm)
else()
  message(STATUS "no symm.f90: ${said}")
endif()

if(TARGET symm_tool)
  install(TARGETS symm_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(
    FILES ${PROJECT_BINARY_DIR}/tools/symm.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    OPTIONAL
  )
  install(
    FILES ${PROJECT_BINARY_DIR}/tools/symm.bash
    RENAME symm
    OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  )
  install(
    FILES ${PROJECT_BINARY_DIR}/tools/symm.fish
    OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  )
endif()

set(symm_cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/symm)
configure_package_config_file(
  cmake/symmConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/symmConfig.cmake
  INSTALL_DESTINATION ${symm_cmakedir}
  NO_SET_AND_CHECK_MACRO
  NO_CHECK_REQUIRED_COMPONENTS_MACRO
)
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/symmConfigVersion.cmake
  COMPATIBILITY SameMajorVersion
)
install(EXPORT symm-targets NAMESPACE symm:: DESTINATION ${symm_cmakedir} FILE symmTargets.cmake)
install(
  FILES
    ${CMAKE_CURRENT_BINARY_DIR}/symmConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/symmConfigVersion.cmake
  DESTINATION ${symm_cmakedir}
)

# Paths in symm.pc begin at ${pcfiledir}, which pkg-config sets to where symm.pc lies.
file(RELATIVE_PATH symm_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH symm_pc_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH symm_pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/$" "" symm_pc_prefix "${symm_pc_prefix}")
set(symm_pc_libs "")
set(symm_pc_rpath "")
if(SYMM_STATIC)
  set(symm_pc_libs " -lstdc++ -lpthread -ldl")
  if(symm_sodium_archive)
    cmake_path(GET SYMM_SODIUM_LIBRARY PARENT_PATH folder)
    set(symm_pc_libs " -lsodium${symm_pc_libs}")
    if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      set(symm_pc_libs " -L${folder}${symm_pc_libs}")
    endif()
  endif()
else()
  # The loader finds the library where the linker found it, in a prefix that it does not know,
  # such as that of a wheel or of an unpacked archive.
  set(symm_pc_rpath " -Wl,-rpath,\${libdir}")
endif()
configure_file(cmake/symm.pc.in ${CMAKE_CURRENT_BINARY_DIR}/symm.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/symm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE core/backend/plan_table.txt DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL FILES_MATCHING PATTERN "*.svg")
set(pages ${PROJECT_SOURCE_DIR}/cmake/install_pages.cmake)
install(
  CODE
    "
set(source [[${PROJECT_SOURCE_DIR}]])
set(pages [[${CMAKE_INSTALL_DOCDIR}]])
include([[${pages}]])
"
)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_CONTACT "The symm authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
  set(CPACK_GENERATOR TGZ DEB RPM)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_PACKAGE_FILE_NAME symm-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28)")
  # By default a package names the processor of the machine that made it.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  endif()
  set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
  set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
  # The drop-in has the SONAME of NCCL, and is no NCCL that other packages could need.
  set(CPACK_RPM_SPEC_MORE_DEFINE "%global __provides_exclude ^libnccl\\\\.so.*$")
  include(CPack)
endif()
