#include "bench/experiments/raw.hpp"
#include <dlfcn.h>

namespace experiments {
void* driver_entry(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const entry = library != nullptr ? dlsym(library, name) : nullptr;
  if (entry == nullptr) gpu::give_up(std::string("no ") + name);
  return entry;
}

void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) gpu::give_up(std::string(call) + ": " + std::to_string(result));
}

SharedMemory::SharedMemory(size_t bytes) : bytes_(bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = 0;
  ANSWERS_CALL(cuMemCreate, &handle_, bytes, &prop, 0);
  address_ = map(handle_, bytes);
  allow(address_, bytes);
}

SharedMemory::SharedMemory(int fd, size_t bytes) : bytes_(bytes), handle_(import_handle(fd)), address_(map(handle_, bytes)) {
  allow(address_, bytes);
}

SharedMemory::~SharedMemory() {
  unmap(address_, bytes_);
  ANSWERS_CALL(cuMemRelease, handle_);
}

symm::Fd SharedMemory::exported() const {
  int fd = -1;
  ANSWERS_CALL(cuMemExportToShareableHandle, &fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return symm::Fd(fd);
}

CUmemGenericAllocationHandle SharedMemory::import_handle(int fd) {
  CUmemGenericAllocationHandle handle = 0;
  ANSWERS_CALL(cuMemImportFromShareableHandle, &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return handle;
}

CUdeviceptr SharedMemory::map(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr address = 0;
  ANSWERS_CALL(cuMemAddressReserve, &address, bytes, 0, 0, 0);
  ANSWERS_CALL(cuMemMap, address, bytes, 0, handle, 0);
  return address;
}

void SharedMemory::allow(CUdeviceptr address, size_t bytes) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  gpu::cuda(cudaGetDevice(&access.location.id), "cudaGetDevice");
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ANSWERS_CALL(cuMemSetAccess, address, bytes, &access, 1);
}

void SharedMemory::unmap(CUdeviceptr address, size_t bytes) {
  ANSWERS_CALL(cuMemUnmap, address, bytes);
  ANSWERS_CALL(cuMemAddressFree, address, bytes);
}

size_t settled_free_memory() {
  size_t last = gpu::free_memory();
  int same = 0;
  support::eventually(
      [&] {
        const size_t now = gpu::free_memory();
        same = now == last ? same + 1 : 0;
        last = now;
        return same == 10;
      },
      3'000, 10'000);
  return last;
}

bool memory_comes_back(size_t before) {
  return eventually([&] { return gpu::free_memory() + kSlack >= before; }, 5'000);
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::fabs(value) < 100 ? "%.2f" : "%.0f", value);
  return text;
}

std::string Figures::text() const {
  return "median " + text_of(quantile(0.5)) + ", p99 " + text_of(quantile(0.99)) + ", max " + text_of(quantile(1)) + " " + unit_ +
         ", " + std::to_string(values_.size()) + " trials";
}
}  // namespace experiments
