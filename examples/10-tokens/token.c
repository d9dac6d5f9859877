/*
 * Two processes that are in no group share memory by a token, in C. The token is plain bytes. Here
 * it goes through a pipe; a queue, a file or a socket would do.
 *
 *   symm_token
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <symm/symm.h>

enum { BYTES = 1 << 16, OFFSET = 4096, PIECE = 64 };

static void check(symm_status_t status) {
  if (status == SYMM_OK) return;
  fprintf(stderr, "%s: %s\n", symm_status_string(status), symm_last_error());
  exit(1);
}

/* Makes memory, hands out a token of a piece of it, and waits until nobody uses the piece. */
static void own(int to_reader) {
  symm_group_t* alone;
  symm_buffer_t* buffer;
  void* pointer;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.bootstrap = "thread://token";
  config.size = 1;
  check(symm_group_create(&config, &alone));
  check(symm_alloc(alone, BYTES, NULL, &buffer));
  check(symm_buffer_pointer(buffer, &pointer));
  char* piece = (char*)pointer + OFFSET;
  strcpy(piece, "written by the owner");

  unsigned char token[SYMM_IPC_TOKEN_MAX_BYTES];
  size_t token_bytes;
  check(symm_ipc_export(piece, PIECE, NULL, token, sizeof token, &token_bytes, NULL));
  if (write(to_reader, token, token_bytes) != (ssize_t)token_bytes) {
    perror("write");
    exit(1);
  }
  close(to_reader);

  /* The reader has ended, so it needs the token no more. Then the token is made void. */
  int status;
  wait(&status);
  check(symm_ipc_withdraw(piece, PIECE, NULL));
  printf("owner: the reader ended with status %d and left \"%s\"\n", WEXITSTATUS(status), piece);

  symm_buffer_release(buffer);
  symm_group_release(alone);
}

/* Maps what the token names, reads it, and writes there. */
static void use(int from_owner) {
  unsigned char token[SYMM_IPC_TOKEN_MAX_BYTES];
  const ssize_t token_bytes = read(from_owner, token, sizeof token);
  if (token_bytes <= 0) {
    fprintf(stderr, "no token came\n");
    exit(1);
  }

  symm_ipc_t* import;
  void* pointer;
  check(symm_ipc_import(token, (size_t)token_bytes, NULL, &import, NULL));
  check(symm_ipc_pointer(import, &pointer));
  printf("reader: the token has %zd bytes, the piece says \"%s\"\n", token_bytes, (char*)pointer);
  fflush(stdout);

  strcpy(pointer, "written by the reader");
  symm_ipc_release(import, NULL);
}

int main(void) {
  int ends[2];
  if (pipe(ends) != 0) {
    perror("pipe");
    return 1;
  }

  /* The processes part before either of them has called symm. */
  const pid_t reader = fork();
  if (reader < 0) {
    perror("fork");
    return 1;
  }
  if (reader == 0) {
    close(ends[1]);
    use(ends[0]);
    return 0;
  }
  close(ends[0]);
  own(ends[1]);
  return 0;
}
