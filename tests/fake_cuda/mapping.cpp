// SPDX-License-Identifier: Apache-2.0
//
// Addresses: reserved, mapped, who may touch them, and what the driver says of them.
#include <fcntl.h>
#include <sys/mman.h>

#include <bit>

#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {

constexpr size_t kPage = 4096;

// The start of the reservation that has all of a range, or 0; the mutex is held.
CUdeviceptr reservation_of(CUdeviceptr address, size_t bytes) {
  State& s = state();
  auto at = s.reservations.upper_bound(address);
  if (at == s.reservations.begin()) return 0;
  --at;
  return address - at->first < at->second && bytes <= at->second - (address - at->first) ? at->first : 0;
}

bool is_mapped(CUdeviceptr address, size_t bytes) {
  const auto at = state().mappings.lower_bound(address);
  return mapping_at(address) != state().mappings.end() || (at != state().mappings.end() && at->first < address + bytes);
}

}  // namespace

std::map<CUdeviceptr, State::Mapping>::iterator mapping_at(CUdeviceptr address) {
  State& s = state();
  auto at = s.mappings.upper_bound(address);
  if (at == s.mappings.begin()) return s.mappings.end();
  --at;
  return address - at->first < at->second.bytes ? at : s.mappings.end();
}

void name_reservations(bool whole) { state().ranges_are_reservations = whole; }
std::vector<std::pair<int, int>> access(const void* address) {
  const std::lock_guard lock(state().mutex);
  std::vector<std::pair<int, int>> all;
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return all;
  for (const CUmemLocation& location : state().access[at->first]) all.emplace_back(location.type, location.id);
  return all;
}
std::pair<int, int> location(const void* address) {
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return {0, 0};
  const CUmemLocation found = state().memories[at->second.handle].prop.location;
  return {found.type, found.id};
}

API cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (auto of = state().ordinary.upper_bound(address); of != state().ordinary.begin()) {
    --of;
    if (address - of->first < of->second) return *base = of->first, *bytes = of->second, kSuccess;
  }
  const auto at = mapping_at(address);
  if (at == state().mappings.end()) return kInvalidValue;
  if (state().ranges_are_reservations) {
    *base = reservation_of(at->first, at->second.bytes);
    return *bytes = state().reservations[*base], kSuccess;
  }
  return *base = at->first, *bytes = at->second.bytes, kSuccess;
}
API cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  MAY_FAIL();
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<CUdeviceptr>(at);
  const std::lock_guard lock(state().mutex);
  return state().reservations[*address] = bytes, kSuccess;
}
API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (is_mapped(address, bytes)) return kInvalidValue;  // must be unmapped first
  if (state().reservations.erase(address) != 1) return kInvalidValue;
  return munmap(reinterpret_cast<void*>(address), bytes), kSuccess;
}
API cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) {
    const Team& team = *object->second.team;
    if (state().reservations[address] != bytes || bytes != team.size) return kInvalidValue;
    if (std::popcount(team.bound.load()) != static_cast<int>(team.devices))
      return violation("a multicast object is mapped before all have bound memory");
    ++object->second.mappings;
    return state().mappings[address] = {bytes, handle}, kSuccess;
  }
  const auto found = state().memories.find(handle);
  if (found == state().memories.end() || reservation_of(address, bytes) == 0 || is_mapped(address, bytes) ||
      bytes % kGranularity != 0 || bytes > found->second.bytes)
    return kInvalidValue;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.fd, 0) == MAP_FAILED)
    return kInvalidValue;
  ++found->second.mappings;
  state().mappings[address] = {bytes, handle};
  return kSuccess;
}
API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end()) return kInvalidValue;
  const unsigned long long handle = at->second.handle;
  state().mappings.erase(at);
  state().access.erase(address);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) {
    --object->second.mappings;
  } else {
    --state().memories[handle].mappings;
    forget_unused(handle);
  }
  constexpr int kHidden = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, kHidden, -1, 0) == MAP_FAILED ? kInvalidValue : kSuccess;
}
// Memory of a device is the test's to look at. Memory of the host is there for the host when that was asked for, and it cannot be
// asked for memory of a device.
API cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end() || at->second.bytes != bytes || count == 0) return kInvalidValue;
  const bool on_host = state().memories[at->second.handle].prop.location.type == kOnHostNode;
  bool readable = !on_host;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& to = desc[i].location;
    if (desc[i].flags != kReadWrite || (to.type == kOnHostNode && !on_host)) return kInvalidValue;
    if (to.type != kOnHostNode && (to.type != kOnDevice || to.id < 0 || to.id >= state().devices)) return kInvalidValue;
    readable = readable || to.type == kOnHostNode;
    state().access[address].push_back(to);
  }
  if (!readable) return kSuccess;
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
// Hands out a descriptor of the whole memory that stays open over exec, unlike what symm hands on.
API cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t bytes, int type, unsigned long long flags) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(address);
  if (at == state().mappings.end() || type != kDmabufFd || flags != 0 || bytes == 0) return kInvalidValue;
  if (address % kPage != 0 || bytes % kPage != 0 || bytes > at->second.bytes - (address - at->first)) return kInvalidValue;
  if (state().memories[at->second.handle].prop.location.type != kOnDevice) return kNotSupported;
  *static_cast<int*>(out) = fcntl(state().memories[at->second.handle].fd, F_DUPFD, 0);
  return *static_cast<int*>(out) < 0 ? kOutOfMemory : kSuccess;
}

}  // namespace fake_cuda
