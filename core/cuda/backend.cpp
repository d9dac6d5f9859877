// The objects that the CUDA back end gives the rest of core: devices, memory, transports, and
// the provider of memory for tokens.
#include "core/cuda/backend.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/nccl_column.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/backend/topology.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/borrowed_allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/external_allocation.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast_choice.hpp"
#include "core/cuda/nvml.hpp"
#include "core/cuda/signal_pad.hpp"
#include "core/cuda/stream_words.hpp"
#include "core/cuda/transport.hpp"
#include "symm/symm.h"

namespace symm::cuda {
namespace {
std::string device_name(const Device& device) {
  char name[128] = {};
  device.driver().require(
      device.driver().cuDeviceGetName(name, sizeof name - 1, device.handle()), "cuDeviceGetName");
  return name;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  BackendKind kind() const noexcept override { return BackendKind::cuda; }

  int device() const noexcept override { return device_->ordinal(); }

  ShareableMemory& memory() noexcept override { return memory_; }

  size_t pad_bytes(int size, int channels) const noexcept override {
    return cuda::pad_bytes(size, channels);
  }

  std::unique_ptr<Transport> make_transport(TransportContext context) override {
    const auto name = [this] { return device_name(*device_); };
    const PlanValues values = table_.values(BackendKind::cuda, context.size, name);
    NcclColumn column = table_.nccl_column(BackendKind::cuda, context.size, name);
    return std::make_unique<CudaTransport>(std::move(context), device_, values, std::move(column));
  }

  std::string domain(std::string& why) const override {
    why = Allocation::fabric_reason(*device_);
    if (!why.empty()) return "";
    try {
      return domain_of(bus_of(device()));
    } catch (const Error& error) {
      why = error.what();
      return "";
    }
  }

 private:
  std::shared_ptr<Device> device_;
  DeviceMemory memory_{device_, Descriptor::close};
  PlanTable table_ = PlanTable::from_environment(BackendKind::cuda);
};
}  // namespace

std::string unavailable_reason() {
  if (const std::string reason = missing_kernels(); !reason.empty()) return reason;
  try {
    driver();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

int device_count() {
  int devices = 0;
  driver().require(driver().cuDeviceGetCount(&devices), "cuDeviceGetCount");
  return devices;
}

std::shared_ptr<Backend> open(int device, int local_rank) {
  auto opened = Device::open(device < 0 ? local_rank % device_count() : device);
  if (opened->attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0 ||
      opened->attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0) {
    throw Error(Status::unavailable,
        format(
            "device %d has no virtual memory management with file descriptors", opened->ordinal()));
  }
  return std::make_shared<CudaBackend>(std::move(opened));
}

symm_device_info_t device_info(int device) {
  const auto opened = Device::open(device);
  const Driver& driver = opened->driver();

  symm_device_info_t info{};
  info.backend = SYMM_BACKEND_CUDA;
  info.device = device;
  info.compute_units = opened->multiprocessors();
  write_text(info.name, device_name(*opened));
  write_text(info.uuid, text_of(opened->uuid()));
  size_t bytes = 0;
  driver.require(driver.cuDeviceTotalMem(&bytes, opened->handle()), "cuDeviceTotalMem");
  info.memory_bytes = bytes;

  const auto set = [](int32_t& available, auto& field, const std::string& reason) {
    available = reason.empty() ? 1 : 0;
    write_text(field, reason);
  };
  set(info.multicast, info.multicast_reason,
      why_no_multicast(multicast_facts(*opened, MulticastWish::none, environment)));
  set(info.fabric, info.fabric_reason, Allocation::fabric_reason(*opened));
  set(info.dmabuf, info.dmabuf_reason, Allocation::dmabuf_reason(*opened));
  set(info.host_memory, info.host_memory_reason, Allocation::host_memory_reason(*opened));
  info.numa_node = Allocation::node_of(*opened);
  return info;
}

std::string bus_of(int ordinal) {
  const Driver& loaded = driver();
  CUdevice device = 0;
  char bus[32] = {};
  loaded.require(loaded.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  loaded.require(loaded.cuDeviceGetPCIBusId(bus, sizeof bus, device), "cuDeviceGetPCIBusId");
  return bus;
}

Links links_of_buses(const std::vector<std::string>& buses) {
  // A single device has no links to others.
  const auto count = static_cast<int>(buses.size());
  if (count < 2) return {count, std::vector<int32_t>(buses.size())};
  return links_between(links_of(buses));
}

Links links() {
  std::vector<std::string> buses;
  for (int i = 0; i < device_count(); ++i) {
    buses.push_back(bus_of(i));
  }
  return links_of_buses(buses);
}

const std::vector<Uuid>& visible_gpus() {
  static const auto* all = [] {
    std::vector<Uuid> found;
    const Driver& loaded = driver();

    for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
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

namespace {
class CudaProvider final : public ipc::Provider {
 public:
  BackendKind kind() const noexcept override { return BackendKind::cuda; }

  ipc::Id gpu(int device) const override { return visible_gpus().at(static_cast<size_t>(device)); }

  std::optional<int> device_of(const void* pointer) const override {
    const std::optional<ExternalAllocation> foreign = ExternalAllocation::at(pointer);
    return foreign ? std::optional(foreign->require_shareable())
                   : BorrowedAllocation::device_of(pointer);
  }

  int device_for(const ipc::Id& gpu, int asked) const override {
    const std::vector<Uuid>& visible = visible_gpus();
    if (asked >= 0) {
      if (static_cast<size_t>(asked) < visible.size()) return asked;
      throw Error(Status::invalid_argument,
          format("options.device: %d is not in 0 .. %zu", asked, visible.size() - 1));
    }

    for (size_t i = 0; i < visible.size(); ++i) {
      if (visible[i] == gpu) return static_cast<int>(i);
    }
    throw Error(Status::unavailable,
        format("token: the GPU that has this memory, %s, is not visible to this process; "
               "options.device can name another from which to reach it",
            text_of(gpu).c_str()));
  }

  std::shared_ptr<ShareableMemory> memory(int device) const override {
    return std::make_shared<DeviceMemory>(ipc_device(device), Descriptor::keep);
  }

  void check_stream(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device);
    if (device->uses().capture_of(static_cast<CUstream>(stream)) != 0) {
      throw Error(Status::invalid_argument,
          "stream: is being captured; a token stands for one point in time, not for one of each "
          "replay");
    }
  }

  void finish(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device, ContextGuard::Capture::relaxed);
    const Driver& loaded = device->driver();
    if (stream == kAllStreams) {
      return loaded.require(loaded.cuCtxSynchronize(), "cuCtxSynchronize");
    }
    loaded.require(
        loaded.cuStreamSynchronize(static_cast<CUstream>(stream)), "cuStreamSynchronize", "stream");
  }

  bool record_use(void* stream, int ordinal) const override {
    return ipc_device(ordinal)->record_use(stream);
  }

  void* stream_after(void* stream, int ordinal) const override {
    const std::shared_ptr<Device> device = ipc_device(ordinal);
    const ContextGuard current(*device, ContextGuard::Capture::relaxed);
    return stream == kAllStreams ? device->after_everything()
                                 : device->after_recorded(static_cast<CUstream>(stream));
  }

  void keep_until_done(std::shared_ptr<void> held, int ordinal) const override {
    ipc_device(ordinal)->defer([held = std::move(held)] {});
  }

  std::unique_ptr<ipc::StreamWords> stream_words(
      std::shared_ptr<host::Segment> page, std::span<std::atomic<uint64_t>> words) const override {
    return std::make_unique<CudaStreamWords>(std::move(page), words);
  }

  void copy_pieces(void*, const void*, const PieceCopy&, int, void*) const override {
    throw Error(Status::unsupported, "ipc: pieces of a GPU's memory are copied within groups only");
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
