// Any MPI.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <cstdio>

#include <mpi.h>

#include "bench/host/peer.hpp"

namespace peer {
namespace {
void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  std::fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
}  // namespace

Place start(int* argc, char*** argv) {
  Place here;
  check(MPI_Init(argc, argv), "MPI_Init");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &here.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &here.size), "MPI_Comm_size");
  return here;
}

void finish() { MPI_Finalize(); }

void* allocate_symmetric(size_t) { return nullptr; }

void release_symmetric(void*) {}

void collective(const symm_collective_call_t& call) {
  const auto count = static_cast<int>(call.count);
  const void* const send = call.send == call.recv ? MPI_IN_PLACE : call.send;
  const auto in = [&] {
    switch (call.collective) {
      case SYMM_COLLECTIVE_ALLREDUCE:
        return MPI_Allreduce(send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case SYMM_COLLECTIVE_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case SYMM_COLLECTIVE_ALLGATHER:
        return MPI_Allgather(send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT, MPI_COMM_WORLD);
      case SYMM_COLLECTIVE_BROADCAST:
        return MPI_Bcast(call.recv, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      default:
        return MPI_Alltoall(send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT, MPI_COMM_WORLD);
    }
  };

  check(in(), "a collective");
}

void barrier() { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

void send(const void* data, void*, size_t bytes, int to) {
  check(MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, to, 0, MPI_COMM_WORLD), "MPI_Send");
}

void receive(void* inbox, size_t bytes, int from) {
  check(MPI_Recv(
            inbox, static_cast<int>(bytes), MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
      "MPI_Recv");
}

void exchange(const void* data, void* inbox, size_t offset, size_t bytes, int other) {
  const auto count = static_cast<int>(bytes);
  MPI_Request both[2];
  check(MPI_Irecv(static_cast<char*>(inbox) + offset, count, MPI_BYTE, other, 0, MPI_COMM_WORLD,
            &both[0]),
      "MPI_Irecv");
  check(MPI_Isend(data, count, MPI_BYTE, other, 0, MPI_COMM_WORLD, &both[1]), "MPI_Isend");
  check(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), "MPI_Waitall");
}
}  // namespace peer
