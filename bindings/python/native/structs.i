// SPDX-License-Identifier: Apache-2.0
//
// How structs travel: what the library fills comes out as a dictionary, what the caller fills goes in as a tuple.

%define OUT_STRUCT(type, convert)
%typemap(in, numinputs=0) type *out (type filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) type *out {
  $result = symm_py_append($result, convert($1));
}
%ignore type;
%enddef
OUT_STRUCT(symm_device_info_t, symm_py_device_info)
OUT_STRUCT(symm_group_info_t, symm_py_group_info)
OUT_STRUCT(symm_group_status_t, symm_py_group_status)
OUT_STRUCT(symm_memory_info_t, symm_py_memory_info)
OUT_STRUCT(symm_plan_info_t, symm_py_plan_info)
OUT_STRUCT(symm_ipc_info_t, symm_py_ipc_info)
OUT_STRUCT(symm_ipc_report_t, symm_py_ipc_report)
OUT_STRUCT(symm_ipc_stats_t, symm_py_ipc_stats)

// (rank, size, backend, device, flags, bootstrap, store, create_timeout_ms, timeout_ms, name); the tuple keeps the strings alive.
%typemap(in) const symm_group_config_t *config (symm_group_config_t config, symm_py_store store) {
  if (!symm_py_group_config($input, &config, &store)) SWIG_fail;
  $1 = &config;
}
// An exception of the store is the cause of the failure.
%typemap(out) symm_status_t symm_group_create {
  if ($1 != SYMM_OK) {
    symm_py_raise($1, store1.exception);
    SWIG_fail;
  }
  $result = symm_py_none();
}
%typemap(freearg) const symm_group_config_t *config {
  symm_py_store_done(&store$argnum);
}
%ignore symm_group_config_t;
%ignore symm_store_t;

// Options: None, or a tuple of what comes after struct_size: (algorithm, timeout_ms), (hold_ms, hold_imports),
// (timeout_ms, directory, device).
%define OPTIONS(type, convert)
%typemap(in) const type *options (type options) {
  if (!convert($input, &options, (const type **)&$1)) SWIG_fail;
}
%ignore type;
%enddef
OPTIONS(symm_collective_options_t, symm_py_options)
OPTIONS(symm_ipc_export_options_t, symm_py_export_options)
OPTIONS(symm_ipc_import_options_t, symm_py_import_options)
