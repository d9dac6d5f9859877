// Reads the tuning of the CUDA kernels from the plan table, and makes a rank's control block on
// its device.
#include "core/cuda/control.hpp"

#include <cstdint>
#include <memory>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/error.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::cuda, key); };
  Tuning tuning;

  tuning.ll_max = value("ll");
  tuning.one_shot_max = value("one_shot");
  tuning.scatter_max = value("scatter");
  tuning.marked_max = value("marked");
  tuning.two_shot_max = value("two_shot");
  tuning.two_shot_chunk = value("chunk");
  tuning.direct_max = value("flat");
  tuning.relay_max = value("relay");
  tuning.reduce_max = value("reduce");
  tuning.engine_min = value("copy_engine");

  tuning.movers = static_cast<int>(value("bulk"));
  tuning.threads = static_cast<int>(value("threads"));
  tuning.early = static_cast<int>(value("early"));
  tuning.work_groups = static_cast<int>(value("work_groups"));
  tuning.width = static_cast<int>(value("width"));
  tuning.tile = value("tile");
  tuning.multiprocessors = static_cast<int>(value("multiprocessors"));
  tuning.groups = static_cast<int>(value("groups"));
  tuning.large = value("large") != 0;
  tuning.hop = value("hop");
  return tuning;
}

std::shared_ptr<Allocation> create_control(
    const std::shared_ptr<Device>& device, int size, const Layout& layout) {
  auto control = Allocation::create(device, layout.bytes);
  SYMM_POINT("cuda.control");

  const Driver& driver = device->driver();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  if (const uint64_t words = static_cast<uint64_t>(size - 1) * layout.two_shot_slot; words != 0) {
    driver.require(driver.cuMemsetD32Async(
                       control->address() + layout.two_shot, 0xFFFFFFFFU, words, device->stream()),
        "cuMemsetD32Async");
  }
  driver.require(driver.cuStreamSynchronize(device->stream()), "cuStreamSynchronize");
  return control;
}
}  // namespace symm::cuda
