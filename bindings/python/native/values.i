// SPDX-License-Identifier: Apache-2.0
//
// How single parameters travel.

// Statuses become exceptions. The failure is read before anything else can fail on this thread.
%typemap(out) symm_status_t {
  if ($1 != SYMM_OK) {
    symm_py_raise(NULL);
    SWIG_fail;
  }
  $result = symm_py_none();
}

// Addresses and streams: integers, None for NULL.
%typemap(in) void *, const void * {
  if (!symm_py_address($input, (void **)&$1)) SWIG_fail;
}
%typemap(in, numinputs=0) void **out_pointer (void *address = NULL), void **out_pad (void *address = NULL),
                          void *const **out_table (void *address = NULL) {
  $1 = ($1_ltype)&address;
}
%typemap(argout) void **out_pointer, void **out_pad, void *const **out_table {
  $result = symm_py_append($result, PyLong_FromVoidPtr((void *)*$1));
}

%define HANDLE(type)
%typemap(in) type * {
  if (!symm_py_address($input, (void **)&$1)) SWIG_fail;
}
%typemap(in, numinputs=0) type **out (type *made = NULL) {
  $1 = &made;
}
%typemap(argout) type **out {
  $result = symm_py_append($result, PyLong_FromVoidPtr(*$1));
}
%enddef
HANDLE(symm_group_t)
HANDLE(symm_buffer_t)
HANDLE(symm_memory_t)
HANDLE(symm_heap_t)
HANDLE(symm_ipc_t)

%define OUT_INTEGER(type, name, convert)
%typemap(in, numinputs=0) type *name (type value = 0) {
  $1 = &value;
}
%typemap(argout) type *name {
  $result = symm_py_append($result, convert(*$1));
}
%enddef
OUT_INTEGER(int32_t, out_count, PyLong_FromLong)
OUT_INTEGER(int32_t, out_rank, PyLong_FromLong)
OUT_INTEGER(int32_t, out_size, PyLong_FromLong)
OUT_INTEGER(int32_t, out_fd, PyLong_FromLong)
OUT_INTEGER(int32_t, out_done, PyLong_FromLong)
OUT_INTEGER(symm_topology_class_t, out_class, PyLong_FromLong)
OUT_INTEGER(size_t, out_bytes, PyLong_FromSize_t)
OUT_INTEGER(size_t, out_size, PyLong_FromSize_t)
OUT_INTEGER(size_t, out_offset, PyLong_FromSize_t)
OUT_INTEGER(uint64_t, out_pending, PyLong_FromUnsignedLong)
OUT_INTEGER(uint64_t, out_value, PyLong_FromUnsignedLong)

// What can be had on the host only: whether it is wanted goes in, and the value or None comes out.
%define WANTED_INTEGER(type, name, convert)
%typemap(in) type *name (type value = 0) {
  const int wanted = PyObject_IsTrue($input);
  if (wanted < 0) SWIG_fail;
  $1 = wanted ? &value : NULL;
}
%typemap(argout) type *name {
  $result = symm_py_append($result, $1 != NULL ? convert(*$1) : symm_py_none());
}
%enddef
WANTED_INTEGER(uint64_t, out_seen, PyLong_FromUnsignedLong)
WANTED_INTEGER(size_t, out_index, PyLong_FromSize_t)

// A set of ranks: a sequence of integers, None for the whole group.
%typemap(in) (const int32_t *ranks, size_t count) (int32_t *ranks = NULL) {
  if (!symm_py_integers($input, &ranks, &$2)) SWIG_fail;
  $1 = ranks;
}
%typemap(freearg) (const int32_t *ranks, size_t count) {
  free(ranks$argnum);
}

// The matrix of links: its capacity goes in, a list comes out.
%typemap(in) (int32_t *out_links, size_t capacity) (int32_t *links = NULL) {
  const Py_ssize_t capacity = PyLong_AsSsize_t($input);
  if (capacity < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "capacity: is negative");
    SWIG_fail;
  }
  links = (int32_t *)calloc(capacity > 0 ? (size_t)capacity : 1, sizeof *links);
  if (links == NULL) {
    PyErr_NoMemory();
    SWIG_fail;
  }
  $1 = capacity > 0 ? links : NULL;
  $2 = (size_t)capacity;
}
%typemap(argout) (int32_t *out_links, size_t capacity) {
  $result = symm_py_append($result, symm_py_list($1, $2));
}
%typemap(freearg) (int32_t *out_links, size_t capacity) {
  free(links$argnum);
}

// Log messages go to a descriptor, so that no Python runs on threads of the library. A negative one stops them.
%typemap(in) (symm_log_callback_t callback, void *user) {
  const long descriptor = PyLong_AsLong($input);
  if (descriptor == -1 && PyErr_Occurred()) SWIG_fail;
  $1 = descriptor < 0 ? NULL : symm_py_log_to_descriptor;
  $2 = symm_py_log_target((int)descriptor);
}

// Tokens are bytes.
%typemap(in, numinputs=0) (void *out_token, size_t capacity, size_t *out_size)
    (char token[SYMM_IPC_TOKEN_MAX_SIZE], size_t size = 0) {
  $1 = token;
  $2 = sizeof token;
  $3 = &size;
}
%typemap(argout) (void *out_token, size_t capacity, size_t *out_size) {
  $result = symm_py_append($result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)*$3));
}
%typemap(in) (const void *token, size_t token_size) {
  char *bytes = NULL;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize($input, &bytes, &length) < 0) SWIG_fail;
  $1 = bytes;
  $2 = (size_t)length;
}
