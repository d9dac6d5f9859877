/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo's table of latencies. `symm bench` measures more thoroughly. */
#define _POSIX_C_SOURCE 200809L
#include "demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REQUIRE(call) demo_require((call), #call)

enum {
  MOST = 200,
  CHANNEL = 1
};

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Each time of the slowest rank, then the median over the times. */
static double median_of_slowest(symm_group_t* group, double* times, size_t count) {
  REQUIRE(symm_allreduce(group, times, times, count, SYMM_DTYPE_F64, SYMM_OP_MAX, NULL, NULL));
  qsort(times, count, sizeof *times, ascending);
  return times[count / 2];
}

static double time_allreduce(symm_group_t* group, float* values, size_t bytes, int32_t rank, int32_t size) {
  const size_t count = bytes / sizeof *values;
  const int iterations = bytes > (size_t)1 << 18 ? 20 : MOST;
  double times[MOST];
  int i;
  for (i = 0; i < iterations; ++i) {
    size_t at;
    double start;
    for (at = 0; at < count; ++at) values[at] = (float)(rank + 1 + i); /* as a program does that has just computed its input */
    REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
    start = microseconds();
    REQUIRE(symm_allreduce(group, values, values, count, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL));
    times[i] = microseconds() - start;
    for (at = 0; at < count; ++at)
      demo_expect(values[at] == (float)(size * (size + 1) / 2 + size * i), "an all-reduce of the latency table");
  }
  return median_of_slowest(group, times, (size_t)iterations);
}

static double time_barrier(symm_group_t* group) {
  double times[MOST];
  int i;
  for (i = 0; i < MOST; ++i) {
    const double start = microseconds();
    REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
    times[i] = microseconds() - start;
  }
  return median_of_slowest(group, times, MOST);
}

/* Rank 0 writes a word to rank 1 and signals, rank 1 answers in kind. */
static double time_round_trip(symm_group_t* group, symm_memory_t* memory, const char* block, int32_t rank) {
  double times[MOST] = {0};
  uint32_t word;
  int i;
  for (i = 0; i < MOST && rank < 2; ++i) {
    const double start = microseconds();
    word = (uint32_t)(2 * i + rank);
    if (rank == 0) REQUIRE(symm_put_with_signal(memory, 1, 0, &word, sizeof word, CHANNEL, NULL));
    REQUIRE(symm_wait_signal(memory, 1 - rank, CHANNEL, 0, NULL));
    demo_expect(*(const volatile uint32_t*)(const void*)block == (uint32_t)(2 * i + 1 - rank), "a word of the round trip");
    if (rank == 1) REQUIRE(symm_put_with_signal(memory, 0, 0, &word, sizeof word, CHANNEL, NULL));
    if (rank == 0) times[i] = microseconds() - start;
  }
  return median_of_slowest(group, times, MOST);
}

void demo_latencies(symm_group_t* group, symm_memory_t* memory, char* block, int32_t rank, int32_t size) {
  const double factor = 2.0 * (size - 1) / size; /* bus bandwidth, as nccl-tests counts it */
  size_t bytes;
  double time;
  if (rank == 0) printf("all-reduce f32     time (us)   busbw (GB/s)\n");
  for (bytes = 8; bytes <= DEMO_LARGEST; bytes *= bytes < 1024 ? 8 : 4) {
    time = time_allreduce(group, (float*)(void*)block, bytes, rank, size);
    if (rank == 0) printf("%10lu B %17.2f %14.3f\n", (unsigned long)bytes, time, (double)bytes * factor / time / 1e3);
  }
  time = time_barrier(group);
  if (rank == 0) printf("barrier      %16.2f\n", time);
  if (size < 2) return;
  REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
  time = time_round_trip(group, memory, block, rank);
  if (rank == 0) printf("put with signal, %12.2f\n  there and back\n", time);
}
