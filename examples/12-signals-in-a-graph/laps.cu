// Signals in a captured CUDA graph: numbers go round the ranks, a rank further with each replay.
//   symm run -n 2 -- symm_laps
// Status 77: this machine has no GPU.
//
// The graph of a rank puts its numbers into the inbox of the next rank, waits for those of the
// rank before, and adds 1. A second signal says that the inbox was read, so that a rank whose
// replays are ahead does not write into it too soon. No replay waits for the host.
#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

#include <symm/symm.hpp>

namespace {
constexpr int kElements = 4096;
constexpr int kReplays = 1000;
constexpr int kArrived = 0;
constexpr int kRead = 1;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

__global__ void take(const int* inbox, int* numbers) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kElements) numbers[i] = inbox[i] + 1;
}

// Records what one replay does.
cudaGraphExec_t record(
    const symm::Group& group, const symm::Memory& memory, int* numbers, cudaStream_t stream) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  const symm::Span<const int> sent(numbers, kElements);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  memory.put_signal(next, 0, sent, kArrived, {}, stream);
  memory.wait_signal(before, kArrived, {}, stream);
  take<<<kElements / 256, 256, 0, stream>>>(memory.span<int>().data(), numbers);
  memory.signal(before, kRead, {}, stream);
  memory.wait_signal(next, kRead, {}, stream);
  check(cudaStreamEndCapture(stream, &graph));

  check(cudaGraphInstantiate(&ready, graph, 0));
  check(cudaGraphDestroy(graph));
  return ready;
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
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;  // to try it on one GPU
  const symm::Group group = symm::Group::create(config);
  check(cudaSetDevice(group.info().device));
  const symm::Memory memory = group.rendezvous(group.allocate(kElements * sizeof(int)));

  int* numbers = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaMalloc(&numbers, kElements * sizeof(int)));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const std::vector<int> start(kElements, 1'000'000 * group.rank());
  check(cudaMemcpy(numbers, start.data(), kElements * sizeof(int), cudaMemcpyHostToDevice));

  const cudaGraphExec_t lap = record(group, memory, numbers, stream);
  for (int replay = 0; replay < kReplays; ++replay) {
    check(cudaGraphLaunch(lap, stream));
  }
  check(cudaStreamSynchronize(stream));

  // The numbers here began kReplays ranks before this one.
  const int from = ((group.rank() - kReplays) % group.size() + group.size()) % group.size();
  std::vector<int> end(kElements);
  check(cudaMemcpy(end.data(), numbers, kElements * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (const int number : end) {
    wrong += number != 1'000'000 * from + kReplays ? 1 : 0;
  }
  std::printf("rank %d: %d replays brought the numbers of rank %d, %d elements wrong\n",
      group.rank(), kReplays, from, wrong);

  group.finalize();
  check(cudaGraphExecDestroy(lap));
  check(cudaStreamDestroy(stream));
  check(cudaFree(numbers));
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
