/* Pools of PyTorch's that take their memory from a heap, or each piece as a buffer. */
#include <pthread.h>
#include <stdlib.h>

#include "native.h"
#include "support.h"
#include <symm/symm.h>

enum {
  POOLS = 8,
  ALIGNMENT = 512 /* PyTorch's allocator rounds sizes to this */
};

struct block {
  void* pointer;
  symm_buffer_t* buffer;
};

/* A pool is free if `group` is NULL. `heap`, `group` and `open` change only while the
 * interpreter lock is held, `heap` and `group` moreover only while `taken` is 0. A pool without a
 * heap has a list of the buffers that are its pieces, which `lists` guards. */
static struct pool {
  symm_heap_t* heap;
  symm_group_t* group;
  int open;
  long taken; /* pieces that were not freed */
  struct block* blocks;
  size_t count;
  size_t room;
} pools[POOLS];
static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;

/* Release what a closed pool has once all its pieces were freed. */
static void release_if_unused(struct pool* pool) {
  if (pool->open || pool->group == NULL) return;
  if (__atomic_load_n(&pool->taken, __ATOMIC_ACQUIRE) != 0) return;
  if (pool->heap != NULL) symm_heap_release(pool->heap);
  symm_group_release(pool->group);
  pool->heap = NULL;
  pool->group = NULL;
}

/* The number of a free pool, which has now a reference to the group; or -1 and an exception. */
static int reserve(void* group) {
  int i;

  for (i = 0; i < POOLS; ++i) {
    release_if_unused(&pools[i]);
  }
  i = 0;
  while (i < POOLS && pools[i].group != NULL) {
    ++i;
  }
  if (i == POOLS) {
    PyErr_Format(PyExc_RuntimeError,
        "%d pools are open, or tensors of theirs alive: no more can be had", POOLS);
    return -1;
  }

  if (symm_group_retain((symm_group_t*)group) != SYMM_OK) {
    symm_py_raise(NULL);
    return -1;
  }
  pools[i].group = (symm_group_t*)group;
  pools[i].open = 1;
  return i;
}

PyObject* pool_open(void* heap, void* group) {
  int number;

  if (symm_heap_retain((symm_heap_t*)heap) != SYMM_OK) {
    symm_py_raise(NULL);
    return NULL;
  }
  number = reserve(group);
  if (number < 0) {
    symm_heap_release((symm_heap_t*)heap);
    return NULL;
  }
  pools[number].heap = (symm_heap_t*)heap;
  return PyLong_FromLong(number);
}

PyObject* pool_open_of_buffers(void* group) {
  const int number = reserve(group);
  return number < 0 ? NULL : PyLong_FromLong(number);
}

PyObject* pool_buffers(int number) {
  struct pool* pool;
  PyObject* handles;
  size_t i;
  if (number < 0 || number >= POOLS || pools[number].heap != NULL) {
    return PyErr_Format(PyExc_ValueError, "number: %d is no pool of buffers", number);
  }

  /* The interpreter's objects are made without the lock, since they may run the collector, and
   * that the allocator. */
  pool = &pools[number];
  pthread_mutex_lock(&lists);
  const size_t count = pool->count;
  symm_buffer_t** retained = malloc((count + 1) * sizeof *retained);
  for (i = 0; retained != NULL && i < count; ++i) {
    retained[i] = pool->blocks[i].buffer;
    symm_buffer_retain(retained[i]);
  }
  pthread_mutex_unlock(&lists);
  if (retained == NULL) return PyErr_NoMemory();

  handles = PyList_New(0);
  for (i = 0; i < count; ++i) {
    PyObject* handle = handles == NULL ? NULL : PyLong_FromVoidPtr(retained[i]);
    if (handle == NULL || PyList_Append(handles, handle) != 0) {
      symm_buffer_release(retained[i]);
    }
    Py_XDECREF(handle);
  }
  free(retained);
  if (PyErr_Occurred()) {
    Py_CLEAR(handles);
  }
  return handles;
}

void pool_close(int number) {
  if (number < 0 || number >= POOLS) return;
  pools[number].open = 0;
  release_if_unused(&pools[number]);
}

/* Room for one more block; whether there is. */
static int grow(struct pool* pool) {
  if (pool->count < pool->room) return 1;
  const size_t room = pool->room == 0 ? 16 : 2 * pool->room;
  struct block* blocks = realloc(pool->blocks, room * sizeof *blocks);
  if (blocks == NULL) return 0;
  pool->blocks = blocks;
  pool->room = room;
  return 1;
}

static void* take_buffer(struct pool* pool, size_t size) {
  struct block made = {NULL, NULL};
  int is_listed;
  if (symm_alloc(pool->group, size, NULL, &made.buffer) != SYMM_OK) return NULL;
  symm_buffer_pointer(made.buffer, &made.pointer);

  pthread_mutex_lock(&lists);
  is_listed = grow(pool);
  if (is_listed) {
    pool->blocks[pool->count] = made;
    ++pool->count;
  }
  pthread_mutex_unlock(&lists);
  if (!is_listed) {
    symm_buffer_release(made.buffer);
    return NULL;
  }
  __atomic_add_fetch(&pool->taken, 1, __ATOMIC_RELAXED);
  return made.pointer;
}

static void give_buffer(struct pool* pool, const void* piece) {
  symm_buffer_t* buffer = NULL;
  size_t i = 0;

  pthread_mutex_lock(&lists);
  while (i < pool->count && pool->blocks[i].pointer != piece) {
    ++i;
  }
  if (i < pool->count) {
    buffer = pool->blocks[i].buffer;
    --pool->count;
    pool->blocks[i] = pool->blocks[pool->count];
  }
  pthread_mutex_unlock(&lists);

  if (buffer == NULL) return;
  symm_buffer_release(buffer);
  __atomic_sub_fetch(&pool->taken, 1, __ATOMIC_RELEASE);
}

static void* take(struct pool* pool, Py_ssize_t size) {
  void* piece = NULL;
  if (size <= 0) return NULL;
  if (pool->heap == NULL) return take_buffer(pool, (size_t)size);
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
  if (pool->heap == NULL) {
    give_buffer(pool, piece);
    return;
  }
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
