// The group as this rank's device sees it: what everything is made of that is launched for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/topology.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/issued_calls.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast_memories.hpp"
#include "core/cuda/stream_order.hpp"
#include "core/cuda/tag_table.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
struct DeviceGroup {
  // `lender`: the group in whose scratch this one works, or null.
  // Throws Error(unsupported) for too many ranks, Error(invalid_argument) if the configuration
  // allows less scratch than they need.
  DeviceGroup(TransportContext given_context, std::shared_ptr<Device> given_device,
      const PlanValues& values, const DeviceGroup* lender);
  DeviceGroup(DeviceGroup&&) = delete;

  // Loads all kernels that the group may launch, except those of multicast.
  void load_kernels();

  // The part of a kernel's arguments that every kernel has.
  DeviceComm comm_of(uint64_t timeout_ms, uint32_t operation) const;

  // The stages of a rank of this machine.
  std::span<std::byte> stages_of(int rank) const noexcept;

  // Copies on a stream, unless there is nothing to copy.
  void copy(void* to, const void* from, size_t bytes, void* stream);

  const TransportContext context;
  const std::shared_ptr<Device> device;
  const Tuning tuning;
  const Layout layout;
  // Complete when all peers are connected.
  Facts facts;
  // The roles of ranks, which mean something where there are 8.
  CubeMesh cube_mesh;
  DeviceComm comm;
  MulticastMemories multicast;
  Kernels kernels;
  // Copies in bulk have room (kernels/cuda/bulk.cuh).
  bool copies_in_bulk = false;
  // The tags of calls, by which kernels know them.
  const std::unique_ptr<TagTable> tags = std::make_unique<TagTable>();
  StreamOrder order;
  IssuedCalls issued{context};
};

// The stream of a call. Throws Error(invalid_argument) for kAllStreams.
CUstream stream_of(void* stream);

// The kernel of RMSNorm alone, for sums of this type.
std::string rmsnorm_kernel(DType dtype);
}  // namespace symm::cuda
