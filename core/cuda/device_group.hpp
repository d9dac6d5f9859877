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
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
struct DeviceGroup {
  // `lender`: the group in whose scratch this one works, or null. Throws
  // Error(unsupported) for too many ranks, Error(invalid_argument) if the configuration
  // allows less scratch than they need.
  DeviceGroup(TransportContext given_context, std::shared_ptr<Device> given_device,
      const PlanValues& values, const DeviceGroup* lender);
  DeviceGroup(DeviceGroup&&) = delete;

  // Calls body.operator()<kRanks>() for the structs that the group's kernels get: those of small
  // groups or those of large ones.
  template <class Body>
  decltype(auto) in_room(const Body& body) const {
    return is_large ? body.template operator()<kMaxRanks>()
                    : body.template operator()<kSmallRanks>();
  }

  // Loads all kernels that the group may launch, except those of multicast.
  void load_kernels();

  // The part of a kernel's arguments that every kernel has. In a large group, kernels of small ones
  // are told no addresses.
  template <int kRanks>
  DeviceCommOf<kRanks> comm_of(uint64_t timeout_ms, uint32_t operation) const;

  // A kernel that each group has, under its name for small groups and for large ones.
  CUfunction kernel(const char* small, const char* large) const {
    return kernels.find(is_large ? large : small);
  }

  // Sets what all kernels are told beside the time-out: the record, and the table of memories.
  void set_places(uint64_t record, uint64_t memories);
  // Sets where a rank's control block is mapped, and the one that has its stages.
  void set_control(int rank, uint64_t control, uint64_t stages);

  // The beginning of the control block that has a rank's stages.
  uint64_t stages_at(int rank) const noexcept {
    const auto at = static_cast<size_t>(rank);
    return is_large ? large_comm.stages[at] : comm.stages[at];
  }

  // The word that is not 0 when kernels of this rank have to leave.
  uint64_t abort_word() const noexcept {
    const auto at = static_cast<size_t>(context.rank);
    return is_large ? large_comm.control[at] + offsetof(ControlWordsOf<kMaxRanks>, abort)
                    : comm.control[at] + offsetof(ControlWordsOf<kSmallRanks>, abort);
  }

  // The abort word for what is captured on `stream`, else 0: a graph may be replayed when the group
  // has failed, and its signals must not change pads that are those of another memory by then
  // (core/group/moving.hpp). A call that is not captured was refused in time. The device's context
  // is current.
  uint64_t abort_word_if_captured(void* stream) const;

  // MessageWords of this rank.
  uint64_t words_of_messages() const noexcept {
    const auto at = static_cast<size_t>(context.rank);
    return (is_large ? large_comm.control[at] : comm.control[at]) + layout.messages;
  }

  // The stages of a rank of this machine.
  std::span<std::byte> stages_of(int rank) const noexcept;

  // Copies on a stream, unless there is nothing to copy.
  void copy(void* to, const void* from, size_t bytes, void* stream);
  // Fills bytes with the neutral element of the call's operator, on the call's stream.
  void fill_neutral(const CollectiveCall& call, void* to, size_t bytes);

  const TransportContext context;
  const std::shared_ptr<Device> device;
  const Tuning tuning;
  // Whether the group uses the kernels of large groups.
  const bool is_large;
  const Layout layout;
  // Complete when all peers are connected.
  Facts facts;
  // The roles of ranks, which mean something where there are 8.
  CubeMesh cube_mesh;
  DeviceCommOf<kSmallRanks> comm;
  DeviceCommOf<kMaxRanks> large_comm;
  MulticastMemories multicast;
  Kernels kernels;
  // Copies in bulk have room (kernels/cuda/bulk.cuh).
  bool copies_in_bulk = false;
  // So have those of pieces.
  bool copies_pieces_in_bulk = false;
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
