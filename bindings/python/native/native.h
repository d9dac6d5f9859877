/* What the extension has beside the functions of symm.h. SWIG reads it, too. */
#ifndef SYMM_PYTHON_NATIVE_H
#define SYMM_PYTHON_NATIVE_H

#include <Python.h>

/* What makes an exception of the bytes of a symm_failure_t: symm/errors.py. */
PyObject* set_error_factory(PyObject* factory);

/* NumPy's arrays, by the C side of the array interface protocol: one attribute instead of DLPack's two calls, and unlike those
 * it knows read-only arrays and the types of ml_dtypes. What an __array_struct__ capsule says: (address, count, dtype,
 * contiguous, writable, native), dtype as in symm.h or 0 for one that only the array's own dtype names, native whether elements
 * are aligned and in this machine's byte order. */
PyObject* array_struct_read(PyObject* capsule);

/* What a "dltensor" or "dltensor_versioned" capsule says, without consuming it: (address, count, dtype, device type, device id,
 * contiguous, writable, shape), dtype as in symm.h. The memory lives as long as the capsule. */
PyObject* dlpack_read(PyObject* capsule);
/* A capsule of contiguous memory that keeps `owner` alive until its consumer lets go. */
PyObject* dlpack_make(PyObject* owner, PyObject* address, int dtype, PyObject* shape,
    int device_type, int device_id, int versioned);

/* The buffer protocol for classes written in Python: a base class whose instances export what their method _buffer() returns:
 * (address, item size, format, shape), contiguous and writable. An exception of _buffer() becomes the exporter's; the instance
 * lives as long as any view of it. */
PyObject* make_exporter_type(void);

/* PyTorch's pluggable allocators are two functions of a library, called without the interpreter and without any word of which
 * allocator is meant. So there are as many pairs of them as heaps may have pools at once: symm_pool_alloc_0, symm_pool_free_0 ...
 * The number of a pair that takes from this heap of this group, kept until the pool is closed and all was given back. */
PyObject* pool_open(void* heap, void* group);
/* Nothing more will be taken by this pair. */
void pool_close(int number);

/* What XLA calls for a collective: a capsule, as jax.ffi.register_ffi_target() takes it, for the host or a device. It never takes
 * the interpreter lock. */
PyObject* xla_handler(int device);

#endif
