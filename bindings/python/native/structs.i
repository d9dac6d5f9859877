// SPDX-License-Identifier: Apache-2.0
//
// How structs travel: what the library fills comes out as its bytes, which symm._values.Filled reads; what the caller fills goes in as a
// tuple.

%define OUT_STRUCT(type)
%typemap(in, numinputs=0) type *out (type filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) type *out {
  $result = symm_py_append($result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)sizeof *$1));
}
%ignore type;
%enddef
OUT_STRUCT(symm_failure_t)
OUT_STRUCT(symm_device_info_t)
OUT_STRUCT(symm_group_info_t)
OUT_STRUCT(symm_group_status_t)
OUT_STRUCT(symm_group_stats_t)
OUT_STRUCT(symm_peer_info_t)
OUT_STRUCT(symm_buffer_info_t)
OUT_STRUCT(symm_memory_info_t)
OUT_STRUCT(symm_heap_info_t)
OUT_STRUCT(symm_memory_view_t)
OUT_STRUCT(symm_plan_info_t)
OUT_STRUCT(symm_ipc_info_t)
OUT_STRUCT(symm_ipc_holders_t)
OUT_STRUCT(symm_ipc_report_t)
OUT_STRUCT(symm_ipc_stats_t)

// (rank, size, backend, device, flags, bootstrap, store, create_timeout_ms, timeout_ms, name); the tuple keeps the strings alive.
%typemap(in) const symm_group_config_t *config (symm_group_config_t config, symm_py_store store) {
  if (!symm_py_group_config($input, &config, &store)) SWIG_fail;
  $1 = &config;
}
// An exception of the store is the cause of the failure.
%typemap(out) symm_status_t symm_group_create {
  if ($1 != SYMM_OK) {
    symm_py_raise(store1.exception);
    SWIG_fail;
  }
  $result = symm_py_none();
}
%typemap(freearg) const symm_group_config_t *config {
  symm_py_store_done(&store$argnum);
}
%ignore symm_group_config_t;
%ignore symm_store_t;

// Options: None, or a tuple of what comes after struct_size.
%define OPTIONS(type, defaults, format, fields...)
%typemap(in) const type *options (type given) {
  const type none = defaults;
  given = none;
  if ($input != Py_None && (!symm_py_is_tuple($input) || !PyArg_ParseTuple($input, format, fields))) SWIG_fail;
  $1 = $input == Py_None ? NULL : &given;
}
%ignore type;
%enddef
OPTIONS(symm_wait_options_t, SYMM_WAIT_OPTIONS_INIT, "k", &given.timeout_ms)
OPTIONS(symm_alloc_options_t, SYMM_ALLOC_OPTIONS_INIT, "kiz", &given.flags, &given.numa_node, &given.name)
OPTIONS(symm_adopt_options_t, SYMM_ADOPT_OPTIONS_INIT, "z", &given.name)
OPTIONS(symm_rendezvous_options_t, SYMM_RENDEZVOUS_OPTIONS_INIT, "kk", &given.tag, &given.timeout_ms)
OPTIONS(symm_heap_options_t, SYMM_HEAP_OPTIONS_INIT, "kikzk", &given.flags, &given.numa_node, &given.alignment, &given.name, &given.timeout_ms)
OPTIONS(symm_group_shrink_options_t, SYMM_GROUP_SHRINK_OPTIONS_INIT, "kz", &given.timeout_ms, &given.name)
OPTIONS(symm_collective_options_t, SYMM_COLLECTIVE_OPTIONS_INIT, "ik|iidK", &given.algorithm, &given.timeout_ms,
        &given.scale_position, &given.result_dtype, &given.scale, (unsigned long long *)&given.scale_pointer)
OPTIONS(symm_ipc_export_options_t, SYMM_IPC_EXPORT_OPTIONS_INIT, "kk", &given.hold_ms, &given.hold_imports)
OPTIONS(symm_ipc_import_options_t, SYMM_IPC_IMPORT_OPTIONS_INIT, "kzi", &given.timeout_ms, &given.directory, &given.device)

// (collective, send, recv, count, dtype, op, root)
%typemap(in) const symm_collective_call_t *call (symm_collective_call_t given) {
  PyObject *send = NULL, *recv = NULL;
  memset(&given, 0, sizeof given);
  given.struct_size = sizeof given;
  if (!symm_py_is_tuple($input) || !PyArg_ParseTuple($input, "iOOniii", &given.collective, &send, &recv, &given.count, &given.dtype,
                                                     &given.op, &given.root)) SWIG_fail;
  if (!symm_py_address(send, (void **)&given.send) || !symm_py_address(recv, &given.recv)) SWIG_fail;
  $1 = &given;
}
%ignore symm_collective_call_t;

// A sequence of (rank, channel, compare, value)
%typemap(in) (const symm_signal_wait_t *waits, size_t count) (symm_signal_wait_t *waits = NULL) {
  if (!symm_py_waits($input, &waits, &$2)) SWIG_fail;
  $1 = waits;
}
%typemap(freearg) (const symm_signal_wait_t *waits, size_t count) {
  free(waits$argnum);
}
%ignore symm_signal_wait_t;
