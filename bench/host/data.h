/* Operands that differ by rank, place and iteration, and whose sums are exact; and what each operation must make of them. */
#ifndef SYMM_BENCH_DATA_H
#define SYMM_BENCH_DATA_H

#include <stddef.h>
#include <stdint.h>

static inline float data_value(uint32_t rank, uint32_t index, uint32_t iteration) {
  return (float)((index + 3 * iteration + 7 * rank) & 63U);
}

static inline void data_fill(float* data, size_t count, int rank, uint32_t iteration) {
  size_t i;
  for (i = 0; i < count; ++i) data[i] = data_value((uint32_t)rank, (uint32_t)i, iteration);
}

/* Elements that differ from rank `rank`'s operand from element `first` on; every `stride`-th is looked at. */
static inline uint64_t data_wrong_copies(
    const float* data, size_t count, int rank, size_t first, uint32_t iteration, size_t stride) {
  uint64_t wrong = 0;
  size_t i;
  for (i = 0; i < count; i += stride) wrong += data[i] != data_value((uint32_t)rank, (uint32_t)(first + i), iteration);
  return wrong;
}

/* The same for the sum over `size` ranks. */
static inline uint64_t data_wrong_sums(
    const float* data, size_t count, int size, size_t first, uint32_t iteration, size_t stride) {
  uint64_t wrong = 0;
  size_t i;
  int r;
  for (i = 0; i < count; i += stride) {
    float sum = 0;
    for (r = 0; r < size; ++r) sum += data_value((uint32_t)r, (uint32_t)(first + i), iteration);
    wrong += data[i] != sum;
  }
  return wrong;
}

#endif
