/* What a call costs in C: an all-reduce of 8 bytes in a group of one. The measure for the other languages. */
#include <stdio.h>
#include <stdlib.h>
#include <symm/symm.h>
#include <time.h>

enum { CALLS = 20000, ROUNDS = 21 };

static void require(symm_status_t status) {
  if (status == SYMM_OK) return;
  fprintf(stderr, "%s\n", symm_last_error());
  exit(1);
}

static double nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(void) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_group_t* group = NULL;
  double times[ROUNDS];
  const double send = 1.5;
  double recv = 0;
  int round, i;
  config.rank = 0;
  config.size = 1;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://overhead";
  require(symm_group_create(&config, &group));
  for (round = 0; round < ROUNDS; ++round) {
    const double start = nanoseconds();
    for (i = 0; i < CALLS; ++i) require(symm_allreduce(group, &send, &recv, 1, SYMM_DTYPE_F64, SYMM_OP_SUM, NULL, NULL));
    times[round] = (nanoseconds() - start) / CALLS;
  }
  qsort(times, ROUNDS, sizeof times[0], ascending);
  printf("8-byte all-reduce, one rank: C %.1f ns\n", times[ROUNDS / 2]);
  symm_group_release(group);
  return 0;
}
