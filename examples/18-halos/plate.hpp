// A plate of kRows x kColumns cells with an edge around it, and the heat equation on it, by
// Jacobi's method. Ranks have bands of columns, each with a column more on either side: its halo,
// or an edge of the plate. What these programs show is how halos get there: halos.cpp and
// halos_mpi.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

constexpr size_t kRows = 240;
constexpr size_t kColumns = 238;
constexpr int kSteps = 400;
constexpr double kHot = 100;  // the temperature of the upper edge; the others have 0

// The columns of all ranks lie equally far from each other in memory.
constexpr size_t kLine = kColumns + 2;
constexpr size_t kCells = (kRows + 2) * kLine;

constexpr size_t at(size_t row, size_t column) { return row * kLine + column; }

// Columns of the plate that lie before a rank's band, and in it.
inline size_t before(int rank, int size) {
  return kColumns * static_cast<size_t>(rank) / static_cast<size_t>(size);
}
inline size_t columns_of(int rank, int size) { return before(rank + 1, size) - before(rank, size); }

inline void heat_upper_edge(double* cells) { std::fill_n(cells, kLine, kHot); }

// One step of `count` columns of a band, from `first` on. Returns the greatest change.
inline double step(const double* from, double* to, size_t first, size_t count) {
  double change = 0;
  for (size_t row = 1; row <= kRows; ++row) {
    for (size_t i = at(row, first); i < at(row, first + count); ++i) {
      to[i] = (from[i - kLine] + from[i + kLine] + from[i - 1] + from[i + 1]) / 4;
      change = std::max(change, std::abs(to[i] - from[i]));
    }
  }
  return change;
}

// Says the temperature of a cell, if the rank has it.
inline void report(const double* cells, int rank, int size, double change) {
  const size_t first = before(rank, size);
  const size_t column = kColumns / 2 + 1;
  if (column <= first || column > first + columns_of(rank, size)) return;
  std::printf("after %d steps row 30 has %.6f degrees in the middle, and changed by %.6f\n", kSteps,
      cells[at(kRows / 8 + 1, column - first)], change);
}
