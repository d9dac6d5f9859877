/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without a launcher is a group of one, on which every call works. In plain C99, as a user would write it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/symm.h>

#define CHECK(call)                                                                                                     \
  do {                                                                                                                  \
    symm_status_t check_ = (call);                                                                                      \
    if (check_ != SYMM_OK) {                                                                                            \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, symm_status_string(check_), symm_last_error()); \
      exit(1);                                                                                                          \
    }                                                                                                                   \
  } while (0)

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

enum {
  COUNT = 1000,
  BYTES = COUNT * (int)sizeof(int32_t)
};

static const symm_wait_options_t a_second = {sizeof(symm_wait_options_t), 1000, NULL};
static const symm_wait_options_t a_moment = {sizeof(symm_wait_options_t), 1, NULL};

static void count_messages(void* user, symm_log_level_t level, const char* message) {
  if (level >= SYMM_LOG_ERROR && message != NULL) ++*(int*)user;
}

static void library(void) {
  static int messages;
  uint64_t listener = 0;
  size_t bytes = 0;
  int32_t count = 0;
  int32_t links = -1;
  symm_topology_class_t topology = -1;
  symm_device_info_t device;
  symm_failure_t failure;
  EXPECT(symm_version() == SYMM_VERSION);
  EXPECT(symm_build_info()[0] == '{');
  CHECK(symm_log_add_listener(count_messages, &messages, SYMM_LOG_DEBUG, &listener));
  CHECK(symm_log_remove_listener(listener));
  CHECK(symm_log_to_fd(2, SYMM_LOG_ERROR, &listener));
  CHECK(symm_log_remove_listener(listener));
  CHECK(symm_dtype_size(SYMM_DTYPE_I32, &bytes));
  EXPECT(bytes == 4);
  memset(&failure, 0, sizeof failure);
  failure.struct_size = sizeof failure;
  CHECK(symm_last_failure(&failure));
  EXPECT(failure.status == SYMM_OK && failure.rank == -1 && failure.pid == 0 && failure.message[0] == '\0');
  CHECK(symm_device_count(SYMM_BACKEND_HOST, &count));
  EXPECT(count == 1);
  memset(&device, 0, sizeof device);
  device.struct_size = sizeof device;
  CHECK(symm_device_info(SYMM_BACKEND_HOST, 0, &device));
  EXPECT(device.backend == SYMM_BACKEND_HOST && device.compute_units >= 1 && device.memory_bytes > 0 && device.name[0] != '\0');
  EXPECT((device.multicast != 0) == (device.multicast_reason[0] == '\0'));
  EXPECT((device.dmabuf != 0) == (device.dmabuf_reason[0] == '\0'));
  EXPECT(device.host_memory == 1 && device.host_memory_reason[0] == '\0' && device.numa_node == -1);
  CHECK(symm_topology(SYMM_BACKEND_HOST, &topology, NULL, 0));
  CHECK(symm_topology(SYMM_BACKEND_HOST, &topology, &links, 1));
  EXPECT(links == 0);
}

static void queries(symm_group_t* group) {
  int32_t rank = -1, size = -1;
  symm_group_info_t info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, "", "", 0, "", 0, 0, 0, 0, 0, 0};
  symm_group_status_t status = {sizeof status, 0, 0, 0, ""};
  CHECK(symm_group_rank(group, &rank));
  CHECK(symm_group_size(group, &size));
  EXPECT(rank == 0 && size == 1);
  CHECK(symm_group_info(group, &info));
  EXPECT(info.size == 1 && info.backend == SYMM_BACKEND_HOST && info.channels > 0 && info.bootstrap[0] != '\0');
  EXPECT(strcmp(info.name, "single") == 0);
  EXPECT(info.multicast == 0 && info.multicast_reason[0] != '\0');
  CHECK(symm_group_status(group, &status));
  EXPECT(status.status == SYMM_OK && status.failed_rank == -1 && status.message[0] == '\0');
}

static void survivors(symm_group_t* group) {
  symm_group_shrink_options_t options;
  const int32_t ranks[] = {0};
  int32_t rank = -1, fd = -1;
  size_t count = 1;
  symm_peer_info_t peer;
  symm_group_stats_t stats;
  symm_group_t *rest = NULL, *part = NULL;
  CHECK(symm_group_shrink_options_init(&options, sizeof options));
  CHECK(symm_group_shrink(group, &options, &rest));
  CHECK(symm_group_create_from_ranks(group, ranks, 1, &part));
  CHECK(symm_group_translate_rank(group, rest, 0, &rank));
  EXPECT(rank == 0);
  CHECK(symm_group_failed_ranks(group, NULL, 0, &count));
  EXPECT(count == 0);
  CHECK(symm_group_failure_fd(group, &fd));
  EXPECT(fd >= 0);
  memset(&peer, 0, sizeof peer);
  peer.struct_size = sizeof peer;
  CHECK(symm_peer_info(group, 0, &peer));
  EXPECT(peer.alive == 1 && peer.pid > 0 && peer.machine[0] != '\0');
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK(symm_group_stats(group, &stats));
  EXPECT(stats.failures == 0);
  symm_group_release(part);
  symm_group_release(rest);
}

