// An all-gather fused into its consumer: y = A x in rounds, where every rank has some rows of A and the part of x that came of
// them in the last round. In one kernel each rank pushes its part of x to all others with a signal, and multiplies with each part
// as soon as it is there, its own first. Every round is compared with a plain loop.
//   symm run -n 2 -- symm_gather_matvec
// Status 77: this machine has no GPU.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <symm/device.cuh>
#include <symm/symm.hpp>
#include <thread>
#include <vector>

namespace {
using symm::device::Memory;
using symm::device::Outcome;

constexpr int kPart = 1024;      // rows of A, and elements of x, on each rank
constexpr int kThreads = 256;    // of a block
constexpr int kRowsPerWarp = 4;  // in registers, so that parts of x can be taken in any order
constexpr int kRowsPerBlock = kThreads / 32 * kRowsPerWarp;
constexpr int kBlocks = kPart / kRowsPerBlock;  // few: all are resident, on any device
constexpr int kChannel = 0;

// A rank's block of symmetric memory: the gathered x of even and of odd rounds, and a count of blocks that are done. Two halves
// are enough: who pushes x of round k + 2 has the parts of x of round k + 1 from all ranks, and those came of kernels that began
// after the kernels of round k had ended there.
__host__ __device__ constexpr size_t half_of(int size) { return static_cast<size_t>(size) * kPart * sizeof(float); }
__host__ __device__ constexpr size_t bytes_of(int size) { return 2 * half_of(size) + sizeof(unsigned); }

// One warp for kRowsPerWarp rows: add the product with one part of x.
__device__ void multiply(float (&sum)[kRowsPerWarp], const float* rows, size_t stride, const float* part) {
  for (int column = static_cast<int>(threadIdx.x % 32) * 4; column < kPart; column += 128) {
    const float4 x = *reinterpret_cast<const float4*>(part + column);
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const float4 a = *reinterpret_cast<const float4*>(rows + i * stride + column);
      sum[i] += a.x * x.x + a.y * x.y + a.z * x.z + a.w * x.w;
    }
  }
}

// `rows`: this rank's rows of A. `report`: where a failed wait is told, in memory of the host.
__global__ void __launch_bounds__(kThreads) round_of(const Memory memory, const float* rows, int parity, int* report) {
  const int me = memory.rank;
  const size_t half = half_of(memory.size);
  const auto x_of = [&](int rank, int which) { return symm::device::pointer<float>(memory, rank, which * half); };
  const float* const x = x_of(me, parity);

  for (int peer = static_cast<int>(blockIdx.x); peer < memory.size; peer += static_cast<int>(gridDim.x)) {
    if (peer == me) continue;
    float* const theirs = x_of(peer, parity);
    for (int i = static_cast<int>(threadIdx.x); i < kPart; i += kThreads) theirs[me * kPart + i] = x[me * kPart + i];
    symm::device::signal_block(memory, peer, kChannel);
  }

  const int first = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x / 32) * kRowsPerWarp;
  const size_t stride = static_cast<size_t>(memory.size) * kPart;
  float sum[kRowsPerWarp] = {};
  for (int step = 0; step < memory.size; ++step) {
    const int source = (me + step) % memory.size;
    if (source != me) {
      const Outcome outcome = symm::device::await_signal_block(memory, source, kChannel);
      if (!outcome) {
        if (threadIdx.x == 0) *report = outcome.code;
        return;
      }
    }
    multiply(sum, rows + first * stride + source * kPart, stride, x + source * kPart);
  }

  for (int i = 0; i < kRowsPerWarp; ++i) {
    for (int distance = 16; distance > 0; distance /= 2) sum[i] += __shfl_down_sync(~0U, sum[i], distance);
    if (threadIdx.x % 32 == 0)
      x_of(me, 1 - parity)[me * kPart + first + i] = static_cast<float>(static_cast<unsigned>(sum[i]) & 7U);
  }

  // All blocks await the same signals; the last one to be done takes them. The count begins anew by itself, so a graph can be
  // replayed.
  if (threadIdx.x == 0) {
    auto* const done = symm::device::pointer<unsigned>(memory, me, 2 * half);
    if (atomicInc(done, gridDim.x - 1) == gridDim.x - 1) {
      for (int source = 0; source < memory.size; ++source)
        if (source != me) symm::device::take_signals(memory, source, kChannel);
    }
  }
}

