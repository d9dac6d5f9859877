/* Callables of Python that give memory back when symm_alloc() is short of it. They run on the
 * thread that is inside the call. */
#include "native.h"
#include "support.h"
#include <symm/symm.h>

static uint64_t ask(void* user, symm_backend_t backend, int32_t device, uint64_t bytes) {
  PyObject* const callable = (PyObject*)user;
  const PyGILState_STATE lock = PyGILState_Ensure();
  PyObject* const result =
      PyObject_CallFunction(callable, "iiK", (int)backend, (int)device, (unsigned long long)bytes);
  uint64_t given_back = 0;

  if (result != NULL && result != Py_None) given_back = PyLong_AsUnsignedLongLong(result);
  if (PyErr_Occurred()) {
    /* There is nobody to raise it to: the allocation fails of what it is short of. */
    PyErr_WriteUnraisable(callable);
    given_back = 0;
  }
  Py_XDECREF(result);
  PyGILState_Release(lock);
  return given_back;
}

PyObject* pressure_add(PyObject* callable) {
  uint64_t id = 0;
  PyObject* number;

  Py_INCREF(callable);
  if (symm_memory_pressure_add_listener(ask, callable, &id) != SYMM_OK) {
    Py_DECREF(callable);
    symm_py_raise(NULL);
    return NULL;
  }
  number = PyLong_FromUnsignedLongLong(id);
  return number;
}

PyObject* pressure_remove(PyObject* number, PyObject* callable) {
  const uint64_t id = PyLong_AsUnsignedLongLong(number);
  symm_status_t status = SYMM_OK;

  if (PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS status = symm_memory_pressure_remove_listener(id);
  Py_END_ALLOW_THREADS if (status != SYMM_OK) {
    /* It may be running still, so the reference stays. */
    symm_py_raise(NULL);
    return NULL;
  }
  Py_DECREF(callable);
  return Py_NewRef(Py_None);
}