static void memory_calls(symm_group_t* group, symm_buffer_t* buffer, symm_memory_t* memory) {
  symm_memory_info_t info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, ""};
  int32_t values[COUNT], back[COUNT], rank = -1, done = 0, i;
  size_t bytes = 0, offset = 0, index = 9;
  uint64_t word = 0;
  const symm_signal_wait_t waits[2] = {{sizeof(symm_signal_wait_t), 0, 0, SYMM_COMPARE_GT, 99},
                                       {sizeof(symm_signal_wait_t), 0, 1, SYMM_COMPARE_EQ, 7}};
  void *block = NULL, *pad = NULL, *pointer = NULL, *const *table = NULL;
  symm_memory_t* found = NULL;
  for (i = 0; i < COUNT; ++i) values[i] = i;
  CHECK(symm_buffer_size(buffer, &bytes));
  CHECK(symm_buffer_pointer(buffer, &pointer));
  EXPECT(bytes == BYTES && (uintptr_t)pointer % 4096 == 0);
  CHECK(symm_memory_info(memory, &info));
  EXPECT(info.size == 1 && info.bytes == BYTES && info.signal_pad_bytes == info.channels * 8);
  CHECK(symm_memory_pointer(memory, 0, &block));
  CHECK(symm_memory_signal_pad(memory, 0, &pad));
  CHECK(symm_memory_pointer_table(memory, &table));
  EXPECT(table[0] == block);
  CHECK(symm_memory_signal_pad_table(memory, &table));
  EXPECT(table[0] == pad);
  EXPECT(info.multicast == 0 && info.multicast_reason[0] != '\0');
  pad = block;
  EXPECT(symm_memory_multicast_pointer(memory, &pad) == SYMM_ERR_UNAVAILABLE && pad == block);
  EXPECT(strstr(symm_last_error(), info.multicast_reason) != NULL);
  CHECK(symm_memory_find(group, (char*)block + 5, &found, &rank, &offset));
  EXPECT(rank == 0 && offset == 5);
  symm_memory_release(found);

  CHECK(symm_put(memory, 0, 0, values, BYTES, NULL));
  CHECK(symm_get(memory, 0, 0, back, BYTES, NULL));
  EXPECT(memcmp(values, back, BYTES) == 0 && memcmp(values, pointer, BYTES) == 0);
  CHECK(symm_signal(memory, 0, 0, NULL));
  CHECK(symm_put_signal(memory, 0, 4, values, 8, 0, NULL));
  CHECK(symm_wait_signal(memory, 0, 0, &a_second, NULL));
  CHECK(symm_wait_signal(memory, 0, 0, &a_second, NULL));
  EXPECT(symm_wait_signal(memory, 0, 0, &a_moment, NULL) == SYMM_ERR_TIMEOUT);
  CHECK(symm_signal_value(memory, 0, 1, SYMM_SIGNAL_ADD, 5, NULL));
  CHECK(symm_wait_signal_value(memory, 0, 1, SYMM_COMPARE_GE, 5, &a_second, &word, NULL));
  EXPECT(word == 5);
  CHECK(symm_test_signal(memory, 0, 1, &word));
  EXPECT(word == 5);
  CHECK(symm_signal_value(memory, 0, 1, SYMM_SIGNAL_SET, 7, NULL));
  CHECK(symm_test_signal_value(memory, 0, 1, &word));
  EXPECT(word == 7);
  CHECK(symm_wait_signals(memory, waits, 2, 1, &a_second, &index, NULL));
  EXPECT(index == 1);
  EXPECT(symm_wait_signals(memory, waits, 2, 0, &a_moment, NULL, NULL) == SYMM_ERR_TIMEOUT);
  CHECK(symm_write_value64(memory, 0, 24, 44, NULL));
  CHECK(symm_wait_value64(memory, 24, SYMM_COMPARE_EQ, 44, &a_second, NULL));
  CHECK(symm_wait_value32(memory, 28, SYMM_COMPARE_LT, 1, &a_second, NULL));
  EXPECT(symm_wait_value32(memory, 24, SYMM_COMPARE_NE, 44, &a_moment, NULL) == SYMM_ERR_TIMEOUT);
  CHECK(symm_fill32(memory, 0, 8, 42, 3, NULL));
  CHECK(symm_write_value32(memory, 0, 20, 43, NULL));
  CHECK(symm_get(memory, 0, 0, back, 24, NULL));
  EXPECT(back[1] == 0 && back[2] == 42 && back[4] == 42 && back[5] == 43);
  CHECK(symm_memory_record_use(memory, NULL));
  CHECK(symm_stream_wait(group, NULL, (void*)(uintptr_t)SYMM_ALL_STREAMS));
  CHECK(symm_stream_query(group, NULL, &done));
  EXPECT(done == 1);
  CHECK(symm_group_synchronize(group, NULL, &a_second));
  CHECK(symm_barrier(group, NULL, 0, 0, NULL, NULL));
  CHECK(symm_barrier(group, &rank, 1, 1, NULL, NULL));
}

