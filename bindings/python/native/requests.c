/* Calls that have a request. A program names a function of the package, and one of the calls that
 * this makes below has the options for it.
 *
 * All steps are in C, between which no handler of a signal runs in Python: an exception of such a
 * handler must neither leave the thread in the search for a call, which would have the next call
 * that is to block return at once, nor free what a call is at work on. */
#include <Python.h>

#include "native.h"
#include "support.h"
#include <symm/symm.h>

static _Thread_local int is_begun;
static _Thread_local symm_request_t* made;

/* What calls read and write that were not seen to be over, by the handle of the request, of which
 * each entry has a reference. Nobody frees this dictionary: where the interpreter ends before such
 * a call, what the call works with stays. */
static PyObject* pending;

/* In a forked child no handle of the parent is known, and no thread is at work on its call. */
static int is_over(PyObject* handle) {
  symm_request_info_t info = SYMM_REQUEST_INFO_INIT;
  const symm_status_t status = symm_request_info((symm_request_t*)PyLong_AsVoidPtr(handle), &info);
  return status != SYMM_OK || info.done != 0;
}

/* Free what a call has worked with that is over; `kept` is what the dictionary has. */
static void forget(PyObject* handle, PyObject* kept) {
  Py_INCREF(kept);
  if (PyDict_DelItem(pending, handle) == 0) {
    symm_request_release((symm_request_t*)PyLong_AsVoidPtr(handle));
  } else {
    PyErr_Clear();
  }
  Py_DECREF(kept);
}

/* Look at the two calls that were looked at longest ago, for a program that drops requests. One
 * that is not over goes to the end, so that it hides no other one. */
static void look_at_some(void) {
  for (int i = 0; i < 2; ++i) {
    Py_ssize_t place = 0;
    PyObject* handle;
    PyObject* kept;
    if (!PyDict_Next(pending, &place, &handle, &kept)) return;

    Py_INCREF(handle);
    if (is_over(handle)) {
      forget(handle, kept);
    } else {
      Py_INCREF(kept);
      /* Without memory for its new place the entry is lost, and what it has is kept for ever. */
      if (PyDict_DelItem(pending, handle) == 0 && PyDict_SetItem(pending, handle, kept) == 0) {
        Py_DECREF(kept);
      }
      PyErr_Clear();
    }
    Py_DECREF(handle);
  }
}

/* Keep what the call works with, and what it returned, and make a number of its handle. */
static PyObject* keep(symm_request_t* request, PyObject* kept, PyObject* returned) {
  PyObject* const handle = PyLong_FromVoidPtr(request);
  if (returned != NULL && PyList_Append(kept, returned) != 0) PyErr_Clear();
  if (handle != NULL && PyDict_SetItem(pending, handle, kept) == 0) return handle;

  /* The call goes on, so this reference is for ever. */
  Py_INCREF(kept);
  Py_XDECREF(handle);
  return NULL;
}

PyObject* request_call(PyObject* call, PyObject* args, PyObject* kwargs, PyObject* kept) {
  PyObject* returned;
  PyObject* handle;

  if (is_begun) {
    PyErr_SetString(PyExc_RuntimeError, "symm.start() is called within symm.start()");
    return NULL;
  }
  if (pending == NULL) pending = PyDict_New();
  if (pending == NULL) return NULL;
  look_at_some();

  is_begun = 1;
  made = NULL;
  returned = PyObject_Call(call, args, kwargs);
  is_begun = 0;
  if (made == NULL) return returned == NULL ? NULL : Py_BuildValue("(iN)", 0, returned);

  /* An exception behind the call that has begun does not end it. */
  if (returned == NULL) {
    PyObject* type;
    PyObject* value;
    PyObject* traceback;
    PyErr_Fetch(&type, &value, &traceback);
    handle = keep(made, kept, NULL);
    Py_XDECREF(handle);
    PyErr_Restore(type, value, traceback);
    return NULL;
  }
  symm_request_retain(made); /* for the caller: another thread may find that the call is over */
  handle = keep(made, kept, returned);
  if (handle != NULL) return Py_BuildValue("(NN)", handle, returned);
  symm_request_release(made);
  Py_DECREF(returned);
  return NULL;
}

PyObject* request_over(PyObject* handle) {
  PyObject* kept;
  if (!is_over(handle)) Py_RETURN_FALSE;
  Py_INCREF(handle);
  kept = pending == NULL ? NULL : PyDict_GetItemWithError(pending, handle);
  if (kept != NULL) forget(handle, kept);
  Py_DECREF(handle);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_TRUE;
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

int symm_py_may_block(const char* call) {
  if (!is_begun) return 1;
  return symm_py_refuse(
      SYMM_ERR_UNSUPPORTED, PyUnicode_FromFormat("call: %s has no form that does not block", call));
}
