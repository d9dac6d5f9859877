// How structs are passed. A struct that the library fills comes out as its bytes, which
// symm._values.Filled reads. A struct that the caller fills goes in as a tuple.

%define OUT_STRUCT(type)
%typemap(in, numinputs=0) type *out (type filled) {
  memset(&filled, 0, sizeof filled);
  filled.struct_size = sizeof filled;
  $1 = &filled;
}
%typemap(argout) type *out {
  $result = symm_py_append(
      $result, PyBytes_FromStringAndSize((const char *)$1, (Py_ssize_t)sizeof *$1));
}
%ignore type;
%enddef

// A tuple has the fields after struct_size, in the notation of symm_py_fields(). Where `names`
// begins with "|", all of them may be missing, and None may stand for the tuple.
%define STRUCT(type, name, defaults, names, fields...)
%typemap(in) const type *name (type given = defaults) {
  const int is_none = *names == '|' && $input == Py_None;
  if (!is_none && !symm_py_fields($input, names, fields)) SWIG_fail;
  $1 = is_none ? NULL : &given;
}
%ignore type;
%enddef

// Options that have a place for a request, which is used within request_call().
%define STRUCT_OF_CALL(type, name, defaults, names, fields...)
%typemap(in) const type *name (type given = defaults) {
  const int is_none = *names == '|' && $input == Py_None;
  if (!is_none && !symm_py_fields($input, names, fields)) SWIG_fail;
  if (!symm_py_place_of_request(&given.request)) SWIG_fail;
  $1 = is_none && given.request == NULL ? NULL : &given;
}
%ignore type;
%enddef

// A call that blocks, and whose options have no place for a request.
%define BLOCKS(function)
%exception function {
  if (!symm_py_may_block(#function)) SWIG_fail;
  symm_py_call_begins();
  Py_BEGIN_ALLOW_THREADS
  $action
  Py_END_ALLOW_THREADS
  symm_py_call_is_over();
}
%enddef
%include "generated.i"

// The tuple keeps the strings alive. A store is an object.
%typemap(check) const symm_group_config_t *config (symm_py_store store = SYMM_PY_STORE_INIT) {
  symm_py_store_begin(&given$argnum, &store);
}
// An exception of the store becomes the cause of the exception.
%typemap(out) symm_status_t symm_group_create {
  if ($1 != SYMM_OK) {
    symm_py_raise(store1.exception);
    SWIG_fail;
  }
  $result = Py_NewRef(Py_None);
}
%typemap(freearg) const symm_group_config_t *config {
  symm_py_store_done(&store$argnum);
}
%ignore symm_store_t;

%typemap(freearg) const symm_collective_call_t *call {
  symm_py_lists_done(&given$argnum);
}

// Calls of a batch are a sequence of (call, options or None, a symm_rmsnorm_call_t or None).
%typemap(in) (const symm_collective_call_t *calls, size_t count)
    (symm_collective_call_t *calls = NULL, size_t calls_count = 0) {
  if (!symm_py_calls($input, &calls, &calls_count)) SWIG_fail;
  $1 = calls;
  $2 = calls_count;
}
%typemap(freearg) (const symm_collective_call_t *calls, size_t count) {
  symm_py_calls_done(calls$argnum, calls_count$argnum);
}

// Pieces are an address, of numbers that the package has laid out. SWIG wants a field ignored by
// itself that is called as a word of Python's, though its struct is ignored.
%ignore symm_piece_t;
%ignore from;

// Waits are a sequence of (rank, channel, compare, value).
%typemap(in) (const symm_signal_wait_t *waits, size_t count) (symm_signal_wait_t *waits = NULL) {
  if (!symm_py_waits($input, &waits, &$2)) SWIG_fail;
  $1 = waits;
}
%typemap(freearg) (const symm_signal_wait_t *waits, size_t count) {
  free(waits$argnum);
}
%ignore symm_signal_wait_t;

// Messages are a sequence of (kind, rank, channel, source, destination, bytes). Their lengths come
// out as a list; there are as many as messages, which is the third argument.
%typemap(in) (const symm_message_t *messages, size_t count) (symm_message_t *messages = NULL) {
  if (!symm_py_messages($input, &messages, &$2)) SWIG_fail;
  $1 = messages;
}
%typemap(freearg) (const symm_message_t *messages, size_t count) {
  free(messages$argnum);
}
%typemap(in, numinputs=0) size_t *out_lengths {
  $1 = NULL;
}
%typemap(check) size_t *out_lengths {
  $1 = (size_t *)calloc(arg3 > 0 ? arg3 : 1, sizeof *$1);
  if ($1 == NULL) {
    PyErr_NoMemory();
    SWIG_fail;
  }
}
%typemap(argout) size_t *out_lengths {
  $result = symm_py_append($result, symm_py_lengths($1, arg3));
}
%typemap(freearg) size_t *out_lengths {
  free($1);
}
%ignore symm_message_t;

// Requests are a sequence of handles.
%typemap(in) (symm_request_t *const *requests, size_t count) (size_t *handles = NULL) {
  const Py_ssize_t length = PySequence_Size($input);
  if (length < 0 || !symm_py_sizes($input, &handles)) SWIG_fail;
  $1 = ($1_ltype)handles;
  $2 = (size_t)length;
}
%typemap(freearg) (symm_request_t *const *requests, size_t count) {
  free(handles$argnum);
}

// Neighbours are a sequence of (rank, memory, offset, source, source_bytes, pieces, count,
// expected_bytes), of which pieces are an address.
%typemap(in) (const symm_neighbor_t *neighbors, size_t count) (symm_neighbor_t *neighbors = NULL) {
  if (!symm_py_neighbors($input, &neighbors, &$2)) SWIG_fail;
  $1 = neighbors;
}
%typemap(freearg) (const symm_neighbor_t *neighbors, size_t count) {
  free(neighbors$argnum);
}
%ignore symm_neighbor_t;

// Pieces of a bundle are a sequence of (pointer, bytes, name, about, bytes of about), and come out
// as (pointer, bytes, name, about).
%typemap(in) (const symm_ipc_piece_t *pieces, size_t count) (symm_ipc_piece_t *pieces = NULL) {
  if (!symm_py_pieces($input, &pieces, &$2)) SWIG_fail;
  $1 = pieces;
}
%typemap(freearg) (const symm_ipc_piece_t *pieces, size_t count) {
  free(pieces$argnum);
}
%typemap(in, numinputs=0) symm_ipc_piece_t *out (symm_ipc_piece_t piece = SYMM_IPC_PIECE_INIT) {
  $1 = &piece;
}
%typemap(argout) symm_ipc_piece_t *out {
  $result = symm_py_append($result, symm_py_piece($1));
}
%ignore symm_ipc_piece_t;
