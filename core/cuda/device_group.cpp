// The objects that launches of a group need: its tuning, layout and kernels, and the control
// blocks of all ranks, mapped here.
#include "core/cuda/device_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/control.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/fill.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/neutral.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
Tuning tuning_for(
    const TransportContext& context, const PlanValues& values, const DeviceGroup* lender) {
  Tuning tuning = tuning_of(values);
  if (context.size > kMaxRanks) {
    throw Error(Status::unsupported,
        format("the CUDA back end has at most %d ranks a group, not %d", kMaxRanks, context.size));
  }
  if (context.scratch_bytes != 0) {
    tuning = within_scratch(context.size, tuning, context.scratch_bytes);
  }
  if (lender == nullptr) return tuning;
  return within_stages(context.size, tuning, lender->layout, lender->tuning);
}

// All that is known before peers are connected.
template <int kRanks>
DeviceCommOf<kRanks> comm_for(const TransportContext& context, const Layout& layout) {
  DeviceCommOf<kRanks> comm{};
  comm.rank = context.rank;
  comm.size = context.size;
  static_cast<ScratchPlaces&>(comm) = layout;

  // Free entries have no number, so a search passes over them.
  comm.memory_count = kMaxMemories;
  return comm;
}
}  // namespace

DeviceGroup::DeviceGroup(TransportContext given_context, std::shared_ptr<Device> given_device,
    const PlanValues& values, const DeviceGroup* lender)
    : context(std::move(given_context)),
      device(std::move(given_device)),
      tuning(tuning_for(context, values, lender)),
      is_large(cuda::is_large(context.size, tuning)),
      layout(layout_of(
          context.size, tuning, lender != nullptr ? &lender->layout : nullptr, context.channels)),
      facts{.size = context.size,
          .is_large = is_large,
          .max_blocks = device->multiprocessors(),
          .same_offsets = context.same_offsets},
      comm(comm_for<kSmallRanks>(context, layout)),
      large_comm(comm_for<kMaxRanks>(context, layout)),
      multicast(context, device),
      kernels(*device),
      order(device, lender != nullptr ? &lender->order : nullptr) {
  if (const uint64_t least = scratch_bytes(layout);
      context.scratch_bytes != 0 && least > context.scratch_bytes) {
    throw Error(Status::invalid_argument,
        format("config.scratch_bytes: %lu, and %d ranks need at least %lu", context.scratch_bytes,
            context.size, least));
  }
  if (context.channels + 1 > kBarrierChannels) throw Error(Status::internal, "too many channels");
}

// Loads whatever the calls of this group may launch, so that no call loads a kernel: that could
// wait for work of the device, which another rank may have to finish.
void DeviceGroup::load_kernels() {
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  const std::string symm = is_large ? "symm_large_" : "symm_";
  for (const char* name : {"barrier", "wait_word", "wait_words", "check", "pass_messages"}) {
    kernels.load(symm + name);
  }
  for (const char* name : {"symm_write_word", "symm_change_word", "symm_convert",
           "symm_list_messages", "symm_wire_encode", "symm_wire_sum", "symm_wire_decode"}) {
    kernels.load(name);
  }
  if (context.machines.count > 1) {
    for (const char* name : {"combine", "compare", "stage"}) {
      kernels.load(symm + name);
    }
  }

  copies_in_bulk = kernels.has_room_for_bulk(kBulkShared);
  kernels.load(symm + "pipeline_move", copies_in_bulk ? kBulkShared : 0);
  copies_pieces_in_bulk = kernels.has_room_for_bulk(kCopyShared);
  for (const char* name : {"copy_pieces", "exchange_round"}) {
    kernels.load(symm + name, copies_pieces_in_bulk ? kCopyShared : 0);
  }
  for (const std::string& name : kernel_names(facts, false)) {
    kernels.load(name);
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    kernels.load(rmsnorm_kernel(dtype));
  }
  kernels.make_ready();
  facts.has_clusters = kernels.is_for_9();
}

template <int kRanks>
DeviceCommOf<kRanks> DeviceGroup::comm_of(uint64_t timeout_ms, uint32_t operation) const {
  DeviceCommOf<kRanks> made;
  if constexpr (kRanks == kSmallRanks) {
    made = comm;
  } else {
    made = large_comm;
  }
  made.timeout_ns = nanoseconds_of(timeout_ms);
  made.operation = operation | tags->number_of(CallTag::current()) << kOperationBits;
  return made;
}

template DeviceCommOf<kSmallRanks> DeviceGroup::comm_of(uint64_t, uint32_t) const;
template DeviceCommOf<kMaxRanks> DeviceGroup::comm_of(uint64_t, uint32_t) const;

void DeviceGroup::set_places(uint64_t record, uint64_t memories) {
  comm.record = record;
  comm.memories = memories;
  large_comm.record = record;
  large_comm.memories = memories;
}

void DeviceGroup::set_control(int rank, uint64_t control, uint64_t stages) {
  const auto at = static_cast<size_t>(rank);
  if (is_large) {
    large_comm.control[at] = control;
    large_comm.stages[at] = stages;
  } else {
    comm.control[at] = control;
    comm.stages[at] = stages;
  }
}

uint64_t DeviceGroup::abort_word_if_captured(void* stream) const {
  return device->uses().capture_of(stream_of(stream)) != 0 ? abort_word() : 0;
}

std::span<std::byte> DeviceGroup::stages_of(int rank) const noexcept {
  const CUdeviceptr at = stages_at(rank) + layout.stage[0];
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<std::byte*>(at), layout.wide - layout.stage[0]};
}

void DeviceGroup::copy(void* to, const void* from, size_t bytes, void* stream) {
  if (to == from || bytes == 0) return;

  const ContextGuard current(*device);
  const Driver& driver = device->driver();
  driver.require(driver.cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_of(stream)),
      "cuMemcpyAsync");
  order.record_use(stream_of(stream));
}

void DeviceGroup::fill_neutral(const CollectiveCall& call, void* to, size_t bytes) {
  if (bytes == 0) return;

  const ContextGuard current(*device);
  const CUstream stream = stream_of(call.stream);
  const size_t element = size_of(call.dtype);
  const NeutralWords value = neutral_words(call.dtype, call.op);
  if (element == sizeof value) {
    issue_fill(device->driver(), address_of(to), value, bytes / element, stream);
  } else {
    issue_fill(device->driver(), address_of(to), {value.low, element, bytes / element}, stream);
  }
  order.record_use(stream);
}

CUstream stream_of(void* stream) {
  if (stream == kAllStreams) {
    throw Error(
        Status::invalid_argument, "stream: SYMM_ALL_STREAMS is not a stream to issue work on");
  }
  return static_cast<CUstream>(stream);
}

std::string rmsnorm_kernel(DType dtype) { return format("symm_rmsnorm_%s_1", dtype_name(dtype)); }
}  // namespace symm::cuda
