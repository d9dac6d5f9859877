/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes form a group, share one symmetric heap, write into each other's memory, signal each other and
 * all-reduce the gradient of a least squares problem. Start it by: symm run -n 4 -- symm_demo */
#include "demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t rank_of_this_process;

void demo_require(symm_status_t status, const char* call) {
  if (status == SYMM_OK) return;
  fprintf(stderr, "rank %" PRId32 ": %s: %s: %s\n", rank_of_this_process, call, symm_status_string(status), symm_last_error());
  exit(1);
}

void demo_expect(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "rank %" PRId32 ": wrong result: %s\n", rank_of_this_process, what);
  exit(1);
}

#define REQUIRE(call) demo_require((call), #call)

/* So that what the ranks print about one step comes before the next step. (Printing is not ordered by it: each rank has its own
 * pipe; the launcher keeps lines whole, not the ranks in step.) */
static void step(symm_group_t* group, int32_t rank, const char* title) {
  fflush(stdout);
  REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
  if (rank == 0) printf("\n== %s\n", title);
  fflush(stdout);
  REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
}

/* ---- writing into each other's memory ------------------------------------------------------------------ */

enum {
  GREETING = 0,
  DIRECT = 128,
  CHANNEL = 0
};

static void write_to_neighbours(symm_group_t* group, symm_memory_t* memory, char* block, int32_t rank, int32_t size) {
  const int32_t right = (rank + 1) % size;
  const int32_t left = (rank + size - 1) % size;
  char greeting[96];
  char expected[96];
  uint64_t number;
  void* there = NULL;

  /* By a call: copy a greeting into the right neighbour's block and signal that it is there. */
  snprintf(greeting, sizeof greeting, "hello %" PRId32 ", this is %" PRId32 " (pid %ld)", right, rank, (long)getpid());
  REQUIRE(symm_put_with_signal(memory, right, GREETING, greeting, sizeof greeting, CHANNEL, NULL));
  REQUIRE(symm_wait_signal(memory, left, CHANNEL, 0, NULL));
  printf("rank %" PRId32 " found in its block: \"%s\"\n", rank, block + GREETING);
  snprintf(expected, sizeof expected, "hello %" PRId32 ", this is %" PRId32 " (pid ", rank, left);
  demo_expect(strncmp(block + GREETING, expected, strlen(expected)) == 0, "the left neighbour's greeting");

  /* By a plain store: the left neighbour's block is mapped here like any memory. */
  REQUIRE(symm_memory_pointer(memory, left, &there));
  *(volatile uint64_t*)((char*)there + DIRECT) = 1000 + (uint64_t)rank;
  REQUIRE(symm_put_signal(memory, left, CHANNEL, NULL));
  REQUIRE(symm_wait_signal(memory, right, CHANNEL, 0, NULL));
  number = *(volatile uint64_t*)(block + DIRECT);
  printf("rank %" PRId32 " stored %" PRId32 " through a pointer into rank %" PRId32 "'s block, and found %" PRIu64
         " in its own\n",
         rank, 1000 + rank, left, number);
  demo_expect(number == 1000 + (uint64_t)right, "the right neighbour's store");
  REQUIRE(symm_barrier(group, NULL, 0, 0, 0, NULL));
}

/* ---- all-reducing real data ---------------------------------------------------------------------------- */

/* Fit y = w . x to rows that are dealt out to the ranks: each rank computes the gradient of its own rows, the all-reduce adds
 * them up, and every rank takes the same step. */
enum {
  FEATURES = 64,
  ROWS = 256,
  STEPS = 120
};

static float random_unit(uint32_t* state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 8) / 8388608.0F - 1.0F;
}

static void make_rows(int32_t owner, float x[ROWS][FEATURES], float y[ROWS]) {
  uint32_t state = 12345U + 777U * (uint32_t)owner;
  int row, i;
  for (row = 0; row < ROWS; ++row) {
    y[row] = 0.05F * random_unit(&state);
    for (i = 0; i < FEATURES; ++i) {
      x[row][i] = random_unit(&state);
      y[row] += x[row][i] * (float)(i % 7 - 3); /* the weights to be found */
    }
  }
}

