// halos.cpp with MPI: a column is a type, and the messages of a plate are requests that persist.
//   mpicxx -O2 halos_mpi.cpp -o halos_mpi && mpirun -n 3 ./halos_mpi
#include <algorithm>
#include <cstddef>
#include <vector>

#include <mpi.h>

#include "plate.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  const size_t columns = columns_of(rank, size);

  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Type_vector(kRows, 1, kLine, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);

  std::vector<double> plates[2];
  MPI_Request halos[2][4];
  for (int which = 0; which < 2; ++which) {
    plates[which].resize(kCells);
    double* const plate = plates[which].data();
    MPI_Request* const requests = halos[which];
    heat_upper_edge(plate);
    MPI_Recv_init(plate + at(1, 0), 1, column, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(plate + at(1, columns + 1), 1, column, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Send_init(plate + at(1, 1), 1, column, left, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Send_init(plate + at(1, columns), 1, column, right, 0, MPI_COMM_WORLD, &requests[3]);
  }

  double change = 0;
  for (int number = 0; number < kSteps; ++number) {
    const double* const from = plates[number % 2].data();
    double* const to = plates[1 - number % 2].data();
    MPI_Request* const requests = halos[1 - number % 2];

    const double first = step(from, to, 1, 1);
    const double last = step(from, to, columns, 1);
    MPI_Startall(4, requests);
    change = std::max({first, last, step(from, to, 2, columns - 2)});
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }

  MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  report(plates[kSteps % 2].data(), rank, size, change);
  for (MPI_Request* const requests : halos) {
    for (int i = 0; i < 4; ++i) {
      MPI_Request_free(&requests[i]);
    }
  }
  MPI_Type_free(&column);
  MPI_Finalize();
}
