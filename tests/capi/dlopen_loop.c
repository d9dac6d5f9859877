/* dlopen_loop <libsymm.so>: a host program that does not link libsymm loads, uses and closes it a hundred times. Descriptors and
 * threads must not grow. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <symm/symm.h>

enum { ROUNDS = 100, WARM_UP = 3 };

static int count_entries(const char* path) {
  int count = 0;
  DIR* directory = opendir(path);
  if (directory == NULL) return -1;
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

typedef symm_status_t (*create_t)(const symm_group_config_t*, symm_group_t**);
typedef symm_status_t (*allreduce_t)(
    symm_group_t*, const void*, void*, size_t, symm_dtype_t, symm_op_t, const symm_collective_options_t*, void*);
typedef void (*release_t)(symm_group_t*);
typedef const char* (*last_error_t)(void);

/* ISO C has no conversion from void * to a function pointer; POSIX promises that the bits are the same. */
#define LOOK_UP(library, variable, name)                       \
  do {                                                         \
    void* symbol = dlsym(library, name);                       \
    if (symbol == NULL) {                                      \
      fprintf(stderr, "%s is missing: %s\n", name, dlerror()); \
      return 1;                                                \
    }                                                          \
    memcpy(&(variable), &symbol, sizeof symbol);               \
  } while (0)

static int use(const char* path) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  symm_group_t* group = NULL;
  create_t create;
  allreduce_t allreduce;
  release_t release;
  last_error_t last_error;
  float value = 5;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  LOOK_UP(library, create, "symm_group_create");
  LOOK_UP(library, allreduce, "symm_allreduce");
  LOOK_UP(library, release, "symm_group_release");
  LOOK_UP(library, last_error, "symm_last_error");

  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://dlopen";
  config.size = 1;
  if (create(&config, &group) != SYMM_OK ||
      allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, NULL, NULL) != SYMM_OK || value < 5 || value > 5) {
    fprintf(stderr, "%s\n", last_error());
    return 1;
  }
  release(group);
  return dlclose(library);
}

int main(int argc, char** argv) {
  int descriptors = 0, threads = 0, round;
  if (argc != 2) return 2;
  for (round = 0; round < ROUNDS; ++round) {
    if (use(argv[1]) != 0) return 1;
    if (round == WARM_UP) {
      descriptors = count_entries("/proc/self/fd");
      threads = count_entries("/proc/self/task");
    }
  }
  if (count_entries("/proc/self/fd") > descriptors || count_entries("/proc/self/task") > threads) {
    fprintf(stderr, "descriptors %d -> %d, threads %d -> %d\n", descriptors, count_entries("/proc/self/fd"), threads,
        count_entries("/proc/self/task"));
    return 1;
  }
  return 0;
}
