/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

static PyObject* error_factory = NULL;

PyObject* set_error_factory(PyObject* factory) {
  PyObject* former = error_factory;
  Py_INCREF(factory);
  error_factory = factory;
  Py_XDECREF(former);
  return symm_py_none();
}

void symm_py_raise(PyObject* cause) {
  symm_failure_t failure = {sizeof failure, SYMM_OK, -1, 0, 0, 0, ""};
  PyObject* exception;
  symm_last_failure(&failure);
  if (error_factory == NULL) {
    PyErr_Format(PyExc_RuntimeError, "%s: %s", symm_status_string(failure.status), failure.message);
    return;
  }
  exception = PyObject_CallFunction(error_factory, "N", PyBytes_FromStringAndSize((const char*)&failure, sizeof failure));
  if (exception == NULL) return;
  if (cause != NULL) {
    Py_INCREF(cause);
    PyException_SetCause(exception, cause);
  }
  PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
  Py_DECREF(exception);
}

PyObject* symm_py_none(void) {
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* symm_py_append(PyObject* result, PyObject* next) {
  PyObject* both;
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
    both = last == NULL ? NULL : PySequence_Concat(result, last);
    Py_XDECREF(last);
  } else {
    both = PyTuple_Pack(2, result, next);
  }
  Py_DECREF(result);
  Py_DECREF(next);
  return both;
}

int symm_py_is_tuple(PyObject* from) {
  if (PyTuple_Check(from)) return 1;
  PyErr_Format(PyExc_TypeError, "a tuple is needed, not %R", from);
  return 0;
}

int symm_py_address(PyObject* from, void** to) {
  *to = NULL;
  if (from == Py_None) return 1;
  *to = PyLong_AsVoidPtr(from);
  return *to != NULL || !PyErr_Occurred();
}

int symm_py_sizes(PyObject* from, size_t** to) {
  Py_ssize_t i;
  const Py_ssize_t size = from == Py_None ? 0 : PySequence_Size(from);
  *to = NULL;
  if (from == Py_None) return 1;
  if (size < 0) return 0;
  *to = (size_t*)malloc((size > 0 ? (size_t)size : 1) * sizeof **to);
  if (*to == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (i = 0; i < size; ++i) {
    PyObject* item = PySequence_GetItem(from, i);
    PyObject* number = item == NULL ? NULL : PyNumber_Index(item); /* an integer of NumPy, too */
    (*to)[i] = number == NULL ? 0 : PyLong_AsSize_t(number);
    Py_XDECREF(item);
    Py_XDECREF(number);
    if (PyErr_Occurred()) return 0; /* freed by the caller */
  }
  return 1;
}

int symm_py_integers(PyObject* from, int32_t** to, size_t* count) {
  Py_ssize_t i;
  Py_ssize_t size;
  *to = NULL;
  *count = 0;
  if (from == Py_None) return 1;
  size = PySequence_Size(from);
  if (size < 0) return 0;
  *to = (int32_t*)malloc((size > 0 ? (size_t)size : 1) * sizeof **to);
  if (*to == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (i = 0; i < size; ++i) {
    PyObject* item = PySequence_GetItem(from, i);
    const long value = item == NULL ? -1 : PyLong_AsLong(item);
    Py_XDECREF(item);
    if (value == -1 && PyErr_Occurred()) return 0; /* freed by the caller */
    if (value < INT32_MIN || value > INT32_MAX) {
      PyErr_Format(PyExc_OverflowError, "%ld does not fit into 32 bits", value);
      return 0;
    }
    (*to)[i] = (int32_t)value;
  }
  *count = (size_t)size;
  return 1;
}

int symm_py_waits(PyObject* from, symm_signal_wait_t** to, size_t* count) {
  Py_ssize_t i;
  const Py_ssize_t size = PySequence_Size(from);
  *to = NULL;
  *count = 0;
  if (size < 0) return 0;
  *to = (symm_signal_wait_t*)calloc(size > 0 ? (size_t)size : 1, sizeof **to);
  if (*to == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (i = 0; i < size; ++i) {
    symm_signal_wait_t* wait = &(*to)[i];
    PyObject* item = PySequence_GetItem(from, i);
    const int is_read = item != NULL && symm_py_is_tuple(item) &&
                        PyArg_ParseTuple(item, "iiik", &wait->rank, &wait->channel, &wait->compare, &wait->value);
    Py_XDECREF(item);
    if (!is_read) return 0; /* freed by the caller */
    wait->struct_size = sizeof *wait;
  }
  *count = (size_t)size;
  return 1;
}

PyObject* symm_py_list(const int32_t* from, size_t count) {
  size_t i;
  PyObject* list = PyList_New(0);
  for (i = 0; list != NULL && i < count; ++i) {
    PyObject* item = PyLong_FromLong(from[i]);
    if (item == NULL || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
