/* Which call of a thread is to have a request. A program names a function of the package, and one
 * of the calls that this makes below has the options for it. */
#include <Python.h>

#include "native.h"
#include "support.h"
#include <symm/symm.h>

static _Thread_local int is_begun;
static _Thread_local symm_request_t* made;

PyObject* request_begin(void) {
  if (is_begun) {
    PyErr_SetString(PyExc_RuntimeError, "symm.start() is called within symm.start()");
    return NULL;
  }
  is_begun = 1;
  made = NULL;
  Py_RETURN_NONE;
}

PyObject* request_end(void) {
  is_begun = 0;
  return PyLong_FromVoidPtr(made);
}

PyObject* request_leave(PyObject* kept) {
  Py_INCREF(kept);
  Py_RETURN_NONE;
}

int symm_py_place_of_request(symm_request_t*** place) {
  if (!is_begun) return 1;
  if (made != NULL) {
    PyErr_SetString(PyExc_RuntimeError,
        "symm.start(): the function makes several calls, and one of them has the request");
    return 0;
  }
  *place = &made;
  return 1;
}
