#include "support.h"

#include "native.h"

/* The state of this extension, and that of SWIG's part, is C's, and one for all interpreters of a
 * process. So it serves one of them. */
static PyObject* error_factory = NULL;
static int64_t owner = -1; /* the id of that interpreter */

PyObject* set_error_factory(PyObject* factory) {
  PyObject* former = error_factory;
  const int64_t interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());

  if (owner >= 0 && owner != interpreter) {
    PyErr_SetString(
        PyExc_ImportError, "symm serves one interpreter of a process, and another one has it");
    return NULL;
  }
  owner = interpreter;
  error_factory = Py_NewRef(factory);
  Py_XDECREF(former);
  return Py_NewRef(Py_None);
}

void symm_py_enter(symm_py_state* state) {
  fegetenv(&state->environment);
  fesetenv(FE_DFL_ENV);
  state->lock = PyGILState_Ensure();
}

void symm_py_leave(symm_py_state* state) {
  PyGILState_Release(state->lock);
  fesetenv(&state->environment);
}

/* `instead`: what to raise in place of the failure, which then is its context; or NULL. */
static void raise_failure(const symm_failure_t* failure, PyObject* cause, PyObject* instead) {
  PyObject* exception;

  if (error_factory == NULL) {
    PyErr_Format(
        PyExc_RuntimeError, "%s: %s", symm_status_string(failure->status), failure->message);
    return;
  }

  exception = PyObject_CallFunction(
      error_factory, "N", PyBytes_FromStringAndSize((const char*)failure, sizeof *failure));
  if (exception == NULL) return;
  if (cause != NULL) PyException_SetCause(exception, Py_NewRef(cause));
  if (instead != NULL) {
    PyException_SetContext(instead, exception);
    exception = Py_NewRef(instead);
  }
  PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
  Py_DECREF(exception);
}

void symm_py_raise(PyObject* cause) {
  symm_failure_t failure = {sizeof failure, SYMM_OK, -1, 0, 0, 0, ""};
  PyObject* handled = symm_py_raised();

  symm_last_failure(&failure);

  if (handled != NULL) {
    raise_failure(&failure, NULL, handled);
  } else if (cause != NULL && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)) {
    raise_failure(&failure, NULL, cause);
  } else {
    raise_failure(&failure, cause, NULL);
  }
  Py_XDECREF(handled);
}

PyObject* symm_py_append(PyObject* result, PyObject* next) {
  PyObject* both = NULL;

  if (next == NULL || result == NULL) {
    Py_XDECREF(result);
    Py_XDECREF(next);
    return NULL;
  }
  if (result == Py_None) {
    Py_DECREF(result);
    return next;
  }

  if (PyTuple_Check(result)) {
    PyObject* last = PyTuple_Pack(1, next);
    if (last != NULL) both = PySequence_Concat(result, last);
    Py_XDECREF(last);
  } else {
    both = PyTuple_Pack(2, result, next);
  }
  Py_DECREF(result);
  Py_DECREF(next);
  return both;
}

int symm_py_refuse(symm_status_t status, PyObject* message) {
  symm_failure_t failure = {sizeof failure, status, -1, 0, 0, 0, ""};
  const char* text = message == NULL ? NULL : PyUnicode_AsUTF8AndSize(message, NULL);
  if (text != NULL) {
    strncpy(failure.message, text, sizeof failure.message - 1);
    raise_failure(&failure, NULL, NULL);
  }
  Py_XDECREF(message);
  return 0;
}

int symm_py_number(PyObject* from, const char* name, int64_t least, uint64_t most, uint64_t* to) {
  PyObject* number = PyNumber_Index(from); /* accepts integers of NumPy, too */
  int overflow = 0;
  int fits = 0;
  long long value;

  if (number == NULL) return 0;
  value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow == 0) {
    *to = (uint64_t)value;
    fits = value >= least && (value < 0 || *to <= most);
  } else if (overflow > 0) {
    *to = PyLong_AsUnsignedLongLong(number);
    fits = !PyErr_Occurred() && *to <= most;
  }
  PyErr_Clear();
  Py_DECREF(number);

  if (fits) return 1;
  return symm_py_refuse(
      SYMM_ERR_INVALID_ARGUMENT, PyUnicode_FromFormat("%s: %R is not in %lld .. %llu", name, from,
                                     (long long)least, (unsigned long long)most));
}

