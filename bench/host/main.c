/* Measures one peer. usage: program <case>..., each operation,memory,place,bytes,iterations:
 *   operation  allreduce reduce_scatter allgather broadcast alltoall barrier ping nothing
 *   memory     private symmetric
 *   place      out in (of all-reduce)
 *   bytes      of the larger operand
 * BENCH_ARENA names an empty file that all ranks may map. With BENCH_PIN=1 rank r gets processor r, and every call has a common
 * start; without it ranks may outnumber processors, and a common start would be a matter of luck. Rank 0 prints one line of JSON
 * per case, of the slowest rank's times in microseconds, and with it the round trip of a cache line between the processors of
 * ranks 0 and 1 before and after. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "peer.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Operands differ by rank, place and iteration, and their sums are exact. */
static float data_value(uint32_t rank, uint32_t index, uint32_t iteration) {
  return (float)((index + 3 * iteration + 7 * rank) & 63U);
}

static void data_fill(float* data, size_t count, int rank, uint32_t iteration) {
  size_t i;
  for (i = 0; i < count; ++i) data[i] = data_value((uint32_t)rank, (uint32_t)i, iteration);
}

/* Elements that differ from the sum of the operands of `ranks` ranks, rank `rank` the first, from element `first` on; every
 * `stride`-th is looked at. */
static uint64_t data_wrong(
    const float* data, size_t count, int rank, int ranks, size_t first, uint32_t iteration, size_t stride) {
  uint64_t wrong = 0;
  size_t i;
  int r;
  for (i = 0; i < count; i += stride) {
    float sum = 0;
    for (r = rank; r < rank + ranks; ++r) sum += data_value((uint32_t)r, (uint32_t)(first + i), iteration);
    wrong += data[i] != sum;
  }
  return wrong;
}

/* A clock, memory that the ranks' measuring loops share, a common start.
 *
 * With a common start every rank waits for the same moment before each call, as SKaMPI and ReproMPI do; so a rank's time does not
 * contain the lateness of another, and the slowest rank's time is that of the operation. */
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

