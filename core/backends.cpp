// Which back ends there are on this machine.
#include "core/backends.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/hardware.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/topology.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/backend.hpp"
#include "core/host/backend.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
constexpr const char* kHostOnly = "host memory";
}  // namespace

BackendKind resolve(BackendKind kind) {
  switch (kind) {
    case BackendKind::host: return kind;
    case BackendKind::automatic: {
      const bool is_cuda = one_of("SYMM_BACKEND", {"host", "cuda"}) == "cuda";
      return is_cuda ? resolve(BackendKind::cuda) : BackendKind::host;
    }
    case BackendKind::cuda:
      if (const std::string reason = cuda::unavailable_reason(); !reason.empty()) {
        throw Error(Status::unavailable, "CUDA back end: " + reason);
      }
      return kind;
  }

  throw not_known("backend", static_cast<int>(kind));
}

std::shared_ptr<Backend> open_backend(BackendKind kind, int device, int local_rank) {
  return resolve(kind) == BackendKind::cuda ? cuda::open(device, local_rank) : host::open();
}

int device_count(BackendKind kind) {
  return resolve(kind) == BackendKind::cuda ? cuda::device_count() : 1;
}

symm_device_info_t device_info(BackendKind kind, int device) {
  const BackendKind resolved = resolve(kind);
  if (resolved == BackendKind::cuda) return cuda::device_info(device);
  symm_device_info_t info{};
  info.backend = SYMM_BACKEND_HOST;

  if (device != 0) {
    throw Error(Status::invalid_argument, format("device: %d is not in 0 .. 0", device));
  }

  info.memory_bytes = host::memory_bytes();
  info.compute_units = static_cast<int32_t>(usable_processors().count());
  write_text(info.name, host::processor_name());
  write_text(info.uuid, process::boot_id());
  write_text(info.multicast_reason, kHostOnly);
  write_text(info.fabric_reason, kHostOnly);
  write_text(info.dmabuf_reason, kHostOnly);
  info.host_memory = 1;
  info.numa_node = -1;

  return info;
}

Links links(BackendKind kind) {
  return resolve(kind) == BackendKind::cuda ? cuda::links() : Links{1, {0}};
}

std::string bus_of(BackendKind kind, int device) {
  return resolve(kind) == BackendKind::cuda ? cuda::bus_of(device) : "";
}

Links links_of_buses(BackendKind kind, const std::vector<std::string>& buses) {
  if (resolve(kind) == BackendKind::cuda) return cuda::links_of_buses(buses);
  return {static_cast<int>(buses.size()), std::vector<int32_t>(buses.size() * buses.size())};
}

const ipc::Provider& ipc_provider(BackendKind kind) {
  return kind == BackendKind::cuda ? cuda::ipc_provider() : host::ipc_provider();
}

void ipc_reclaim() noexcept { cuda::ipc_reclaim(); }
}  // namespace symm
