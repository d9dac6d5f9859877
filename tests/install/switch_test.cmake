# symm_switch() takes CMake's words in any case, and refuses others by name.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/symm_switch.cmake)

function(expect given expected)
  set(SYMM_CUDA "${given}")
  symm_switch(SYMM_CUDA auto)
  if(NOT SYMM_CUDA STREQUAL expected)
    message(SEND_ERROR "'${given}' is read as '${SYMM_CUDA}', not as '${expected}'")
  endif()
endfunction()

foreach(
  word
  ON
  On
  on
  YES
  True
  1
)
  expect(${word} on)
endforeach()
foreach(
  word
  OFF
  Off
  off
  NO
  False
  0
)
  expect(${word} off)
endforeach()
foreach(word AUTO auto)
  expect(${word} auto)
endforeach()

if(DEFINED REFUSED)
  set(SYMM_CUDA "${REFUSED}")
  symm_switch(SYMM_CUDA auto)
  return()
endif()
foreach(word maybe "" onn)
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DREFUSED=${word}" -P ${CMAKE_CURRENT_LIST_FILE}
    RESULT_VARIABLE failed
    ERROR_VARIABLE message
    OUTPUT_QUIET
  )
  if(NOT failed OR NOT message MATCHES "SYMM_CUDA is '${word}'; known are auto, on and off")
    message(SEND_ERROR "'${word}' is not refused by name: ${failed} ${message}")
  endif()
endforeach()