int symm_py_address(PyObject* from, const char* name, void** to) {
  uint64_t number = 0;
  const int is_read = from == Py_None || symm_py_number(from, name, 0, UINTPTR_MAX, &number);
  *to = (void*)(uintptr_t)number;
  return is_read;
}

static int text_of(PyObject* from, const char** to) {
  Py_ssize_t size = 0;

  *to = NULL;
  if (from == Py_None) return 1;
  *to = PyUnicode_AsUTF8AndSize(from, &size);
  if (*to == NULL) return 0;
  if (strlen(*to) == (size_t)size) return 1;
  PyErr_SetString(PyExc_ValueError, "embedded null character");
  return 0;
}

static int bytes_of(PyObject* from, const void** to) {
  *to = from == Py_None ? NULL : PyBytes_AsString(from);
  return !PyErr_Occurred();
}

static int double_of(PyObject* from, double* to) {
  *to = PyFloat_AsDouble(from);
  return !PyErr_Occurred();
}

static int object_of(PyObject* from, PyObject** to) {
  *to = from;
  return 1;
}

/* Read one field; symm_py_fields() lists the kinds. */
static int field(PyObject* from, const char* name, char kind, void* to) {
  uint64_t number = 0;

  switch (kind) {
    case 'i':
      if (!symm_py_number(from, name, INT32_MIN, INT32_MAX, &number)) return 0;
      *(int32_t*)to = (int32_t)number;
      return 1;
    case 'u': return symm_py_number(from, name, 0, UINT64_MAX, (uint64_t*)to);
    case 'd': return double_of(from, (double*)to);
    case 'z': return text_of(from, (const char**)to);
    case 'p': return symm_py_address(from, name, (void**)to);
    case 'b': return bytes_of(from, (const void**)to);
    case 's': return symm_py_sizes(from, (size_t**)to);
    default: return object_of(from, (PyObject**)to);
  }
}

int symm_py_fields(PyObject* from, const char* names, ...) {
  int optional = 0;
  int is_read = 1;
  Py_ssize_t i = 0;
  Py_ssize_t size;
  va_list to;

  if (!PyTuple_Check(from)) {
    PyErr_Format(PyExc_TypeError, "a tuple is needed, not %R", from);
    return 0;
  }
  size = PyTuple_Size(from);

  va_start(to, names);
  while (is_read && *names != '\0') {
    char name[32] = "";
    size_t length;

    if (*names == ' ' || *names == '|') {
      if (*names == '|') optional = 1;
      ++names;
      continue;
    }
    if (i == size && optional) break;

    length = strcspn(names, ":");
    memcpy(name, names, length);
    if (i == size) {
      PyErr_Format(PyExc_TypeError, "%s is missing", name);
      is_read = 0;
    } else {
      is_read = field(PyTuple_GetItem(from, i), name, names[length + 1], va_arg(to, void*));
    }
    names += length + 2;
    ++i;
  }
  va_end(to);

  if (is_read && i < size) {
    PyErr_SetString(PyExc_TypeError, "the tuple is too long");
    is_read = 0;
  }
  return is_read;
}

/* Read one wait for a signal from a tuple. */
static int signal_wait(PyObject* from, void* place) {
  symm_signal_wait_t* to = (symm_signal_wait_t*)place;

  to->struct_size = sizeof *to;
  return symm_py_fields(from, "rank:i channel:i compare:i value:u", &to->rank, &to->channel,
      &to->compare, &to->value);
}

/* Read one side of a message from a tuple. */
static int message(PyObject* from, void* place) {
  symm_message_t* to = (symm_message_t*)place;

  to->struct_size = sizeof *to;
  return symm_py_fields(from, "kind:i rank:i channel:i source:p destination:p bytes:u", &to->kind,
      &to->rank, &to->channel, &to->source, &to->destination, &to->bytes);
}

/* Read what goes to a neighbour from a tuple. */
static int neighbor(PyObject* from, void* place) {
  symm_neighbor_t* to = (symm_neighbor_t*)place;

  to->struct_size = sizeof *to;
  return symm_py_fields(from,
      "rank:i memory:p offset:u source:p source_bytes:u pieces:p count:u expected_bytes:u",
      &to->rank, &to->memory, &to->offset, &to->source, &to->source_bytes, &to->pieces, &to->count,
      &to->expected_bytes);
}

/* Read a piece of a bundle from a tuple. */
static int piece(PyObject* from, void* place) {
  symm_ipc_piece_t* to = (symm_ipc_piece_t*)place;

  to->struct_size = sizeof *to;
  return symm_py_fields(from, "pointer:p bytes:u name:z about:b about_bytes:u", &to->pointer,
      &to->bytes, &to->name, &to->about, &to->about_bytes);
}

