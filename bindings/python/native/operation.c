/* Reductions by a function that is written in Python.
 *
 * The library calls the function on the thread that is inside symm_reduce_by(), which has released
 * the interpreter lock. */
#include "native.h"
#include "support.h"
#include <symm/symm.h>

typedef struct {
  PyObject* function;
  PyObject* exception; /* what the function has raised; owned */
  size_t element_bytes;
} operation;

static int32_t combine(void* user, void* into, const void* other, size_t count) {
  operation* self = (operation*)user;
  const size_t bytes = count * self->element_bytes;
  PyObject* result;
  symm_py_state state;

  symm_py_enter(&state);
  result = PyObject_CallFunction(self->function, "KKn", (unsigned long long)(uintptr_t)into,
      (unsigned long long)(uintptr_t)other, (Py_ssize_t)bytes);
  if (result == NULL) {
    PyObject* type = NULL;
    PyObject* traceback = NULL;
    PyErr_Fetch(&type, &self->exception, &traceback);
    PyErr_NormalizeException(&type, &self->exception, &traceback);
    if (traceback != NULL) PyException_SetTraceback(self->exception, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
  }

  Py_XDECREF(result);
  symm_py_leave(&state);
  return self->exception == NULL ? 0 : 1;
}

PyObject* reduce_by(void* group, int collective, void* send, void* recv, size_t count,
    size_t element_bytes, PyObject* function, int root, uint64_t timeout_ms) {
  operation self = {function, NULL, element_bytes};
  symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
  symm_status_t status = SYMM_OK;

  if (!symm_py_may_block("symm_reduce_by")) return NULL;
  options.timeout_ms = timeout_ms;
  symm_py_call_begins();
  Py_BEGIN_ALLOW_THREADS status = symm_reduce_by((symm_group_t*)group, collective, send, recv,
      count, element_bytes, combine, &self, root, &options);
  Py_END_ALLOW_THREADS symm_py_call_is_over();

  if (self.exception != NULL) {
    PyErr_SetObject((PyObject*)Py_TYPE(self.exception), self.exception);
    Py_DECREF(self.exception);
    return NULL;
  }
  if (status != SYMM_OK) {
    symm_py_raise(NULL);
    return NULL;
  }
  return Py_NewRef(Py_None);
}
