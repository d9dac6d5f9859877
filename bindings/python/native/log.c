/* SPDX-License-Identifier: Apache-2.0
 *
 * Log messages on their way to Python. The library may call from its monitor thread and with locks held; Python code there could
 * call the library (a finalizer is enough) or wait for the interpreter lock, so the message goes through a pipe to a thread of
 * Python's own. */
#include <stdio.h>
#include <unistd.h>

#include "support.h"

/* Less than a pipe takes at once, so that records stay whole; the rest of a longer message is cut off. */
enum {
  LONGEST_RECORD = 2048
};

static pid_t owner = 0; /* a forked child shares the pipe, but its messages are not for the parent's reader */

void* symm_py_log_target(int descriptor) {
  owner = getpid();
  return (void*)(intptr_t)descriptor;
}

void symm_py_log_to_descriptor(void* user, symm_log_level_t level, const char* message) {
  char record[LONGEST_RECORD];
  int length;
  if (getpid() != owner) return;
  length = snprintf(record, sizeof record, "%d%s", (int)level, message);
  if (length < 0) return;
  if (length > LONGEST_RECORD - 1) length = LONGEST_RECORD - 1;
  record[length] = '\n';
  /* The descriptor does not block: a reader that does not keep up loses messages and holds nobody up. */
  if (write((int)(intptr_t)user, record, (size_t)length + 1) < 0) return;
}
