// What the fake CUDA driver saw, and its captures and streams, for programs that call by ctypes.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

extern "C" symm::cuda::CUresult cuStreamCreate(symm::cuda::CUstream* stream, unsigned flags);
extern "C" symm::cuda::CUresult cuEventCreate(symm::cuda::CUevent* event, unsigned flags);
extern "C" symm::cuda::CUresult cuEventDestroy(symm::cuda::CUevent event);
extern "C" symm::cuda::CUresult cuEventRecord(
    symm::cuda::CUevent event, symm::cuda::CUstream stream);
extern "C" symm::cuda::CUresult cuMemCreate(symm::cuda::CUmemGenericAllocationHandle* handle,
    size_t bytes, const symm::cuda::CUmemAllocationProp* prop, unsigned long long flags);
extern "C" symm::cuda::CUresult cuMemAddressReserve(symm::cuda::CUdeviceptr* address, size_t bytes,
    size_t alignment, symm::cuda::CUdeviceptr near, unsigned long long flags);
extern "C" symm::cuda::CUresult cuMemMap(symm::cuda::CUdeviceptr address, size_t bytes,
    size_t offset, symm::cuda::CUmemGenericAllocationHandle handle, unsigned long long flags);
extern "C" symm::cuda::CUresult cuMemSetAccess(symm::cuda::CUdeviceptr address, size_t bytes,
    const symm::cuda::CUmemAccessDesc* desc, size_t count);
extern "C" symm::cuda::CUresult cuStreamWaitEvent(
    symm::cuda::CUstream stream, symm::cuda::CUevent event, unsigned flags);

#define NOTES extern "C" __attribute__((visibility("default")))

// The collective kernels that were launched since the last call, each with its stream.
NOTES size_t notes_launches(char* text, size_t size) {
  std::string all;
  for (const fake_cuda::Launch& one : fake_cuda::launches()) {
    all += one.kernel + " " + std::to_string(reinterpret_cast<uintptr_t>(one.stream)) + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

// Pairs of streams since the last call: the first had to wait for the second.
NOTES size_t notes_waits(char* text, size_t size) {
  std::string all;
  for (const auto& [waiting, other] : fake_cuda::waits()) {
    all += std::to_string(reinterpret_cast<uintptr_t>(waiting)) + " " +
           std::to_string(reinterpret_cast<uintptr_t>(other)) + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

NOTES size_t notes_violations(char* text, size_t size) {
  std::string all;
  for (const std::string& one : fake_cuda::violations()) {
    all += one + "\n";
  }
  std::snprintf(text, size, "%s", all.c_str());
  return all.size();
}

// The factors that conversions have read since the last call, in the order in which they ran.
namespace {
std::mutex factors_mutex;
std::string factors;

const bool notes_conversions = [] {
  fake_cuda::carry_out("symm_convert", [](const void* arguments) {
    const uint64_t factor = static_cast<const symm::cuda::ConvertArgs*>(arguments)->pointer;
    return [factor] {
      if (factor == 0) return true;
      const std::lock_guard lock(factors_mutex);
      factors += std::to_string(*reinterpret_cast<const float*>(factor)) + "\n";
      return true;
    };
  });
  return true;
}();
}  // namespace
NOTES size_t notes_factors(char* text, size_t size) {
  const std::lock_guard lock(factors_mutex);
  std::snprintf(text, size, "%s", factors.c_str());
  return std::exchange(factors, "").size();
}

NOTES void* notes_stream() {
  symm::cuda::CUstream stream = nullptr;
  cuStreamCreate(&stream, 0);
  return stream;
}

// Whether all work on a stream is over. What waits goes on when the driver is asked.
NOTES int notes_idle(void* stream) { return fake_cuda::idle(stream) ? 1 : 0; }
NOTES void notes_begin_capture(void* stream) { fake_cuda::begin_capture(stream); }
NOTES void notes_end_capture(void* stream) { fake_cuda::end_capture(stream); }

// `stream` waits for `after`, and so joins its capture.
NOTES void notes_join(void* stream, void* after) {
  symm::cuda::CUevent event = nullptr;
  cuEventCreate(&event, 0);
  cuEventRecord(event, static_cast<symm::cuda::CUstream>(after));
  cuStreamWaitEvent(static_cast<symm::cuda::CUstream>(stream), event, 0);
  cuEventDestroy(event);
}

// Work that is under way until notes_let_go().
namespace {
std::atomic<bool> let_go{false};
}
NOTES void notes_hold(void* stream) {
  let_go = false;
  fake_cuda::enqueue(stream, [] { return let_go.load(); });
}
NOTES void notes_let_go() { let_go = true; }

// While it is 1, calls for streams and events do not return.
NOTES void notes_copy(int is_copying) { fake_cuda::settings().copying = is_copying != 0; }
// No memory is made from now on, and so no group comes about.
NOTES void notes_stop_memory() { fake_cuda::settings().making = true; }
NOTES void* notes_memory(size_t bytes) { return fake_cuda::ordinary_memory(bytes); }

// How often the primary contexts of devices have been retained without being released.
NOTES long notes_contexts() { return fake_cuda::live()["context"]; }
NOTES long notes_events() { return fake_cuda::live()["event"]; }
NOTES long notes_host_memory() { return fake_cuda::live()["host"]; }
NOTES long notes_mappings() { return fake_cuda::live()["mapping"]; }

// Memory as ncclMemAlloc() makes it.
NOTES void* notes_shared_memory(int device, size_t bytes) {
  symm::cuda::CUmemAllocationProp prop{};
  prop.type = symm::cuda::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = symm::cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location.type = symm::cuda::CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  symm::cuda::CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = symm::cuda::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  symm::cuda::CUmemGenericAllocationHandle handle = 0;
  symm::cuda::CUdeviceptr address = 0;
  const bool is_made = cuMemCreate(&handle, bytes, &prop, 0) == symm::cuda::CUDA_SUCCESS &&
                       cuMemAddressReserve(&address, bytes, 0, 0, 0) == symm::cuda::CUDA_SUCCESS &&
                       cuMemMap(address, bytes, 0, handle, 0) == symm::cuda::CUDA_SUCCESS &&
                       cuMemSetAccess(address, bytes, &access, 1) == symm::cuda::CUDA_SUCCESS;
  return is_made ? reinterpret_cast<void*>(address) : nullptr;
}
