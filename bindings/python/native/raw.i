// The extension symm._raw: the functions of symm.h and fused.h under their C names. Handles and
// addresses are integers, out-parameters are results, and a failing status is an exception. Only
// the package symm should use it.
%module(package="symm") _raw

%{
#include <symm/fused.h>
#include <symm/symm.h>

#include "native.h"
#include "support.h"
%}

%include <stdint.i>
%include "values.i"
%include "structs.i"

// Functions run without the interpreter lock if they can wait, or take a lock that another
// thread may hold while it waits.
%exception {
  symm_py_call_begins();
  Py_BEGIN_ALLOW_THREADS
  $action
  Py_END_ALLOW_THREADS
  symm_py_call_is_over();
}
%define KEEPS_THE_LOCK(function)
%exception function { $action }
%enddef
%formacro(KEEPS_THE_LOCK,
          symm_version,
          symm_fused_version,
          symm_build_info,
          symm_status_string,
          symm_last_error,
          symm_dtype_bytes,
          symm_group_rank,
          symm_group_size,
          symm_buffer_pointer,
          symm_buffer_bytes,
          symm_memory_pointer,
          symm_memory_signal_pad,
          symm_request_test,
          symm_request_info,
          symm_heap_alloc,
          symm_heap_free,
          symm_heap_find,
          symm_ipc_pointer,
          symm_ipc_bytes)

// Python code does not run on threads of the library, so log messages go to a descriptor.
%ignore symm_log_add_listener;
// interrupt.c calls it for the main thread.
%ignore symm_thread_interrupt;
// pressure.c calls them.
%ignore symm_memory_pressure_add_listener;
%ignore symm_memory_pressure_remove_listener;
// operation.c calls it.
%ignore symm_reduce_by;
%ignore SYMM_TIMEOUT_INFINITE;
%ignore SYMM_ALL_STREAMS;
%ignore SYMM_TIMEOUT_NOW;

// SWIG does not read the system's stdint.h, by whose macro symm.h writes its flags.
#define UINT64_C(value) value##ULL
%include <symm/symm.h>
%include <symm/fused.h>

%exception;
%include "native.h"
