// The part of NCCL's API that symm uses, laid out as in NCCL 2.18, so that no header of NCCL is
// needed. Newer versions keep this layout, and read of a configuration what its version says.
#pragma once

#include <climits>
#include <cstddef>

namespace symm::engine::nccl {
using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kSystemError = 2;
inline constexpr Result kRemoteError = 6;
inline constexpr Result kInProgress = 7;
// The oldest version that symm can use: 2.18.0.
inline constexpr int kLeast = 21800;
using Comm = struct ncclComm*;

struct Id {
  char bytes[128];
};
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeast;
  int blocking = 0;
  // The values below leave the choice to NCCL.
  int cga_cluster = INT_MIN;
  int least_ctas = INT_MIN;
  int most_ctas = INT_MIN;
  const char* network = nullptr;
  int split_share = INT_MIN;
};
static_assert(sizeof(Config) == 48 && offsetof(Config, blocking) == 16 &&
              offsetof(Config, split_share) == 40);

// The type of bytes, ncclInt8.
inline constexpr int kBytes = 0;

// X(name, result, parameters)
#define SYMM_NCCL_CALLS(X)                                                                     \
  X(ncclGetVersion, Result, (int* version))                                                    \
  X(ncclGetUniqueId, Result, (Id * id))                                                        \
  X(ncclCommInitRankConfig, Result, (Comm * comm, int size, Id id, int rank, Config* config))  \
  X(ncclCommGetAsyncError, Result, (Comm comm, Result * error))                                \
  X(ncclCommFinalize, Result, (Comm comm))                                                     \
  X(ncclCommDestroy, Result, (Comm comm))                                                      \
  X(ncclCommAbort, Result, (Comm comm))                                                        \
  X(ncclGroupStart, Result, ())                                                                \
  X(ncclGroupEnd, Result, ())                                                                  \
  X(ncclSend, Result,                                                                          \
      (const void* from, size_t count, int type, int peer, Comm comm, void* stream))           \
  X(ncclRecv, Result, (void* to, size_t count, int type, int peer, Comm comm, void* stream))   \
  X(ncclAllGather, Result,                                                                     \
      (const void* from, void* to, size_t count, int type, Comm comm, void* stream))           \
  X(ncclBroadcast, Result,                                                                     \
      (const void* from, void* to, size_t count, int type, int root, Comm comm, void* stream)) \
  X(ncclAllReduce, Result,                                                                     \
      (const void* from, void* to, size_t count, int type, int op, Comm comm, void* stream))   \
  X(ncclReduceScatter, Result,                                                                 \
      (const void* from, void* to, size_t count, int type, int op, Comm comm, void* stream))   \
  X(ncclGetErrorString, const char*, (Result result))                                          \
  X(ncclGetLastError, const char*, (Comm comm))
}  // namespace symm::engine::nccl
