// The C ABI of devices and of the links between them. It converts structs of symm.h;
// core/backends.hpp does the work.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "capi/guard.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/backend/topology.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

static_assert(static_cast<int32_t>(BackendKind::host) == SYMM_BACKEND_HOST &&
              static_cast<int32_t>(BackendKind::cuda) == SYMM_BACKEND_CUDA);
static_assert(
    static_cast<int32_t>(TopologyClass::fully_connected) == SYMM_TOPOLOGY_FULLY_CONNECTED &&
    static_cast<int32_t>(TopologyClass::hybrid_cube_mesh) == SYMM_TOPOLOGY_HYBRID_CUBE_MESH);

symm_status_t symm_device_count(symm_backend_t backend, int32_t* out_count) {
  return produce(
      out_count, "out_count", [&] { return device_count(static_cast<BackendKind>(backend)); });
}

symm_status_t symm_device_info(symm_backend_t backend, int32_t device, symm_device_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_device_info_t, host_memory_reason),
      [&] { return device_info(static_cast<BackendKind>(backend), device); });
}

symm_status_t symm_topology(symm_backend_t backend, symm_topology_class_t* out_class,
    int32_t* out_links, size_t capacity, size_t* out_count) {
  return guard([&] {
    require(out_class, "out_class");
    const Links links = symm::links(static_cast<BackendKind>(backend));

    if (out_links == nullptr && capacity != 0) {
      throw Error(Status::invalid_argument, "out_links: is NULL, but capacity is not 0");
    }
    if (out_links != nullptr && capacity < links.count.size()) {
      throw Error(
          Status::invalid_argument, format("capacity: %zu is less than the %zu links of %d devices",
                                        capacity, links.count.size(), links.devices));
    }

    if (out_links != nullptr) std::copy(links.count.begin(), links.count.end(), out_links);
    if (out_count != nullptr) *out_count = links.count.size();
    *out_class = static_cast<int32_t>(classify(links));
  });
}
