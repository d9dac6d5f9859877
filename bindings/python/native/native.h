/* The functions that the extension has in addition to those of symm.h. SWIG reads this file. */
#ifndef SYMM_PYTHON_NATIVE_H
#define SYMM_PYTHON_NATIVE_H

#include <Python.h>

/* Set the function that makes an exception of the bytes of a symm_failure_t: symm/errors.py. */
PyObject* set_error_factory(PyObject* factory);

/* Read an __array_struct__ capsule, NumPy's array interface protocol on the C side. It takes
 * one attribute instead of DLPack's two calls, and unlike DLPack it has read-only arrays and
 * the types of ml_dtypes.
 *
 * Returns (address, count, dtype, contiguous, writable, native). dtype is a code of symm.h, or
 * 0 for a type that only the array's own dtype names. native says whether the elements are
 * aligned and in this machine's byte order. */
PyObject* array_struct_read(PyObject* capsule);

/* Read a "dltensor" or "dltensor_versioned" capsule without consuming it.
 *
 * Returns (address, count, dtype, device type, device id, contiguous, writable, shape). dtype
 * is a code of symm.h. The memory lives as long as the capsule. */
PyObject* dlpack_read(PyObject* capsule);

/* Make a capsule of contiguous memory. It keeps `owner` alive until its consumer releases it. */
PyObject* dlpack_make(PyObject* owner, PyObject* address, int dtype, PyObject* shape,
    int device_type, int device_id, int versioned);

/* Make a base class that gives the buffer protocol to classes that are written in Python.
 *
 * An instance exports the buffer that its method _buffer() describes: (address, item size,
 * format, shape), contiguous and writable. An exception of _buffer() is raised to the
 * consumer. The instance lives as long as any view of it. */
PyObject* make_exporter_type(void);

/* Reserve a pair of allocator functions for a heap of a group. Returns the number of the pair.
 *
 * A pluggable allocator of PyTorch is two functions of a library, which are called without the
 * interpreter and without an argument that says which allocator is meant. So there are as many
 * pairs as there may be pools at once: symm_pool_alloc_0, symm_pool_free_0 ... The pair is
 * reserved until the pool is closed and all its pieces were freed. */
PyObject* pool_open(void* heap, void* group);

/* Reserve a pair whose pieces are buffers of a group, each by itself. */
PyObject* pool_open_of_buffers(void* group);

/* A list of the handles of such a pair's buffers, each with a reference for the caller. */
PyObject* pool_buffers(int number);

/* End the allocations of a pair. */
void pool_close(int number);

/* Add a callable that gives memory back when symm is short of it: it takes the back end, the device
 * and the bytes that are wanted, and returns the bytes that it gave back. Returns its number. */
PyObject* pressure_add(PyObject* callable);

/* End the calls of a callable. */
PyObject* pressure_remove(PyObject* number, PyObject* callable);

/* symm_reduce_by() by a callable, which is given the addresses of `into` and of `other` and the
 * bytes of each. What it raises is raised here, and the group is aborted. */
PyObject* reduce_by(void* group, int collective, void* send, void* recv, size_t count,
    size_t element_bytes, PyObject* function, int root, uint64_t timeout_ms);

/* The function that XLA calls for a collective, for the host or for a device, as a capsule for
 * jax.ffi.register_ffi_target(). It never takes the interpreter lock. */
PyObject* xla_handler(int device);

/* Make call(*args, **kwargs), and give a request to the one call of symm.h in it whose options have
 * a place for it. Returns the handle of the request, a reference of the caller's, or 0 if there was
 * no such call, and what the function returned. `kept` is a list of what the call works with, which
 * stays until the call is over, whatever becomes of the handle. */
PyObject* request_call(PyObject* call, PyObject* args, PyObject* kwargs, PyObject* kept);

/* Whether the call of a request is over; what it has worked with goes then. */
PyObject* request_over(PyObject* handle);

#endif
