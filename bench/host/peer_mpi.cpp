// Any MPI.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

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
      case SYMM_COLLECTIVE_SCAN:
        return MPI_Scan(send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
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

void put(const void* data, void* inbox, size_t bytes, int to) { send(data, inbox, bytes, to); }

void take(void* inbox, size_t bytes, int from) { receive(inbox, bytes, from); }

void exchange(const void* data, void* inbox, size_t offset, size_t bytes, int other) {
  const auto count = static_cast<int>(bytes);
  MPI_Request both[2];
  check(MPI_Irecv(static_cast<char*>(inbox) + offset, count, MPI_BYTE, other, 0, MPI_COMM_WORLD,
            &both[0]),
      "MPI_Irecv");
  check(MPI_Isend(data, count, MPI_BYTE, other, 0, MPI_COMM_WORLD, &both[1]), "MPI_Isend");
  check(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), "MPI_Waitall");
}

// ---- faces: for each axis one goes to the rank before, where it is the border of a face that
// comes from behind, and one to the rank behind. Faces between two ranks match in the order of
// these lists, also where both neighbours are one rank.

namespace {
constexpr int kAxes = 3;
constexpr int kFaces = 2 * kAxes;

struct {
  double* cubes = nullptr;
  Cube cube{};
  Form form{};
  int before = 0;
  int behind = 0;
  MPI_Comm ring = MPI_COMM_NULL;
  MPI_Datatype inner[kFaces];   // what goes
  MPI_Datatype border[kFaces];  // where the face of the same number of another rank comes
  // The faces to, and from, each of the neighbours, one behind the other.
  std::vector<double> out[2];
  std::vector<double> in[2];
  std::vector<MPI_Request> kept[2];  // of each cube
} faces;

// The layer at `at` of an axis, within a cube.
MPI_Datatype layer(const Cube& cube, int axis, size_t at) {
  const auto line = static_cast<int>(cube.line());
  const auto edge = static_cast<int>(cube.edge);
  const int sizes[kAxes] = {line, line, line};
  int lengths[kAxes] = {edge, edge, edge};
  int starts[kAxes] = {1, 1, 1};
  lengths[axis] = 1;
  starts[axis] = static_cast<int>(at);

  MPI_Datatype made;
  check(MPI_Type_create_subarray(kAxes, sizes, lengths, starts, MPI_ORDER_C, MPI_DOUBLE, &made),
      "MPI_Type_create_subarray");
  check(MPI_Type_commit(&made), "MPI_Type_commit");
  return made;
}

// Calls copy(an element of the cube, its place in the packed faces) for the layers at `at`.
template <class Copy>
void each_element(const Cube& cube, size_t at, const Copy& copy) {
  size_t place = 0;
  for (size_t a = 1; a <= cube.edge; ++a) {
    for (size_t b = 1; b <= cube.edge; ++b) {
      copy(cube.at(at, a, b), place++);
    }
  }
  for (size_t a = 1; a <= cube.edge; ++a) {
    for (size_t b = 1; b <= cube.edge; ++b) {
      copy(cube.at(a, at, b), place++);
    }
  }
  for (size_t a = 1; a <= cube.edge; ++a) {
    for (size_t b = 1; b <= cube.edge; ++b) {
      copy(cube.at(a, b, at), place++);
    }
  }
}

// One message for each neighbour, packed and unpacked by loops.
void exchange_packed(double* cube) {
  const Cube& shape = faces.cube;
  const int ranks[2] = {faces.before, faces.behind};
  const size_t inner[2] = {1, shape.edge};
  const size_t border[2] = {0, shape.edge + 1};
  const auto count = static_cast<int>(faces.in[0].size());
  MPI_Request requests[4];

  for (int side = 0; side < 2; ++side) {
    check(MPI_Irecv(faces.in[side].data(), count, MPI_DOUBLE, ranks[side], 1 - side, MPI_COMM_WORLD,
              &requests[side]),
        "MPI_Irecv");
  }
  for (int side = 0; side < 2; ++side) {
    double* const out = faces.out[side].data();
    each_element(shape, inner[side], [&](size_t at, size_t place) { out[place] = cube[at]; });
    check(MPI_Isend(out, count, MPI_DOUBLE, ranks[side], side, MPI_COMM_WORLD, &requests[2 + side]),
        "MPI_Isend");
  }
  for (int done = 0; done < 2; ++done) {
    int side = 0;
    check(MPI_Waitany(2, requests, &side, MPI_STATUS_IGNORE), "MPI_Waitany");
    const double* const in = faces.in[side].data();
    each_element(shape, border[side], [&](size_t at, size_t place) { cube[at] = in[place]; });
  }
  check(MPI_Waitall(2, requests + 2, MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void exchange_typed(double* cube) {
  static const int kOnes[kFaces] = {1, 1, 1, 1, 1, 1};
  static const MPI_Aint kZeros[kFaces] = {0, 0, 0, 0, 0, 0};
  check(MPI_Neighbor_alltoallw(
            cube, kOnes, kZeros, faces.inner, cube, kOnes, kZeros, faces.border, faces.ring),
      "MPI_Neighbor_alltoallw");
}
// A request that is made once for each cube: where MPI has none of neighbourhoods yet, one for each
// face that goes and one for each that comes.
void prepare_kept(int which, const int* destinations, const int* sources) {
  double* const cube = faces.cubes + static_cast<size_t>(which) * faces.cube.elements();
  std::vector<MPI_Request>& requests = faces.kept[which];
#if MPI_VERSION >= 4
  static const int kOnes[kFaces] = {1, 1, 1, 1, 1, 1};
  static const MPI_Aint kZeros[kFaces] = {0, 0, 0, 0, 0, 0};
  static_cast<void>(destinations);
  static_cast<void>(sources);
  requests.resize(1);
  check(MPI_Neighbor_alltoallw_init(cube, kOnes, kZeros, faces.inner, cube, kOnes, kZeros,
            faces.border, faces.ring, MPI_INFO_NULL, requests.data()),
      "MPI_Neighbor_alltoallw_init");
#else
  requests.resize(2 * kFaces);
  for (int face = 0; face < kFaces; ++face) {
    check(MPI_Recv_init(cube, 1, faces.border[face], sources[face], face, MPI_COMM_WORLD,
              &requests[static_cast<size_t>(face)]),
        "MPI_Recv_init");
    check(MPI_Send_init(cube, 1, faces.inner[face], destinations[face], face, MPI_COMM_WORLD,
              &requests[static_cast<size_t>(kFaces + face)]),
        "MPI_Send_init");
  }
#endif
}

void exchange_kept(int which) {
  std::vector<MPI_Request>& requests = faces.kept[which];
  const auto count = static_cast<int>(requests.size());
  check(MPI_Startall(count, requests.data()), "MPI_Startall");
  check(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}
}  // namespace

void prepare_faces(double* cubes, const Cube& cube, Form form) {
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  faces.cubes = cubes;
  faces.cube = cube;
  faces.form = form;
  faces.before = (rank + size - 1) % size;
  faces.behind = (rank + 1) % size;
  for (int side = 0; side < 2; ++side) {
    faces.out[side].assign(kAxes * cube.edge * cube.edge, 0);
    faces.in[side].assign(kAxes * cube.edge * cube.edge, 0);
  }

  int destinations[kFaces];
  int sources[kFaces];
  for (int axis = 0; axis < kAxes; ++axis) {
    destinations[2 * axis] = faces.before;
    destinations[2 * axis + 1] = faces.behind;
    sources[2 * axis] = faces.behind;
    sources[2 * axis + 1] = faces.before;
    faces.inner[2 * axis] = layer(cube, axis, 1);
    faces.inner[2 * axis + 1] = layer(cube, axis, cube.edge);
    faces.border[2 * axis] = layer(cube, axis, cube.edge + 1);
    faces.border[2 * axis + 1] = layer(cube, axis, 0);
  }
  check(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, kFaces, sources, MPI_UNWEIGHTED, kFaces,
            destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &faces.ring),
      "MPI_Dist_graph_create_adjacent");
  for (int which = 0; form == Form::kept && which < 2; ++which) {
    prepare_kept(which, destinations, sources);
  }
}

void exchange_faces(int which) {
  double* const cube = faces.cubes + static_cast<size_t>(which) * faces.cube.elements();
  if (faces.form == Form::kept) return exchange_kept(which);
  faces.form == Form::packed ? exchange_packed(cube) : exchange_typed(cube);
}

void finish_faces() {
  for (std::vector<MPI_Request>& requests : faces.kept) {
    for (MPI_Request& request : requests) {
      check(MPI_Request_free(&request), "MPI_Request_free");
    }
    requests.clear();
  }
  for (int face = 0; face < kFaces; ++face) {
    MPI_Type_free(&faces.inner[face]);
    MPI_Type_free(&faces.border[face]);
  }
  MPI_Comm_free(&faces.ring);
}

// ---- words: in a window of memory that all ranks share, with every promise that lets an MPI use
// the processor's own additions

namespace {
MPI_Win words = MPI_WIN_NULL;
}  // namespace

void prepare_words() {
  static const char* const kPromises[][2] = {{"same_size", "true"}, {"same_disp_unit", "true"},
      {"accumulate_ordering", "none"}, {"accumulate_ops", "same_op_no_op"},
      {"which_accumulate_ops", "sum,no_op"}, {"mpi_accumulate_granularity", "8"}};
  MPI_Info info;
  uint64_t* word = nullptr;
  check(MPI_Info_create(&info), "MPI_Info_create");
  for (const auto& [key, value] : kPromises) {
    check(MPI_Info_set(info, key, value), "MPI_Info_set");
  }
  check(MPI_Win_allocate_shared(sizeof *word, sizeof *word, info, MPI_COMM_WORLD, &word, &words),
      "MPI_Win_allocate_shared");
  check(MPI_Info_free(&info), "MPI_Info_free");

  *word = 0;
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, words), "MPI_Win_lock_all");
  check(MPI_Win_sync(words), "MPI_Win_sync");
  barrier();
}

uint64_t fetch_add(int rank, uint64_t value) {
  uint64_t before = 0;
  check(
      MPI_Fetch_and_op(&value, &before, MPI_UINT64_T, rank, 0, MPI_SUM, words), "MPI_Fetch_and_op");
  check(MPI_Win_flush(rank, words), "MPI_Win_flush");
  return before;
}

void finish_words() {
  barrier();
  check(MPI_Win_unlock_all(words), "MPI_Win_unlock_all");
  check(MPI_Win_free(&words), "MPI_Win_free");
}
}  // namespace peer
