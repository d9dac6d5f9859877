// An all-reduce with an epilogue, in one kernel: what each rank has is summed and goes
// through GELU in f32, rounded to bf16 once.
//   symm run -n 2 -- symm_all_reduce_gelu
// Status 77: this machine has no GPU.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include <symm/exchange.cuh>

namespace exchange = symm::device::exchange;
using Type = exchange::bf16;

__host__ __device__ float gelu(float x) { return 0.5F * x * (1 + erff(x * 0.70710678F)); }

__global__ void all_reduce_gelu(const __grid_constant__ symm::device::Exchange given, uint4* data,
    unsigned packs, int* report) {
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned q = first; q < packs; q += stride) {
    exchange::push(given, q, data[q]);
  }

  for (unsigned q = first; q < packs; q += stride) {
    float sum[Type::kCount];
    if (const auto outcome = exchange::take_sum<Type>(given, q, data[q], sum); !outcome) {
      return void(*report = outcome.code);
    }
    for (float& x : sum) {
      x = gelu(x);
    }
    data[q] = exchange::round<Type>(sum);
  }
}

float input(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 5) % 33) / 8 - 2;
}

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

  constexpr unsigned kElements = 32768;
  constexpr unsigned kPacks = kElements / Type::kCount;
  std::vector<__nv_bfloat16> data(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    data[i] = __float2bfloat16(input(group.rank(), i));
  }

  cudaSetDevice(group.info().device);
  const symm::Exchange scratch(group, sizeof(uint4) * kPacks);
  uint4* message = nullptr;
  int* report = nullptr;
  cudaMalloc(&message, sizeof(uint4) * kPacks);
  cudaMallocHost(&report, sizeof *report);
  *report = 0;
  cudaMemcpy(message, data.data(), sizeof(uint4) * kPacks, cudaMemcpyHostToDevice);
  all_reduce_gelu<<<32, 128>>>(scratch.device(20000), message, kPacks, report);
  cudaMemcpy(data.data(), message, sizeof(uint4) * kPacks, cudaMemcpyDeviceToHost);

  if (const cudaError_t error = cudaGetLastError()) {
    throw std::runtime_error(cudaGetErrorString(error));
  }

  if (*report != 0) {
    throw std::runtime_error(
        "rank " + std::to_string(symm::device::Outcome{*report}.peer()) + " did not come");
  }

  int wrong = 0;
  for (size_t i = 0; i < kElements; ++i) {
    float sum = 0;
    for (int r = 0; r < group.size(); ++r) {
      sum += input(r, i);
    }
    wrong += std::abs(__bfloat162float(data[i]) - gelu(sum)) <= 0.01F * std::abs(gelu(sum)) + 1e-6F
                 ? 0
                 : 1;
  }

  std::printf("rank %d of %d: %u elements, %d elements wrong\n", group.rank(), group.size(),
      kElements, wrong);
  group.finalize();
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
