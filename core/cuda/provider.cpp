#include <cstring>
#include "core/cuda/allocation.hpp"
#include "core/cuda/backend.hpp"
#include "core/cuda/stream_words.hpp"

namespace symm::cuda {
namespace {
// The GPUs that this process sees, by ordinal. They do not change while it runs.
const std::vector<Uuid>& visible_gpus() {
  static const auto* all = [] {
    std::vector<Uuid> found;
    const Driver& loaded = driver();
    int count = 0;
    loaded.require(loaded.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice device = 0;
      CUuuid uuid{};
      loaded.require(loaded.cuDeviceGet(&device, ordinal), "cuDeviceGet");
      loaded.require(loaded.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
      std::memcpy(found.emplace_back().data(), uuid.bytes, sizeof uuid.bytes);
    }
    return new std::vector<Uuid>(std::move(found));
  }();
  return *all;
}

class CudaProvider final : public ipc::Provider {
 public:
  BackendKind kind() const noexcept override { return BackendKind::cuda; }

  ipc::Id gpu(int device) const override { return visible_gpus().at(static_cast<size_t>(device)); }

  std::optional<int> device_of(const void* pointer) const override {
    const std::optional<ExternalAllocation> foreign = ExternalAllocation::at(pointer);
    return foreign ? std::optional(foreign->require_shareable()) : std::nullopt;
  }

  int device_for(const ipc::Id& gpu, int asked) const override {
    const std::vector<Uuid>& visible = visible_gpus();
    if (asked >= 0) {
      if (static_cast<size_t>(asked) < visible.size()) return asked;
      throw Error(Status::invalid_argument, format("options.device: %d is not in 0 .. %zu", asked, visible.size() - 1));
    }
    for (size_t i = 0; i < visible.size(); ++i)
      if (visible[i] == gpu) return static_cast<int>(i);
    throw Error(Status::unavailable, format("token: the GPU that has this memory, %s, is not visible to this process; "
                                            "options.device can name another from which to reach it",
                                         text_of(gpu).c_str()));
  }

  std::shared_ptr<ShareableMemory> memory(int device) const override {
    return std::make_shared<DeviceMemory>(ipc_device(device));
  }

  void check_stream(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device);
    int status = 0;
    unsigned long long id = 0;
    const Driver& loaded = device->driver();
    loaded.require(
        loaded.cuStreamGetCaptureInfo(static_cast<CUstream>(stream), &status, &id), "cuStreamGetCaptureInfo", "stream");
    if (status != 0) {
      throw Error(Status::invalid_argument,
          "stream: is being captured; a token stands for one point in time, not for one of each replay");
    }
  }

  void finish(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device, ContextGuard::Capture::relaxed);
    device->driver().require(
        device->driver().cuStreamSynchronize(static_cast<CUstream>(stream)), "cuStreamSynchronize", "stream");
  }

  bool record_use(void* stream, int ordinal) const override { return ipc_device(ordinal)->record_use(stream); }

  void* stream_after(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device, ContextGuard::Capture::relaxed);
    return stream == kAllStreams ? device->after_everything() : device->after_recorded(static_cast<CUstream>(stream));
  }

  void keep_until_done(std::shared_ptr<void> held, int ordinal) const override {
    ipc_device(ordinal)->defer([held = std::move(held)] {});
  }

  std::unique_ptr<ipc::StreamWords> stream_words(
      std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words) const override {
    return std::make_unique<CudaStreamWords>(std::move(page), words);
  }
  bool outlives_its_writer() const noexcept override { return true; }
};
}  // namespace

const ipc::Provider& ipc_provider() {
  driver();
  static const auto* instance = new CudaProvider;
  return *instance;
}
}  // namespace symm::cuda
