/*
 * symm within an MPI program: a group of the ranks of any communicator, also of one whose ranks
 * are on several machines. The ranks find each other through MPI, as a symm_store_t.
 *
 *   mpicc mpi_store.c $(pkg-config --cflags --libs symm) -o mpi_store && mpirun -n 4 ./mpi_store
 *
 * docs/how-to/with-mpi.md describes the program.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include <symm/symm.h>

enum { KEY_BYTES = 256, VALUE_BYTES = 65536, TAG = 1 };

/* A key and its value, which travel as one message from the rank that sets it to every rank. */
typedef struct record {
  struct record* next;
  MPI_Request* sends; /* by rank; NULL in a record that was received */
  size_t size;        /* of the value */
  char message[];     /* the key, in KEY_BYTES, then the value */
} record_t;

typedef struct {
  MPI_Comm comm; /* a duplicate, so that no message of the program is taken for a record */
  int rank;
  int size;
  int sent;
  int* taken; /* by rank: how many records of that rank have come */
  record_t* own;
  record_t* received;
} mpi_store_t;

static record_t* new_record(size_t size, record_t** list) {
  record_t* record = calloc(1, sizeof *record + KEY_BYTES + size);
  if (record == NULL) return NULL;
  record->size = size;
  record->next = *list;
  *list = record;
  return record;
}

static symm_status_t store_set(
    void* user, const char* key, const void* value, size_t size, uint64_t timeout_ms) {
  mpi_store_t* store = user;
  (void)timeout_ms; /* MPI_Isend does not wait */
  if (strlen(key) >= KEY_BYTES) return SYMM_ERR_INVALID_ARGUMENT;

  record_t* record = new_record(size, &store->own);
  if (record == NULL) return SYMM_ERR_OUT_OF_MEMORY;
  record->sends = calloc((size_t)store->size, sizeof(MPI_Request));
  if (record->sends == NULL) return SYMM_ERR_OUT_OF_MEMORY;
  strcpy(record->message, key);
  memcpy(record->message + KEY_BYTES, value, size);

  for (int to = 0; to < store->size; ++to) {
    MPI_Isend(record->message, (int)(KEY_BYTES + size), MPI_BYTE, to, TAG, store->comm,
        &record->sends[to]);
  }
  store->sent += 1;
  return SYMM_OK;
}

/* Takes the records that have come. */
static symm_status_t take_records(mpi_store_t* store) {
  for (;;) {
    MPI_Status message;
    int has_come;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG, store->comm, &has_come, &message);
    if (!has_come) return SYMM_OK;

    int bytes;
    MPI_Get_count(&message, MPI_BYTE, &bytes);
    record_t* record = new_record((size_t)bytes - KEY_BYTES, &store->received);
    if (record == NULL) return SYMM_ERR_OUT_OF_MEMORY;
    MPI_Recv(
        record->message, bytes, MPI_BYTE, message.MPI_SOURCE, TAG, store->comm, MPI_STATUS_IGNORE);
    store->taken[message.MPI_SOURCE] += 1;
  }
}

static symm_status_t store_get(void* user, const char* key, void* value, size_t capacity,
    size_t* out_size, uint64_t timeout_ms) {
  mpi_store_t* store = user;
  const struct timespec pause = {.tv_nsec = 100000};
  const double end = MPI_Wtime() + (double)timeout_ms / 1000;

  for (;;) {
    const symm_status_t status = take_records(store);
    if (status != SYMM_OK) return status;

    for (record_t* record = store->received; record != NULL; record = record->next) {
      if (strcmp(record->message, key) != 0) continue;
      if (record->size > capacity) return SYMM_ERR_INVALID_ARGUMENT;
      memcpy(value, record->message + KEY_BYTES, record->size);
      *out_size = record->size;
      return SYMM_OK;
    }

    if (MPI_Wtime() >= end) return SYMM_ERR_TIMEOUT;
    nanosleep(&pause, NULL);
  }
}

static void free_records(const mpi_store_t* store, record_t* record) {
  while (record != NULL) {
    record_t* next = record->next;
    if (record->sends != NULL) MPI_Waitall(store->size, record->sends, MPI_STATUSES_IGNORE);
    free(record->sends);
    free(record);
    record = next;
  }
}

/* Takes what nobody has asked for, too, since the communicator goes. */
static void close_store(mpi_store_t* store) {
  int* sent = calloc((size_t)store->size, sizeof(int));
  MPI_Allgather(&store->sent, 1, MPI_INT, sent, 1, MPI_INT, store->comm);
  for (int from = 0; from < store->size; ++from) {
    while (store->taken[from] < sent[from] && take_records(store) == SYMM_OK) {
    }
  }
  free_records(store, store->own);
  free_records(store, store->received);
  free(store->taken);
  free(sent);
  MPI_Comm_free(&store->comm);
}

/* Makes a group of the ranks of a communicator, in its order. All of its ranks call this. */
static symm_status_t group_of(MPI_Comm comm, symm_group_t** group) {
  mpi_store_t store = {0};
  MPI_Comm_dup(comm, &store.comm);
  MPI_Comm_rank(comm, &store.rank);
  MPI_Comm_size(comm, &store.size);
  store.taken = calloc((size_t)store.size, sizeof(int));

  const symm_store_t callbacks = {sizeof callbacks, &store, store_set, store_get};
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = store.rank;
  config.size = store.size;
  config.store = &callbacks;
  const symm_status_t status = symm_group_create(&config, group);

  close_store(&store);
  return status;
}

static void check(symm_status_t status) {
  if (status == SYMM_OK) return;
  fprintf(stderr, "%s: %s\n", symm_status_string(status), symm_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  int world_rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);

  MPI_Comm half; /* even ranks, or odd ones */
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
  symm_group_t* group;
  check(group_of(half, &group));

  symm_buffer_t* buffer;
  symm_memory_t* memory;
  void* block;
  check(symm_alloc(group, sizeof(double), NULL, &buffer));
  check(symm_rendezvous(group, buffer, NULL, &memory));
  check(symm_buffer_pointer(buffer, &block));

  double* x = block;
  *x = world_rank;
  check(symm_allreduce(group, x, x, 1, SYMM_DTYPE_F64, SYMM_OP_SUM, NULL, NULL));
  printf("rank %d: the %s ranks add up to %g\n", world_rank, world_rank % 2 ? "odd" : "even", *x);

  check(symm_group_finalize(group, NULL));
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  symm_group_release(group);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
