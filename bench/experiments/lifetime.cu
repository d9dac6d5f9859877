// What holds memory of a GPU: a mapping in another process when its maker is killed; a descriptor in a socket that nobody reads.
#include "bench/experiments/experiment.hpp"
#include "kernels/cuda/memory.cuh"

namespace experiments {
namespace {
constexpr size_t kBytes = size_t{256} << 20;
constexpr size_t kCount = kBytes / sizeof(unsigned);
constexpr int kTrials = 3;
constexpr uint64_t kLimit = 10'000'000'000ULL;  // nanoseconds, after which a kernel leaves whatever happens

using symm::cuda::load_relaxed;
using symm::cuda::nanoseconds;

enum class Ended : unsigned { not_yet, told, deadline };

struct Reading {
  unsigned stop, rounds, wrong;
  Ended ended;
};
// Reads all words again and again, and counts those that are not `expected`.
__global__ void read_on(const unsigned* words, unsigned expected, Reading* reading) {
  const uint64_t deadline = nanoseconds() + kLimit;
  __shared__ volatile unsigned over;
  if (threadIdx.x == 0) over = 0;
  __syncthreads();
  while (over == 0) {
    unsigned wrong = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < kCount; i += size_t{gridDim.x} * blockDim.x)
      wrong += load_relaxed(words + i) != expected ? 1U : 0U;
    if (wrong != 0) atomicAdd_system(&reading->wrong, wrong);
    __syncthreads();
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) atomicAdd_system(&reading->rounds, 1U);
      if (load_relaxed(&reading->stop) != 0) over = static_cast<unsigned>(Ended::told);
      if (nanoseconds() > deadline) over = static_cast<unsigned>(Ended::deadline);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) symm::cuda::store_relaxed(reinterpret_cast<unsigned*>(&reading->ended), over);
}

bool holds(const SharedMemory& memory, unsigned expected) {
  std::vector<unsigned> words(kCount);
  gpu::cuda(cudaMemcpy(words.data(), memory.words(), kBytes, cudaMemcpyDeviceToHost), "download");
  return std::all_of(words.begin(), words.end(), [&](unsigned word) { return word == expected; });
}

// To be asked after its maker's death, whose context must have been cleaned up before free memory says anything.
bool is_held(size_t before) { return memory_comes_back(before - kBytes) && settled_free_memory() + kBytes <= before + kSlack; }
}  // namespace

void exporter_role(long value) {
  use_device(0);
  send_message(kSocket);
  expect_message(kSocket, "the word to go on");
  const SharedMemory memory(kBytes);
  ANSWERS_CALL(cuMemsetD32, memory.address(), static_cast<unsigned>(value), kCount);
  gpu::cuda(cudaDeviceSynchronize(), "fill");
  send_message(kSocket, memory.exported().get());
  receive_message(kSocket);  // it is killed here
}

void exporter_killed(int) {
  use_device(0);
  cudaStream_t stream = new_stream();
  Figures back("ms");
  bool held = true;
  unsigned rounds = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const unsigned value = 0xA5A50000U + static_cast<unsigned>(trial);
    const size_t before = settled_free_memory();
    Child child("exporter", value);
    expect_message(child.socket(), "its context");
    send_message(child.socket());
    symm::Fd fd = expect_message(child.socket(), "its memory");
    Clock::time_point start;
    {
      const SharedMemory memory(fd.get(), kBytes);
      fd.reset();
      const Mapped<Reading> reading;
      read_on<<<64, 256, 0, stream>>>(memory.words(), value, reading.get());
      if (!soon([&] { return look(reading->rounds) > 3; })) gpu::give_up("the reading kernel does not start");
      child.kill();
      child.await_death();
      const unsigned until_then = look(reading->rounds);
      const bool went_on = soon([&] { return look(reading->rounds) > until_then + 3; });
      put(reading->stop, 1);
      gpu::expect(cudaStreamSynchronize(stream) == cudaSuccess, "imported memory: no error when its maker is killed");
      gpu::expect(went_on && reading->ended == Ended::told && reading->wrong == 0,
          "imported memory: a kernel that reads while its maker is killed finds what was there");
      rounds += reading->rounds;
      held = is_held(before) && held;
      gpu::expect(holds(memory, value), "imported memory outlives its maker, data intact");
      ANSWERS_CALL(cuMemsetD32, memory.address(), value + 1000, kCount);
      gpu::expect(holds(memory, value + 1000), "imported memory can be written after its maker's death");
      start = Clock::now();
    }
    gpu::expect(memory_comes_back(before), "imported memory is given back by its last user");
    back.add(microseconds(start, Clock::now()) * 1e-3);
  }
  answer("exporter killed: memory stays taken while the importer maps it", held ? "yes" : "no");
  answer("exporter killed: times that all of it was read across the deaths without an error", std::to_string(rounds));
  back.print("exporter killed: the importer's unmapping to memory free");
}

void unread_descriptor(int) {
  use_device(0);
  Figures back("ms");
  int held = 0;
  int readable = 0;
  for (int trial = 0; trial < 2 * kTrials; ++trial) {
    const unsigned value = 0x5A5A0000U + static_cast<unsigned>(trial);
    const size_t before = settled_free_memory();
    Child child("exporter", value);
    expect_message(child.socket(), "its context");
    send_message(child.socket());
    if (!eventually([&] { return is_readable(child.socket()); })) gpu::give_up("no descriptor comes");
    child.kill();
    child.await_death();
    held += is_held(before) ? 1 : 0;
    if (trial % 2 == 0) {  // take it after all
      const symm::Fd fd = expect_message(child.socket(), "a descriptor sent before the death");
      readable += holds(SharedMemory(fd.get(), kBytes), value) ? 1 : 0;
    }
    const auto start = Clock::now();
    child.close_socket();
    gpu::expect(memory_comes_back(before), "memory whose descriptor nobody read is given back when the socket is closed");
    if (trial % 2 == 1) back.add(microseconds(start, Clock::now()) * 1e-3);
  }
  answer("descriptor unread in a dead sender's socket: holds the memory",
      std::to_string(held) + " of " + std::to_string(2 * kTrials) + " trials");
  answer("descriptor read after the sender's death: memory there, data intact",
      std::to_string(readable) + " of " + std::to_string(kTrials) + " trials");
  back.print("descriptor unread: closing the socket to memory free");
}
}  // namespace experiments
