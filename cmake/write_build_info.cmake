# cmake -DSOURCE=dir -DIN=template -DOUT=header -P write_build_info.cmake
#
# Fills in the git revision. The header is touched only when it changes.
set(symm_git_revision unknown)
if(EXISTS ${SOURCE}/.git)
  execute_process(
    COMMAND git rev-parse --short=12 HEAD
    WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE revision
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
    RESULT_VARIABLE failed
  )
  if(NOT failed)
    set(symm_git_revision ${revision})
    execute_process(
      COMMAND git diff --quiet HEAD --
      WORKING_DIRECTORY ${SOURCE}
      ERROR_QUIET
      RESULT_VARIABLE changed
    )
    if(changed)
      string(APPEND symm_git_revision -dirty)
    endif()
  endif()
endif()
# A source package has its revision in a file.
if(EXISTS ${SOURCE}/revision)
  file(STRINGS ${SOURCE}/revision symm_git_revision)
endif()
configure_file(${IN} ${OUT} @ONLY)
