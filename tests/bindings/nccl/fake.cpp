// A libnccl.so.2 that moves no data. It notes what it is called with, and knows ranks and sizes.
// Words in $FAKE_NCCL direct it:
//
//   slow     a communicator that does not block is in progress for three looks at its state
//   waits    the creation of a communicator never comes to its end, unless it is aborted
//   unblocked no communicator blocks, as with NCCL_COMM_BLOCKING=0
//   failed   ncclCommGetAsyncError() gives ncclInternalError
//   constructs its constructor calls ncclGetVersion() and ncclGetErrorString() by their names, and
//            notes what it gets
//   reenters a destruction calls ncclCommWindowDeregister() and ncclMemFree() by their names, as
//            NCCL's own commFree() does
//   ensures  calls about a communicator ask for its state by ncclCommGetAsyncError()'s name, as
//            NCCL's own ncclCommEnsureReady() does, and refuse one that is not ready
#include "tests/bindings/nccl/fake.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))
#define FAKE(result, name, ...) FAKE_EXPORT result name(__VA_ARGS__)

struct Id {
  unsigned char bytes[128];
};
struct Comm {
  Id id;
  int rank;
  int size;
  int looks;
  // A child that is there when `looks` is 0, and where its address goes.
  Comm** child_place;
  Comm* child;
};

#define FAKE_DATA __attribute__((visibility("default")))
extern "C" {
FAKE_DATA FakeCall fake_last;
FAKE_DATA std::atomic<int> fake_calls{0};
FAKE_DATA std::atomic<int> fake_alive{0};
// The configuration of the last call that has one: where it was, and its first bytes. A test says
// how many there are.
FAKE_DATA const void* fake_config = nullptr;
FAKE_DATA unsigned char fake_config_bytes[4096];
FAKE_DATA size_t fake_config_size = 0;
FAKE_DATA const char* fake_error = "";
FAKE_DATA int fake_code = FAKE_NCCL_CODE;
// The context of the CUDA driver in which the last communicator was made, by which NCCL finds its
// device; null where the process has no driver.
FAKE_DATA void* fake_context = nullptr;
// The thread that made it, and whether that one takes SIGTERM and SIGSEGV.
FAKE_DATA int fake_thread = 0;
FAKE_DATA int fake_takes[2];
// The ids of the last call that has several.
FAKE_DATA const void* fake_ids = nullptr;
}

namespace {
bool told(const char* word) {
  const char* const script = std::getenv("FAKE_NCCL");
  return script != nullptr && std::strstr(script, word) != nullptr;
}

void note_config(const void* config) {
  fake_config = config;
  if (config != nullptr) std::memcpy(fake_config_bytes, config, fake_config_size);
}

template <class Argument>
uint64_t word_of(Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    return reinterpret_cast<uint64_t>(argument);
  } else {
    return static_cast<uint64_t>(argument);
  }
}

// For calls that have a body of their own.
template <class... Arguments>
void note(const char* name, Arguments... arguments) {
  fake_last = {name, {word_of(arguments)...}, {}};
}

bool is_blocking(const void* config) {
  int blocking = told("unblocked") ? 0 : 1;
  if (config != nullptr) std::memcpy(&blocking, static_cast<const char*>(config) + 16, 4);
  return blocking != 0;
}

// Those that are not destroyed: a second destruction is an invalid argument.
std::mutex alive_mutex;
std::set<Comm*> alive;

// Pointers that ncclGroupEnd() writes.
struct Open {
  int depth = 0;
  std::vector<std::pair<Comm**, Comm*>> made;
  // A child that does not block is among what is made.
  bool is_pending = false;
};
thread_local Open open;

void note_thread() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  fake_thread = static_cast<int>(syscall(SYS_gettid));
  fake_takes[0] = sigismember(&blocked, SIGTERM) == 0 ? 1 : 0;
  fake_takes[1] = sigismember(&blocked, SIGSEGV) == 0 ? 1 : 0;
}

bool is_alive(Comm* comm) {
  const std::lock_guard lock(alive_mutex);
  return alive.contains(comm);
}

void note_context() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* const get = driver != nullptr ? dlsym(driver, "cuCtxGetCurrent") : nullptr;
  fake_context = nullptr;
  if (get != nullptr) reinterpret_cast<int (*)(void**)>(get)(&fake_context);
}

