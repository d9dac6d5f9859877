/* Stores that are written in Python.
 *
 * The library calls a store on the thread that is inside symm_group_create(), which has
 * released the interpreter lock. */
#include "support.h"

/* Convert the pending exception to a status. An exception other than a time-out is kept, as the
 * cause of the failure of the creation. */
static symm_status_t status_of_exception(symm_py_store* store) {
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* traceback = NULL;
  const int timed_out = PyErr_ExceptionMatches(PyExc_TimeoutError);

  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != NULL && traceback != NULL) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);

  if (timed_out) {
    Py_XDECREF(value);
    return SYMM_ERR_TIMEOUT;
  }
  Py_XDECREF(store->exception);
  store->exception = value;
  return SYMM_ERR_SYSTEM;
}

static symm_status_t set(
    void* user, const char* key, const void* value, size_t size, uint64_t timeout_ms) {
  symm_py_store* store = (symm_py_store*)user;
  symm_status_t status = SYMM_OK;
  symm_py_state state;
  PyObject* result = NULL;
  PyObject* bytes;

  symm_py_enter(&state);
  bytes = PyBytes_FromStringAndSize((const char*)value, (Py_ssize_t)size);
  if (bytes != NULL) {
    result = PyObject_CallMethod(store->store, "set", "sOd", key, bytes, (double)timeout_ms / 1000);
  }
  if (result == NULL) {
    status = status_of_exception(store);
  }

  Py_XDECREF(result);
  Py_XDECREF(bytes);
  symm_py_leave(&state);
  return status;
}

static symm_status_t copy_bytes(PyObject* bytes, void* value, size_t capacity, size_t* out_size) {
  char* data = NULL;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return SYMM_ERR_SYSTEM;
  *out_size = (size_t)size;
  if ((size_t)size > capacity) return SYMM_ERR_INVALID_ARGUMENT;
  memcpy(value, data, (size_t)size);
  return SYMM_OK;
}

static symm_status_t get(void* user, const char* key, void* value, size_t capacity,
    size_t* out_size, uint64_t timeout_ms) {
  symm_py_store* store = (symm_py_store*)user;
  symm_status_t status = SYMM_ERR_SYSTEM;
  symm_py_state state;
  PyObject* bytes = NULL;
  PyObject* found;

  symm_py_enter(&state);
  found = PyObject_CallMethod(store->store, "get", "sd", key, (double)timeout_ms / 1000);
  if (found != NULL) {
    bytes = PyBytes_FromObject(found);
  }
  if (bytes != NULL) {
    status = copy_bytes(bytes, value, capacity, out_size);
  }
  if (PyErr_Occurred()) {
    status = status_of_exception(store);
  }

  Py_XDECREF(bytes);
  Py_XDECREF(found);
  symm_py_leave(&state);
  return status;
}

void symm_py_store_begin(symm_group_config_t* config, symm_py_store* store) {
  PyObject* user = (PyObject*)config->store;
  config->store = NULL;
  if (user == Py_None) return;

  store->store = Py_NewRef(user);
  store->callbacks.user = store;
  store->callbacks.set = set;
  store->callbacks.get = get;
  config->store = &store->callbacks;
}

void symm_py_store_done(symm_py_store* store) {
  Py_CLEAR(store->store);
  Py_CLEAR(store->exception);
}
