// Memory by handle, which is made, shared by file descriptors and released; and memory of the
// host.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
// The name of a memory's file says where the memory lies, so that another process that
// is given the descriptor knows it too.
std::string label_of(const CUmemAllocationProp& prop) {
  return "fake_cuda." + std::to_string(prop.location.type) + "." + std::to_string(prop.location.id);
}

CUmemLocation location_of(int fd) {
  char name[256] = {};
  CUmemLocation location{};
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) <= 0) {
    return {};
  }
  return std::sscanf(name, "/memfd:fake_cuda.%d.%d", &location.type, &location.id) == 2
             ? location
             : CUmemLocation{};
}

// A fabric handle, by which another process finds memory: the process that has it, and
// the number of its descriptor there.
struct Fabric {
  static constexpr uint64_t kMagic = 0x66616272;
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  char unused[48];
};

static_assert(sizeof(Fabric) == 64);

constexpr CUresult kNotPermitted = 800;
}  // namespace

std::shared_ptr<const int> owned(int fd) {
  return {new int(fd), [](const int* one) {
            close(*one);
            delete one;
          }};
}

long fabric_imports() {
  const std::lock_guard lock(state().mutex);
  return state().fabric_imports;
}

void forget_unused(unsigned long long handle) {
  const auto found = state().memories.find(handle);
  const State::Memory& memory = found->second;
  if (memory.references != 0 || memory.mappings != 0 || !memory.bound.empty()) return;
  if (memory.team != nullptr) munmap(memory.team, sizeof(Team));
  state().memories.erase(found);
}

API cuMemGetAllocationGranularity(size_t* unit, const CUmemAllocationProp*, int) {
  MAY_FAIL();
  *unit = kGranularity;
  return CUDA_SUCCESS;
}

API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
    unsigned long long) {
  MAY_FAIL();
  while (state().making) {
    usleep(100);
  }
  const bool on_host = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  const int places = on_host ? kNodes : state().devices.count;
  if (bytes % kGranularity != 0 ||
      (!on_host && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) ||
      prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (prop->location.id < 0 || prop->location.id >= places) return CUDA_ERROR_INVALID_VALUE;
  if (on_host && prop->allocFlags.gpuDirectRDMACapable != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0 && !state().fabric_create) {
    return kNotPermitted;
  }

  const size_t most = state().memory_bytes;
  if (most != 0 && bytes_in_use() + bytes > most) return CUDA_ERROR_OUT_OF_MEMORY;

  const int fd = memfd_create(label_of(*prop).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(state().mutex);
  *handle = ++state().next;
  state().memories[*handle] = {owned(fd), bytes, *prop, 1, 0, nullptr, true};

  return CUDA_SUCCESS;
}

API cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().memories.find(handle);
  if (found == state().memories.end()) return CUDA_ERROR_INVALID_VALUE;

  State::Memory& memory = found->second;
  if (memory.references == 0) {
    return memory.team == nullptr ? CUDA_ERROR_INVALID_VALUE
                                  : violation("a multicast object is released twice");
  }

  if (memory.created && memory.team != nullptr) memory.team->creator_has_gone = 1;
  if (!memory.bound.empty()) violation("a multicast object is released before it is unbound");

  const bool is_last = --memory.references == 0;
  if (is_last && is_bound(handle)) violation("memory is released before it is unbound");

  if (is_last && memory.team != nullptr && memory.mappings != 0) {
    violation("a multicast object is released while it is mapped");
  }

  forget_unused(handle);
  return CUDA_SUCCESS;
}

API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  ENTER();
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  ++state().memories[at->second.handle].references;
  *handle = at->second.handle;
  return CUDA_SUCCESS;
}

API cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  ENTER();
  if (!state().memories.contains(handle)) return CUDA_ERROR_INVALID_VALUE;
  *prop = state().memories[handle].prop;
  return CUDA_SUCCESS;
}

API cuMemExportToShareableHandle(
    void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long) {
  ENTER();
  const auto found = state().memories.find(handle);
  if (found == state().memories.end() || (found->second.prop.requestedHandleTypes & type) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    const uint64_t magic = state().fabric_forged ? ~Fabric::kMagic : Fabric::kMagic;
    *static_cast<Fabric*>(out) = {magic, getpid(), *found->second.fd, {}};
    return CUDA_SUCCESS;
  }

  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(out) = fcntl(*found->second.fd, F_DUPFD_CLOEXEC, 0);
  return *static_cast<int*>(out) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* fd, int type) {
  MAY_FAIL();
  int copy = -1;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    if (!state().fabric_import) return kNotPermitted;
    const auto& fabric = *static_cast<const Fabric*>(fd);
    if (fabric.magic != Fabric::kMagic) return CUDA_ERROR_INVALID_VALUE;
    copy =
        open(("/proc/" + std::to_string(fabric.pid) + "/fd/" + std::to_string(fabric.fd)).c_str(),
            O_RDWR | O_CLOEXEC);
    const std::lock_guard lock(state().mutex);
    ++state().fabric_imports;
  } else if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    copy = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(fd)), F_DUPFD_CLOEXEC, 0);
  }

  struct stat status{};
  if (copy < 0 || fstat(copy, &status) != 0) return CUDA_ERROR_INVALID_VALUE;

  // As on an H200 (2026-11-30), where no handle is exported of what was imported.
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = 0;
  if (status.st_size == static_cast<off_t>(sizeof(Team))) {
    const std::lock_guard lock(state().mutex);
    return import_object(*handle = ++state().next, copy);
  }

  prop.location = location_of(copy);
  if (prop.location.type == 0) {
    close(copy);
    return CUDA_ERROR_INVALID_VALUE;
  }

  const std::lock_guard lock(state().mutex);
  std::weak_ptr<const int>& known = state().files[status.st_ino];
  std::shared_ptr<const int> file = owned(copy);
  if (const auto before = known.lock()) {
    file = before;
  } else {
    known = file;
  }
  *handle = ++state().next;
  state().memories[*handle] = {std::move(file), static_cast<size_t>(status.st_size), prop, 1};
  return CUDA_SUCCESS;
}

// ---- memory of the host

API cuMemHostAlloc(void** host, size_t bytes, unsigned) {
  MAY_FAIL();
  *host = ::operator new(bytes);
  const std::lock_guard lock(state().mutex);
  state().host.insert(*host);
  return CUDA_SUCCESS;
}

API cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned) {
  MAY_FAIL();
  *address = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

API cuMemFreeHost(void* host) {
  const std::lock_guard lock(state().mutex);
  if (state().host.erase(host) != 1) return CUDA_ERROR_INVALID_VALUE;
  ::operator delete(host);
  return CUDA_SUCCESS;
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
