/* The buffer protocol for classes written in Python. */
#ifndef SYMM_PYTHON_EXPORTER_H
#define SYMM_PYTHON_EXPORTER_H

#include <Python.h>

/* A base class whose instances export what their method _buffer() returns: (address, item size, format, shape), contiguous and
 * writable. An exception of _buffer() becomes the exporter's; the instance lives as long as any view of it. */
PyObject* make_exporter_type(void);

#endif
