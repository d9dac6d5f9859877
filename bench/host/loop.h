/* The means of measuring, independent of what is measured: a clock, memory that the ranks' measuring loops share, a common start.
 *
 * With a common start every rank waits for the same moment before each call, as SKaMPI and ReproMPI do; so a rank's time does not
 * contain the lateness of another, and the slowest rank's time is that of the operation. */
#ifndef SYMM_BENCH_LOOP_H
#define SYMM_BENCH_LOOP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <time.h>
#endif

enum { LOOP_MAX_RANKS = 64 };

/* In a file that all ranks map. Each word has one writer; neighbours are two lines apart, since processors fetch lines in pairs.
 */
struct loop_line {
  uint64_t word;
  char padding[120];
};
struct loop_arena {
  struct loop_line ready[LOOP_MAX_RANKS];
  struct loop_line ping, pong;
  uint64_t start;   /* by rank 0: the moment, */
  uint64_t started; /* and for which round it is */
  char padding[112];
  uint64_t wrong[LOOP_MAX_RANKS];
  uint64_t ticks[]; /* [rank][iteration] */
};

static inline void loop_pause(void) {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/* After everything before it. */
static inline uint64_t loop_ticks(void) {
#if defined(__x86_64__)
  _mm_lfence();
  return __rdtsc();
#else
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
#endif
}

/* A barrier, then a moment that is the same for all; returns the time at which this rank leaves. */
static inline uint64_t loop_start_together(struct loop_arena* arena, int rank, int size, uint64_t round, uint64_t ahead) {
  uint64_t now;
  int r;
  if (rank == 0) {
    for (r = 1; r < size; ++r)
      while (__atomic_load_n(&arena->ready[r].word, __ATOMIC_ACQUIRE) < round) loop_pause();
    arena->start = loop_ticks() + ahead;
    __atomic_store_n(&arena->started, round, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(&arena->ready[rank].word, round, __ATOMIC_RELEASE);
    while (__atomic_load_n(&arena->started, __ATOMIC_ACQUIRE) < round) loop_pause();
  }
  do now = loop_ticks();
  while (now < arena->start);
  return now;
}

/* Ticks for a line to go from rank 0 to rank 1 and another to come back: how close their processors are. On a virtual machine
 * this changes from one moment to the next. Called by both; 0 on rank 1. */
static inline double loop_round_trip(struct loop_arena* arena, int rank) {
  enum { BATCHES = 20, TRIPS = 100 };
  uint64_t trip = arena->pong.word;
  double best = 0;
  int batch, i;
  for (batch = 0; batch < BATCHES; ++batch) {
    const uint64_t begin = loop_ticks();
    double ticks;
    for (i = 0; i < TRIPS; ++i) {
      ++trip;
      if (rank == 0) {
        __atomic_store_n(&arena->ping.word, trip, __ATOMIC_RELEASE);
        while (__atomic_load_n(&arena->pong.word, __ATOMIC_ACQUIRE) < trip) loop_pause();
      } else {
        while (__atomic_load_n(&arena->ping.word, __ATOMIC_ACQUIRE) < trip) loop_pause();
        __atomic_store_n(&arena->pong.word, trip, __ATOMIC_RELEASE);
      }
    }
    ticks = (double)(loop_ticks() - begin) / TRIPS;
    if (batch == 0 || ticks < best) best = ticks;
  }
  return rank == 0 ? best : 0;
}

#endif
