// Makes scaled calls, calls with a wire, and large all-reduces with RMSNorm as rows of plain calls
// and kernels between them, on the caller's stream.
#include "core/cuda/composed_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/error.hpp"
#include "core/cuda/collective_args.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "kernels/chunked_call.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/number.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"
#include "kernels/wire_call.hpp"

namespace symm::cuda {
namespace {
// The place where wide operands, and sums of rows, are made.
std::byte* wide_scratch(const DeviceGroup& group) {
  const CUdeviceptr at = group.stages_at(group.context.rank) + group.layout.wide;
  return reinterpret_cast<std::byte*>(at);  // NOLINT(performance-no-int-to-ptr)
}

// The kernels between the plain calls of a call with a wire. A warp has a group at a time.
class WireKernels {
 public:
  WireKernels(const DeviceGroup& group, const CollectiveCall& call) : group_(group), call_(call) {}

  void encode(const WireEncoding& e) const {
    WireEncodeArgs args{address_of(e.from), address_of(e.to), e.count, e.blocks, e.stride, e.total,
        e.format.group, static_cast<int32_t>(e.dtype), static_cast<int32_t>(e.format.dtype)};
    launch("symm_wire_encode", e.blocks * wire_groups(e.count, e.format.group), args);
  }

  void sum(const WireSum& s) const {
    WireSumArgs args{address_of(s.from), address_of(s.to), s.of, s.count, s.format.group,
        static_cast<int32_t>(s.format.dtype), s.sources, s.averages ? 1U : 0U, s.in_tree ? 1U : 0U};
    launch("symm_wire_sum", wire_groups(s.count, s.format.group), args);
  }

  void decode(const WireDecoding& d) const {
    WireDecodeArgs args{address_of(d.from), address_of(d.to), d.count, d.total, d.format.group,
        static_cast<int32_t>(d.dtype), static_cast<int32_t>(d.format.dtype)};
    launch("symm_wire_decode", wire_groups(d.total, d.format.group), args);
  }

 private:
  template <class Args>
  void launch(const char* kernel, size_t groups, Args& args) const {
    if (groups == 0) return;
    constexpr size_t kBytesOfWarp = 32 * kPack;
    group_.kernels.launch_over(groups * kBytesOfWarp, group_.kernels.find(kernel),
        stream_of(call_.stream), call_.block_limit, args);
  }

  const DeviceGroup& group_;
  const CollectiveCall& call_;
};
}  // namespace

WireCall wire_call(const DeviceGroup& group, const CollectiveCall& call) {
  const WireCall parts(
      call, group.context.rank, group.context.size, wide_scratch(group), group.tuning.wide);
  if (parts.fits()) return parts;
  throw Error(Status::unsupported,
      format("options.wire_dtype: %d ranks are too many for %lu bytes of scratch",
          group.context.size, group.tuning.wide));
}

ScaledCall scaled_call(const DeviceGroup& group, const CollectiveCall& call) {
  return {call, group.context.rank, group.context.size, wide_scratch(group), group.tuning.wide};
}

RowsOfNorm rows_of_norm(const DeviceGroup& group, const CollectiveCall& call) {
  return {call, group.context.size, wide_scratch(group), group.tuning.wide};
}

CollectiveCall plain_call_in_chunks(const DeviceGroup& group, const CollectiveCall& call) {
  CollectiveCall plain = ChunkedCall(call, group.context.rank, group.context.size).plain_call();
  plain.pieces = nullptr;
  return plain;
}

std::string why_in_chunks(const DeviceGroup& group, const CollectiveCall& call) {
  return ChunkedCall(call, group.context.rank, group.context.size).why();
}

namespace {
void issue_in_chunks(const DeviceGroup& group, const CollectiveCall& call,
    const std::function<void(const CollectiveCall&)>& issue_plain) {
  const auto copy = [&](std::byte* to, const std::byte* from, size_t bytes) {
    const Driver& driver = group.device->driver();
    driver.require(
        driver.cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_of(call.stream)),
        "cuMemcpyAsync");
  };
  const auto tell = [&](size_t index) { launch_tell_chunk(group, call, index); };
  const auto await = [&](size_t index) { launch_await_chunk(group, call, index); };
  ChunkedCall(call, group.context.rank, group.context.size)
      .run(ChunkSteps{copy, tell, await}, issue_plain);
}
}  // namespace

void issue_composed(const DeviceGroup& group, const CollectiveCall& call,
    const std::function<void(const CollectiveCall&)>& issue_plain) {
  if (call.words) return issue_in_chunks(group, call, issue_plain);
  if (call.has_wire()) {
    wire_call(group, call).run(WireKernels(group, call), issue_plain);
    return;
  }
  if (call.scaling) {
    const auto convert = [&](const Conversion& conversion) {
      launch_conversion(group, call, conversion);
    };
    scaled_call(group, call).run(convert, issue_plain);
    return;
  }

  // The threads do not wait, so there may be many.
  constexpr int kMostThreads = 1 << 17;
  const auto normalise = [&](const RmsNorm& norm, const std::byte* sums, size_t rows) {
    CollectiveCall summed = call;
    summed.send = sums;
    summed.count = rows * norm.hidden;
    const int most = call.block_limit != 0 ? int{call.block_limit} : kMaxBlocks;
    const RowShape shape =
        row_shape(norm.hidden, rows, {kRowThreads, kMostThreads}, group.facts.has_clusters, most);
    launch_rmsnorm(group, group.kernels.find(rmsnorm_kernel(call.dtype)), shape, summed, norm);
  };
  rows_of_norm(group, call).run(issue_plain, normalise);
}

void launch_conversion(
    const DeviceGroup& group, const CollectiveCall& call, const Conversion& conversion) {
  if (conversion.count == 0) return;

  ConvertArgs args{};
  args.from = address_of(conversion.from);
  args.to = address_of(conversion.to);
  args.count = conversion.count;
  args.blocks = conversion.blocks;
  args.stride = conversion.stride;
  args.factor = 1;
  args.from_dtype = static_cast<int32_t>(conversion.from_dtype);
  args.to_dtype = static_cast<int32_t>(conversion.to_dtype);
  if (conversion.scaled && call.scaling.kind == Factor::pointer) {
    args.pointer = address_of(call.scale_pointer);
  } else if (conversion.scaled) {
    // Rounded here, so that the kernel has nothing left to round.
    const Number factor = call.scaling.factor;
    args.factor = (call.dtype == DType::f64 ? factor : factor.rounded_to_f32()).f64();
  }

  const size_t narrower = std::min(size_of(conversion.from_dtype), size_of(conversion.to_dtype));
  group.kernels.launch_over(conversion.count * conversion.blocks * narrower,
      group.kernels.find("symm_convert"), stream_of(call.stream), call.block_limit, args);
}

void launch_rmsnorm(const DeviceGroup& group, CUfunction kernel, const RowShape& shape,
    const CollectiveCall& call, const RmsNorm& norm) {
  RmsNormArgs args = rmsnorm_args(group, call, norm);
  const Kernels::Launch launch{static_cast<unsigned>(shape.blocks),
      static_cast<unsigned>(shape.threads), static_cast<CUstream>(call.stream),
      static_cast<unsigned>(shape.cluster)};
  group.kernels.launch(kernel, launch, args);
}
}  // namespace symm::cuda
