// symm._raw: the functions of symm.h under their C names. Handles and addresses are integers, out-parameters are results, a failing
// status is an exception. The package symm is written over it; nothing else should use it.
%module(package="symm") _raw

%{
#include <symm/symm.h>

#include "native.h"
#include "support.h"
%}

%include <stdint.i>
%include "values.i"
%include "structs.i"

// What can wait, or takes a lock that another thread may hold while it waits, runs without the interpreter lock.
%exception {
  Py_BEGIN_ALLOW_THREADS
  $action
  Py_END_ALLOW_THREADS
}
%define KEEPS_THE_LOCK(function)
%exception function { $action }
%enddef
KEEPS_THE_LOCK(symm_version)
KEEPS_THE_LOCK(symm_build_info)
KEEPS_THE_LOCK(symm_status_string)
KEEPS_THE_LOCK(symm_last_error)
KEEPS_THE_LOCK(symm_dtype_size)
KEEPS_THE_LOCK(symm_group_rank)
KEEPS_THE_LOCK(symm_group_size)
KEEPS_THE_LOCK(symm_buffer_pointer)
KEEPS_THE_LOCK(symm_buffer_size)
KEEPS_THE_LOCK(symm_memory_pointer)
KEEPS_THE_LOCK(symm_memory_signal_pad)
KEEPS_THE_LOCK(symm_heap_alloc)
KEEPS_THE_LOCK(symm_heap_free)
KEEPS_THE_LOCK(symm_heap_find)
KEEPS_THE_LOCK(symm_ipc_pointer)
KEEPS_THE_LOCK(symm_ipc_size)

// Defaults are set in C, where the structs are filled.
%rename("$ignore", regextarget=1) "^symm_.*_init$";
// Python code does not run on threads of the library: messages go to a descriptor.
%ignore symm_log_add_listener;
%ignore SYMM_TIMEOUT_INFINITE;
%ignore SYMM_ALL_STREAMS;
%ignore SYMM_TIMEOUT_NOW;

%include <symm/symm.h>

%exception;
%include "native.h"
