/* What the memory gives: every thread copies an array of its own to another, all at once, with ordinary stores and past the
 * cache. usage: copy <threads> <bytes> <iterations>; prints two lines of JSON. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "loop.h"

#if defined(__x86_64__)
typedef __m128i piece;
static inline void store_past_cache(piece* to, piece value) { _mm_stream_si128(to, value); }
static inline void fence(void) { _mm_sfence(); }
#else
typedef uint64_t piece;
static inline void store_past_cache(piece* to, piece value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }
static inline void fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

static int threads;
static size_t bytes;
static int iterations;
static struct loop_arena* arena;
static double seconds[2][LOOP_MAX_RANKS][1000];

/* Not memcpy(), which chooses by itself. */
static void copy(piece* to, const piece* from, size_t pieces, int past_cache) {
  size_t i;
  if (past_cache) {
    for (i = 0; i < pieces; ++i) store_past_cache(to + i, from[i]);
    fence();
    return;
  }
  for (i = 0; i < pieces; ++i) {
    to[i] = from[i];
    __asm__ volatile("" : : "r"(to + i) : "memory");
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void* work(void* argument) {
  const int rank = *(int*)argument;
  uint64_t round = 0;
  cpu_set_t mask;
  void *from = NULL, *to = NULL;
  int way, i;
  CPU_ZERO(&mask);
  CPU_SET((size_t)rank, &mask);
  if (pthread_setaffinity_np(pthread_self(), sizeof mask, &mask) != 0 || posix_memalign(&from, 4096, bytes) != 0 ||
      posix_memalign(&to, 4096, bytes) != 0) {
    fprintf(stderr, "thread %d: no processor or no memory\n", rank);
    exit(1);
  }
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  for (way = 0; way < 2; ++way) {
    for (i = -2; i < iterations; ++i) {
      double begin;
      loop_start_together(arena, rank, threads, ++round, 2000);
      begin = now();
      copy(to, from, bytes / sizeof(piece), way);
      if (i >= 0) seconds[way][rank][i] = now() - begin;
    }
  }
  free(from);
  free(to);
  return NULL;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  pthread_t thread[LOOP_MAX_RANKS];
  int rank[LOOP_MAX_RANKS];
  int t, way, i;
  threads = argc == 4 ? atoi(argv[1]) : 0;
  bytes = argc == 4 ? strtoull(argv[2], NULL, 10) / sizeof(piece) * sizeof(piece) : 0;
  iterations = argc == 4 ? atoi(argv[3]) : 0;
  arena = calloc(1, sizeof *arena);
  if (threads < 1 || threads > LOOP_MAX_RANKS || bytes == 0 || iterations < 1 || iterations > 1000 || arena == NULL) {
    fprintf(stderr, "usage: copy <threads> <bytes> <iterations>\n");
    return 2;
  }
  for (t = 0; t < threads; ++t) {
    rank[t] = t;
    if (pthread_create(&thread[t], NULL, work, &rank[t]) != 0) return 1;
  }
  for (t = 0; t < threads; ++t) pthread_join(thread[t], NULL);
  for (way = 0; way < 2; ++way) {
    double* slowest = seconds[way][0];
    for (t = 1; t < threads; ++t) {
      for (i = 0; i < iterations; ++i)
        if (seconds[way][t][i] > slowest[i]) slowest[i] = seconds[way][t][i];
    }
    qsort(slowest, (size_t)iterations, sizeof slowest[0], by_value);
    printf("{\"stores\": \"%s\", \"bytes\": %zu, \"threads\": %d, \"p50\": %.1f, \"gigabytes_per_second\": %.2f}\n",
        way ? "past the cache" : "ordinary", bytes, threads, slowest[iterations / 2] * 1e6,
        2e-9 * (double)bytes * threads / slowest[iterations / 2]);
  }
  return 0;
}