// Small whole numbers, so that the order of the additions does not matter.
float matrix(size_t row, size_t column) { return static_cast<float>((row * 5 + column * 3 + row * column) % 3); }
float start(size_t i) { return static_cast<float>((i * 7 + i / 11) % 8); }

std::vector<float> plain_round(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t row = 0; row < x.size(); ++row) {
    float sum = 0;
    for (size_t column = 0; column < x.size(); ++column) sum += matrix(row, column) * x[column];
    y[row] = static_cast<float>(static_cast<unsigned>(sum) & 7U);
  }
  return y;
}

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}
#define TRY(call) check(call, #call)

// The words by which host and kernels talk, in memory of the host that the device can reach.
struct Words {
  unsigned stop;
  int report;
};

// Waits for the stream; meanwhile, should the group be revoked (a rank died, say), tells the kernels to leave.
void finish(const symm::Group& group, cudaStream_t stream, volatile Words* words) {
  cudaError_t state;
  while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) {
    if (group.status().status != SYMM_OK) words->stop = 1;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  TRY(state);
  const Outcome outcome{words->report};
  if (outcome) return;
  group.abort("a kernel waited in vain");
  const bool late = outcome.trouble() == symm::device::Trouble::timeout;
  throw std::runtime_error(
      "the kernel waited for rank " + std::to_string(outcome.peer()) + (late ? " and it did not come" : " and was stopped"));
}
}  // namespace

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return std::puts("skipped: no GPU"), 77;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;  // to try it on one GPU, where it is slow
  const symm::Group group = symm::Group::create(config);
  const symm_group_info_t info = group.info();
  TRY(cudaSetDevice(info.device));
  const symm::Memory memory = group.rendezvous(group.allocate(bytes_of(info.size)));
  float* const block = memory.span<float>().data();

  cudaStream_t stream = nullptr;
  Words* words = nullptr;
  TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TRY(cudaHostAlloc(reinterpret_cast<void**>(&words), sizeof *words, cudaHostAllocMapped));
  *words = {};
  Memory view = {};
  symm::check(symm::device::describe(memory.get(), 20000, &words->stop, &view), "describe");

  const size_t elements = static_cast<size_t>(info.size) * kPart;
  const size_t my_first = static_cast<size_t>(info.rank) * kPart;
  std::vector<float> rows(kPart * elements);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = matrix(my_first + i / elements, i % elements);
  std::vector<float> x(elements);
  for (size_t i = 0; i < elements; ++i) x[i] = start(i);
  float* rows_there = nullptr;
  TRY(cudaMalloc(reinterpret_cast<void**>(&rows_there), rows.size() * sizeof(float)));
  TRY(cudaMemcpyAsync(rows_there, rows.data(), rows.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
  TRY(cudaMemcpyAsync(block + my_first, x.data() + my_first, kPart * sizeof(float), cudaMemcpyHostToDevice, stream));
  TRY(cudaStreamSynchronize(stream));

  // Two rounds as a graph, which is replayed: signals are counted on the device.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t two_rounds = nullptr;
  TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int parity = 0; parity < 2; ++parity) round_of<<<kBlocks, kThreads, 0, stream>>>(view, rows_there, parity, &words->report);
  TRY(cudaStreamEndCapture(stream, &graph));
  TRY(cudaGraphInstantiate(&two_rounds, graph, 0));

  std::vector<float> got(kPart);
  int wrong = 0;
  for (int rounds = 2; rounds <= 8; rounds += 2) {
    TRY(cudaGraphLaunch(two_rounds, stream));
    finish(group, stream, words);
    TRY(cudaMemcpyAsync(got.data(), block + my_first, kPart * sizeof(float), cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    x = plain_round(plain_round(x));
    for (size_t i = 0; i < kPart; ++i) wrong += got[i] == x[my_first + i] ? 0 : 1;
  }
  std::printf("rank %d of %d: %zu columns, 8 rounds, %d elements wrong\n", info.rank, info.size, elements, wrong);

  group.finalize();
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