/* With one rank, every collective is a copy. */
static void collectives(symm_group_t* group) {
  const symm_dtype_t type = SYMM_DTYPE_I32;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  symm_plan_info_t plan = {sizeof plan, 0, 0, 0, 0, ""};
  symm_collective_call_t call = {
      sizeof call, SYMM_COLLECTIVE_ALLREDUCE, NULL, NULL, COUNT, SYMM_DTYPE_I32, SYMM_OP_SUM, 0, NULL, NULL, NULL, NULL, 0, 0};
  int32_t send[COUNT], recv[6][COUNT], i;
  CHECK(symm_collective_options_init(&options, sizeof options));
  for (i = 0; i < COUNT; ++i) send[i] = i * i;
  memset(recv, 0xA5, sizeof recv);
  CHECK(symm_allreduce(group, send, recv[0], COUNT, type, SYMM_OP_SUM, &options, NULL));
  CHECK(symm_reduce_scatter(group, send, recv[1], COUNT, type, SYMM_OP_AVG, NULL, NULL));
  CHECK(symm_allgather(group, send, recv[2], COUNT, type, NULL, NULL));
  CHECK(symm_broadcast(group, send, recv[3], COUNT, type, 0, NULL, NULL));
  CHECK(symm_reduce(group, send, recv[4], COUNT, type, SYMM_OP_MAX, 0, NULL, NULL));
  CHECK(symm_alltoall(group, send, recv[5], COUNT, type, NULL, NULL));
  for (i = 0; i < 6; ++i) EXPECT(memcmp(recv[i], send, sizeof send) == 0);
  CHECK(symm_allreduce(group, NULL, NULL, 0, type, SYMM_OP_SUM, NULL, NULL));
  call.send = send;
  call.recv = recv;
  CHECK(symm_collective_plan(group, &call, NULL, &plan));
  EXPECT(plan.algorithm != SYMM_ALGORITHM_AUTO && plan.reason[0] != '\0');
}

/* A token works in the process that made it, too. */
static void sharing(symm_buffer_t* buffer) {
  symm_ipc_export_options_t to_export;
  symm_ipc_import_options_t to_import;
  symm_ipc_info_t info;
  symm_ipc_stats_t stats;
  symm_ipc_report_t report;
  symm_ipc_t* ipc = NULL;
  unsigned char token[SYMM_IPC_TOKEN_MAX_SIZE];
  void *block = NULL, *piece = NULL;
  size_t token_size = 0, bytes = 0;
  memset(&info, 0, sizeof info);
  memset(&stats, 0, sizeof stats);
  memset(&report, 0, sizeof report);
  info.struct_size = sizeof info;
  stats.struct_size = sizeof stats;
  report.struct_size = sizeof report;
  CHECK(symm_ipc_export_options_init(&to_export, sizeof to_export));
  CHECK(symm_ipc_import_options_init(&to_import, sizeof to_import));
  CHECK(symm_buffer_pointer(buffer, &block));
  CHECK(symm_buffer_record_use(buffer, NULL));
  CHECK(symm_ipc_export((char*)block + 8, 16, &to_export, token, sizeof token, &token_size, NULL));
  CHECK(symm_ipc_import(token, token_size, &to_import, &ipc, NULL));
  CHECK(symm_ipc_pointer(ipc, &piece));
  CHECK(symm_ipc_size(ipc, &bytes));
  CHECK(symm_ipc_info(ipc, &info));
  CHECK(symm_ipc_stream_wait(ipc, NULL));
  CHECK(symm_ipc_record_use(ipc, NULL));
  EXPECT(piece == (char*)block + 8 && bytes == 16);
  EXPECT(info.backend == SYMM_BACKEND_HOST && info.offset == 8 && info.block_bytes == BYTES && info.exporter_alive == 1);
  CHECK(symm_ipc_stats(&stats));
  EXPECT(stats.tokens == 1 && stats.leased == 1 && stats.limbo_blocks == 0);
  EXPECT(symm_ipc_withdraw(block, BYTES, 1) == SYMM_ERR_TIMEOUT);
  symm_ipc_release(ipc, NULL);
  CHECK(symm_ipc_withdraw(block, BYTES, 1));
  CHECK(symm_ipc_collect(&report));
  EXPECT(report.leases_ended == 1);
}

