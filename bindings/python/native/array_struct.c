#include <stdint.h>
#include "native.h"

/* As NumPy's array interface protocol, version 3, lays it out. */
typedef struct {
  int two; /* always 2 */
  int ndim;
  char kind;
  int itemsize;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides; /* in bytes */
  void* data;
} array_t;

enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, NATIVE_ORDER = 0x200, WRITABLE = 0x400 };

static int dtype_of(char kind, int itemsize) {
  const int bits = itemsize * 8;
  switch (kind) {
    case 'i': return bits;
    case 'u': return 1 << 8 | bits;
    case 'f': return 2 << 8 | bits;
    default: return 0;
  }
}

PyObject* array_struct_read(PyObject* capsule) {
  const array_t* array = (const array_t*)PyCapsule_GetPointer(capsule, NULL);
  long long count = 1;
  int i;
  if (array == NULL) return NULL;
  if (array->two != 2) {
    PyErr_SetString(PyExc_BufferError, "this is no capsule of the array interface protocol");
    return NULL;
  }
  for (i = 0; i < array->ndim; ++i) count *= array->shape[i];
  return Py_BuildValue("NLiOOO", PyLong_FromVoidPtr(array->data), count, dtype_of(array->kind, array->itemsize),
      array->flags & CONTIGUOUS ? Py_True : Py_False, array->flags & WRITABLE ? Py_True : Py_False,
      (array->flags & ALIGNED) && (array->flags & NATIVE_ORDER) ? Py_True : Py_False);
}
