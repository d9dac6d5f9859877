# symm_gtest(name SOURCES a.cpp ... [LIBRARIES ...] [LABELS ...] [PROCESSORS n]
#            [TIMEOUT seconds] [SERIAL] [COMPUTES] [SANITIZED filter] [NEWER_UCX filter]
#            [SECURE filter])
#
# Adds a GoogleTest program, each case of which is a test of its own.
#
#   PROCESSORS  how many processors it takes at once (ranks that spin for each other)
#   SERIAL      any neighbour upsets it
#   COMPUTES    it computes more than it calls, and is optimised also where tests are not
#   SANITIZED   a filter of GoogleTest: the cases that also run under sanitizers, where they
#               take many times as long; all, if it is not given
#   NEWER_UCX   a filter of GoogleTest: the cases that also run with the UCX that ./dev setup
#               has fetched, beside the system's
#   SECURE      a filter of GoogleTest: the cases that also run over symm's own connections,
#               beside UCX
#
# The room is a label by itself. Other labels that ./dev knows:
#
#   slow     not run under sanitizers
#   no_asan  not run under AddressSanitizer
#   no_tsan  not run under ThreadSanitizer, which cannot follow the threads of forked ranks
function(symm_gtest name)
  cmake_parse_arguments(
    PARSE_ARGV 1
    arg
    "SERIAL;COMPUTES"
    "PROCESSORS;TIMEOUT;SANITIZED;NEWER_UCX;SECURE"
    "SOURCES;LIBRARIES;LABELS"
  )
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "symm_gtest(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  # A program that does not run is not built: a sanitizer's build takes twice as long.
  if(
    (SYMM_SANITIZE AND slow IN_LIST arg_LABELS)
    OR (SYMM_SANITIZE STREQUAL "address" AND no_asan IN_LIST arg_LABELS)
    OR (SYMM_SANITIZE STREQUAL "thread" AND no_tsan IN_LIST arg_LABELS)
  )
    message(STATUS "${name}: not with SYMM_SANITIZE=${SYMM_SANITIZE}")
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(
    ${name}
    PRIVATE symm_options ${arg_LIBRARIES} GTest::gtest GTest::gtest_main
  )
  if(SYMM_UNITY AND arg_COMPUTES)
    target_compile_options(${name} PRIVATE -O1)
  elseif(SYMM_UNITY)
    target_precompile_headers(${name} REUSE_FROM symm_test_headers)
  endif()

  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_PROCESSORS)
    list(APPEND properties PROCESSORS ${arg_PROCESSORS})
  endif()
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  list(PREPEND arg_LABELS ${room})
  # gtest_discover_tests cannot pass on a list; ctest -L and -LE search by regular
  # expression, so one joined label does as well.
  list(JOIN arg_LABELS "," labels)
  set(filter)
  if(SYMM_SANITIZE AND arg_SANITIZED)
    set(filter TEST_FILTER "${arg_SANITIZED}")
  endif()
  # The time-out of the discovery is long, since a build beside tests gets little of the
  # processors.
  gtest_discover_tests(
    ${name}
    TEST_PREFIX ${name}.
    DISCOVERY_TIMEOUT 900
    ${filter}
    PROPERTIES ${properties} LABELS "${labels}"
  )
  set(newer ${PROJECT_SOURCE_DIR}/.deps/ucx/libucx/lib/libucp.so.0)
  if(arg_NEWER_UCX AND EXISTS ${newer} AND NOT SYMM_SANITIZE)
    gtest_discover_tests(
      ${name}
      TEST_PREFIX newer.
      TEST_FILTER "${arg_NEWER_UCX}"
      DISCOVERY_TIMEOUT 900
      PROPERTIES ${properties} LABELS "${labels}" ENVIRONMENT SYMM_UCX=${newer}
    )
  endif()
  if(arg_SECURE AND symm_sodium AND NOT SYMM_SANITIZE)
    gtest_discover_tests(
      ${name}
      TEST_PREFIX secure.
      TEST_FILTER "${arg_SECURE}"
      DISCOVERY_TIMEOUT 900
      PROPERTIES ${properties} LABELS "${labels}" ENVIRONMENT SYMM_ENGINE=secure
    )
  endif()
endfunction()