/* On the host all memory is the host's, and none can be adopted or given to other devices. */
static void kinds_of_memory(symm_group_t* group) {
  symm_buffer_t *buffer = NULL, *none = NULL;
  char own[64] = "";
  symm_alloc_options_t on_host = SYMM_ALLOC_OPTIONS_INIT;
  int32_t fd = -1;
  void* pointer = NULL;
  on_host.flags = SYMM_ALLOC_HOST;
  CHECK(symm_alloc(group, BYTES, &on_host, &buffer));
  CHECK(symm_buffer_pointer(buffer, &pointer));
  memset(pointer, 1, BYTES);
  EXPECT(symm_buffer_export_dmabuf(buffer, 0, BYTES, &fd) == SYMM_ERR_UNAVAILABLE && fd == -1);
  EXPECT(strstr(symm_last_error(), "DMA-BUF") != NULL);
  EXPECT(symm_buffer_adopt(group, own, sizeof own, NULL, &none) == SYMM_ERR_UNSUPPORTED && none == NULL);
  EXPECT(strstr(symm_last_error(), "host back end") != NULL);
  symm_buffer_release(buffer);
}

/* Pieces of one memory, found and given back. */
static void heap_calls(symm_group_t* group) {
  symm_heap_options_t options;
  symm_heap_info_t info;
  symm_heap_t* heap = NULL;
  symm_memory_t* memory = NULL;
  void *first = NULL, *second = NULL, *found = NULL;
  size_t offset = 1, bytes = 0;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  CHECK(symm_heap_options_init(&options, sizeof options));
  options.name = "pieces";
  CHECK(symm_heap_create(group, 10000, &options, &heap));
  CHECK(symm_heap_alloc(heap, 100, 0, &first, &offset));
  EXPECT(offset == 0);
  CHECK(symm_heap_alloc(heap, BYTES, 4096, &second, &offset));
  EXPECT(offset == 4096 && (char*)second == (char*)first + 4096);
  memset(second, 1, BYTES);
  CHECK(symm_heap_find(heap, (char*)second + BYTES - 1, &found, &bytes));
  EXPECT(found == second && bytes == BYTES);
  CHECK(symm_heap_info(heap, &info));
  EXPECT(info.bytes == 10240 && info.used_bytes == 256 + 4096 && info.pieces == 2 && info.calls == 2);
  EXPECT(info.free_pieces == 2 && info.largest_free == 4096 - 256 && strcmp(info.name, "pieces") == 0);
  CHECK(symm_heap_free(heap, second));
  EXPECT(symm_heap_free(heap, second) == SYMM_ERR_INVALID_ARGUMENT);
  CHECK(symm_heap_memory(heap, &memory));
  CHECK(symm_fill32(memory, 0, 0, 7, 25, NULL));
  EXPECT(*(uint32_t*)first == 7);
  symm_memory_release(memory);
  CHECK(symm_heap_retain(heap));
  symm_heap_release(heap);
  CHECK(symm_heap_free(heap, first));
  symm_heap_release(heap);
}

int main(void) {
  symm_group_config_t config;
  symm_group_t *group = NULL, *half = NULL, *none = NULL;
  symm_buffer_t* buffer = NULL;
  symm_memory_t* memory = NULL;
  library();
  CHECK(symm_group_config_init(&config, sizeof config));
  config.backend = SYMM_BACKEND_HOST;
  config.name = "single";
  CHECK(symm_group_create(&config, &group));
  queries(group);
  survivors(group);
  CHECK(symm_group_split(group, 3, 0, &half));
  none = group; /* must be overwritten */
  CHECK(symm_group_split(group, -1, 0, &none));
  EXPECT(half != NULL && none == NULL);
  CHECK(symm_alloc(group, BYTES, NULL, &buffer));
  CHECK(symm_rendezvous(group, buffer, NULL, &memory));
  memory_calls(group, buffer, memory);
  collectives(group);
  collectives(half);
  sharing(buffer);
  kinds_of_memory(group);
  heap_calls(group);
  CHECK(symm_group_abort(half, "enough"));
  EXPECT(symm_barrier(half, NULL, 0, 0, NULL, NULL) == SYMM_ERR_ABORTED);
  EXPECT(strstr(symm_last_error(), "enough") != NULL);
  symm_group_release(half);
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  CHECK(symm_group_finalize(group, &a_second));
  symm_group_release(group);
  return 0;
}
