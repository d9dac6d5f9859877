// What the questions have in common: processes that can be killed, each of which is this program run anew, so that nobody
// inherits a context or a descriptor of the driver; the driver without symm, its calls found at run time; and figures.
#pragma once

#include <cuda.h>
#include "core/base/fd.hpp"
#include "tests/gpu/world.hpp"
#include "tools/bench/quantile.hpp"

namespace experiments {
// With 1 or 2 GPUs.
void exporter_killed(int gpus);
void unread_descriptor(int gpus);
void aborted_group(int gpus);
void killed_imports(int gpus);

void exporter_role(long value);   // makes memory filled with a value, hands out its descriptor, waits
void importer_role(long device);  // imports, maps, allows, unmaps in a loop until it is killed

using Clock = std::chrono::steady_clock;
inline double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Looks every 50 us; false when the time, in milliseconds, is over.
inline bool eventually(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 50); }
// The same without a pause between looks.
inline bool soon(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 0); }

// A message, with a descriptor or without.
void send_message(int socket, int fd = -1);
// Nothing if the other end is closed; gives up after 20 seconds.
std::optional<symm::Fd> receive_message(int socket);
// As above, and gives up if the other end is closed.
symm::Fd expect_message(int socket, const char* what);
bool is_readable(int fd);

// In the process of a role: its end of the socket.
inline constexpr int kSocket = 3;

// A process that plays a role, with one end of a socket.
class Child {
 public:
  Child(const char* role, long argument);
  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  void close_socket() { socket_.reset(); }
  void kill() const { process_->kill(SIGKILL); }
  // Waits until its pidfd says that it is gone; gives up after 10 seconds.
  void await_death() const;
 private:
  symm::Fd socket_, pidfd_;
  std::optional<support::Process> process_;
};

void* driver_entry(const char* name);
void require(CUresult result, const char* call);

// The header's macros give each call the version it declares.
#define ANSWERS_TEXT_OF(text) #text
#define ANSWERS_TEXT(name) ANSWERS_TEXT_OF(name)
#define ANSWERS_CALL(name, ...) \
  ::experiments::require(reinterpret_cast<decltype(&name)>(::experiments::driver_entry(ANSWERS_TEXT(name)))(__VA_ARGS__), #name)

// A context on the device, made current.
inline void use_device(int device) {
  gpu::cuda(cudaSetDevice(device), "cudaSetDevice");
  gpu::cuda(cudaFree(nullptr), "a context");
}

// An allocation that goes by file descriptor, made here or imported, mapped for the current device.
class SharedMemory {
 public:
  // On device 0; of a multiple of 2 MiB.
  explicit SharedMemory(size_t bytes);
  // Leaves `fd` open.
  SharedMemory(int fd, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  symm::Fd exported() const;
  CUdeviceptr address() const { return address_; }
  unsigned* words() const { return reinterpret_cast<unsigned*>(address_); }

  // The steps, for those who want to be killed within one.
  static CUmemGenericAllocationHandle import_handle(int fd);
  static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes);
  static void allow(CUdeviceptr address, size_t bytes);
  static void unmap(CUdeviceptr address, size_t bytes);
 private:
  size_t bytes_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
};

// Words that host and kernels share; zero at first.
template <class T> class Mapped {
 public:
  Mapped() {
    void* made = nullptr;
    gpu::cuda(cudaHostAlloc(&made, sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    value_ = new (made) T{};
  }
  ~Mapped() { cudaFreeHost(value_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  T* operator->() const { return value_; }
  T* get() const { return value_; }
 private:
  T* value_;
};
template <class T> T look(const T& word) {
  T value;
  __atomic_load(&word, &value, __ATOMIC_ACQUIRE);
  return value;
}
inline void put(unsigned& word, unsigned value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  gpu::cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

// Free memory of the current device when it has stopped changing (contexts come and go).
size_t settled_free_memory();
bool memory_comes_back(size_t before);
inline constexpr size_t kSlack = size_t{32} << 20;

inline void answer(const std::string& question, const std::string& figure) {
  std::printf("answer: %s: %s\n", question.c_str(), figure.c_str());
}
std::string text_of(double value);

class Figures {
 public:
  explicit Figures(const char* unit = "us") : unit_(unit) {}
  void add(double value) { values_.push_back(value); }
  double quantile(double part) const { return symm::tool::quantile(values_, part); }
  std::string text() const;
  void print(const std::string& question) const { answer(question, text()); }
 private:
  const char* unit_;
  std::vector<double> values_;
};
}  // namespace experiments
