// Reserved and mapped addresses, access to them, and what the driver says of an address.
#include <fcntl.h>
#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
constexpr size_t kPage = 4096;

// The start of the reservation that has all of a range, or 0. The mutex is held.
CUdeviceptr reservation_of(CUdeviceptr address, size_t bytes) {
  State& s = state();
  auto at = s.reservations.upper_bound(address);
  if (at == s.reservations.begin()) return 0;
  --at;
  return address - at->first < at->second && bytes <= at->second - (address - at->first) ? at->first
                                                                                         : 0;
}

bool is_mapped(CUdeviceptr address, size_t bytes) {
  const auto at = state().mappings.lower_bound(address);
  return mapping_at(address) != state().mappings.end() ||
         (at != state().mappings.end() && at->first < address + bytes);
}
}  // namespace

std::map<CUdeviceptr, State::Mapping>::iterator mapping_at(CUdeviceptr address) {
  State& s = state();
  auto at = s.mappings.upper_bound(address);
  if (at == s.mappings.begin()) return s.mappings.end();
  --at;
  return address - at->first < at->second.bytes ? at : s.mappings.end();
}

std::vector<std::pair<int, int>> access(const void* address) {
  const std::lock_guard lock(state().mutex);
  std::vector<std::pair<int, int>> all;
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return all;
  for (const CUmemLocation& location : state().access[at->first]) {
    all.emplace_back(location.type, location.id);
  }
  return all;
}

std::pair<int, int> location(const void* address) {
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return {0, 0};
  const CUmemLocation found = state().memories[at->second.handle].prop.location;
  return {found.type, found.id};
}

// All memory that the driver knows is of one kind.
API cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address) {
  ENTER();
  const auto of = ordinary_at(address);
  const bool is_known =
      of != state().ordinary.end() || mapping_at(address) != state().mappings.end();
  if (is_known && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  }
  if (of == state().ordinary.end()) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
    *static_cast<unsigned long long*>(value) = of->second.id;
  } else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
    *static_cast<unsigned*>(value) = 0;
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    *static_cast<int*>(value) = of->second.device;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

API cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  ENTER();
  if (const auto of = ordinary_at(address); of != state().ordinary.end()) {
    *base = of->first;
    *bytes = of->second.bytes;
    return CUDA_SUCCESS;
  }

  const auto at = mapping_at(address);
  if (at == state().mappings.end()) return CUDA_ERROR_INVALID_VALUE;

  if (state().ranges_are_reservations) {
    *base = reservation_of(at->first, at->second.bytes);
    *bytes = state().reservations[*base];
    return CUDA_SUCCESS;
  }

  *base = at->first;
  *bytes = at->second.bytes;
  return CUDA_SUCCESS;
}

API cuMemAddressReserve(
    CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long) {
  MAY_FAIL();
  void* whole = mmap(
      nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<uintptr_t>(whole);
  const size_t ahead = alignment == 0 ? 0 : (alignment - start % alignment) % alignment;
  void* at = reinterpret_cast<void*>(start + ahead);
  if (ahead != 0) munmap(whole, ahead);
  if (alignment != ahead) munmap(reinterpret_cast<void*>(start + ahead + bytes), alignment - ahead);
  *address = reinterpret_cast<CUdeviceptr>(at);
  const std::lock_guard lock(state().mutex);
  state().reservations[*address] = bytes;

  return CUDA_SUCCESS;
}

API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (is_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;  // must be unmapped first
  if (state().reservations.erase(address) != 1) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

API cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
    unsigned long long) {
  ENTER();
  const auto found = state().memories.find(handle);
  if (found == state().memories.end() || reservation_of(address, bytes) == 0 ||
      is_mapped(address, bytes) || bytes % kGranularity != 0 || bytes > found->second.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (const Team* const team = found->second.team) {
    if (state().reservations[address] != bytes || bytes != team->size) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (std::popcount(team->bound.load()) != static_cast<int>(team->devices)) {
      return violation("a multicast object is mapped before all have bound memory");
    }
  } else if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                 *found->second.fd, 0) == MAP_FAILED) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  ++found->second.mappings;
  state().mappings[address] = {bytes, handle};
  return CUDA_SUCCESS;
}

API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  wait_while_held();
  const std::lock_guard lock(state().mutex);
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end()) return CUDA_ERROR_INVALID_VALUE;

  const unsigned long long handle = at->second.handle;
  state().mappings.erase(at);
  state().access.erase(address);
  --state().memories[handle].mappings;
  forget_unused(handle);

  constexpr int kHidden = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, kHidden, -1, 0) == MAP_FAILED
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

// A test may do with memory of a device what the device may. The host may do so in memory of the
// host when that access was asked for, which cannot be asked for memory of a device.
API cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count) {
  ENTER();
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end() || at->second.bytes != bytes || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  constexpr CUresult kInvalidDevice = 101;
  const auto& memory = state().memories[at->second.handle];
  if (state().are_apart && !memory.created) return kInvalidDevice;

  const bool on_host = memory.prop.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  bool readable = !on_host;
  bool writable = true;

  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& to = desc[i].location;
    const bool reads = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
    if ((!reads && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
        (to.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && !on_host)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (to.type != CU_MEM_LOCATION_TYPE_HOST_NUMA &&
        (to.type != CU_MEM_LOCATION_TYPE_DEVICE || to.id < 0 || to.id >= state().devices.count)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    readable = readable || to.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    writable = writable && !reads;
    state().access[address].push_back(to);
  }

  if (!readable) return CUDA_SUCCESS;
  return mprotect(reinterpret_cast<void*>(address), bytes,
             writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Hands out a descriptor of the whole memory. It stays open
// over exec, unlike the descriptor that symm hands on.
API cuMemGetHandleForAddressRange(
    void* out, CUdeviceptr address, size_t bytes, int type, unsigned long long flags) {
  ENTER();
  const auto at = mapping_at(address);
  if (at == state().mappings.end() || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 ||
      bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (address % kPage != 0 || bytes % kPage != 0 ||
      bytes > at->second.bytes - (address - at->first)) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (state().memories[at->second.handle].prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }

  *static_cast<int*>(out) = fcntl(*state().memories[at->second.handle].fd, F_DUPFD, 0);
  return *static_cast<int*>(out) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
}  // namespace fake_cuda
