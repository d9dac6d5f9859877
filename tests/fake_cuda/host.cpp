// Memory that nothing was mapped for: of the host, and of a device as cudaMalloc makes it.
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
void* ordinary_memory(size_t bytes) {
  const std::lock_guard lock(state().mutex);
  void* memory = ::operator new(bytes);
  state().ordinary[reinterpret_cast<CUdeviceptr>(memory)] = bytes;
  return memory;
}
void free_ordinary(void* memory) {
  const std::lock_guard lock(state().mutex);
  state().ordinary.erase(reinterpret_cast<CUdeviceptr>(memory));
  ::operator delete(memory);
}

API cuMemHostAlloc(void** host, size_t bytes, unsigned) {
  MAY_FAIL();
  *host = ::operator new(bytes);
  const std::lock_guard lock(state().mutex);
  return state().host.insert(*host), CUDA_SUCCESS;
}
API cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned) {
  MAY_FAIL();
  return *address = reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS;
}
API cuMemFreeHost(void* host) {
  const std::lock_guard lock(state().mutex);
  if (state().host.erase(host) != 1) return CUDA_ERROR_INVALID_VALUE;
  return ::operator delete(host), CUDA_SUCCESS;
}
API cuMemHostRegister(void* host, size_t bytes, unsigned) {
  ENTER();
  return state().registered.emplace(host, bytes).second ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API cuMemHostUnregister(void* host) {
  const std::lock_guard lock(state().mutex);
  return state().registered.erase(host) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace fake_cuda
