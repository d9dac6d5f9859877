// Multicast objects.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
// This granularity differs from that of memory, so that a caller must ask for it.
constexpr size_t kMulticastGranularity = size_t{4} << 20;

Team* map_team(int fd) {
  void* at = mmap(nullptr, sizeof(Team), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Team*>(at);
}

// Keeps the handle of this process of a multicast object.
CUresult keep(unsigned long long handle, int fd, Team* team, bool created) {
  CUmemAllocationProp prop{};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  state().memories[handle] = {owned(fd), team->size, prop, 1, 0, team, created};
  return CUDA_SUCCESS;
}

// The multicast object of a handle, or null if the handle has none.
State::Memory* object_of(CUmemGenericAllocationHandle handle) {
  const auto found = state().memories.find(handle);
  return found == state().memories.end() || found->second.team == nullptr ? nullptr
                                                                          : &found->second;
}
}  // namespace

CUresult import_object(unsigned long long handle, int fd) {
  Team* team = map_team(fd);
  if (team == nullptr || team->magic != Team::kMagic) return CUDA_ERROR_INVALID_VALUE;
  // The real driver would make a fresh object, in
  // which the importer waits for the others for ever.
  if (team->creator_has_gone != 0) {
    return violation("a multicast object is imported that its creator has let go of");
  }
  return keep(handle, fd, team, false);
}

bool is_bound(unsigned long long memory) {
  for (const auto& [handle, object] : state().memories) {
    for (const auto& [device, part] : object.bound) {
      if (part.second == memory) return true;
    }
  }
  return false;
}

long multicast_calls() {
  const std::lock_guard lock(state().mutex);
  return state().multicast_calls;
}

#define MULTICAST_CALL()                     \
  const std::lock_guard lock(state().mutex); \
  ++state().multicast_calls;                 \
  MAY_FAIL()

API cuMulticastGetGranularity(size_t* unit, const CUmulticastObjectProp* prop, int which) {
  MULTICAST_CALL();
  if (prop->numDevices < 2 || prop->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *unit = which == CU_MULTICAST_GRANULARITY_MINIMUM ? kMulticastGranularity
                                                    : 256 * kMulticastGranularity;
  return CUDA_SUCCESS;
}

API cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* prop) {
  MULTICAST_CALL();
  if (prop->numDevices < 2 || prop->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      prop->size == 0 || prop->size % kMulticastGranularity != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  const int fd = memfd_create("fake_multicast", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Team)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;

  Team* team = map_team(fd);
  if (team == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;

  team->magic = Team::kMagic;
  team->size = prop->size;
  team->devices = prop->numDevices;
  return keep(*handle = ++state().next, fd, team, true);
}

API cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  MULTICAST_CALL();
  const State::Memory* const object = object_of(handle);
  if (object == nullptr) return violation("a device joins no multicast object");
  Team& team = *object->team;
  if (object->created) return violation("the creator joins by the handle that it created");
  const uint32_t bit = 1U << number_of(device);
  if ((team.added.fetch_or(bit) & bit) != 0) return violation("a device joins twice");
  if (std::popcount(team.added.load()) > static_cast<int>(team.devices)) {
    return violation("too many devices join");
  }
  return CUDA_SUCCESS;
}

API cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
    CUmemGenericAllocationHandle memory, size_t from, size_t bytes, unsigned long long flags) {
  MULTICAST_CALL();
  State::Memory* const object = object_of(handle);
  const auto part = state().memories.find(memory);
  if (object == nullptr || part == state().memories.end() || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  Team& team = *object->team;
  // The real driver waits for the other devices, here or for ever.
  if (std::popcount(team.added.load()) != static_cast<int>(team.devices)) {
    return violation("memory is bound before all devices have joined");
  }

  if (offset != 0 || from != 0 || bytes != team.size || bytes > part->second.bytes ||
      bytes % kMulticastGranularity != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }

  const CUdevice device = part->second.prop.location.id;
  const uint32_t bit = 1U << number_of(device);
  if ((team.added & bit) == 0) return violation("memory is bound of a device that has not joined");
  if ((team.bound.fetch_or(bit) & bit) != 0) return violation("memory of a device is bound twice");
  object->bound[device] = {bytes, memory};

  return CUDA_SUCCESS;
}

// Calls that release something are never made to fail.
API cuMulticastUnbind(
    CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  ++state().multicast_calls;
  State::Memory* const object = object_of(handle);

  if (object == nullptr || object->references == 0) {
    return violation("memory is unbound after the multicast object was released");
  }

  const auto part = object->bound.find(device);
  if (part == object->bound.end() || offset != 0 || bytes != part->second.first) {
    return violation("what is unbound is not what was bound");
  }

  if (object->mappings != 0) {
    return violation("memory is unbound before the multicast object is unmapped");
  }

  const auto memory = state().memories.find(part->second.second);
  if (memory == state().memories.end() || memory->second.references == 0) {
    return violation("memory is unbound after its release");
  }

  object->team->bound.fetch_and(~(1U << number_of(device)));
  object->bound.erase(part);
  return CUDA_SUCCESS;
}
}  // namespace fake_cuda
