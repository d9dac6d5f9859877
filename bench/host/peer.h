/* What is measured: one library behind these calls. Each peer is one file, linked with main.c; the measuring code is the same. */
#ifndef SYMM_BENCH_PEER_H
#define SYMM_BENCH_PEER_H

#include <stddef.h>

struct peer {
  int rank;
  int size;
};

enum memory { MEMORY_PRIVATE, MEMORY_SYMMETRIC };

/* Any failure prints what failed and ends the process. */
struct peer peer_start(int* argc, char*** argv);
void peer_finish(void);
void peer_fail(const char* what);

/* The same size on all ranks; NULL where the peer has no such memory. */
void* peer_allocate(size_t bytes, enum memory memory);
void peer_free(void* pointer, enum memory memory);

/* Elements are f32, reductions are sums; counts as in symm.h, per rank for all but all-reduce and broadcast. send == recv is in
 * place. */
void peer_allreduce(const float* send, float* recv, size_t count);
void peer_reduce_scatter(const float* send, float* recv, size_t recv_count);
void peer_allgather(const float* send, float* recv, size_t send_count);
void peer_broadcast(const float* send, float* recv, size_t count); /* from rank 0 */
void peer_alltoall(const float* send, float* recv, size_t count);
void peer_barrier(void);

/* Half a round trip each: data to the other of two ranks, and from it. `inbox` was allocated as symmetric memory where there is
 * any. */
void peer_send(const float* data, float* inbox, size_t count, int to);
void peer_receive(float* inbox, size_t count, int from);

#endif
