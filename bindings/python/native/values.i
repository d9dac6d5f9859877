// How single parameters are passed.

// Statuses become exceptions. The failure is read before another call can fail on this thread.
%typemap(out) symm_status_t {
  if ($1 != SYMM_OK) {
    symm_py_raise(NULL);
    SWIG_fail;
  }
  $result = Py_NewRef(Py_None);
}

// Integers. A value that the parameter cannot hold is refused, by the name of the parameter.
%define NUMBER(type, least, most)
%typemap(in) type (uint64_t number) {
  if (!symm_py_number($input, "$1_name", least, most, &number)) SWIG_fail;
  $1 = ($1_ltype)number;
}
%enddef
NUMBER(int32_t, INT32_MIN, INT32_MAX)
NUMBER(uint8_t, 0, UINT8_MAX)
NUMBER(uint16_t, 0, UINT16_MAX)
NUMBER(uint32_t, 0, UINT32_MAX)
NUMBER(uint64_t, 0, UINT64_MAX)
NUMBER(size_t, 0, UINT64_MAX)

// Addresses and streams are integers; None is NULL.
%typemap(in) void *, const void * {
  if (!symm_py_address($input, "$1_name", (void **)&$1)) SWIG_fail;
}
%typemap(in, numinputs=0) void ** (void *address = NULL), void *const ** (void *address = NULL) {
  $1 = ($1_ltype)&address;
}
%typemap(argout) void **, void *const ** {
  $result = symm_py_append($result, PyLong_FromVoidPtr((void *)*$1));
}

// Numbers of elements by rank are a sequence; None is NULL.
%typemap(in) const size_t * (size_t *numbers = NULL) {
  if (!symm_py_sizes($input, &numbers)) SWIG_fail;
  $1 = numbers;
}
%typemap(freearg) const size_t * {
  free(numbers$argnum);
}

// Numbers of elements that the device reads are an address.
%apply void * { const uint64_t * };

%define HANDLE(type)
%apply void * { type * };
%apply void ** { type **out };
%enddef

%define OUT_INTEGER(type, name, convert)
%typemap(in, numinputs=0) type *name (type value = 0) {
  $1 = &value;
}
%typemap(argout) type *name {
  $result = symm_py_append($result, convert(*$1));
}
%enddef

// Results that only the host has: whether one is wanted goes in, the value or None comes out.
%define WANTED_INTEGER(type, name, convert)
%typemap(in) type *name (type value = 0) {
  const int wanted = PyObject_IsTrue($input);
  if (wanted < 0) SWIG_fail;
  $1 = wanted ? &value : NULL;
}
%typemap(argout) type *name {
  $result = symm_py_append($result, $1 != NULL ? convert(*$1) : Py_NewRef(Py_None));
}
%enddef
WANTED_INTEGER(uint64_t, out_seen, PyLong_FromUnsignedLong)
WANTED_INTEGER(size_t, out_index, PyLong_FromSize_t)

// Ranks are a sequence of integers. Where they are the set `ranks`, None is the whole group.
%define RANKS(name, number)
%typemap(in) (const int32_t *name, size_t number) (int32_t *ranks = NULL) {
  if (!symm_py_integers($input, &ranks, &$2)) SWIG_fail;
  $1 = ranks;
}
%typemap(freearg) (const int32_t *name, size_t number) {
  free(ranks$argnum);
}
%enddef
RANKS(ranks, count)
RANKS(send_ranks, send_count)
RANKS(recv_ranks, recv_count)

// Lists that the library fills: the capacity goes in, and the list comes out.
%fragment("symm_py_room", "header") {
static int symm_py_room(PyObject *from, int32_t **to, size_t *capacity) {
  const Py_ssize_t asked = PyLong_AsSsize_t(from);
  if (asked < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "capacity: is negative");
    return 0;
  }
  *to = (int32_t *)calloc(asked > 0 ? (size_t)asked : 1, sizeof **to);
  if (*to == NULL) PyErr_NoMemory();
  *capacity = (size_t)asked;
  return *to != NULL;
}
}
%define OUT_LIST(name)
%typemap(in, fragment="symm_py_room") (int32_t *name, size_t capacity, size_t *out_count)
    (int32_t *numbers = NULL, size_t written = 0) {
  if (!symm_py_room($input, &numbers, &$2)) SWIG_fail;
  $1 = $2 > 0 ? numbers : NULL;
  $3 = &written;
}
%typemap(argout) (int32_t *name, size_t capacity, size_t *out_count) {
  $result = symm_py_append($result, symm_py_list($1, *$3 < $2 ? *$3 : $2));
}
%typemap(freearg) (int32_t *name, size_t capacity, size_t *out_count) {
  free(numbers$argnum);
}
%enddef
OUT_LIST(out_links)
OUT_LIST(out_ranks)

// Tokens are bytes.
%typemap(in, numinputs=0) (void *out_token, size_t capacity, size_t *out_bytes)
    (char token[SYMM_IPC_TOKEN_MAX_BYTES], size_t length = 0) {
  $1 = token;
  $2 = sizeof token;
  $3 = &length;
}
%typemap(argout) (void *out_token, size_t capacity, size_t *out_bytes) {
  $result = symm_py_append($result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)*$3));
}
// Unique ids are bytes.
%typemap(in, numinputs=0) (void *out_id, size_t capacity, size_t *out_bytes)
    (char id[SYMM_UNIQUE_ID_MAX_BYTES], size_t length = 0) {
  $1 = id;
  $2 = sizeof id;
  $3 = &length;
}
%typemap(argout) (void *out_id, size_t capacity, size_t *out_bytes) {
  $result = symm_py_append($result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)*$3));
}
// Tickets are bytes.
%typemap(in, numinputs=0) (void *out_ticket, size_t capacity, size_t *out_bytes)
    (char ticket[SYMM_TICKET_MAX_BYTES], size_t length = 0) {
  $1 = ticket;
  $2 = sizeof ticket;
  $3 = &length;
}
%typemap(argout) (void *out_ticket, size_t capacity, size_t *out_bytes) {
  $result = symm_py_append($result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)*$3));
}
%typemap(in) (const void *token, size_t token_bytes) {
  char *bytes = NULL;
  Py_ssize_t length = 0;
  if ($input != Py_None && PyBytes_AsStringAndSize($input, &bytes, &length) < 0) SWIG_fail;
  $1 = bytes;
  $2 = (size_t)length;
}
%apply (const void *token, size_t token_bytes) { (const void *ticket, size_t ticket_bytes) };