/* Read a sequence as an array of `count` items of `size` bytes. Each item is read by `read`, or
 * by field() with `name` and `kind` where `read` is NULL. The caller frees the array, also after
 * a failure. The items behind the one that failed are zero. */
static int array_of(PyObject* from, int (*read)(PyObject*, void*), const char* name, char kind,
    size_t size, void* to, size_t* count) {
  char* items;
  Py_ssize_t i;
  const Py_ssize_t length = PySequence_Size(from);

  if (length < 0) return 0;
  items = (char*)calloc(length > 0 ? (size_t)length : 1, size);
  *(void**)to = items;
  if (items == NULL) {
    PyErr_NoMemory();
    return 0;
  }

  *count = (size_t)length;
  for (i = 0; i < length; ++i) {
    void* place = items + (size_t)i * size;
    PyObject* item = PySequence_GetItem(from, i);
    int is_read;

    if (item == NULL) return 0;
    is_read = read == NULL ? field(item, name, kind, place) : read(item, place);
    Py_DECREF(item);
    if (!is_read) return 0;
  }
  return 1;
}

int symm_py_sizes(PyObject* from, size_t** to) {
  size_t count;
  if (from == Py_None) return 1;
  return array_of(from, NULL, "counts, displacements", 'u', sizeof **to, to, &count);
}

int symm_py_integers(PyObject* from, int32_t** to, size_t* count) {
  *count = 0;
  if (from == Py_None) return 1;
  return array_of(from, NULL, "ranks", 'i', sizeof **to, to, count);
}

int symm_py_waits(PyObject* from, symm_signal_wait_t** to, size_t* count) {
  return array_of(from, signal_wait, NULL, 0, sizeof **to, to, count);
}

int symm_py_messages(PyObject* from, symm_message_t** to, size_t* count) {
  return array_of(from, message, NULL, 0, sizeof **to, to, count);
}

int symm_py_neighbors(PyObject* from, symm_neighbor_t** to, size_t* count) {
  return array_of(from, neighbor, NULL, 0, sizeof **to, to, count);
}

int symm_py_pieces(PyObject* from, symm_ipc_piece_t** to, size_t* count) {
  return array_of(from, piece, NULL, 0, sizeof **to, to, count);
}

PyObject* symm_py_piece(const symm_ipc_piece_t* from) {
  PyObject* result;
  PyObject* const name =
      from->name == NULL ? Py_NewRef(Py_None)
                         : PyUnicode_DecodeUTF8(from->name, (Py_ssize_t)strlen(from->name), NULL);
  PyObject* const about =
      PyBytes_FromStringAndSize((const char*)from->about, (Py_ssize_t)from->about_bytes);
  if (name == NULL || about == NULL) {
    Py_XDECREF(name);
    Py_XDECREF(about);
    return NULL;
  }
  result = Py_BuildValue(
      "NKNN", PyLong_FromVoidPtr(from->pointer), (unsigned long long)from->bytes, name, about);
  return result;
}

/* Read the arguments of one call of a batch. Its counts and displacements are read last, because
 * the flags say whether they are sequences, or addresses of lists on the device. */
static int batch_call(PyObject* from, symm_collective_call_t* to) {
  static const char* const names[4] = {
      "send_counts", "send_displacements", "recv_counts", "recv_displacements"};
  void* const places[4] = {
      &to->send_counts, &to->send_displacements, &to->recv_counts, &to->recv_displacements};
  PyObject* lists[4];
  char kind = 's';
  int i;

  if (!symm_py_fields(from,
          "collective:i send:p recv:p count:u dtype:i op:i root:i send_counts:O "
          "send_displacements:O recv_counts:O recv_displacements:O rows:u recv_stride:u flags:u "
          "send_capacity:u recv_capacity:u send_stride:u",
          &to->collective, &to->send, &to->recv, &to->count, &to->dtype, &to->op, &to->root,
          &lists[0], &lists[1], &lists[2], &lists[3], &to->rows, &to->recv_stride, &to->flags,
          &to->send_capacity, &to->recv_capacity, &to->send_stride)) {
    return 0;
  }

  if ((to->flags & SYMM_CALL_DEVICE_COUNTS) != 0) kind = 'p';
  for (i = 0; i < 4; ++i) {
    if (!field(lists[i], names[i], kind, places[i])) return 0;
  }
  return 1;
}

