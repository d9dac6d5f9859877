// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/control.hpp"

#include <atomic>
#include <cstring>

namespace symm::cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kWords = 1024;  // where in the page {abort, departed} lie

}  // namespace

Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::cuda, key); };
  Tuning tuning;
  tuning.ll_max = value("ll");
  tuning.one_shot_max = value("one_shot");
  tuning.two_shot_max = value("two_shot");
  tuning.two_shot_chunk = value("chunk");
  tuning.threads = static_cast<int>(value("threads"));
  tuning.direct_max = value("flat");
  tuning.early = static_cast<int>(value("early"));
  tuning.work_groups = static_cast<int>(value("stripes"));
  tuning.width = static_cast<int>(value("width"));
  tuning.tile = value("tile");
  return tuning;
}

std::shared_ptr<Allocation> create_control(const std::shared_ptr<Device>& device, int size, const Layout& layout) {
  auto control = Allocation::create(device, layout.bytes);
  const Driver& driver = device->driver();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  const auto n = static_cast<uint64_t>(size);
  const auto fill = [&](uint64_t at, uint64_t bytes) {
    if (bytes == 0) return;
    driver.require(driver.cuMemsetD32Async(control->address() + at, 0xFFFFFFFFU, bytes / 4, device->stream()),
                   "cuMemsetD32Async");
  };
  fill(layout.one_shot, 2 * n * layout.one_shot_slot);
  fill(layout.two_shot, 4 * n * layout.two_shot_slot);
  driver.require(driver.cuStreamSynchronize(device->stream()), "cuStreamSynchronize");
  return control;
}

ErrorMailbox::ErrorMailbox(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  void* host = nullptr;
  driver.require(driver.cuMemHostAlloc(&host, kPage, kMappedPortable), "cuMemHostAlloc", "an error record");
  std::memset(host, 0, kPage);
  host_ = static_cast<std::byte*>(host);
  CUresult result = driver.cuMemHostGetDevicePointer(&address_, host, 0);
  const char* call = "cuMemHostGetDevicePointer";
  if (result == kSuccess) {
    call = "cuStreamCreate";
    result = driver.cuStreamCreate(&stream_, kNonBlocking);
  }
  if (result != kSuccess) {
    driver.cuMemFreeHost(host);
    driver.require(result, call);
  }
}

ErrorMailbox::~ErrorMailbox() {
  // A kernel may still write the record.
  device_->defer([&driver = device_->driver(), host = host_, stream = stream_] {
    driver.cuStreamDestroy(stream);
    driver.cuMemFreeHost(host);
  });
}

bool ErrorMailbox::has_record() const noexcept {
  return reinterpret_cast<const std::atomic<uint32_t>*>(host_)->load(std::memory_order_acquire) != 0;
}

const ErrorRecord& ErrorMailbox::record() const noexcept { return *reinterpret_cast<const ErrorRecord*>(host_); }

void ErrorMailbox::tell(CUdeviceptr control, bool abort, uint32_t departed) noexcept {
  const Driver& driver = device_->driver();
  try {
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    // Both words only grow, so it does not matter which of two copies comes first.
    auto* words = reinterpret_cast<std::atomic<uint32_t>*>(host_ + kWords);
    if (abort) words[0].store(1, std::memory_order_release);
    words[1].fetch_or(departed, std::memory_order_release);
    driver.cuMemcpyAsync(control + offsetof(ControlWords, abort), address_ + kWords, 2 * sizeof(uint32_t), stream_);
  } catch (const Error&) {  // no context any more, so no kernel either
  }
}

}  // namespace symm::cuda
