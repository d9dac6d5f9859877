// One rank of a group on GPUs whose other ranks may be written in other languages: this is the C++ one, beside rank.py, rank.jl
// and the Rust crate's example gpu_rank. Each writes its part, puts some of it into its neighbour's block and signals it,
// all-reduces, compares every bit with a computation on the host, and hands its block to the next rank by a token. `run` starts
// all four.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <symm/symm.hpp>
#include <vector>

namespace {
constexpr size_t kBlock = 1 << 20;      // bytes
constexpr size_t kHalf = kBlock / 2;    // where the neighbour's floats arrive
constexpr size_t kMailbox = 768 << 10;  // where its token arrives: its length in 4 bytes, then its bytes
constexpr size_t kPut = 4096;           // elements
constexpr size_t kReduced = 65536;      // elements
constexpr int32_t kData = 1;            // channels
constexpr int32_t kToken = 2;

void require(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("wrong result: ") + what);
}

// What a rank writes.
std::vector<float> values(int32_t rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = 0.3F * static_cast<float>(static_cast<size_t>(rank + 1) * (i % 1024));
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

template <class T> std::vector<T> download(const void* device, size_t count, cudaStream_t stream) {
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
uint32_t pass_on_by_token(const symm::Memory& memory, int32_t right, int32_t left, int device, cudaStream_t stream) {
  const symm::Span block = memory.span();
  const symm::Token token = symm::ipc_export(block, SYMM_IPC_EXPORT_OPTIONS_INIT, stream);
  const auto length = static_cast<uint32_t>(token.size());
  std::vector<std::byte> letter(sizeof length + token.size());
  std::memcpy(letter.data(), &length, sizeof length);
  std::memcpy(letter.data() + sizeof length, token.data(), token.size());
  const symm::Span staged(static_cast<std::byte*>(device_memory(letter.size())), letter.size());
  upload(staged.data(), letter.data(), letter.size(), stream);
  memory.put_signal(right, kMailbox, staged, kToken, stream);

  memory.wait_signal(left, kToken, 0, stream);
  const uint32_t came = download<uint32_t>(&block[kMailbox], 1, stream)[0];
  expect(came > 0 && came <= SYMM_IPC_TOKEN_MAX_SIZE, "the length of the token");
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.device = device;  // otherwise it is mapped for the GPU that has the memory
  const symm::Import import(download<std::byte>(&block[kMailbox + sizeof came], came, stream), options, stream);
  expect(same_bits(download<float>(import.span().data(), 16, stream), values(left, 16)), "the imported block");
  require(cudaFree(staged.data()), "cudaFree");
  return came;
}

void run() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;  // where there are fewer GPUs than ranks
  const auto group = symm::Group::create(config);
  const int32_t device = group.info().device;
  const int32_t right = (group.rank() + 1) % group.size();
  const int32_t left = (group.rank() + group.size() - 1) % group.size();
  require(cudaSetDevice(device), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");

  const auto memory = group.rendezvous(group.allocate(kBlock));
  const auto mine = memory.span<float>();
  upload(mine.data(), values(group.rank(), kHalf / sizeof(float)).data(), kHalf, stream);
  group.barrier({}, 0, 0, stream);

  memory.put_signal(right, kHalf, mine.subspan(0, kPut), kData, stream);
  memory.wait_signal(left, kData, 0, stream);
  expect(
      same_bits(download<float>(&mine[kHalf / sizeof(float)], kPut, stream), values(left, kPut)), "the left neighbour's floats");

  const symm::Span reduced(static_cast<float*>(device_memory(kReduced * sizeof(float))), kReduced);
  symm::Options options;
  options.stream = stream;
  group.allreduce(mine.subspan(0, kReduced), reduced, SYMM_OP_SUM, options);
  expect(same_bits(download<float>(reduced.data(), kReduced, stream), sum(group.size(), kReduced)), "the all-reduce");

  const uint32_t token = pass_on_by_token(memory, right, left, device, stream);
  group.finalize();
  std::printf(
      "rank %d (C++) on GPU %d: put %zu B to rank %d; all-reduce %zu B; all bits right; imported rank %d's block by token "
      "(%u bytes)\n",
      group.rank(), device, kPut * sizeof(float), right, kReduced * sizeof(float), left, token);
  require(cudaFree(reduced.data()), "cudaFree");
  require(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
