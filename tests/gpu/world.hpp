// Ranks as threads of one process, each with a stream and a symmetric block, on the
// GPUs that there are (several on one if need be).
#pragma once

#include <cuda_runtime.h>

#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"
#include <symm/symm.hpp>

namespace gpu {
// An expectation of a test, or of a role's process, which has no test and tells by role_result()
// whether any failed.
inline void expect(bool ok, const std::string& what) { EXPECT_TRUE(ok) << what; }

// The devices, ranks and trials of the whole program, from the arguments of main.cpp.
struct Machine {
  int devices = 0;
  int ranks = 2;
  int trials = 1;
  bool alone = false;
};

inline Machine& machine() {
  static Machine instance;
  return instance;
}

// The work of a process that run_roles() has started, by the arguments of that process.
// Programs that start no processes do not define this function. In a program that defines
// it, the first process uses no device.
[[gnu::weak]] int role(const std::vector<std::string>& arguments);

inline int role_result() { return testing::UnitTest::GetInstance()->Passed() ? 0 : 1; }

// Runs this program anew in `size` processes, for each of which `prepare` sets the environment
// and returns the arguments. All must end well, except that process `gone` must be ended, or
// stopped, by `signal`.
inline void run_roles(int size, const std::function<std::vector<std::string>(int index)>& prepare,
    int gone = -1, int signal = SIGKILL) {
  constexpr int kLimit = 240'000;  // milliseconds
  support::Processes processes(size, [&](int index) {
    std::vector<std::string> arguments = prepare(index);
    arguments.insert(arguments.begin(), "role");
    support::run_again(arguments);
  });

  for (int index = 0; index < size; ++index) {
    if (index == gone && signal == SIGSTOP) continue;
    const int status = processes[index].wait(kLimit);
    const bool right =
        index == gone ? WIFSIGNALED(status) && WTERMSIG(status) == signal : status == 0;
    expect(right, "process " + std::to_string(index) + " ended with " + std::to_string(status) +
                      ": " + processes[index].said());
  }
}

[[noreturn]] inline void give_up(const std::string& what) {
  std::printf("cannot go on: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

inline void cuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess) give_up(std::string(what) + ": " + cudaGetErrorString(result));
}

inline void symm(symm_status_t status, const char* what) {
  if (status != SYMM_OK) {
    give_up(std::string(what) + ": " + symm_status_string(status) + ": " + symm_last_error());
  }
}

// Ends the process if `body` throws.
inline void or_give_up(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

// A stream that is made when it is used first: those of ranks that are threads and share a GPU take
// a hardware queue each, of which there are 32, and 8 ranks and the library have as many with it.
class StreamOnDemand {
 public:
  StreamOnDemand() = default;
  StreamOnDemand(const StreamOnDemand&) = delete;
  StreamOnDemand& operator=(const StreamOnDemand&) = delete;

  ~StreamOnDemand() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  operator cudaStream_t() const {  // NOLINT(google-explicit-constructor): it stands for the stream
    if (stream_ == nullptr) {
      cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    return stream_;
  }

  void wait() const {
    if (stream_ != nullptr) cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  mutable cudaStream_t stream_ = nullptr;
};

struct Rank {
  int rank = 0;
  int size = 0;
  ::symm::Group whole{};
  symm_group_t* group = nullptr;  // the handle of `whole`
  cudaStream_t stream = nullptr;
  StreamOnDemand second{};
  ::symm::Memory memory{};
  // kBlock bytes each: this rank's symmetric block, ordinary memory of the device, and pinned
  // memory of the host.
  char* block = nullptr;
  char* ordinary = nullptr;
  char* pinned = nullptr;

  static constexpr size_t kBlock = size_t{64} << 20;

  // Makes what a rank has without a group, on the current device.
  void set_up() {
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda(cudaMalloc(reinterpret_cast<void**>(&ordinary), kBlock), "cudaMalloc");
    cuda(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBlock), "cudaMallocHost");
  }

  int next() const { return (rank + 1) % size; }

  int last() const { return (rank + size - 1) % size; }

  void wait() const { cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

  // Copies go through pinned memory: a copy of pageable memory waits inside the driver, and
  // there it holds up the ranks that share its context and that its stream may be waiting for.
  void upload(void* to, const void* from, size_t bytes, cudaStream_t on) const {
    std::memcpy(pinned, from, bytes);
    cuda(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, on), "upload");
    cuda(cudaStreamSynchronize(on), "upload");
  }

  void download(void* to, const void* from, size_t bytes, cudaStream_t on) const {
    cuda(cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDefault, on), "download");
    cuda(cudaStreamSynchronize(on), "download");
    std::memcpy(to, pinned, bytes);
  }

  template <class T>
  void upload(void* to, const std::vector<T>& values) const {
    upload(to, values.data(), values.size() * sizeof(T), stream);
  }

  template <class T>
  std::vector<T> download(const void* from, size_t count) const {
    std::vector<T> host(count);
    download(host.data(), from, count * sizeof(T), stream);
    return host;
  }

  // Waits until all ranks are idle. Where ranks share a device, work of the driver on the whole
  // device (making a graph ready, for example) must not meet a kernel that waits for this rank.
  void settle(std::barrier<>& together) const {
    wait();
    second.wait();
    together.arrive_and_wait();
  }
};

inline std::string who(const Rank& rank, const std::string& what) {
  return what + ", rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.size);
}

// A graph of the work that `body` puts on a rank's stream, to be replayed there.
class Graph {
 public:
  Graph(const Rank& rank, const std::function<void()>& body) : stream_(rank.stream) {
    cudaGraph_t graph = nullptr;
    cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin capture");
    body();
    cuda(cudaStreamEndCapture(stream_, &graph), "end capture");
    cuda(cudaGraphInstantiate(&exec_, graph, 0), "instantiate");
    cuda(cudaGraphUpload(exec_, stream_), "upload of a graph");
    cudaGraphDestroy(graph);
  }

  ~Graph() { cudaGraphExecDestroy(exec_); }

  Graph(Graph&&) = delete;

  void replay() const { cuda(cudaGraphLaunch(exec_, stream_), "replay"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

inline size_t free_memory() {
  size_t available = 0;
  size_t total = 0;
  cuda(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return available;
}

inline void expect_free(size_t before, size_t slack = size_t{8} << 20) {
  const size_t after = free_memory();
  expect(after + slack >= before, "device memory comes back: " + std::to_string(before) +
                                      " bytes free before, " + std::to_string(after) + " after");
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline ::symm::Group form(int rank, int size, int device, const std::string& bootstrap,
    uint64_t timeout_ms, uint64_t flags = 0, const char* name = nullptr) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = device;
  config.bootstrap = bootstrap.c_str();
  config.name = name;
  config.create_timeout_ms = 60000;
  config.timeout_ms = timeout_ms;
  config.flags = flags | SYMM_GROUP_ON_DEVICE;
  return ::symm::Group::create(config);
}

// Runs `body` on every rank of a new group; ends the process if a rank cannot be set up.
inline void run_ranks(int size, const std::function<void(Rank&, std::barrier<>&)>& body,
    uint64_t timeout_ms = 20000, uint64_t flags = 0) {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (size > devices) flags |= SYMM_GROUP_OVERLAPPING_DEVICES;

  static std::atomic<int> number{0};
  const std::string bootstrap = "thread://gpu-test-" + std::to_string(number++);
  std::barrier<> together(size);
  support::as_threads(size, [&](int r) {
    cuda(cudaSetDevice(r % devices), "cudaSetDevice");

    Rank rank{r, size};
    rank.set_up();

    or_give_up([&] {
      rank.whole = form(r, size, r % devices, bootstrap, timeout_ms, flags);
      rank.memory = rank.whole.rendezvous(rank.whole.allocate(Rank::kBlock));
      rank.group = rank.whole.get();
      rank.block = rank.memory.span<char>().data();
      together.arrive_and_wait();
      body(rank, together);
      together.arrive_and_wait();
    });

    rank.memory.reset();
    rank.whole.reset();
    together.arrive_and_wait();

    cudaFree(rank.ordinary);
    cudaFreeHost(rank.pinned);
    cudaStreamDestroy(rank.stream);
  });
}

// Why a test of calls that are made of several kernels cannot run; "" if it can. Behind one
// hardware queue the second kernel of a rank, which waits for its first, holds up the first kernel
// of another rank, for which that first one waits. On one H200, 8 ranks come to that in one run of
// five.
inline std::string too_many_ranks_a_device() {
  constexpr int kMost = 4;
  if (machine().ranks <= kMost * machine().devices) return "";
  return std::to_string(machine().ranks) + " ranks share " + std::to_string(machine().devices) +
         " GPU: calls of several kernels need a hardware queue for each stream";
}
}  // namespace gpu
