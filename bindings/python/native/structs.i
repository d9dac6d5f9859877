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

// (rank, size, backend, device, flags, bootstrap, store, create_timeout_ms, timeout_ms, name, scratch_bytes,
// channels); the tuple keeps the strings alive.
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

// Options: None, or a tuple of what comes after struct_size, as symm_py_fields() has it.
%define OPTIONS(type, defaults, names, fields...)
%typemap(in) const type *options (type given) {
  const type none = defaults;
  given = none;
  if ($input != Py_None && !symm_py_fields($input, names, fields)) SWIG_fail;
  $1 = $input == Py_None ? NULL : &given;
}
%ignore type;
%enddef
OPTIONS(symm_wait_options_t, SYMM_WAIT_OPTIONS_INIT, "timeout_ms:u", &given.timeout_ms)
OPTIONS(symm_alloc_options_t, SYMM_ALLOC_OPTIONS_INIT, "flags:u numa_node:i alignment:u page_bytes:u name:z", &given.flags,
        &given.numa_node, &given.alignment, &given.page_bytes, &given.name)
OPTIONS(symm_adopt_options_t, SYMM_ADOPT_OPTIONS_INIT, "fd:i offset:u name:z", &given.fd, &given.offset, &given.name)
OPTIONS(symm_rendezvous_options_t, SYMM_RENDEZVOUS_OPTIONS_INIT, "tag:u timeout_ms:u channels:i", &given.tag, &given.timeout_ms,
        &given.channels)
OPTIONS(symm_heap_options_t, SYMM_HEAP_OPTIONS_INIT, "flags:u numa_node:i alignment:u page_bytes:u name:z timeout_ms:u", &given.flags,
        &given.numa_node, &given.alignment, &given.page_bytes, &given.name, &given.timeout_ms)
OPTIONS(symm_group_shrink_options_t, SYMM_GROUP_SHRINK_OPTIONS_INIT, "timeout_ms:u name:z", &given.timeout_ms, &given.name)
OPTIONS(symm_collective_options_t, SYMM_COLLECTIVE_OPTIONS_INIT,
        "algorithm:i timeout_ms:u | scale_position:i result_dtype:i scale:d scale_pointer:p", &given.algorithm, &given.timeout_ms,
        &given.scale_position, &given.result_dtype, &given.scale, &given.scale_pointer)
OPTIONS(symm_ipc_export_options_t, SYMM_IPC_EXPORT_OPTIONS_INIT, "hold_ms:u hold_imports:u", &given.hold_ms, &given.hold_imports)
OPTIONS(symm_ipc_import_options_t, SYMM_IPC_IMPORT_OPTIONS_INIT, "timeout_ms:u directory:z device:i", &given.timeout_ms,
        &given.directory, &given.device)

// (collective, send, recv, count, dtype, op, root, send_counts, send_displacements, recv_counts, recv_displacements, rows, recv_stride)
%typemap(in) const symm_collective_call_t *call (symm_collective_call_t given = SYMM_COLLECTIVE_CALL_INIT) {
  if (!symm_py_fields($input, "collective:i send:p recv:p count:u dtype:i op:i root:i send_counts:s send_displacements:s recv_counts:s "
                      "recv_displacements:s rows:u recv_stride:u", &given.collective, &given.send, &given.recv, &given.count,
                      &given.dtype, &given.op, &given.root, &given.send_counts, &given.send_displacements, &given.recv_counts,
                      &given.recv_displacements, &given.rows, &given.recv_stride)) SWIG_fail;
  $1 = &given;
}
%typemap(freearg) const symm_collective_call_t *call {
  free((void *)given$argnum.send_counts);
  free((void *)given$argnum.send_displacements);
  free((void *)given$argnum.recv_counts);
  free((void *)given$argnum.recv_displacements);
}
%ignore symm_collective_call_t;

// As in the header, after struct_size.
%typemap(in) const symm_rmsnorm_t *norm (symm_rmsnorm_t given = SYMM_RMSNORM_INIT) {
  if (!symm_py_fields($input, "residual_in:p residual_out:p norm_out:p weight:p weight_dtype:i epsilon:d weight_offset:d scale_kind:i "
                      "quant_out:p scale_in:p scale_out:p", &given.residual_in, &given.residual_out, &given.norm_out, &given.weight,
                      &given.weight_dtype, &given.epsilon, &given.weight_offset, &given.scale_kind, &given.quant_out,
                      &given.scale_in, &given.scale_out)) SWIG_fail;
  $1 = &given;
}
%ignore symm_rmsnorm_t;

// A sequence of (rank, channel, compare, value)
%typemap(in) (const symm_signal_wait_t *waits, size_t count) (symm_signal_wait_t *waits = NULL) {
  if (!symm_py_waits($input, &waits, &$2)) SWIG_fail;
  $1 = waits;
}
%typemap(freearg) (const symm_signal_wait_t *waits, size_t count) {
  free(waits$argnum);
}
%ignore symm_signal_wait_t;
