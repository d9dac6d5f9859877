// SPDX-License-Identifier: Apache-2.0
#include <symm/symm.h>

#include "capi/structs.hpp"
#include "core/backends.hpp"

using symm::Error;
using symm::Status;
using symm::capi::guard;
using symm::capi::require;

static_assert(static_cast<int32_t>(symm::BackendKind::host) == SYMM_BACKEND_HOST &&
              static_cast<int32_t>(symm::BackendKind::cuda) == SYMM_BACKEND_CUDA);
static_assert(static_cast<int32_t>(symm::TopologyClass::fully_connected) == SYMM_TOPOLOGY_FULLY_CONNECTED &&
              static_cast<int32_t>(symm::TopologyClass::hybrid_cube_mesh) == SYMM_TOPOLOGY_HYBRID_CUBE_MESH);

symm_status_t symm_device_count(symm_backend_t backend, int32_t* out_count) {
  return guard([&] {
    require(out_count, "out_count");
    *out_count = symm::device_count(static_cast<symm::BackendKind>(backend));
  });
}

symm_status_t symm_device_info(symm_backend_t backend, int32_t device, symm_device_info_t* out) {
  return guard([&] {
    symm::capi::require_struct_size(require(out, "out").struct_size, SYMM_FIRST_SIZE(symm_device_info_t, dmabuf_reason), "out");
    symm::capi::write_struct(symm::device_info(static_cast<symm::BackendKind>(backend), device), out);
  });
}

symm_status_t symm_topology(symm_backend_t backend, symm_topology_class_t* out_class, int32_t* out_links, size_t capacity) {
  return guard([&] {
    require(out_class, "out_class");
    const symm::Links links = symm::links(static_cast<symm::BackendKind>(backend));
    if (out_links == nullptr && capacity != 0) throw Error(Status::invalid_argument, "out_links: is NULL, but capacity is not 0");
    if (out_links != nullptr && capacity < links.count.size()) {
      throw Error(Status::invalid_argument, symm::format("capacity: %zu is less than the %zu links of %d devices", capacity,
                                                         links.count.size(), links.devices));
    }
    if (out_links != nullptr) std::copy(links.count.begin(), links.count.end(), out_links);
    *out_class = static_cast<int32_t>(symm::classify(links));
  });
}
