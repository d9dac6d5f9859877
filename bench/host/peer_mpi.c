/* Any MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "peer.h"

static struct peer self;

static void check(int result, const char* what) {
  if (result != MPI_SUCCESS) peer_fail(what);
}

struct peer peer_start(int* argc, char*** argv) {
  check(MPI_Init(argc, argv), "MPI_Init");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &self.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &self.size), "MPI_Comm_size");
  return self;
}

void peer_finish(void) { MPI_Finalize(); }

void peer_fail(const char* what) {
  fprintf(stderr, "rank %d: %s failed\n", self.rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

void* peer_allocate(size_t bytes, enum memory memory) {
  void* pointer = NULL;
  if (memory == MEMORY_SYMMETRIC) return NULL;
  return posix_memalign(&pointer, 4096, bytes) == 0 ? pointer : NULL;
}

void peer_free(void* pointer, enum memory memory) {
  (void)memory;
  free(pointer);
}

static const void* source(const float* send, const float* recv) { return send == recv ? MPI_IN_PLACE : (const void*)send; }

void peer_allreduce(const float* send, float* recv, size_t count) {
  check(MPI_Allreduce(source(send, recv), recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
}

void peer_reduce_scatter(const float* send, float* recv, size_t recv_count) {
  check(MPI_Reduce_scatter_block(send, recv, (int)recv_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Reduce_scatter_block");
}

void peer_allgather(const float* send, float* recv, size_t send_count) {
  check(MPI_Allgather(send, (int)send_count, MPI_FLOAT, recv, (int)send_count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Allgather");
}

/* MPI broadcasts in place only: the root's send is everybody's recv. */
void peer_broadcast(const float* send, float* recv, size_t count) {
  float* data = self.rank == 0 ? (float*)send : recv;
  check(MPI_Bcast(data, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

void peer_alltoall(const float* send, float* recv, size_t count) {
  check(MPI_Alltoall(send, (int)count, MPI_FLOAT, recv, (int)count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Alltoall");
}

void peer_barrier(void) { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

void peer_send(const float* data, float* inbox, size_t count, int to) {
  (void)inbox;
  check(MPI_Send(data, (int)count, MPI_FLOAT, to, 0, MPI_COMM_WORLD), "MPI_Send");
}

void peer_receive(float* inbox, size_t count, int from) {
  check(MPI_Recv(inbox, (int)count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
}
