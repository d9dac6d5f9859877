// SPDX-License-Identifier: Apache-2.0
//
// Which back ends there are on this machine. The CUDA back end is not part of this version; it says so wherever it is asked for.
#include "core/backend.hpp"

#include "core/host/backend.hpp"
#include "core/host/hardware.hpp"
#include "core/process.hpp"
#include "core/topology.hpp"

namespace symm {
namespace {

constexpr const char* kNoCuda = "the CUDA back end is not part of this build of symm";
constexpr const char* kHostOnly = "host memory";

}  // namespace

BackendKind resolve(BackendKind kind) {
  switch (kind) {
    case BackendKind::automatic:
    case BackendKind::host: return BackendKind::host;
    case BackendKind::cuda: throw Error(Status::unavailable, kNoCuda);
  }
  throw Error(Status::invalid_argument, format("backend: %d is not known", static_cast<int>(kind)));
}

std::shared_ptr<Backend> open_backend(BackendKind kind, int /*device*/, int /*local_rank*/) {
  resolve(kind);
  return host::open();
}

int device_count(BackendKind kind) {
  resolve(kind);
  return 1;
}

DeviceInfo device_info(BackendKind kind, int device) {
  DeviceInfo info;
  info.backend = resolve(kind);
  if (device != 0) throw Error(Status::invalid_argument, format("device: %d is not in 0 .. 0", device));
  info.memory_bytes = host::memory_bytes();
  info.compute_units = host::processors();
  info.name = host::processor_name();
  info.uuid = process::boot_id();
  info.multicast_reason = info.fabric_reason = info.dmabuf_reason = kHostOnly;
  return info;
}

Links links(BackendKind kind) {
  resolve(kind);
  return {1, {0}};
}

}  // namespace symm
