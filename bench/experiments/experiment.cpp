#include "bench/experiments/experiment.hpp"
#include <dlfcn.h>
#include <poll.h>
#include "core/socket/fdpass.hpp"

namespace experiments {
bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

void send_message(int socket, int fd) {
  constexpr std::byte kSomething{1};
  symm::fdpass::send(socket, {&kSomething, 1}, {&fd, fd < 0 ? 0U : 1U});
}

std::optional<symm::Fd> receive_message(int socket) {
  if (!eventually([&] { return is_readable(socket); }, 20'000)) gpu::give_up("a process does not answer");
  std::byte something{};
  symm::fdpass::Received got = symm::fdpass::receive(socket, {&something, 1});
  if (got.what != symm::fdpass::Received::What::packet) return std::nullopt;
  return got.fds.empty() ? symm::Fd() : std::move(got.fds[0]);
}

symm::Fd expect_message(int socket, const char* what) {
  std::optional<symm::Fd> fd = receive_message(socket);
  if (!fd) gpu::give_up(std::string("a process ended before its time: ") + what);
  return std::move(*fd);
}

Child::Child(const char* role, long argument) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) gpu::give_up("socketpair");
  socket_ = symm::Fd(pair[0]);
  const symm::Fd theirs(pair[1]);
  process_.emplace([&] {
    // A descriptor that is 3 already would keep its close-on-exec flag.
    if ((theirs.get() == kSocket ? fcntl(kSocket, F_SETFD, 0) : dup2(theirs.get(), kSocket)) < 0) std::_Exit(126);
    syscall(SYS_close_range, kSocket + 1, ~0U, 0);
    support::run_again({"role", role, std::to_string(argument)});
  });
  pidfd_ = symm::Fd(static_cast<int>(syscall(SYS_pidfd_open, process_->pid(), 0)));
  if (!pidfd_) gpu::give_up("pidfd_open");
}

void Child::await_death() const {
  if (!eventually([&] { return is_readable(pidfd()); })) gpu::give_up("a killed process does not end");
}

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