static void loop_pause(void) {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/* After everything before it. */
static uint64_t loop_ticks(void) {
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
static uint64_t loop_start_together(struct loop_arena* arena, int rank, int size, uint64_t round, uint64_t ahead) {
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
static double loop_round_trip(struct loop_arena* arena, int rank) {
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

enum { MAX_ITERATIONS = 100000, CHECK_ALL_BYTES = 1 << 20, STRIDE = 1021 };

enum operation { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, ALLTOALL, BARRIER, PING, NOTHING, OPERATIONS };
static const char* const names[OPERATIONS] = {
    "allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall", "barrier", "ping", "nothing"};

struct test {
  enum operation operation;
  enum memory memory;
  int in_place;
  size_t bytes;
  uint32_t iterations;
  size_t send_count, recv_count, block; /* elements */
  float *send, *recv;
};

static struct peer self;
static struct loop_arena* arena;
static int together; /* common starts */
static double ticks_per_us;
static uint64_t rounds; /* common starts so far */

static void refuse(const char* what, const char* text) {
  fprintf(stderr, "%s: %s\n", what, text);
  exit(2);
}

static void pin(void) {
  static const char* const variables[] = {"SYMM_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  size_t i;
  for (i = 0; i < sizeof variables / sizeof variables[0]; ++i) {
    const char* rank = getenv(variables[i]);
    cpu_set_t mask;
    if (rank == NULL) continue;
    CPU_ZERO(&mask);
    CPU_SET((size_t)atoi(rank), &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) refuse("cannot pin rank", rank);
    return;
  }
  refuse("BENCH_PIN", "the launcher tells no rank");
}

static void map_arena(void) {
  const char* path = getenv("BENCH_ARENA");
  const size_t bytes = sizeof *arena + sizeof(uint64_t) * MAX_ITERATIONS * (size_t)self.size;
  int fd;
  if (self.size > LOOP_MAX_RANKS) refuse("ranks", "too many");
  if (path == NULL) refuse("BENCH_ARENA", "is not set");
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) refuse("BENCH_ARENA", path);
  arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (arena == MAP_FAILED) refuse("BENCH_ARENA cannot be mapped", path);
  close(fd);
}

static void calibrate(void) {
  struct timespec begin, now;
  const uint64_t ticks = loop_ticks();
  double us;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    us = (double)(now.tv_sec - begin.tv_sec) * 1e6 + (double)(now.tv_nsec - begin.tv_nsec) * 1e-3;
  } while (us < 50000);
  ticks_per_us = (double)(loop_ticks() - ticks) / us;
}

static struct test parse(const char* text) {
  struct test test;
  char operation[32], memory[32], place[32];
  unsigned long bytes, iterations;
  const size_t size = (size_t)self.size;
  memset(&test, 0, sizeof test);
  if (sscanf(text, "%31[^,],%31[^,],%31[^,],%lu,%lu", operation, memory, place, &bytes, &iterations) != 5)
    refuse("not a case", text);
  while (test.operation < OPERATIONS && strcmp(names[test.operation], operation) != 0) ++test.operation;
  if (test.operation == OPERATIONS) refuse("not an operation", text);
  if (iterations == 0 || iterations > MAX_ITERATIONS) refuse("iterations", text);
  test.memory = strcmp(memory, "symmetric") == 0 ? MEMORY_SYMMETRIC : MEMORY_PRIVATE;
  test.in_place = strcmp(place, "in") == 0;
  test.bytes = bytes;
  test.iterations = (uint32_t)iterations;
  test.send_count = test.recv_count = test.block = bytes / sizeof(float);
  if (test.operation == REDUCE_SCATTER) test.recv_count = test.block = test.send_count / size;
  if (test.operation == ALLGATHER) test.send_count = test.block = test.recv_count / size;
  if (test.operation == ALLTOALL) test.block = test.send_count / size;
  return test;
}

static void allocate(struct test* test) {
  const size_t recv_bytes = (test->recv_count + 1) * sizeof(float);
  /* What arrives by a put must be symmetric where there is such memory, and what is sent need not be. */
  const enum memory recv_memory = test->operation == PING ? MEMORY_SYMMETRIC : test->memory;
  test->recv = peer_allocate(recv_bytes, recv_memory);
  if (test->recv == NULL && test->operation == PING) test->recv = peer_allocate(recv_bytes, MEMORY_PRIVATE);
  test->send = test->in_place ? test->recv : peer_allocate((test->send_count + 1) * sizeof(float), test->memory);
  if (test->send == NULL || test->recv == NULL) refuse("memory", "the peer has no such memory, or not enough");
  memset(test->recv, 0, recv_bytes);
}

static void deallocate(struct test* test) {
  if (!test->in_place) peer_free(test->send, test->memory);
  peer_free(test->recv, test->operation == PING ? MEMORY_SYMMETRIC : test->memory);
}

static void run(const struct test* test) {
  switch (test->operation) {
    case ALLREDUCE: peer_allreduce(test->send, test->recv, test->block); return;
    case REDUCE_SCATTER: peer_reduce_scatter(test->send, test->recv, test->block); return;
    case ALLGATHER: peer_allgather(test->send, test->recv, test->block); return;
    case BROADCAST: peer_broadcast(test->send, test->recv, test->block); return;
    case ALLTOALL: peer_alltoall(test->send, test->recv, test->block); return;
    case BARRIER: peer_barrier(); return;
    case PING:
      if (self.rank == 0) peer_send(test->send, test->recv, test->block, 1);
      peer_receive(test->recv, test->block, 1 - self.rank);
      if (self.rank == 1) peer_send(test->send, test->recv, test->block, 0);
      return;
    case NOTHING:
    case OPERATIONS: return;
  }
}

static uint64_t wrong(const struct test* test, uint32_t iteration) {
  const size_t stride = test->bytes <= CHECK_ALL_BYTES || iteration == 0 ? 1 : STRIDE;
  const size_t mine = (size_t)self.rank * test->block;
  uint64_t count = 0;
  int r;
  switch (test->operation) {
    case ALLREDUCE: return data_wrong(test->recv, test->block, 0, self.size, 0, iteration, stride);
    case REDUCE_SCATTER: return data_wrong(test->recv, test->block, 0, self.size, mine, iteration, stride);
    case BROADCAST: return self.rank == 0 ? 0 : data_wrong(test->recv, test->block, 0, 1, 0, iteration, stride);
    case PING: return data_wrong(test->recv, test->block, 1 - self.rank, 1, 0, iteration, stride);
    case ALLGATHER:
    case ALLTOALL:
      for (r = 0; r < self.size; ++r) {
        const size_t first = test->operation == ALLTOALL ? mine : 0;
        count += data_wrong(test->recv + (size_t)r * test->block, test->block, r, 1, first, iteration, stride);
      }
      return count;
    case BARRIER:
    case NOTHING:
    case OPERATIONS: return 0;
  }
  return 0;
}

static int by_value(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

static void report(const struct test* test, uint64_t* slowest, double before, double after) {
  const uint32_t n = test->iterations;
  uint64_t all_wrong = 0;
  double middle = 0;
  uint32_t i;
  int r;
  for (i = 0; i < n; ++i) {
    slowest[i] = 0;
    for (r = 0; r < self.size; ++r) {
      const uint64_t ticks = arena->ticks[(size_t)r * MAX_ITERATIONS + i];
      /* Who answers a ping waits for it first: only the sender's time is the round trip. */
      if ((test->operation != PING || r == 0) && ticks > slowest[i]) slowest[i] = ticks;
    }
  }
  for (r = 0; r < self.size; ++r) all_wrong += arena->wrong[r];
  qsort(slowest, n, sizeof slowest[0], by_value);
  /* The clock of some processors goes in steps of 10 ns, so the median is smoothed: the mean of the middle fifth. */
  for (i = n * 2 / 5; i <= n * 3 / 5; ++i) middle += (double)slowest[i];
  middle /= n * 3 / 5 - n * 2 / 5 + 1;
  printf(
      "{\"operation\": \"%s\", \"memory\": \"%s\", \"place\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"iterations\": %u, "
      "\"min\": %.4f, \"p50\": %.4f, \"p99\": %.4f, \"max\": %.4f, \"wrong\": %llu, "
      "\"round_trips\": [%.4f, %.4f]}\n",
      names[test->operation], test->memory == MEMORY_SYMMETRIC ? "symmetric" : "private", test->in_place ? "in" : "out",
      test->bytes, self.size, n, (double)slowest[0] / ticks_per_us, middle / ticks_per_us,
      (double)slowest[(size_t)n * 99 / 100] / ticks_per_us, (double)slowest[n - 1] / ticks_per_us, (unsigned long long)all_wrong,
      before / ticks_per_us, after / ticks_per_us);
  fflush(stdout);
}

static void measure(struct test* test) {
  const uint32_t warm_up = test->iterations / 10 + 2;
  const uint64_t ahead = (uint64_t)(ticks_per_us * 0.5);
  uint64_t* times = arena->ticks + (size_t)self.rank * MAX_ITERATIONS;
  uint64_t* slowest = malloc(sizeof *slowest * test->iterations);
  double before = 0, after = 0;
  uint32_t i;
  if (slowest == NULL) refuse("memory", "not enough");
  memset(times, 0, sizeof *times * test->iterations);
  arena->wrong[self.rank] = 0;
  allocate(test);
  if (together && self.rank < 2) before = loop_round_trip(arena, self.rank);
  for (i = 0; i < warm_up + test->iterations; ++i) {
    uint64_t begin, end;
    data_fill(test->send, test->send_count, self.rank, i);
    begin = together ? loop_start_together(arena, self.rank, self.size, ++rounds, ahead) : loop_ticks();
    run(test);
    end = loop_ticks();
    times[i < warm_up ? 0 : i - warm_up] = end - begin;
    arena->wrong[self.rank] += wrong(test, i);
  }
  peer_barrier();
  if (together && self.rank < 2) after = loop_round_trip(arena, self.rank);
  if (self.rank == 0) report(test, slowest, before, after);
  peer_barrier();
  deallocate(test);
  free(slowest);
}

int main(int argc, char** argv) {
  const char* pinned = getenv("BENCH_PIN");
  int i;
  together = pinned != NULL && strcmp(pinned, "1") == 0;
  if (together) pin();
  self = peer_start(&argc, &argv);
  map_arena();
  calibrate();
  for (i = 1; i < argc; ++i) {
    struct test test = parse(argv[i]);
    /* The one that answers looks at what it got while the other waits for the next start. */
    if (test.operation == PING && (self.size != 2 || !together)) refuse("ping", "needs 2 pinned ranks");
    measure(&test);
  }
  peer_finish();
  return 0;
}
