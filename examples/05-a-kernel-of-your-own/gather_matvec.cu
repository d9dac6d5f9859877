// An all-gather fused into its consumer: y = A x, where every rank has some rows of A
// and a part of x. In one kernel each rank pushes its part of x to all others with a
// signal, and multiplies with each part as soon as it is there, its own first.
//   symm run -n 2 -- symm_gather_matvec
// Status 77: this machine has no GPU.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <symm/device.cuh>
#include <symm/symm.hpp>

namespace {
using symm::device::Memory;
using symm::device::Outcome;

constexpr int kPart = 1024;    // rows of A, and elements of x, on each rank
constexpr int kThreads = 256;  // threads of a block; each computes a row
constexpr int kBlocks = kPart / kThreads;
constexpr int kChannel = 0;

// Small whole numbers, so that the order of the additions does not matter.
__host__ __device__ float matrix(int row, int column) {
  return static_cast<float>((row * 5 + column * 3) % 7);
}

float vector(int i) { return static_cast<float>((i * 7 + i / 11) % 8); }

// A rank's block of symmetric memory: all of x, and a count of blocks that are done.
// `report`: where a failed wait is told, in memory of the host.
__global__ void __launch_bounds__(kThreads)
    gather_and_multiply(const Memory memory, float* y, int* report) {
  const int me = memory.rank;
  const float* const x = symm::device::pointer<float>(memory, me, 0);
  for (int peer = static_cast<int>(blockIdx.x); peer < memory.size;
      peer += static_cast<int>(gridDim.x)) {
    if (peer == me) continue;
    float* const theirs = symm::device::pointer<float>(memory, peer, 0);
    for (int i = static_cast<int>(threadIdx.x); i < kPart; i += kThreads) {
      theirs[me * kPart + i] = x[me * kPart + i];
    }
    symm::device::signal_block(memory, peer, kChannel);
  }

  const int row = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int step = 0; step < memory.size; ++step) {
    const int source = (me + step) % memory.size;
    if (source != me) {
      const Outcome outcome = symm::device::await_signal_block(memory, source, kChannel);
      if (!outcome) {
        if (threadIdx.x == 0) *report = outcome.code;
        return;
      }
    }
    for (int i = source * kPart; i < (source + 1) * kPart; ++i) {
      sum += matrix(me * kPart + row, i) * x[i];
    }
  }
  y[row] = sum;

  // All blocks await the same signals; the last one to be done takes them. The count
  // begins anew by itself, so the kernel can run again, in a graph, too.
  auto* const done =
      symm::device::pointer<unsigned>(memory, me, memory.size * kPart * sizeof(float));
  if (threadIdx.x != 0 || atomicInc(done, gridDim.x - 1) != gridDim.x - 1) return;
  for (int source = 0; source < memory.size; ++source) {
    if (source != me) symm::device::take_signals(memory, source, kChannel);
  }
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
  }
}

#define TRY(call) check(call, #call)

// The words by which host and kernel communicate, in host memory that the device can reach, and the
// results.
struct Words {
  unsigned stop;
  int report;
  float y[kPart];
};

// Waits for the stream; meanwhile, should the group be
// revoked (a rank died, say), tells the kernel to leave.
void finish(const symm::Group& group, cudaStream_t stream, volatile Words* words) {
  cudaError_t state = cudaStreamQuery(stream);
  while (state == cudaErrorNotReady) {
    if (group.status().status != SYMM_OK) words->stop = 1;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    state = cudaStreamQuery(stream);
  }

  TRY(state);
  const Outcome outcome{words->report};
  if (outcome) return;

  group.abort("a kernel waited in vain");
  const bool late = outcome.trouble() == symm::device::Trouble::timeout;
  throw std::runtime_error("the kernel waited for rank " + std::to_string(outcome.peer()) +
                           (late ? " and it did not come" : " and was stopped"));
}
}  // namespace

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return 77;
  }

  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;  // to try it on one GPU, where it is slow
  const symm::Group group = symm::Group::create(config);

  const int elements = group.size() * kPart;
  const int first = group.rank() * kPart;
  TRY(cudaSetDevice(group.info().device));
  const symm::Memory memory =
      group.rendezvous(group.allocate(elements * sizeof(float) + sizeof(unsigned)));

  cudaStream_t stream = nullptr;
  Words* words = nullptr;
  TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TRY(cudaHostAlloc(reinterpret_cast<void**>(&words), sizeof *words, cudaHostAllocMapped));
  *words = {};

  Memory view = {};
  symm::check(symm::device::describe(memory.get(), 20000, &words->stop, &view), "describe");

  std::vector<float> x(static_cast<size_t>(elements));
  for (int i = 0; i < elements; ++i) {
    x[static_cast<size_t>(i)] = vector(i);
  }

  TRY(cudaMemcpyAsync(memory.span<float>().data() + first, &x[static_cast<size_t>(first)],
      kPart * sizeof(float), cudaMemcpyHostToDevice, stream));
  gather_and_multiply<<<kBlocks, kThreads, 0, stream>>>(view, words->y, &words->report);
  TRY(cudaGetLastError());
  finish(group, stream, words);

  int wrong = 0;
  for (int row = 0; row < kPart; ++row) {
    float sum = 0;
    for (int i = 0; i < elements; ++i) {
      sum += matrix(first + row, i) * x[static_cast<size_t>(i)];
    }
    if (words->y[row] != sum) ++wrong;
  }

  std::printf("rank %d of %d: %d columns, %d elements wrong\n", group.rank(), group.size(),
      elements, wrong);

  group.finalize();
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
