# Installs the pages of <source> into <pages> of the prefix. A link to a file that is not
# installed becomes plain words.
cmake_path(ABSOLUTE_PATH pages BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
file(GLOB_RECURSE names RELATIVE ${source} ${source}/docs/*.md)
set(folders "bindings|capi|core|examples|packaging|tests")
set(rooms_and_rules "${folders}|CODE_OF|CONTRIBUTING|REVIEW")
foreach(name IN LISTS names ITEMS README.md CHANGELOG.md SECURITY.md THIRD-PARTY.md)
  if(EXISTS ${source}/${name})
    file(READ ${source}/${name} text)
    set(link "\\[([^]]*)\\]\\((\\.\\./)*(${rooms_and_rules})[^)]*\\)")
    string(REGEX REPLACE "${link}" "\\1" text "${text}")
    file(WRITE $ENV{DESTDIR}${pages}/${name} "${text}")
  endif()
endforeach()
