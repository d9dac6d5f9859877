/*
 * Many small symmetric objects from one heap, in C: one allocation and one rendezvous serve all of
 * them, and each object has the same offset on every rank.
 *
 *   symm run -n 3 -- symm_heap
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <symm/symm.h>

enum { HEAP_BYTES = 1 << 20, MOST_RANKS = 64, ROUNDS = 3 };

static void check(symm_status_t status) {
  if (status == SYMM_OK) return;
  fprintf(stderr, "%s: %s\n", symm_status_string(status), symm_last_error());
  exit(1);
}

int main(void) {
  symm_group_t* group;
  int32_t rank;
  int32_t size;
  check(symm_group_create(NULL, &group));
  check(symm_group_rank(group, &rank));
  check(symm_group_size(group, &size));
  if (size > MOST_RANKS) {
    fprintf(stderr, "at most %d ranks\n", MOST_RANKS);
    return 1;
  }

  symm_heap_t* heap;
  symm_memory_t* memory;
  check(symm_heap_create(group, HEAP_BYTES, NULL, &heap));
  check(symm_heap_memory(heap, &memory));

  for (int round = 0; round < ROUNDS; ++round) {
    /* The ranks make these calls in one order with equal sizes, so the offsets are equal, too. */
    void* mailbox;
    void* letters;
    size_t mailbox_offset;
    size_t letters_offset;
    check(symm_heap_alloc(heap, sizeof(int32_t[MOST_RANKS]), 0, NULL, &mailbox, &mailbox_offset));
    check(symm_heap_alloc(heap, 256 << round, 0, NULL, &letters, &letters_offset));

    /* This rank writes its entry into the mailbox of every rank. */
    const int32_t letter = 10 * round + rank;
    for (int32_t to = 0; to < size; ++to) {
      const size_t entry = mailbox_offset + (size_t)rank * sizeof letter;
      check(symm_put(memory, to, entry, &letter, sizeof letter, NULL, NULL));
    }
    check(symm_barrier(group, NULL, 0, 0, NULL, NULL));

    int32_t sum = 0;
    for (int32_t from = 0; from < size; ++from) {
      sum += ((const int32_t*)mailbox)[from];
    }
    printf("rank %d, round %d: the mailbox at offset %zu adds up to %d\n", rank, round,
        mailbox_offset, sum);

    /* After this barrier nobody reads or writes the pieces, so the next round may have their
     * bytes. */
    check(symm_barrier(group, NULL, 0, 0, NULL, NULL));
    check(symm_heap_free(heap, letters, NULL));
    check(symm_heap_free(heap, mailbox, NULL));
  }

  check(symm_group_finalize(group, NULL));
  symm_memory_release(memory);
  symm_heap_release(heap);
  symm_group_release(group);
  return 0;
}