/* Returns the squared error as the last element of `gradient`. */
static void gradient_of_rows(const float w[FEATURES], float x[ROWS][FEATURES], const float y[ROWS],
                             float gradient[FEATURES + 1]) {
  int row, i;
  memset(gradient, 0, sizeof(float) * (FEATURES + 1));
  for (row = 0; row < ROWS; ++row) {
    float error = -y[row];
    for (i = 0; i < FEATURES; ++i) error += w[i] * x[row][i];
    for (i = 0; i < FEATURES; ++i) gradient[i] += error * x[row][i];
    gradient[FEATURES] += error * error;
  }
}

/* What the all-reduce must give, bit for bit: everybody's gradient, added in the order of the ranks. */
static void serial_sum(const float w[FEATURES], int32_t size, float sum[FEATURES + 1]) {
  static float x[ROWS][FEATURES];
  static float y[ROWS];
  float gradient[FEATURES + 1];
  int32_t owner;
  int i;
  for (owner = 0; owner < size; ++owner) {
    make_rows(owner, x, y);
    gradient_of_rows(w, x, y, gradient);
    for (i = 0; i <= FEATURES; ++i) sum[i] = owner == 0 ? gradient[i] : sum[i] + gradient[i];
  }
}

static void fit(symm_group_t* group, char* block, int32_t rank, int32_t size) {
  static float x[ROWS][FEATURES];
  static float y[ROWS];
  float w[FEATURES] = {0};
  float expected[FEATURES + 1];
  float first_error = 0;
  float last_error = 0;
  float* sum = (float*)(void*)block;
  int step_number, i;
  make_rows(rank, x, y);
  for (step_number = 0; step_number < STEPS; ++step_number) {
    gradient_of_rows(w, x, y, sum);
    REQUIRE(symm_allreduce(group, sum, sum, FEATURES + 1, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL));
    serial_sum(w, size, expected);
    demo_expect(memcmp(sum, expected, sizeof expected) == 0, "the all-reduced gradient differs from the serial sum");
    if (step_number == 0) first_error = sum[FEATURES];
    last_error = sum[FEATURES];
    for (i = 0; i < FEATURES; ++i) w[i] -= 2.0F / (float)(ROWS * size) * sum[i];
  }
  printf("rank %" PRId32
         ": %d steps, squared error %.1f -> %.3f, w = %.2f %.2f %.2f %.2f ...; all sums equal the serial ones, bit for bit\n",
         rank, STEPS, (double)first_error, (double)last_error, (double)w[0], (double)w[1], (double)w[2], (double)w[3]);
  demo_expect(last_error < 0.01F * first_error, "the fit did not converge");
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

int main(void) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_group_t* group = NULL;
  symm_buffer_t* buffer = NULL;
  symm_memory_t* memory = NULL;
  symm_group_info_t info;
  void* block = NULL;
  char heap[64];

  alarm(30); /* whatever happens, this ends */
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 20000;
  config.timeout_ms = 10000;
  config.name = "demo";
  REQUIRE(symm_group_create(&config, &group));
  info.struct_size = sizeof info;
  REQUIRE(symm_group_info(group, &info));
  rank_of_this_process = info.rank;

  step(group, info.rank, "The group");
  printf("rank %" PRId32 " of %" PRId32 " is process %ld, found by %s\n", info.rank, info.size, (long)getpid(), info.bootstrap);

  step(group, info.rank, "The symmetric heap");
  REQUIRE(symm_alloc(group, DEMO_LARGEST, 0, &buffer));
  REQUIRE(symm_rendezvous(group, buffer, 0, &memory));
  REQUIRE(symm_buffer_pointer(buffer, &block));
  snprintf(heap, sizeof heap, "%d MiB at %p", (int)(DEMO_LARGEST >> 20), block);
  printf("rank %" PRId32 " brought %s and sees the blocks of all %" PRId32 " ranks\n", info.rank, heap, info.size);

  step(group, info.rank, "Writing into each other's memory, with signals");
  write_to_neighbours(group, memory, block, info.rank, info.size);

  step(group, info.rank, "All-reducing the gradient of a least squares problem");
  fit(group, block, info.rank, info.size);

  step(group, info.rank, "Latencies (time of the slowest rank, median)");
  demo_latencies(group, memory, block, info.rank, info.size);

  REQUIRE(symm_group_finalize(group, 0));
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  symm_group_release(group);
  return 0;
}
