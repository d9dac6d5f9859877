/* NumPy's arrays, by the C side of the array interface protocol: one attribute instead of DLPack's two calls, and unlike those
 * it knows read-only arrays and the types of ml_dtypes. */
#ifndef SYMM_PYTHON_ARRAY_STRUCT_H
#define SYMM_PYTHON_ARRAY_STRUCT_H

#include <Python.h>

/* What an __array_struct__ capsule says: (address, count, dtype, contiguous, writable, native), dtype as in symm.h or 0 for one
 * that only the array's own dtype names, native whether elements are aligned and in this machine's byte order. */
PyObject* array_struct_read(PyObject* capsule);

#endif
