#include "bindings/nccl/symm_library.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
template <class Call>
bool find(void* library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(dlsym(library, name));
  return call != nullptr;
}

SymmLibrary load() {
  SymmLibrary symm;
  void* const library = dlopen("libsymm.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    symm.reason = why != nullptr ? why : "libsymm.so.0 cannot be loaded";
    log("no communicator is watched: %s", symm.reason.c_str());
    return symm;
  }

  symm.usable = find(library, "symm_group_create", symm.group_create) &&
                find(library, "symm_group_retain", symm.group_retain) &&
                find(library, "symm_group_release", symm.group_release) &&
                find(library, "symm_group_abort", symm.group_abort) &&
                find(library, "symm_group_info", symm.group_info) &&
                find(library, "symm_group_status", symm.group_status) &&
                find(library, "symm_group_failed_ranks", symm.group_failed_ranks) &&
                find(library, "symm_group_peer_info", symm.group_peer_info) &&
                find(library, "symm_last_error", symm.last_error) &&
                find(library, "symm_buffer_adopt", symm.buffer_adopt) &&
                find(library, "symm_buffer_release", symm.buffer_release) &&
                find(library, "symm_rendezvous", symm.rendezvous) &&
                find(library, "symm_memory_release", symm.memory_release) &&
                find(library, "symm_stream_wait", symm.stream_wait) &&
                find(library, "symm_allgather", symm.allgather) &&
                find(library, "symm_allreduce", symm.allreduce) &&
                find(library, "symm_alltoall", symm.alltoall) &&
                find(library, "symm_broadcast", symm.broadcast) &&
                find(library, "symm_gather", symm.gather) &&
                find(library, "symm_messages", symm.messages) &&
                find(library, "symm_reduce", symm.reduce) &&
                find(library, "symm_reduce_scatter", symm.reduce_scatter) &&
                find(library, "symm_scatter", symm.scatter);

  if (!symm.usable) {
    symm.reason = "libsymm.so.0 lacks a call";
    log("no communicator is watched: %s", symm.reason.c_str());
  }
  return symm;
}
}  // namespace

const SymmLibrary& symm_library() {
  static const auto* const loaded = new SymmLibrary(load());
  return *loaded;
}

Result result_of(symm_status_t status, uint32_t version) noexcept {
  switch (status) {
    case SYMM_OK: return kSuccess;
    case SYMM_ERR_PEER_FAILED:
    case SYMM_ERR_ABORTED: return kRemoteError;
    case SYMM_ERR_TIMEOUT: return version >= kTimeoutSince ? kTimeout : kRemoteError;
    case SYMM_ERR_MISMATCH: return kInvalidUsage;
    case SYMM_ERR_INVALID_ARGUMENT: return kInvalidArgument;
    case SYMM_ERR_CUDA: return kCudaError;
    default: return kSystemError;
  }
}

std::optional<GroupFailure> failure_of(symm_group_t* group, uint32_t version) {
  symm_failure_t failure{};
  failure.struct_size = sizeof failure;
  if (symm_library().group_status(group, &failure) != SYMM_OK) return std::nullopt;
  if (failure.status == SYMM_OK) return std::nullopt;
  return GroupFailure{result_of(failure.status, version), failure.message};
}
}  // namespace symm::nccl