int make(Comm** to, const Id& id, int rank, int size, const void* config) {
  note_context();
  note_thread();
  if (to == nullptr || size < 1 || rank < 0 || rank >= size) return 4;
  auto* const comm = new Comm{id, rank, size, 0, nullptr, nullptr};
  ++fake_alive;
  {
    const std::lock_guard lock(alive_mutex);
    alive.insert(comm);
  }
  const bool later = !is_blocking(config) && (told("slow") || told("waits"));
  if (later) comm->looks = told("waits") ? 1 << 30 : 3;
  // As NCCL, which gives the address before it waits, so that another thread can abort.
  if (!later && told("waits") && open.depth == 0) *to = comm;
  while (!later && told("waits")) {
    usleep(10'000);
    if (is_alive(comm)) continue;
    *to = nullptr;
    return 6;
  }
  if (open.depth > 0) {
    open.made.emplace_back(to, comm);
    return 0;
  }
  *to = comm;
  return later ? 7 : 0;
}
}  // namespace

FAKE_EXPORT int ncclCommGetAsyncError(Comm* comm, int* error);
namespace {
int ensure_ready(Comm* comm) {
  if (!told("ensures")) return 0;
  int (*volatile const get_error)(Comm*, int*) = &::ncclCommGetAsyncError;
  int error = 0;
  const int result = get_error(comm, &error);
  if (result != 0) return result;
  return error == 7 ? 4 : error;
}
}  // namespace

