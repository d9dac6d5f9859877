#include <stdlib.h>
#include <string.h>

#include "native.h"

/* CPython accepts the buffer slots in PyType_FromSpec() since 3.9 and promises Py_buffer as part of the stable ABI since 3.11,
 * with the layout that it has had since 3.3. So one extension for 3.10 and later may use them, but its headers do not say so. */
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
  WITH_FORMAT = 0x0004,
  WITH_SHAPE = 0x0008,
  WITH_STRIDES = 0x0010 | WITH_SHAPE
};

/* What a view points to besides the memory itself. */
typedef struct {
  char format[8];
  Py_ssize_t extents[]; /* shape, then strides */
} shape_t;

static int fill(view_t* view, PyObject* address, Py_ssize_t item_size, const char* format,
    PyObject* shape, int flags) {
  const Py_ssize_t ndim = PyTuple_Size(shape);
  Py_ssize_t length = item_size;
  Py_ssize_t i;
  shape_t* held =
      ndim < 0 ? NULL
               : (shape_t*)calloc(1, sizeof *held + 2 * (size_t)ndim * sizeof *held->extents);
  if (held == NULL) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
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
  int result = -1;
  PyObject* described;
  memset(view, 0, sizeof *view);
  described = PyObject_CallMethod(self, "_buffer", NULL);
  if (described == NULL) return -1;
  if (PyArg_ParseTuple(described, "OnsO", &address, &item_size, &format, &shape)) {
    result = fill(view, address, item_size, format, shape, flags);
  }
  Py_DECREF(described);
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
