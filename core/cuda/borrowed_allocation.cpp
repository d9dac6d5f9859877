// Makes, seals, reads and opens the handles of memory of cudaMalloc.
#include "core/cuda/borrowed_allocation.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/memfd.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

// What the file has.
struct HandleFile {
  static constexpr uint64_t kMagic = 0x48504953594D4D53;  // "SMMYSIPH"
  uint64_t magic;
  uint64_t bytes;
  CUipcMemHandle handle;
};
static_assert(sizeof(HandleFile) == 80);

Fd seal(const HandleFile& file) {
  Fd fd = make_memfd("symm-ipc-handle");
  if (!fd) throw system_error(errno, "memfd_create", "the handle of memory of cudaMalloc");
  if (!write_whole(fd.get(), &file, sizeof file)) {
    throw system_error(errno, "write", "the handle of memory of cudaMalloc");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw system_error(errno, "fcntl(F_ADD_SEALS)", "the handle of memory of cudaMalloc");
  }
  return fd;
}

std::optional<HandleFile> read_file(const Fd& fd) {
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(sizeof(HandleFile))) {
    return std::nullopt;
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  HandleFile file{};
  const ssize_t got = pread(fd.get(), &file, sizeof file, 0);
  if (got != static_cast<ssize_t>(sizeof file) || file.magic != HandleFile::kMagic) {
    return std::nullopt;
  }
  return file;
}

// Throws Error(unavailable) if the driver has no such handles.
void require_handles(const Driver& driver) {
  for (const char* call : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle"}) {
    const std::string missing = driver.without(call);
    if (missing.empty()) continue;
    throw Error(Status::unavailable, "memory of cudaMalloc cannot be shared: " + missing);
  }
}

// A fact that the driver knows of an address; nothing if it does not know the address. Facts of all
// widths begin with their low bytes.
std::optional<uint64_t> fact(int attribute, CUdeviceptr address) {
  constexpr CUresult kUnknownAddress = 1;  // CUDA_ERROR_INVALID_VALUE
  uint64_t value = 0;
  const CUresult result = driver().cuPointerGetAttribute(&value, attribute, address);
  if (result == kUnknownAddress) return std::nullopt;
  driver().require(result, "cuPointerGetAttribute", "pointer");
  return value;
}
}  // namespace

std::optional<int> BorrowedAllocation::device_of(const void* pointer) {
  const CUdeviceptr address = address_of(pointer);
  if (fact(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CU_MEMORYTYPE_DEVICE) return std::nullopt;
  const std::optional<uint64_t> managed = fact(CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (!managed || (*managed & 0xFF) != 0) return std::nullopt;
  const std::optional<uint64_t> device = fact(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  return device ? std::optional(static_cast<int>(*device)) : std::nullopt;
}

std::shared_ptr<BorrowedAllocation> BorrowedAllocation::around(
    const std::shared_ptr<Device>& device, const void* pointer) {
  const Driver& loaded = device->driver();
  require_handles(loaded);
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  loaded.require(loaded.cuMemGetAddressRange(&base, &bytes, address_of(pointer)),
      "cuMemGetAddressRange", "pointer");

  HandleFile file{HandleFile::kMagic, bytes, {}};
  const CUresult result = loaded.cuIpcGetMemHandle(&file.handle, base);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) loaded.require(result, "cuIpcGetMemHandle");
  if (result != CUDA_SUCCESS) {
    throw Error(Status::invalid_argument,
        format("pointer: %p lies in memory that cannot be shared, as that of a pool "
               "(cudaMallocAsync) and what another process has shared: cuIpcGetMemHandle: %s",
            pointer, loaded.text(result).c_str()));
  }

  const std::optional<uint64_t> id = fact(CU_POINTER_ATTRIBUTE_BUFFER_ID, base);
  if (!id) throw Error(Status::invalid_argument, "pointer: its memory was freed meanwhile");
  std::shared_ptr<BorrowedAllocation> found(new BorrowedAllocation(device, seal(file), bytes));
  found->address_ = base;
  found->id_ = *id;
  return found;
}

bool BorrowedAllocation::has_handle(const Fd& fd) { return read_file(fd).has_value(); }

std::shared_ptr<BorrowedAllocation> BorrowedAllocation::import(
    const std::shared_ptr<Device>& device, Fd fd, const BlockExtent& extent, Access access) {
  if (access == Access::read_only) {
    throw Error(Status::unsupported,
        "options.flags: the memory is of cudaMalloc, and the driver maps that for writing, too");
  }
  const std::optional<HandleFile> file = read_file(fd);
  if (!file || file->bytes != extent.bytes || extent.mapped != extent.bytes) {
    throw Error(Status::peer_failed, "a peer sent another handle of its memory than it says");
  }

  const Driver& loaded = device->driver();
  require_handles(loaded);
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  std::shared_ptr<BorrowedAllocation> made(
      new BorrowedAllocation(device, std::move(fd), extent.bytes));
  made->is_imported_ = true;
  loaded.require(
      loaded.cuIpcOpenMemHandle(&made->address_, file->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
      "cuIpcOpenMemHandle", [&] {
        return format("%lu bytes of cudaMalloc into device %d", extent.bytes, device->ordinal());
      });
  return made;
}

// The driver counts how often this process has opened the handle.
BorrowedAllocation::~BorrowedAllocation() {
  if (!is_imported_ || address_ == 0) return;
  device_->defer(
      [&loaded = device_->driver(), address = address_] { loaded.cuIpcCloseMemHandle(address); },
      all_uses_recorded());
}

bool BorrowedAllocation::still_at_owner() const noexcept {
  unsigned long long id = 0;
  return !is_imported_ &&
         device_->driver().cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address_) ==
             CUDA_SUCCESS &&
         id == id_;
}
}  // namespace symm::cuda