/* Read the options of one call of a batch. */
static int batch_options(PyObject* from, symm_collective_options_t* to) {
  to->struct_size = sizeof *to;
  return symm_py_fields(from,
      "|algorithm:i timeout_ms:u scale_position:i result_dtype:i scale:d scale_pointer:p tag:z "
      "max_blocks:i order:i wire_dtype:i wire_group:i chunk_bytes:u progress:p ready:p "
      "word_value:i word_pointer:p",
      &to->algorithm, &to->timeout_ms, &to->scale_position, &to->result_dtype, &to->scale,
      &to->scale_pointer, &to->tag, &to->max_blocks, &to->order, &to->wire_dtype, &to->wire_group,
      &to->chunk_bytes, &to->progress, &to->ready, &to->word_value, &to->word_pointer);
}

/* Read what an all-reduce with RMSNorm of a batch does. */
static int batch_norm(PyObject* from, symm_rmsnorm_call_t* to) {
  to->struct_size = sizeof *to;
  return symm_py_fields(from,
      "residual_in:p residual_out:p norm_out:p weight:p weight_dtype:i epsilon:d weight_offset:d "
      "scale_kind:i quant_out:p scale_in:p scale_out:p",
      &to->residual_in, &to->residual_out, &to->norm_out, &to->weight, &to->weight_dtype,
      &to->epsilon, &to->weight_offset, &to->scale_kind, &to->quant_out, &to->scale_in,
      &to->scale_out);
}

/* Zeroed memory for a struct; NULL, with an exception, if there is none. */
static void* zeroed(size_t bytes) {
  void* made = calloc(1, bytes);

  if (made == NULL) PyErr_NoMemory();
  return made;
}

/* Read one item of a batch: a call, its options or None, and what fused.h has of it or None. */
static int batch_item(PyObject* from, void* place) {
  symm_collective_call_t* to = (symm_collective_call_t*)place;
  PyObject* call;
  PyObject* options = Py_None;
  PyObject* norm = Py_None;

  to->struct_size = sizeof *to;
  if (!symm_py_fields(from, "call:O |options:O fused:O", &call, &options, &norm)) return 0;
  if (!batch_call(call, to)) return 0;
  if (options != Py_None) {
    symm_collective_options_t* made = (symm_collective_options_t*)zeroed(sizeof *made);
    to->options = made;
    if (made == NULL || !batch_options(options, made)) return 0;
  }
  if (norm != Py_None) {
    symm_rmsnorm_call_t* made = (symm_rmsnorm_call_t*)zeroed(sizeof *made);
    to->fused = made;
    to->fused_version = SYMM_FUSED_VERSION;
    if (made == NULL || !batch_norm(norm, made)) return 0;
  }
  return 1;
}

int symm_py_calls(PyObject* from, symm_collective_call_t** to, size_t* count) {
  return array_of(from, batch_item, NULL, 0, sizeof **to, to, count);
}

void symm_py_lists_done(symm_collective_call_t* call) {
  free((void*)call->send_counts);
  free((void*)call->send_displacements);
  free((void*)call->recv_counts);
  free((void*)call->recv_displacements);
}

void symm_py_calls_done(symm_collective_call_t* calls, size_t count) {
  size_t i;
  for (i = 0; calls != NULL && i < count; ++i) {
    if ((calls[i].flags & SYMM_CALL_DEVICE_COUNTS) == 0) symm_py_lists_done(&calls[i]);
    free((void*)calls[i].options);
    free((void*)calls[i].fused);
  }
  free(calls);
}

/* Append an item, whose reference is taken, to a list. NULL is a failure; it frees the list. */
static PyObject* appended(PyObject* list, PyObject* item) {
  if (item == NULL || PyList_Append(list, item) < 0) Py_CLEAR(list);
  Py_XDECREF(item);
  return list;
}

PyObject* symm_py_list(const int32_t* from, size_t count) {
  size_t i;
  PyObject* list = PyList_New(0);
  for (i = 0; list != NULL && i < count; ++i) {
    list = appended(list, PyLong_FromLong(from[i]));
  }
  return list;
}

PyObject* symm_py_lengths(const size_t* from, size_t count) {
  size_t i;
  PyObject* list = PyList_New(0);
  for (i = 0; list != NULL && i < count; ++i) {
    list = appended(list, PyLong_FromSize_t(from[i]));
  }
  return list;
}
