// The arguments of the kernels of collectives, which follow from the call and from
// where its operands lie.
#pragma once

#include <cstddef>
#include <memory>

#include "core/backend/backend.hpp"
#include "core/cuda/device_group.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/rmsnorm.hpp"

namespace symm::cuda {
// The structs are those of groups that have room for kRanks (DeviceGroup::in_room()).
template <int kRanks>
CollectiveArgsOf<kRanks> collective_args(const DeviceGroup& group, const CollectiveCall& call);

// The pieces of a call; or, of a call that has none, one block for each rank.
template <int kRanks>
PiecesArgsOf<kRanks> pieces_args(const DeviceGroup& group, const CollectiveCall& call);

// For kernels of small groups; in a large group the rows are summed already.
RmsNormArgsOf<kSmallRanks> rmsnorm_args(
    const DeviceGroup& group, const CollectiveCall& call, const RmsNorm& norm);

// ---- where operands lie. It is asked again, for the addresses, when a plan has been made: in
// between another thread may have released the memory.

// Arguments of the pipeline: whether peers may store into recv, and how the plan divides the work.
template <int kRanks>
void add_pipeline_args(const DeviceGroup& group, const CollectiveCall& call, const Plan& chosen,
    CollectiveArgsOf<kRanks>& args);

// Throws Error(invalid_argument) if an operand has no multicast address.
void add_multimem_args(const DeviceGroup& group, const CollectiveCall& call, const Plan& chosen,
    CollectiveArgsOf<kSmallRanks>& args);

// Whether peers may store into the recv of a call in pieces.
template <int kRanks>
void add_recv_of_pieces(
    const DeviceGroup& group, const CollectiveCall& call, CollectiveArgsOf<kRanks>& args);

// The memory of the group that recv lies in; null: private memory.
std::shared_ptr<const MemoryView> memory_of_recv(
    const DeviceGroup& group, const CollectiveCall& call, size_t* offset);

// Whether recv still holds data that is to be sent, as in an all-to-all in place.
bool recv_holds_send(const CollectiveCall& call);
}  // namespace symm::cuda
