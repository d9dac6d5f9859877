// The part of UCX's API that symm uses, laid out as in UCX 1.13, so that no header of UCX is
// needed. Newer versions keep this layout, and read the fields of a struct that its mask names.
#pragma once

#include <stdio.h>

#include <cstddef>
#include <cstdint>

namespace symm::engine::ucx {
// ucs_status_t, which is packed.
using Code = int8_t;
inline constexpr Code kOk = 0;
inline constexpr Code kInProgress = 1;
// "Destination is unreachable".
inline constexpr Code kUnreachable = -6;

// A request, null if the work is done, or a code.
using Request = void*;
inline bool is_error(Request request) {
  return reinterpret_cast<uintptr_t>(request) >= static_cast<uintptr_t>(-100);
}
inline Code code_of(Request request) {
  return static_cast<Code>(reinterpret_cast<intptr_t>(request));
}

using Context = struct ucp_context*;
using Worker = struct ucp_worker*;
using UcpEndpoint = struct ucp_ep*;
using Config = struct ucp_config*;

struct Params {
  uint64_t mask = 1;
  // Active messages, and wake-up.
  uint64_t features = 1U << 6 | 1U << 4;
  uint64_t rest[8] = {};
};
struct WorkerParams {
  uint64_t mask = 1;
  // Threads call one at a time.
  uint32_t thread_mode = 1;
  uint64_t rest[23] = {};
};
struct ReceiveParams {
  uint64_t attributes;
  void* reply;
};
inline constexpr uint64_t kRendezvous = 1U << 17;
struct HandlerParams {
  uint64_t mask = 1U << 0 | 1U << 2 | 1U << 3;
  uint32_t id;
  uint32_t flags;
  Code (*handler)(void* argument, const void* header, size_t header_bytes, void* data, size_t bytes,
      const ReceiveParams* params);
  void* argument;
};
struct EndpointParams {
  uint64_t mask = 1U << 0 | 1U << 1 | 1U << 2;
  const void* address;
  // Errors of peers are handled.
  uint32_t error_mode = 1;
  void (*on_error)(void* argument, UcpEndpoint endpoint, Code code);
  void* argument;
  uint64_t rest[8] = {};
};
struct RequestParams {
  // callback, argument, flags, memory_type
  uint32_t mask = 1U << 1 | 1U << 2 | 1U << 4 | 1U << 6;
  uint32_t flags = 0;
  void* request = nullptr;
  void* callback = nullptr;
  uint64_t datatype = 0;
  void* argument = nullptr;
  void* reply_buffer = nullptr;
  // Memory of the host.
  uint32_t memory_type = 0;
  void* receive_info = nullptr;
  void* registered = nullptr;
};
// The flag of ucp_config_print() by which the values are written, a line each.
inline constexpr unsigned kPrintConfig = 1;
// The flag of ucp_ep_close_nbx() by which work that is under way ends at once.
inline constexpr uint32_t kForce = 1;
using OnSent = void (*)(void* request, Code code, void* argument);
using OnReceived = void (*)(void* request, Code code, size_t bytes, void* argument);

static_assert(sizeof(Params) == 80 && sizeof(WorkerParams) == 200 && sizeof(HandlerParams) == 32 &&
              sizeof(EndpointParams) == 104);
static_assert(offsetof(EndpointParams, on_error) == 24 && sizeof(RequestParams) == 72 &&
              offsetof(RequestParams, memory_type) == 48);

// X(name, result, parameters)
#define SYMM_UCX_CALLS(X)                                                                        \
  X(ucp_get_version, void, (unsigned* major, unsigned* minor, unsigned* release))                \
  X(ucp_config_read, Code, (const char* prefix, const char* file, Config* config))               \
  X(ucp_config_modify, Code, (Config config, const char* name, const char* value))               \
  X(ucp_config_print, void, (Config config, FILE * stream, const char* title, unsigned flags))   \
  X(ucp_config_release, void, (Config config))                                                   \
  X(ucp_init_version, Code, (unsigned, unsigned, const Params* params, Config config, Context*)) \
  X(ucp_cleanup, void, (Context context))                                                        \
  X(ucp_worker_create, Code, (Context context, const WorkerParams* params, Worker* worker))      \
  X(ucp_worker_destroy, void, (Worker worker))                                                   \
  X(ucp_worker_get_address, Code, (Worker worker, void** address, size_t* bytes))                \
  X(ucp_worker_release_address, void, (Worker worker, void* address))                            \
  X(ucp_worker_progress, unsigned, (Worker worker))                                              \
  X(ucp_worker_get_efd, Code, (Worker worker, int* descriptor))                                  \
  X(ucp_worker_arm, Code, (Worker worker))                                                       \
  X(ucp_worker_set_am_recv_handler, Code, (Worker worker, const HandlerParams* params))          \
  X(ucp_ep_create, Code, (Worker worker, const EndpointParams* params, UcpEndpoint* endpoint))   \
  X(ucp_ep_close_nbx, Request, (UcpEndpoint endpoint, const RequestParams* params))              \
  X(ucp_am_send_nbx, Request,                                                                    \
      (UcpEndpoint endpoint, unsigned id, const void* header, size_t, const void* data, size_t,  \
          const RequestParams* params))                                                          \
  X(ucp_am_recv_data_nbx, Request,                                                               \
      (Worker worker, void* data, void* to, size_t, const RequestParams* params))                \
  X(ucp_request_free, void, (void* request))                                                     \
  X(ucs_status_string, const char*, (Code code))
}  // namespace symm::engine::ucx
