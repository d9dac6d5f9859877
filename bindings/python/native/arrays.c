/* Arrays of other packages: NumPy's array interface protocol, and DLPack. */
#include <stdint.h>
#include <stdlib.h>

#include "native.h"

/* PyArrayInterface, as version 3 of NumPy's array interface protocol lays it out. */
typedef struct {
  int two; /* a constant of the protocol: 2 */
  int ndim;
  char kind;
  int itemsize;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides; /* in bytes */
  void* data;
} array_t;

enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, NATIVE_ORDER = 0x200, WRITABLE = 0x400 };

static PyObject* as_bool(int value) { return value ? Py_True : Py_False; }

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
  int is_native;
  long long count = 1;
  int i;

  if (array == NULL) return NULL;
  if (array->two != 2) {
    PyErr_SetString(PyExc_BufferError, "this is not a capsule of the array interface protocol");
    return NULL;
  }

  for (i = 0; i < array->ndim; ++i) {
    count *= array->shape[i];
  }
  is_native = (array->flags & ALIGNED) && (array->flags & NATIVE_ORDER);
  return Py_BuildValue("NLiOOO", PyLong_FromVoidPtr(array->data), count,
      dtype_of(array->kind, array->itemsize), as_bool(array->flags & CONTIGUOUS),
      as_bool(array->flags & WRITABLE), as_bool(is_native));
}

/* DLTensor, DLManagedTensor and DLManagedTensorVersioned, as version 1 of the DLPack
 * specification lays them out. */
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
  if (shape == NULL) return NULL;

  result = Py_BuildValue("NLiiiOOO", PyLong_FromVoidPtr((char*)tensor->data + tensor->byte_offset),
      (long long)count, (int)tensor->code << 8 | tensor->bits, (int)tensor->device_type,
      (int)tensor->device_id, as_bool(is_contiguous(tensor)), as_bool(writable), shape);
  Py_DECREF(shape);
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
    const managed_t* whole = (const managed_t*)PyCapsule_GetPointer(capsule, plain_name);
    return describe(&whole->tensor, 1);
  }

  PyErr_SetString(PyExc_BufferError, "this is not an unused DLPack capsule");
  return NULL;
}

/* The allocation behind a capsule of symm's. The consumer sees one of the two heads. */
typedef struct {
  union {
    managed_t plain;
    versioned_t versioned;
  } head;

  PyObject* owner;
  int64_t extents[]; /* shape, then strides */
} export_t;

static void release_export(export_t* exported) {
  /* Consumers may release on any thread, and after the interpreter has ended. */
  if (Py_IsInitialized()) {
    const PyGILState_STATE lock = PyGILState_Ensure();
    Py_DECREF(exported->owner);
    PyGILState_Release(lock);
  }
  free(exported);
}

static void delete_plain(managed_t* managed) { release_export((export_t*)managed->context); }

static void delete_versioned(versioned_t* managed) { release_export((export_t*)managed->context); }

/* The destructor of a capsule. A consumer renames the capsule and calls the deleter itself, so
 * a capsule that still has its name was never consumed. */
static void end_of_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    versioned_t* managed = (versioned_t*)PyCapsule_GetPointer(capsule, versioned_name);
    managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, plain_name)) {
    managed_t* managed = (managed_t*)PyCapsule_GetPointer(capsule, plain_name);
    managed->deleter(managed);
  }
}

/* Set the shape of a tensor, and its strides in C order. `extents` has room for both. */
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
  export_t* exported;
  tensor_t* tensor;

  if (ndim < 0) return NULL;
  exported = (export_t*)calloc(1, sizeof *exported + 2 * (size_t)ndim * sizeof *exported->extents);
  if (exported == NULL) return PyErr_NoMemory();

  tensor = versioned ? &exported->head.versioned.tensor : &exported->head.plain.tensor;
  tensor->data = PyLong_AsVoidPtr(address);
  tensor->device_type = device_type;
  tensor->device_id = device_id;
  tensor->code = (uint8_t)(dtype >> 8);
  tensor->bits = (uint8_t)dtype;
  if (PyErr_Occurred() || !fill(tensor, exported->extents, shape, ndim)) {
    free(exported);
    return NULL;
  }

  if (versioned) {
    exported->head.versioned.major = MAJOR;
    exported->head.versioned.minor = MINOR;
    exported->head.versioned.flags = (versioned & 2) != 0 ? READ_ONLY : 0;
    exported->head.versioned.context = exported;
    exported->head.versioned.deleter = delete_versioned;
  } else {
    exported->head.plain.context = exported;
    exported->head.plain.deleter = delete_plain;
  }
  exported->owner = Py_NewRef(owner);

  capsule = PyCapsule_New(&exported->head, versioned ? versioned_name : plain_name, end_of_capsule);
  if (capsule == NULL) release_export(exported);
  return capsule;
}