// Each of these returns a number of its own, so that a caller sees which one was called.
#define FAKE_NOTED(called)                                                                        \
  FAKE_EXPORT uint64_t called(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,         \
      uint64_t f, double r, double s, double t, double u, double v, double w, double x, double y, \
      uint64_t g, uint64_t h, uint64_t i, uint64_t j) {                                           \
    fake_last = {#called, {a, b, c, d, e, f, g, h, i, j}, {r, s, t, u, v, w, x, y}};              \
    return static_cast<uint64_t>(++fake_calls) + 1000;                                            \
  }
#include "noted.inc"

FAKE(int, ncclGetVersion, int* version) {
  *version = fake_code;
  return 0;
}
FAKE(int, ncclGetUniqueId, Id* id) {
  static std::atomic<unsigned> drawn{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(reinterpret_cast<char*>(id->bytes), 40, "%d.%u", getpid(), ++drawn);
  return 0;
}
FAKE(int, ncclCommInitRank, Comm** comm, int size, Id id, int rank) {
  return make(comm, id, rank, size, nullptr);
}
#if FAKE_NCCL_CODE >= 21400
FAKE(int, ncclCommInitRankConfig, Comm** comm, int size, Id id, int rank, const void* config) {
  note_config(config);
  return make(comm, id, rank, size, config);
}
FAKE(int, ncclCommFinalize, Comm* comm) { return ensure_ready(comm); }
#endif
#if FAKE_NCCL_CODE >= 22300
FAKE(int, ncclCommInitRankScalable, Comm** comm, int size, int rank, int count, const Id* ids,
    const void* config) {
  note_config(config);
  fake_ids = ids;
  return count > 0 ? make(comm, ids[0], rank, size, config) : 4;
}
#endif
FAKE(int, ncclCommInitAll, Comm** comms, int count, const int* devices) {
  note("ncclCommInitAll", comms, count, devices);
  for (int rank = 0; rank < count; ++rank) {
    make(comms + rank, {}, rank, count, nullptr);
  }
  return 0;
}
FAKE(int, ncclCommCount, Comm* comm, int* count) {
  if (const int result = ensure_ready(comm); result != 0) return result;
  *count = comm->size;
  return comm->looks > 0 ? 7 : 0;
}
FAKE(int, ncclCommUserRank, Comm* comm, int* rank) {
  if (const int result = ensure_ready(comm); result != 0) return result;
  *rank = comm->rank;
  return comm->looks > 0 ? 7 : 0;
}
FAKE(int, ncclCommCuDevice, const Comm* comm, int* device) {
  *device = comm->rank;
  return 0;
}
// A child has the ranks 0 and 1 of its parent for colour 0, and those above for colour 1.
#if FAKE_NCCL_CODE >= 21800
FAKE(int, ncclCommSplit, Comm* comm, int color, int, Comm** child, const void* config) {
  note_config(config);
  if (color < 0) {
    *child = nullptr;
    return 0;
  }
  const int size = color == 0 ? 2 : comm->size - 2;
  const int rank = color == 0 ? comm->rank : comm->rank - 2;
  if (is_blocking(config) || !told("slow")) return make(child, comm->id, rank, size, config);

  *child = nullptr;
  open.is_pending = open.depth > 0;
  comm->looks = 3;
  comm->child_place = child;
  return make(&comm->child, comm->id, rank, size, nullptr) == 4 ? 4 : 7;
}
#endif
#if FAKE_NCCL_CODE >= 22700
FAKE(
    int, ncclCommWindowRegister, Comm* comm, void* memory, size_t bytes, void** window, int flags) {
  static std::atomic<uintptr_t> made{0};
  note("ncclCommWindowRegister", comm, memory, bytes, window, flags);
  *window = reinterpret_cast<void*>(++made);
  return 0;
}
FAKE(int, ncclCommWindowDeregister, Comm* comm, void* window) {
  note("ncclCommWindowDeregister", comm, window);
  ++fake_calls;
  return 0;
}
// The ranks that are left out are the last ones.
FAKE(int, ncclCommShrink, Comm* comm, int*, int count, Comm** child, const void* config, int) {
  if (const int result = ensure_ready(comm); result != 0) return result;
  note_config(config);
  return make(child, comm->id, comm->rank, comm->size - count, config);
}
#endif
#if FAKE_NCCL_CODE >= 22900
FAKE(int, ncclCommGetUniqueId, Comm*, Id* id) { return ncclGetUniqueId(id); }
// Ranks that join have an id and a rank.
FAKE(int, ncclCommGrow, Comm* comm, int size, const Id* id, int rank, Comm** child,
    const void* config) {
  note_config(config);
  if (comm != nullptr) return make(child, comm->id, comm->rank, size, config);
  return id != nullptr ? make(child, *id, rank, size, config) : 4;
}
#endif
// Operations that are not destroyed.
namespace {
std::set<int> operations;
}
FAKE(int, ncclRedOpCreatePreMulSum, int* op, void* scalar, int type, int residence, Comm* comm) {
  static std::atomic<int> made{5};
  const std::lock_guard lock(alive_mutex);
  note("ncclRedOpCreatePreMulSum", op, scalar, type, residence, comm);
  *op = made++;
  operations.insert(*op);
  return 0;
}
FAKE(int, ncclRedOpDestroy, int op, Comm* comm) {
  const std::lock_guard lock(alive_mutex);
  note("ncclRedOpDestroy", op, comm);
  return operations.erase(op) == 1 ? 0 : 4;
}
FAKE(int, ncclCommGetAsyncError, Comm* comm, int* error) {
  *error = told("failed") ? 3 : 0;
  if (comm->looks > 0) *error = 7;
  if (comm->looks > 0 && --comm->looks == 0 && comm->child_place != nullptr) {
    *std::exchange(comm->child_place, nullptr) = comm->child;
  }
  return 0;
}
FAKE_EXPORT int fake_destroy(Comm* comm);
FAKE(int, ncclCommDestroy, Comm* comm) { return fake_destroy(comm); }
FAKE(int, ncclCommAbort, Comm* comm) { return fake_destroy(comm); }
FAKE(int, ncclGroupStart, void) {
  ++open.depth;
  return 0;
}
FAKE(int, ncclGroupEnd, void) {
  if (open.depth == 0) return 5;
  if (--open.depth > 0) return 0;
  int result = std::exchange(open.is_pending, false) ? 7 : 0;
  for (const auto& [to, comm] : open.made) {
    *to = comm;
    if (comm->looks > 0) result = 7;
  }
  open.made.clear();
  return result;
}
// Communicators are made here, too.
#if FAKE_NCCL_CODE >= 22200
FAKE(int, ncclGroupSimulateEnd, void*) { return ncclGroupEnd(); }
#endif
FAKE(const char*, ncclGetErrorString, int result) { return result == 6 ? "fake remote" : "fake"; }
#if FAKE_NCCL_CODE >= 21300
FAKE(const char*, ncclGetLastError, Comm*) { return fake_error; }
#endif

FAKE_DATA extern int fake_constructed[2];
FAKE_DATA extern char fake_constructed_text[16];
int fake_constructed[2] = {-1, -1};
char fake_constructed_text[16] = "";

// These go by pointers that the compiler does not see through, so that the names are looked up as
// NCCL's own calls are.
__attribute__((constructor)) static void call_myself() {
  if (!told("constructs")) return;
  int (*volatile const get_version)(int*) = &::ncclGetVersion;
  const char* (*volatile const get_error)(int) = &::ncclGetErrorString;
  fake_constructed[0] = get_version(&fake_constructed[1]);
  std::snprintf(fake_constructed_text, sizeof fake_constructed_text, "%s", get_error(6));
}

FAKE_EXPORT int fake_destroy(Comm* comm) {
#if FAKE_NCCL_CODE >= 22700
  if (told("reenters")) {
    int (*volatile const deregister)(Comm*, void*) = &::ncclCommWindowDeregister;
    using Free =
        uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double,
            double, double, double, double, double, double, uint64_t, uint64_t, uint64_t, uint64_t);
    const volatile Free free = &::ncclMemFree;
    deregister(comm, nullptr);
    free(reinterpret_cast<uint64_t>(comm), 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10);
  }
#endif
  const std::lock_guard lock(alive_mutex);
  if (alive.erase(comm) == 0) return 4;
  --fake_alive;
  delete comm;
  return 0;
}
