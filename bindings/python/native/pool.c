/* Pools of PyTorch's that take their memory from a heap. */
#include "native.h"
#include "support.h"
#include <symm/symm.h>

enum {
  POOLS = 8,
  ALIGNMENT = 512 /* PyTorch's allocator rounds sizes to this */
};

/* A pool is free if `heap` is NULL. `heap`, `group` and `open` change only while the
 * interpreter lock is held, `heap` and `group` moreover only while `taken` is 0. */
static struct pool {
  symm_heap_t* heap;
  symm_group_t* group;
  int open;
  long taken; /* pieces that were not freed */
} pools[POOLS];

/* Release the heap of a closed pool once all its pieces were freed. */
static void release_if_unused(struct pool* pool) {
  if (pool->open || pool->heap == NULL) return;
  if (__atomic_load_n(&pool->taken, __ATOMIC_ACQUIRE) != 0) return;
  symm_heap_release(pool->heap);
  symm_group_release(pool->group);
  pool->heap = NULL;
}

PyObject* pool_open(void* heap, void* group) {
  int i;

  for (i = 0; i < POOLS; ++i) {
    release_if_unused(&pools[i]);
  }
  i = 0;
  while (i < POOLS && pools[i].heap != NULL) {
    ++i;
  }
  if (i == POOLS) {
    return PyErr_Format(PyExc_RuntimeError,
        "%d pools are open, or tensors of theirs alive: no more can be had", POOLS);
  }

  if (symm_heap_retain((symm_heap_t*)heap) != SYMM_OK) {
    symm_py_raise(NULL);
    return NULL;
  }
  if (symm_group_retain((symm_group_t*)group) != SYMM_OK) {
    symm_heap_release((symm_heap_t*)heap);
    symm_py_raise(NULL);
    return NULL;
  }

  pools[i].heap = (symm_heap_t*)heap;
  pools[i].group = (symm_group_t*)group;
  pools[i].open = 1;
  return PyLong_FromLong(i);
}

void pool_close(int number) {
  if (number < 0 || number >= POOLS) return;
  pools[number].open = 0;
  release_if_unused(&pools[number]);
}

static void* take(struct pool* pool, Py_ssize_t size) {
  void* piece = NULL;
  if (size <= 0) return NULL;
  if (symm_heap_alloc(pool->heap, (size_t)size, ALIGNMENT, NULL, &piece, NULL) != SYMM_OK) {
    return NULL;
  }
  __atomic_add_fetch(&pool->taken, 1, __ATOMIC_RELAXED);
  return piece;
}

/* PyTorch relies on what cudaFree() does: the device no longer uses the memory when it returns.
 * Work on streams other than `stream`, for which the piece was taken, is over by then. */
static void give(struct pool* pool, void* piece, void* stream) {
  if (piece == NULL) return;
  symm_group_synchronize(pool->group, stream, NULL);
  if (symm_heap_free(pool->heap, piece, NULL) == SYMM_OK) {
    __atomic_sub_fetch(&pool->taken, 1, __ATOMIC_RELEASE);
  }
}

#define PAIR(number)                                                                     \
  __attribute__((visibility("default"))) void* symm_pool_alloc_##number(                 \
      Py_ssize_t size, int device, void* stream);                                        \
  __attribute__((visibility("default"))) void symm_pool_free_##number(                   \
      void* piece, Py_ssize_t size, int device, void* stream);                           \
  void* symm_pool_alloc_##number(Py_ssize_t size, int device, void* stream) {            \
    (void)device;                                                                        \
    (void)stream;                                                                        \
    return take(&pools[number], size);                                                   \
  }                                                                                      \
  void symm_pool_free_##number(void* piece, Py_ssize_t size, int device, void* stream) { \
    (void)size;                                                                          \
    (void)device;                                                                        \
    give(&pools[number], piece, stream);                                                 \
  }
PAIR(0)
PAIR(1)
PAIR(2)
PAIR(3)
PAIR(4)
PAIR(5)
PAIR(6)
PAIR(7)
