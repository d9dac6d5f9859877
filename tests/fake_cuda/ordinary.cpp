// Memory of a device as cudaMalloc makes it, and the handles by which other processes open it. They
// are the maker's: nothing can be opened once it has freed the memory or is gone. What a process
// has open stays mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
constexpr CUresult kOwnHandle = 201;  // CUDA_ERROR_INVALID_CONTEXT

// What a handle says, and the number of the descriptor in the maker.
struct Handle {
  static constexpr uint64_t kMagic = 0x6C656761;
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  uint64_t id;
  uint64_t bytes;
  int32_t device;
  char unused[28];
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

std::string label_of(unsigned long long id) { return "fake_cuda.ordinary." + std::to_string(id); }

std::string path_of(int32_t pid, int32_t fd) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
}

// The driver numbers allocations, and never gives a number twice.
unsigned long long next_id() {
  static std::atomic<unsigned long long> last{0};
  return (static_cast<unsigned long long>(getpid()) << 32U) + ++last;
}

bool is_file_of(const Handle& handle) {
  char name[256] = {};
  const std::string path = path_of(handle.pid, handle.fd);
  if (readlink(path.c_str(), name, sizeof name - 1) <= 0) return false;
  return std::string(name).rfind("/memfd:" + label_of(handle.id) + " ", 0) == 0;
}

void* map_file(int fd, size_t bytes, CUdeviceptr near = 0) {
  void* const mapped =
      mmap(reinterpret_cast<void*>(near), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}
}  // namespace

std::map<CUdeviceptr, State::Ordinary>::iterator ordinary_at(CUdeviceptr address) {
  auto& all = state().ordinary;
  auto of = all.upper_bound(address);
  if (of == all.begin()) return all.end();
  --of;
  return address - of->first < of->second.bytes ? of : all.end();
}

void* ordinary_memory(size_t bytes, int device, bool has_handle) {
  const std::lock_guard lock(state().mutex);
  const unsigned long long id = next_id();
  const int fd = memfd_create(label_of(id).c_str(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::shared_ptr<const int> file = owned(fd);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const memory = map_file(fd, bytes, state().freed_ordinary);
  if (memory == nullptr) return nullptr;
  state().ordinary[reinterpret_cast<CUdeviceptr>(memory)] = {
      bytes, std::move(file), device, id, has_handle};
  return memory;
}

void free_ordinary(void* memory) {
  const std::lock_guard lock(state().mutex);
  const auto of = state().ordinary.find(reinterpret_cast<CUdeviceptr>(memory));
  if (of == state().ordinary.end()) return;
  munmap(memory, of->second.bytes);
  state().freed_ordinary = of->first;
  state().ordinary.erase(of);
}

API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  ENTER();
  const auto of = state().ordinary.find(address);
  if (of == state().ordinary.end() || of->second.opened != 0 || !of->second.has_handle) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const State::Ordinary& memory = of->second;
  const Handle handle{
      Handle::kMagic, getpid(), *memory.fd, memory.id, memory.bytes, number_of(memory.device), {}};
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

// A handle that is open is counted. The maker cannot open its own.
API cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle from, unsigned flags) {
  ENTER();
  Handle handle{};
  std::memcpy(&handle, &from, sizeof handle);
  if (handle.magic != Handle::kMagic || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handle.pid == getpid()) return kOwnHandle;
  for (auto& [start, memory] : state().ordinary) {
    if (memory.id != handle.id) continue;
    ++memory.opened;
    *address = start;
    return CUDA_SUCCESS;
  }

  const int fd = open(path_of(handle.pid, handle.fd).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<const int> file = owned(fd);
  if (!is_file_of(handle)) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = map_file(fd, handle.bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  state().ordinary[*address] = {handle.bytes, std::move(file), handle.device, handle.id, false, 1};
  return CUDA_SUCCESS;
}

API cuIpcCloseMemHandle(CUdeviceptr address) {
  wait_while_held();
  const std::lock_guard lock(state().mutex);
  const auto of = state().ordinary.find(address);
  if (of == state().ordinary.end() || of->second.opened == 0) return CUDA_ERROR_INVALID_VALUE;
  if (--of->second.opened != 0) return CUDA_SUCCESS;
  munmap(reinterpret_cast<void*>(address), of->second.bytes);
  state().ordinary.erase(of);
  return CUDA_SUCCESS;
}
}  // namespace fake_cuda
