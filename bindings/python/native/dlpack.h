/* DLPack capsules, both ways. */
#ifndef SYMM_PYTHON_DLPACK_H
#define SYMM_PYTHON_DLPACK_H

#include <Python.h>

/* What a "dltensor" or "dltensor_versioned" capsule says, without consuming it: (address, count, dtype, device type, device id,
 * contiguous, writable, shape), dtype as in symm.h. The memory lives as long as the capsule. */
PyObject* dlpack_read(PyObject* capsule);

/* A capsule of contiguous memory that keeps `owner` alive until its consumer lets go. */
PyObject* dlpack_make(
    PyObject* owner, PyObject* address, int dtype, PyObject* shape, int device_type, int device_id, int versioned);

#endif
