/* PyTorch's pluggable allocators are two functions of a library, called without the interpreter and without any word of which
 * allocator is meant. So there are as many pairs of them as heaps may have pools at once: symm_pool_alloc_0, symm_pool_free_0 ...
 */
#ifndef SYMM_PYTHON_POOL_H
#define SYMM_PYTHON_POOL_H

#include <Python.h>

/* The number of a pair that takes from this heap of this group, kept until the pool is closed and all was given back. */
PyObject* pool_open(void* heap, void* group);
/* Nothing more will be taken by this pair. */
void pool_close(int number);

#endif
