#include "core/cuda/backend.hpp"
#include "core/cuda/nvml.hpp"
#include "core/cuda/transport.hpp"

namespace symm::cuda {
namespace {
std::string name_of(const Device& device) {
  char name[128] = {};
  device.driver().require(device.driver().cuDeviceGetName(name, sizeof name - 1, device.handle()), "cuDeviceGetName");
  return name;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  BackendKind kind() const noexcept override { return BackendKind::cuda; }
  int device() const noexcept override { return device_->ordinal(); }
  ShareableMemory& memory() noexcept override { return memory_; }

  size_t pad_bytes(int size, int channels) const noexcept override { return cuda::pad_bytes(size, channels); }

  std::unique_ptr<Transport> make_transport(TransportContext context) override {
    auto [device, values] = parts(context.size);
    return std::make_unique<CudaTransport>(std::move(context), std::move(device), values);
  }
  Parts parts(int size) const {
    return {device_, table_.values(BackendKind::cuda, size, [this] { return name_of(*device_); })};
  }
 private:
  std::shared_ptr<Device> device_;
  DeviceMemory memory_{device_};
  PlanTable table_ = PlanTable::from_environment(BackendKind::cuda);
};
}  // namespace

std::string unavailable_reason() {
  if (const std::string reason = missing_kernels(); !reason.empty()) return reason;
  try {
    driver();
  } catch (const Error& error) { return error.what(); }
  return "";
}

Parts parts_of(Backend& backend, int size) { return static_cast<CudaBackend&>(backend).parts(size); }

int device_count() {
  int devices = 0;
  driver().require(driver().cuDeviceGetCount(&devices), "cuDeviceGetCount");
  return devices;
}

std::shared_ptr<Backend> open(int device, int local_rank) {
  auto opened = Device::open(device < 0 ? local_rank % device_count() : device);
  if (opened->attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0 ||
      opened->attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0) {
    throw Error(
        Status::unavailable, format("device %d has no virtual memory management with file descriptors", opened->ordinal()));
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
  write_text(info.name, name_of(*opened));
  write_text(info.uuid, text_of(opened->uuid()));
  size_t bytes = 0;
  driver.require(driver.cuDeviceTotalMem(&bytes, opened->handle()), "cuDeviceTotalMem");
  info.memory_bytes = bytes;
  const auto set = [](int32_t& available, auto& field, const std::string& reason) {
    available = reason.empty() ? 1 : 0;
    write_text(field, reason);
  };
  set(info.multicast, info.multicast_reason, why_no_multicast(multicast_facts(*opened, false, environment)));
  set(info.fabric, info.fabric_reason, Allocation::fabric_reason(*opened));
  set(info.dmabuf, info.dmabuf_reason, Allocation::dmabuf_reason(*opened));
  set(info.host_memory, info.host_memory_reason, Allocation::host_memory_reason(*opened));
  info.numa_node = Allocation::node_of(*opened);
  return info;
}

Links links() {
  const Driver& loaded = driver();
  const int devices = device_count();
  if (devices < 2) return {devices, std::vector<int32_t>(static_cast<size_t>(devices))};  // nothing to ask
  std::vector<std::string> buses;
  for (int i = 0; i < devices; ++i) {
    CUdevice device = 0;
    char bus[32] = {};
    loaded.require(loaded.cuDeviceGet(&device, i), "cuDeviceGet");
    loaded.require(loaded.cuDeviceGetPCIBusId(bus, sizeof bus, device), "cuDeviceGetPCIBusId");
    buses.emplace_back(bus);
  }
  return links_between(links_of(buses));
}
}  // namespace symm::cuda
