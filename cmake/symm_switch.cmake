# symm_switch(variable [word ...])
#
# Sets `variable` to "on", "off" or one of the further words, in small letters. Its value may be any
# of CMake's words for true and false, in any case: ON, Yes, 1, OFF, false, NO, 0 ... Anything else
# is refused by name.
function(symm_switch variable)
  string(TOLOWER "${${variable}}" value)
  if(value MATCHES "^(on|yes|true|y|1)$")
    set(value on)
  elseif(value MATCHES "^(off|no|false|n|0)$")
    set(value off)
  elseif(NOT value IN_LIST ARGN)
    list(JOIN ARGN ", " further)
    message(
      FATAL_ERROR
      "${variable} is '${${variable}}'; known are ${further}, on and off, and CMake's other words "
      "for true and false"
    )
  endif()
  set(${variable} ${value} PARENT_SCOPE)
endfunction()
