// OpenMP within a rank, symm between ranks: the heat equation on a plate, by Jacobi's method.
//   symm run -n 3 -- symm_heat
//
// Each rank has a band of rows, with a ghost row above and below. After a step it puts its outer
// rows into the ghost rows of its neighbours. Two plates take turns as source and target, so a
// neighbour that is a step ahead writes to the plate that nobody reads any more.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
constexpr size_t kRows = 240;
constexpr size_t kColumns = 240;
constexpr int kSteps = 400;
constexpr double kHot = 100;  // the temperature of the upper edge; the others have 0

// The first row of a rank's band.
size_t first_row(int rank, int size) {
  return kRows * static_cast<size_t>(rank) / static_cast<size_t>(size);
}

size_t rows_of(int rank, int size) { return first_row(rank + 1, size) - first_row(rank, size); }

// One step of rows 1 .. rows of a band. Returns the greatest change.
double step(symm::Span<const double> from, symm::Span<double> to, size_t rows) {
  double change = 0;
#pragma omp parallel for reduction(max : change) schedule(static)
  for (size_t row = 1; row <= rows; ++row) {
    for (size_t column = 1; column + 1 < kColumns; ++column) {
      const size_t i = row * kColumns + column;
      to[i] = (from[i - kColumns] + from[i + kColumns] + from[i - 1] + from[i + 1]) / 4;
      change = std::max(change, std::abs(to[i] - from[i]));
    }
  }
  return change;
}

class Plates {
 public:
  explicit Plates(const symm::Group& group)
      : rank_(group.rank()),
        size_(group.size()),
        elements_((kRows / static_cast<size_t>(size_) + 3) * kColumns),
        memory_(group.rendezvous(group.allocate(2 * elements_ * sizeof(double)))) {
    if (rank_ > 0) return;
    for (const int which : {0, 1}) {
      std::fill_n(plate(which).begin(), kColumns, kHot);
    }
  }

  size_t rows() const { return rows_of(rank_, size_); }

  symm::Span<double> plate(int which) const {
    return memory_.span<double>().subspan(start(which), elements_);
  }

  // Puts the outer rows of a plate into the ghost rows of the neighbours, and waits for theirs.
  void exchange(int which) const {
    const int above = rank_ - 1;
    const int below = rank_ + 1;
    if (above >= 0) send(which, 1, above, rows_of(above, size_) + 1);
    if (below < size_) send(which, rows(), below, 0);
    if (above >= 0) memory_.wait_signal(above);
    if (below < size_) memory_.wait_signal(below);
  }

 private:
  size_t start(int which) const { return static_cast<size_t>(which) * elements_; }

  void send(int which, size_t row, int to, size_t ghost_row) const {
    const size_t offset = (start(which) + ghost_row * kColumns) * sizeof(double);
    memory_.put_signal(to, offset, plate(which).subspan(row * kColumns, kColumns));
  }

  int rank_;
  int size_;
  size_t elements_;  // of one plate; room for the longest band
  symm::Memory memory_;
};
}  // namespace

int main() try {
  const symm::Group group = symm::Group::create();
  const Plates plates(group);
  group.barrier();  // nobody puts a row into a plate that is being filled

  double change = 0;
  for (int number = 0; number < kSteps; ++number) {
    const int from = number % 2;
    const int to = 1 - from;
    change = step(plates.plate(from), plates.plate(to), plates.rows());
    plates.exchange(to);
  }

  std::vector<double> greatest = {change};
  group.allreduce(greatest, greatest, SYMM_OP_MAX);
  const size_t first = first_row(group.rank(), group.size());
  const size_t row = kRows / 8;
  if (row >= first && row < first + plates.rows()) {
    const size_t at = (row - first + 1) * kColumns + kColumns / 2;
    std::printf("after %d steps row %zu has %.6f degrees in the middle, and changed by %.6f\n",
        kSteps, row, plates.plate(kSteps % 2)[at], greatest[0]);
  }
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
