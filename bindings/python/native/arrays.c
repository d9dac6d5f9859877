#include <stdint.h>
#include <stdlib.h>

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
  for (i = 0; i < array->ndim; ++i) {
    count *= array->shape[i];
  }
  return Py_BuildValue("NLiOOO", PyLong_FromVoidPtr(array->data), count,
      dtype_of(array->kind, array->itemsize), array->flags & CONTIGUOUS ? Py_True : Py_False,
      array->flags & WRITABLE ? Py_True : Py_False,
      (array->flags & ALIGNED) && (array->flags & NATIVE_ORDER) ? Py_True : Py_False);
}

/* As the DLPack specification, version 1, lays them out. */
typedef struct {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} tensor_t;

typedef struct managed {
  tensor_t tensor;
  void* context;
  void (*deleter)(struct managed*);
} managed_t;

typedef struct versioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(struct versioned*);
  uint64_t flags;
  tensor_t tensor;
} versioned_t;

enum { READ_ONLY = 1, MAJOR = 1, MINOR = 1 };

static const char* const plain_name = "dltensor";
static const char* const versioned_name = "dltensor_versioned";

static int is_contiguous(const tensor_t* tensor) {
  int64_t expected = 1;
  int32_t i;
  if (tensor->strides == NULL) return 1;
  for (i = 0; i < tensor->ndim; ++i) {
    if (tensor->shape[i] == 0) return 1;
  }
  for (i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return 0;
    expected *= tensor->shape[i];
  }
  return 1;
}

static PyObject* describe(const tensor_t* tensor, int writable) {
  int64_t count = 1;
  int32_t i;
  PyObject* result = NULL;
  PyObject* shape;
  if (tensor->lanes != 1) {
    PyErr_SetString(PyExc_BufferError, "arrays of short vectors or packed elements are not known");
    return NULL;
  }
  shape = PyTuple_New(tensor->ndim);
  for (i = 0; shape != NULL && i < tensor->ndim; ++i) {
    PyObject* extent = PyLong_FromLongLong(tensor->shape[i]);
    if (extent == NULL || PyTuple_SetItem(shape, i, extent) < 0) Py_CLEAR(shape);
    count *= tensor->shape[i];
  }
  if (shape != NULL) {
    result = Py_BuildValue("NLiiiOOO",
        PyLong_FromVoidPtr((char*)tensor->data + tensor->byte_offset), (long long)count,
        (int)tensor->code << 8 | tensor->bits, (int)tensor->device_type, (int)tensor->device_id,
        is_contiguous(tensor) ? Py_True : Py_False, writable ? Py_True : Py_False, shape);
    Py_DECREF(shape);
  }
  return result;
}

PyObject* dlpack_read(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    const versioned_t* whole = (const versioned_t*)PyCapsule_GetPointer(capsule, versioned_name);
    if (whole->major != MAJOR) {
      PyErr_Format(
          PyExc_BufferError, "DLPack version %u.%u is not known", whole->major, whole->minor);
      return NULL;
    }
    return describe(&whole->tensor, (whole->flags & READ_ONLY) == 0);
  }
  if (PyCapsule_IsValid(capsule, plain_name)) {
    return describe(&((const managed_t*)PyCapsule_GetPointer(capsule, plain_name))->tensor, 1);
  }
  PyErr_SetString(PyExc_BufferError, "this is no unused DLPack capsule");
  return NULL;
}

/* What a capsule of ours needs, in one piece: the consumer sees one of the two heads. */
typedef struct {
  union {
    managed_t plain;
    versioned_t versioned;
  } head;

  PyObject* owner;
  int64_t extents[]; /* shape, then strides */
} export_t;

static void let_go(export_t* made) {
  /* Consumers may let go on any thread, and after the interpreter has ended. */
  if (Py_IsInitialized()) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_DECREF(made->owner);
    PyGILState_Release(lock);
  }
  free(made);
}

static void delete_plain(managed_t* managed) { let_go((export_t*)managed->context); }

static void delete_versioned(versioned_t* managed) { let_go((export_t*)managed->context); }

/* Only a capsule that nobody consumed still has its name. */
static void end_of_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    versioned_t* managed = (versioned_t*)PyCapsule_GetPointer(capsule, versioned_name);
    managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, plain_name)) {
    managed_t* managed = (managed_t*)PyCapsule_GetPointer(capsule, plain_name);
    managed->deleter(managed);
  }
}

static int fill(tensor_t* tensor, int64_t* extents, PyObject* shape, Py_ssize_t ndim) {
  int64_t stride = 1;
  Py_ssize_t i;
  tensor->ndim = (int32_t)ndim;
  tensor->lanes = 1;
  tensor->shape = extents;
  tensor->strides = extents + ndim;
  for (i = ndim - 1; i >= 0; --i) {
    const int64_t extent = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    if (extent == -1 && PyErr_Occurred()) return 0;
    tensor->shape[i] = extent;
    tensor->strides[i] = stride;
    stride *= extent;
  }
  return 1;
}

PyObject* dlpack_make(PyObject* owner, PyObject* address, int dtype, PyObject* shape,
    int device_type, int device_id, int versioned) {
  const Py_ssize_t ndim = PyTuple_Size(shape);
  PyObject* capsule;
  export_t* made;
  tensor_t* tensor;
  if (ndim < 0) return NULL;
  made = (export_t*)calloc(1, sizeof *made + 2 * (size_t)ndim * sizeof *made->extents);
  if (made == NULL) return PyErr_NoMemory();
  tensor = versioned ? &made->head.versioned.tensor : &made->head.plain.tensor;
  tensor->data = PyLong_AsVoidPtr(address);
  tensor->device_type = device_type;
  tensor->device_id = device_id;
  tensor->code = (uint8_t)(dtype >> 8);
  tensor->bits = (uint8_t)dtype;
  if (PyErr_Occurred() || !fill(tensor, made->extents, shape, ndim)) {
    free(made);
    return NULL;
  }
  if (versioned) {
    made->head.versioned.major = MAJOR;
    made->head.versioned.minor = MINOR;
    made->head.versioned.context = made;
    made->head.versioned.deleter = delete_versioned;
  } else {
    made->head.plain.context = made;
    made->head.plain.deleter = delete_plain;
  }
  made->owner = Py_NewRef(owner);
  capsule = PyCapsule_New(&made->head, versioned ? versioned_name : plain_name, end_of_capsule);
  if (capsule == NULL) let_go(made);
  return capsule;
}
