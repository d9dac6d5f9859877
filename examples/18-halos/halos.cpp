// The heat equation on a plate, with halos that neighbours exchange while they compute.
//   symm run -n 3 -- symm_halos
//
// A rank computes the outer columns of its band first. Then they go into its neighbours' halos,
// while it computes the others. Two plates take turns as source and target, and each has an
// exchange of its own. A column is one piece, whose rows are a cell each. halos_mpi.cpp is the same
// program with MPI.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "plate.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

int main() try {
  const symm::Group group = symm::Group::create();
  const int rank = group.rank();
  const int size = group.size();
  const size_t columns = columns_of(rank, size);

  // The outer columns of a band, and which columns of the neighbours' they become.
  const size_t halo = rank > 0 ? columns_of(rank - 1, size) + 1 : 0;
  const auto left = symm::piece_of_rows<double>(at(1, 1), at(1, halo), 1, kRows, kLine);
  const auto right = symm::piece_of_rows<double>(at(1, columns), at(1, 0), 1, kRows, kLine);
  constexpr size_t kBytes = kRows * sizeof(double);

  symm::Memory plates[2];
  symm::NeighborExchange halos[2];
  for (int which = 0; which < 2; ++which) {
    symm::Memory& plate = plates[which];
    plate = group.rendezvous(group.allocate(kCells * sizeof(double)));
    const auto cells = plate.span<double>();
    heat_upper_edge(cells.data());
    std::vector<symm_neighbor_t> all;
    if (rank > 0) all.push_back(neighbor(rank - 1, plate, 0, cells, {&left, 1}, kBytes));
    if (rank + 1 < size) all.push_back(neighbor(rank + 1, plate, 0, cells, {&right, 1}, kBytes));
    halos[which] = group.exchange(all);
  }

  std::vector<double> change(1);
  for (int number = 0; number < kSteps; ++number) {
    const double* const from = plates[number % 2].span<double>().data();
    double* const to = plates[1 - number % 2].span<double>().data();
    const symm::NeighborExchange& exchange = halos[1 - number % 2];

    const double first = step(from, to, 1, 1);
    const double last = step(from, to, columns, 1);
    exchange.start();
    change[0] = std::max({first, last, step(from, to, 2, columns - 2)});
    exchange.finish();
  }

  group.allreduce(change, change, SYMM_OP_MAX);
  report(plates[kSteps % 2].span<double>().data(), rank, size, change[0]);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
