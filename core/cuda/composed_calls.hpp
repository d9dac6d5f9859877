// Calls that are made of plain ones: scaled calls (kernels/scaled_call.hpp), calls with a quantised
// wire (kernels/wire_call.hpp), calls in chunks (kernels/chunked_call.hpp), and an all-reduce with
// RMSNorm of more rows than one kernel does (kernels/collective_call.hpp); with the kernels that
// come between the plain calls.
#pragma once

#include <functional>
#include <string>

#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/wire_call.hpp"

namespace symm::cuda {
ScaledCall scaled_call(const DeviceGroup& group, const CollectiveCall& call);
// Throws if the group has too many ranks for its scratch.
WireCall wire_call(const DeviceGroup& group, const CollectiveCall& call);
RowsOfNorm rows_of_norm(const DeviceGroup& group, const CollectiveCall& call);

// The first plain call of a call in chunks, without its pieces; and the beginning of its plan's
// reason.
CollectiveCall plain_call_in_chunks(const DeviceGroup& group, const CollectiveCall& call);
std::string why_in_chunks(const DeviceGroup& group, const CollectiveCall& call);

// Issues a scaled call, a call with a wire or in chunks, or an all-reduce with RMSNorm: the plain
// calls by `issue_plain`, and what comes between them.
void issue_composed(const DeviceGroup& group, const CollectiveCall& call,
    const std::function<void(const CollectiveCall&)>& issue_plain);

void launch_conversion(
    const DeviceGroup& group, const CollectiveCall& call, const Conversion& conversion);

void launch_rmsnorm(const DeviceGroup& group, CUfunction kernel, const RowShape& shape,
    const CollectiveCall& call, const RmsNorm& norm);
}  // namespace symm::cuda
