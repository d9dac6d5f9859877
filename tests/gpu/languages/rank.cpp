// SPDX-License-Identifier: Apache-2.0
//
// One rank of a group on GPUs whose other ranks may be written in other languages: this is the C++ one, beside rank.py, rank.jl
// and the Rust crate's example gpu_rank. Each writes its part, puts some of it into its neighbour's block and signals it,
// all-reduces, compares every bit with a computation on the host, and hands its block to the next rank by a token. `run` starts
// all four.
#include <cuda_runtime.h>
#include <symm/symm.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kBlock = 1 << 20;      // bytes
constexpr size_t kHalf = kBlock / 2;    // where the neighbour's floats arrive
constexpr size_t kMailbox = 768 << 10;  // where its token arrives: its length in 4 bytes, then its bytes
constexpr size_t kPut = 4096;           // elements
constexpr size_t kReduced = 65536;      // elements
constexpr int32_t kData = 1;            // channels
constexpr int32_t kToken = 2;

void require(symm_status_t status, const char* what) {
  if (status == SYMM_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, symm_status_string(status), symm_last_error());
  std::exit(1);
}

void require(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

// What a rank writes.
std::vector<float> values(int32_t rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<float>(static_cast<size_t>(rank + 1) * (i % 1024));
  return made;
}

// In the order of the ranks, as the library adds.
std::vector<float> sum(int32_t size, size_t count) {
  std::vector<float> total = values(0, count);
  for (int32_t rank = 1; rank < size; ++rank) {
    const std::vector<float> part = values(rank, count);
    for (size_t i = 0; i < count; ++i) total[i] += part[i];
  }
  return total;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void upload(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  require(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "upload");
  require(cudaStreamSynchronize(stream), "upload");
}

template <class T>
std::vector<T> download(const void* device, size_t count, cudaStream_t stream) {
  std::vector<T> host(count);
  require(cudaMemcpyAsync(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "download");
  require(cudaStreamSynchronize(stream), "download");
  return host;
}

// Memory that only this rank knows.
void* device_memory(size_t bytes) {
  void* made = nullptr;
  require(cudaMalloc(&made, bytes), "cudaMalloc");
  return made;
}

// Returns the length of the token that came.
uint32_t pass_on_by_token(symm_memory_t* memory, const std::byte* block, int32_t right, int32_t left, int device,
                          cudaStream_t stream) {
  std::byte letter[4 + SYMM_IPC_TOKEN_MAX_SIZE];
  size_t written = 0;
  require(symm_ipc_export(block, kBlock, nullptr, letter + 4, SYMM_IPC_TOKEN_MAX_SIZE, &written, stream), "symm_ipc_export");
  const auto length = static_cast<uint32_t>(written);
  std::memcpy(letter, &length, sizeof length);
  void* staged = device_memory(sizeof letter);
  upload(staged, letter, 4 + written, stream);
  require(symm_put_with_signal(memory, right, kMailbox, staged, 4 + written, kToken, stream), "symm_put_with_signal");

  require(symm_wait_signal(memory, left, kToken, 0, stream), "symm_wait_signal");
  const uint32_t came = download<uint32_t>(block + kMailbox, 1, stream)[0];
  expect(came > 0 && came <= SYMM_IPC_TOKEN_MAX_SIZE, "the length of the token");
  const std::vector<std::byte> token = download<std::byte>(block + kMailbox + 4, came, stream);
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.device = device;  // otherwise it is mapped for the GPU that has the memory
  symm_ipc_t* import = nullptr;
  require(symm_ipc_import(token.data(), token.size(), &options, &import, stream), "symm_ipc_import");
  void* theirs = nullptr;
  require(symm_ipc_pointer(import, &theirs), "symm_ipc_pointer");
  expect(same_bits(download<float>(theirs, 16, stream), values(left, 16)), "the imported block");
  symm_ipc_release(import, stream);
  require(cudaFree(staged), "cudaFree");
  return came;
}

}  // namespace

int main() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;  // where there are fewer GPUs than ranks
  symm_group_t* group = nullptr;
  require(symm_group_create(&config, &group), "symm_group_create");
  symm_group_info_t info{};
  info.struct_size = sizeof info;
  require(symm_group_info(group, &info), "symm_group_info");
  const int32_t right = (info.rank + 1) % info.size;
  const int32_t left = (info.rank + info.size - 1) % info.size;
  require(cudaSetDevice(info.device), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");

  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;
  void* pointer = nullptr;
  require(symm_alloc(group, kBlock, 0, &buffer), "symm_alloc");
  require(symm_rendezvous(group, buffer, 0, &memory), "symm_rendezvous");
  require(symm_buffer_pointer(buffer, &pointer), "symm_buffer_pointer");
  auto* block = static_cast<std::byte*>(pointer);
  upload(block, values(info.rank, kHalf / sizeof(float)).data(), kHalf, stream);
  require(symm_barrier(group, nullptr, 0, 0, 0, stream), "symm_barrier");

  require(symm_put_with_signal(memory, right, kHalf, block, kPut * sizeof(float), kData, stream), "symm_put_with_signal");
  require(symm_wait_signal(memory, left, kData, 0, stream), "symm_wait_signal");
  expect(same_bits(download<float>(block + kHalf, kPut, stream), values(left, kPut)), "the left neighbour's floats");

  void* reduced = device_memory(kReduced * sizeof(float));
  require(symm_allreduce(group, block, reduced, kReduced, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, stream), "symm_allreduce");
  expect(same_bits(download<float>(reduced, kReduced, stream), sum(info.size, kReduced)), "the all-reduce");

  const uint32_t token = pass_on_by_token(memory, block, right, left, info.device, stream);
  require(symm_group_finalize(group, 0), "symm_group_finalize");
  std::printf(
      "rank %d (C++) on GPU %d: put %zu B to rank %d; all-reduce %zu B; all bits right; imported rank %d's block by token "
      "(%u bytes)\n",
      info.rank, info.device, kPut * sizeof(float), right, kReduced * sizeof(float), left, token);
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  symm_group_release(group);
  require(cudaFree(reduced), "cudaFree");
  require(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return 0;
}
