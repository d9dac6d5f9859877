/* The functions that the typemaps call.
 *
 * A function that returns int returns 1, or 0 with a Python exception set. */
#ifndef SYMM_PYTHON_SUPPORT_H
#define SYMM_PYTHON_SUPPORT_H

#include <Python.h>
#include <fenv.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <symm/fused.h>
#include <symm/symm.h>

/* Raise the exception for symm_last_failure(). `cause` may be NULL. If a signal's handler has
 * raised an exception within the call, or the cause is none that a program may pass over, such as
 * KeyboardInterrupt, then that is raised, and the failure is its context. */
void symm_py_raise(PyObject* cause);

/* Before and after a call that may wait; with the interpreter lock. While it waits, handlers of
 * signals run. What one raises ends the call, and is raised in place of the call's failure, or
 * at Python's next step if the call has succeeded. */
void symm_py_call_begins(void);
void symm_py_call_is_over(void);

/* Take what a handler raised within the call that is over; NULL if nothing. */
PyObject* symm_py_raised(void);

/* Where the call that follows on this thread is to leave its request; NULL: it has to block. A
 * second call for one request is refused. */
int symm_py_place_of_request(symm_request_t*** place);

/* Whether this thread may make `call`, which blocks and can have no request: not within
 * request_call(), where 0 is returned, with an UnsupportedError. */
int symm_py_may_block(const char* call);

/* Raise the library's error of such a status for what never reaches the library. Takes the
 * reference, and returns 0. */
int symm_py_refuse(symm_status_t status, PyObject* message);

/* Collect results: one is returned as it is, several as a tuple. Takes both references. */
PyObject* symm_py_append(PyObject* result, PyObject* next);

/* Read an integer in least .. most. Any other is an InvalidArgumentError that names `name`. */
int symm_py_number(PyObject* from, const char* name, int64_t least, uint64_t most, uint64_t* to);

/* Read an address; None is NULL. */
int symm_py_address(PyObject* from, const char* name, void** to);

/* Read the items of a tuple. `names` has "name:kind" for each, and the arguments that follow
 * are pointers to the results. Items after "|" may be missing; their results stay as they are.
 *
 *   i  int32_t
 *   u  uint64_t
 *   d  double
 *   z  text, const char*; None is NULL
 *   p  address, void*; None is NULL
 *   b  bytes, const void*; None is NULL
 *   s  sizes, size_t*, to be freed; None is NULL
 *   O  the object itself, a borrowed reference */
int symm_py_fields(PyObject* from, const char* names, ...);

/* Read a sequence into an array. None is NULL, except for waits, messages, neighbours and
 * pieces. The caller frees *to, also after a failure. */
int symm_py_integers(PyObject* from, int32_t** to, size_t* count);
int symm_py_waits(PyObject* from, symm_signal_wait_t** to, size_t* count);
int symm_py_messages(PyObject* from, symm_message_t** to, size_t* count);
int symm_py_neighbors(PyObject* from, symm_neighbor_t** to, size_t* count);
int symm_py_pieces(PyObject* from, symm_ipc_piece_t** to, size_t* count);
/* Read a sequence of (call, options or None, what fused.h has of it or None). To be freed by
 * symm_py_calls_done(), also after a failure. */
int symm_py_calls(PyObject* from, symm_collective_call_t** to, size_t* count);
void symm_py_calls_done(symm_collective_call_t* calls, size_t count);
/* Free the counts and the displacements of a call, which symm_py_sizes() has made. */
void symm_py_lists_done(symm_collective_call_t* call);
int symm_py_sizes(PyObject* from, size_t** to);

/* Make a tuple of the fields of a piece of a bundle. */
PyObject* symm_py_piece(const symm_ipc_piece_t* from);

/* Make a list of integers. */
PyObject* symm_py_list(const int32_t* from, size_t count);
PyObject* symm_py_lengths(const size_t* from, size_t count);

/* What a callback needs around Python code: the interpreter lock, and the default floating-point
 * environment. That of the caller may round otherwise, or trap what Python takes for granted, such
 * as an inexact quotient. */
typedef struct {
  fenv_t environment;
  PyGILState_STATE lock;
} symm_py_state;

void symm_py_enter(symm_py_state* state);
void symm_py_leave(symm_py_state* state);

/* A store that is written in Python: an object with set(key, value, seconds) and
 * get(key, seconds) -> bytes, see symm/stores.py. */
typedef struct {
  symm_store_t callbacks;
  PyObject* store;
  PyObject* exception; /* the last one that the store raised, except time-outs; owned */
} symm_py_store;

#define SYMM_PY_STORE_INIT {{sizeof(symm_store_t), NULL, NULL, NULL}, NULL, NULL}

/* Replace the object or None that config->store was read as by the callbacks of `store`. */
void symm_py_store_begin(symm_group_config_t* config, symm_py_store* store);
void symm_py_store_done(symm_py_store* store);

#endif
