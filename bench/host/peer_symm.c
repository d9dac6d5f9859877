/* symm itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <symm/symm.h>
#include "peer.h"

static struct peer self;
static symm_group_t* group;

static void check(symm_status_t status, const char* what) {
  if (status != SYMM_OK) peer_fail(what);
}

struct peer peer_start(int* argc, char*** argv) {
  int32_t rank = 0, size = 0;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  (void)argc, (void)argv;
  config.backend = SYMM_BACKEND_HOST;
  check(symm_group_create(&config, &group), "symm_group_create");
  check(symm_group_rank(group, &rank), "symm_group_rank");
  check(symm_group_size(group, &size), "symm_group_size");
  self.rank = rank;
  self.size = size;
  return self;
}

void peer_finish(void) {
  check(symm_group_finalize(group, NULL), "symm_group_finalize");
  symm_group_release(group);
}

void peer_fail(const char* what) {
  fprintf(stderr, "rank %d: %s: %s\n", self.rank, what, symm_last_error());
  exit(1);
}

static struct block {
  void* pointer;
  symm_memory_t* memory;
} blocks[8];

static struct block* block_at(const void* pointer) {
  size_t i;
  for (i = 0; i < sizeof blocks / sizeof blocks[0]; ++i)
    if (blocks[i].pointer == pointer) return &blocks[i];
  fprintf(stderr, "rank %d: no symmetric block at %p\n", self.rank, pointer);
  exit(1);
}

void* peer_allocate(size_t bytes, enum memory memory) {
  void* pointer = NULL;
  symm_buffer_t* buffer = NULL;
  struct block* block;
  if (memory == MEMORY_PRIVATE) return posix_memalign(&pointer, 4096, bytes) == 0 ? pointer : NULL;
  block = block_at(NULL);
  check(symm_alloc(group, bytes, NULL, &buffer), "symm_alloc");
  check(symm_rendezvous(group, buffer, NULL, &block->memory), "symm_rendezvous");
  check(symm_buffer_pointer(buffer, &block->pointer), "symm_buffer_pointer");
  symm_buffer_release(buffer); /* the memory keeps it */
  return block->pointer;
}

void peer_free(void* pointer, enum memory memory) {
  struct block* block;
  if (memory == MEMORY_PRIVATE) {
    free(pointer);
    return;
  }
  block = block_at(pointer);
  symm_memory_release(block->memory);
  block->pointer = NULL;
}

void peer_allreduce(const float* send, float* recv, size_t count) {
  check(symm_allreduce(group, send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL), "symm_allreduce");
}

void peer_reduce_scatter(const float* send, float* recv, size_t recv_count) {
  check(symm_reduce_scatter(group, send, recv, recv_count, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL), "symm_reduce_scatter");
}

void peer_allgather(const float* send, float* recv, size_t send_count) {
  check(symm_allgather(group, send, recv, send_count, SYMM_DTYPE_F32, NULL, NULL), "symm_allgather");
}

/* As in MPI, the root's data stay where they are. */
void peer_broadcast(const float* send, float* recv, size_t count) {
  float* data = self.rank == 0 ? (float*)send : recv;
  check(symm_broadcast(group, data, data, count, SYMM_DTYPE_F32, 0, NULL, NULL), "symm_broadcast");
}

void peer_alltoall(const float* send, float* recv, size_t count) {
  check(symm_alltoall(group, send, recv, count, SYMM_DTYPE_F32, NULL, NULL), "symm_alltoall");
}

void peer_barrier(void) { check(symm_barrier(group, NULL, 0, 0, NULL, NULL), "symm_barrier"); }

void peer_send(const float* data, float* inbox, size_t count, int to) {
  check(symm_put_signal(block_at(inbox)->memory, to, 0, data, count * sizeof(float), 0, NULL), "symm_put_signal");
}

void peer_receive(float* inbox, size_t count, int from) {
  (void)count;
  check(symm_wait_signal(block_at(inbox)->memory, from, 0, NULL, NULL), "symm_wait_signal");
}
