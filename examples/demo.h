/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the demo share. */
#ifndef SYMM_EXAMPLES_DEMO_H
#define SYMM_EXAMPLES_DEMO_H

#include <symm/symm.h>

/* Print what went wrong and leave with status 1. The launcher then ends the other ranks. */
void demo_require(symm_status_t status, const char* call);
void demo_expect(int right, const char* what);

/* A table of latencies, printed by rank 0. */
void demo_latencies(symm_group_t* group, symm_memory_t* memory, char* block, int32_t rank, int32_t size);

/* Bytes of heap that the table needs. */
#define DEMO_LARGEST ((size_t)4 << 20)

#endif
