/* The buffer protocol for classes that are written in Python. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

/* Py_buffer. CPython accepts the buffer slots in PyType_FromSpec() since 3.9. It promises
 * Py_buffer as part of the stable ABI since 3.11, with the layout that the struct has had
 * since 3.3. So one extension for 3.10 and later may use both, but the headers of its stable
 * ABI do not declare them. */
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
} view_t;

enum {
  SLOT_GET = 1,
  SLOT_RELEASE = 2,
  WRITABLE = 0x0001,
  WITH_FORMAT = 0x0004,
  WITH_SHAPE = 0x0008,
  WITH_STRIDES = 0x0010 | WITH_SHAPE
};

/* The format and the shape that a view points to. */
typedef struct {
  char format[32];
  Py_ssize_t extents[]; /* shape, then strides */
} shape_t;

static int fill(view_t* view, PyObject* address, Py_ssize_t item_size, const char* format,
    PyObject* shape, int flags) {
  const Py_ssize_t ndim = PyTuple_Size(shape);
  Py_ssize_t length = item_size;
  shape_t* held;
  Py_ssize_t i;

  if (ndim < 0) return -1;
  held = (shape_t*)calloc(1, sizeof *held + 2 * (size_t)ndim * sizeof *held->extents);
  if (held == NULL) {
    PyErr_NoMemory();
    return -1;
  }

  strncpy(held->format, format, sizeof held->format - 1);
  for (i = ndim - 1; i >= 0; --i) {
    const Py_ssize_t extent = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    held->extents[i] = extent;
    held->extents[ndim + i] = length;
    length *= extent;
  }

  view->buf = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) {
    free(held);
    return -1;
  }

  view->len = length;
  view->itemsize = item_size;
  view->ndim = (int)ndim;
  view->format = flags & WITH_FORMAT ? held->format : NULL;
  view->shape = flags & WITH_SHAPE ? held->extents : NULL;
  view->strides = (flags & WITH_STRIDES) == WITH_STRIDES ? held->extents + ndim : NULL;
  view->internal = held;
  return 0;
}

static int get_buffer(PyObject* self, view_t* view, int flags) {
  PyObject* address = NULL;
  PyObject* shape = NULL;
  Py_ssize_t item_size = 0;
  const char* format = NULL;
  int writable = 0;
  int result = -1;
  PyObject* description;

  memset(view, 0, sizeof *view);
  description = PyObject_CallMethod(self, "_buffer", NULL);
  if (description == NULL) return -1;

  if (PyArg_ParseTuple(description, "OnsOp", &address, &item_size, &format, &shape, &writable)) {
    if ((flags & WRITABLE) != 0 && !writable) {
      PyErr_SetString(PyExc_BufferError, "this memory was imported for reading only");
    } else {
      result = fill(view, address, item_size, format, shape, flags);
      view->readonly = !writable;
    }
  }
  Py_DECREF(description);
  if (result == 0) view->obj = Py_NewRef(self);
  return result;
}

static void release_buffer(PyObject* self, view_t* view) {
  (void)self;
  free(view->internal);
}

PyObject* make_exporter_type(void) {
  static const char name[] = "symm._raw.Exporter";
  PyType_Slot slots[] = {{SLOT_GET, (void*)(uintptr_t)get_buffer},
      {SLOT_RELEASE, (void*)(uintptr_t)release_buffer}, {0, NULL}};
  PyType_Spec spec = {name, sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return PyType_FromSpec(&spec);
}
