# Pages of <source> into <prefix>/<pages>. Links to what is not installed become words.
file(GLOB_RECURSE names RELATIVE ${source} ${source}/docs/*.md)
foreach(name IN LISTS names ITEMS README.md CHANGELOG.md SECURITY.md THIRD-PARTY.md)
  if(EXISTS ${source}/${name})
    file(READ ${source}/${name} text)
    string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)*(bindings|capi|core|examples|packaging|tests|CONTRIBUTING|REVIEW)[^)]*\\)" "\\1" text "${text}")
    file(WRITE $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${pages}/${name} "${text}")
  endif()
endforeach()
