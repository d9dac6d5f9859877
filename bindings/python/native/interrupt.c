/* Ctrl-C, and every other signal that has a handler in Python, within a call that waits.
 *
 * Python runs handlers on its main thread, between two steps of its own. A call of the library is
 * one step. So the library asks ask() while it waits, and what a handler raises ends the call. */
#include "support.h"

/* Plain memory of each thread: whether it is Python's main thread, how many calls it is in (a store
 * may call, too), and what a handler raised; owned. */
enum { UNKNOWN, MAIN, OTHER };
static __thread int kind = UNKNOWN;
static __thread int depth = 0;
static __thread PyObject* raised = NULL;

static int32_t ask(void* user) {
  PyGILState_STATE lock;
  int collects;
  int failed;

  (void)user;
  if (depth == 0) return 0;

  lock = PyGILState_Ensure();
  /* A collection would release handles, which takes locks that this thread may hold. */
  collects = PyGC_Disable();
  failed = raised != NULL || PyErr_CheckSignals() != 0;
  if (failed && raised == NULL) {
    PyObject* type = NULL;
    PyObject* traceback = NULL;
    PyErr_Fetch(&type, &raised, &traceback);
    PyErr_NormalizeException(&type, &raised, &traceback);
    if (raised != NULL && traceback != NULL) PyException_SetTraceback(raised, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
  }
  if (collects) PyGC_Enable();
  PyGILState_Release(lock);
  return failed;
}

/* Whether this thread is the one on which Python handles signals. */
static int is_main(void) {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* main = threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
  PyObject* ident = main == NULL ? NULL : PyObject_GetAttrString(main, "ident");
  const int is = ident != NULL && PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();

  PyErr_Clear();
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
  return is;
}

void symm_py_call_begins(void) {
  if (kind == UNKNOWN) {
    kind = is_main() ? MAIN : OTHER;
    if (kind == MAIN) symm_thread_interrupt(ask, NULL);
  }
  ++depth;
}

/* Raises what a handler raised within a call that succeeded all the same. */
static int raise_late(void* unused) {
  PyObject* exception = symm_py_raised();
  (void)unused;
  if (exception == NULL) return 0;
  PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return -1;
}

void symm_py_call_is_over(void) {
  --depth;
  if (raised == NULL) return;
  symm_thread_interrupt(ask, NULL);
  Py_AddPendingCall(raise_late, NULL);
}

PyObject* symm_py_raised(void) {
  PyObject* exception = raised;
  raised = NULL;
  return exception;
}
