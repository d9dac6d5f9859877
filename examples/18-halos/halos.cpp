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

namespace {
// Puts the outer columns of a plate, which begins at this cell, into the halos of the neighbours.
symm::NeighborExchange exchange_of(
    const symm::Group& group, const symm::Memory& memory, size_t plate) {
  const int rank = group.rank();
  const int size = group.size();
  constexpr size_t kCell = sizeof(double);
  const auto column = [&](size_t from, size_t to) {
    return std::vector<symm_piece_t>{{(plate + at(1, from)) * kCell, (plate + at(1, to)) * kCell,
        kCell, kRows, kLine * kCell, kLine * kCell}};
  };

  const auto cells = memory.span<double>();
  const auto left = column(1, rank > 0 ? columns_of(rank - 1, size) + 1 : 0);
  const auto right = column(columns_of(rank, size), 0);
  std::vector<symm_neighbor_t> halos;
  if (rank > 0) halos.push_back(neighbor(rank - 1, memory, 0, cells, left, kRows * kCell));
  if (rank + 1 < size) halos.push_back(neighbor(rank + 1, memory, 0, cells, right, kRows * kCell));
  return group.exchange(halos);
}
}  // namespace

int main() try {
  const symm::Group group = symm::Group::create();
  const symm::Memory memory = group.rendezvous(group.allocate(2 * kCells * sizeof(double)));
  double* const plates[] = {memory.span<double>().data(), memory.span<double>().data() + kCells};
  for (double* const plate : plates) {
    heat_upper_edge(plate);
  }
  const symm::NeighborExchange halos[] = {
      exchange_of(group, memory, 0), exchange_of(group, memory, kCells)};

  const size_t columns = columns_of(group.rank(), group.size());
  std::vector<double> change(1);
  for (int number = 0; number < kSteps; ++number) {
    const double* const from = plates[number % 2];
    double* const to = plates[1 - number % 2];
    const symm::NeighborExchange& exchange = halos[1 - number % 2];

    const double left = step(from, to, 1, 1);
    const double right = step(from, to, columns, 1);
    exchange.start();
    change[0] = std::max({left, right, step(from, to, 2, columns - 2)});
    exchange.finish();
  }

  group.allreduce(change, change, SYMM_OP_MAX);
  report(plates[kSteps % 2], group.rank(), group.size(), change[0]);
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
