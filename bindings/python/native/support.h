/* What the typemaps call. Functions that return int return 0 with a Python exception set, or 1. */
#ifndef SYMM_PYTHON_SUPPORT_H
#define SYMM_PYTHON_SUPPORT_H

#include <Python.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <symm/symm.h>

/* Raise the exception for symm_last_failure(); `cause` may be NULL. */
void symm_py_raise(PyObject* cause);

/* Collect results: one stands for itself, several are a tuple. Takes both references. */
PyObject* symm_py_append(PyObject* result, PyObject* next);
/* An integer in least .. most; others are an InvalidArgumentError that calls it `name`. */
int symm_py_number(PyObject* from, const char* name, int64_t least, uint64_t most, uint64_t* to);
int symm_py_address(PyObject* from, const char* name, void** to); /* NULL for None */
/* The items of a tuple, each by "name:kind" in `names` and a pointer: i int32_t, u uint64_t, d double, z text or None, p an
 * address, s sizes or NULL (to be freed), O the object, borrowed. Those after "|" may be missing, and stay as they are. */
int symm_py_fields(PyObject* from, const char* names, ...);
int symm_py_integers(PyObject* from, int32_t** to, size_t* count);         /* free(*to) */
int symm_py_waits(PyObject* from, symm_signal_wait_t** to, size_t* count); /* free(*to) */
int symm_py_sizes(PyObject* from, size_t** to); /* NULL for None; free(*to) */
PyObject* symm_py_list(const int32_t* from, size_t count);

/* A store written in Python: an object with set(key, value, seconds) and get(key, seconds) -> bytes: symm/stores.py. */
typedef struct {
  symm_store_t callbacks;
  PyObject* store;
  PyObject* exception; /* the last that it raised, time-outs excepted; owned */
} symm_py_store;
#define SYMM_PY_STORE_INIT {{sizeof(symm_store_t), NULL, NULL, NULL}, NULL, NULL}
/* In `config`, as read from a tuple, the object or None stands where its callbacks will. */
void symm_py_store_begin(symm_group_config_t* config, symm_py_store* store);
void symm_py_store_done(symm_py_store* store);

#endif
