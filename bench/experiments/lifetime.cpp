// SPDX-License-Identifier: Apache-2.0
//
// What holds memory of a GPU: a mapping in another process when its maker is killed; a descriptor in a socket that nobody reads.
#include "bench/experiments/kernels.hpp"
#include "bench/experiments/questions.hpp"
#include "bench/experiments/raw.hpp"

namespace experiments {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr size_t kCount = kBytes / sizeof(unsigned);
constexpr int kTrials = 3;

bool holds(const SharedMemory& memory, unsigned expected) {
  std::vector<unsigned> words(kCount);
  gpu::cuda(cudaMemcpy(words.data(), memory.words(), kBytes, cudaMemcpyDeviceToHost), "download");
  for (const unsigned word : words) {
    if (word != expected) return false;
  }
  return true;
}

// To be asked after its maker's death, whose context must have been cleaned up before free memory says anything.
bool is_held(size_t before) { return memory_comes_back(before - kBytes) && settled_free_memory() + kBytes <= before + kSlack; }

}  // namespace

void exporter_role(long value) {
  use_device(0);
  send_message(kSocket, 0);
  expect_message(kSocket, "the word to go on");
  const SharedMemory memory(kBytes);
  ANSWERS_CALL(cuMemsetD32, memory.address(), static_cast<unsigned>(value), kCount);
  gpu::cuda(cudaDeviceSynchronize(), "fill");
  send_message(kSocket, 0, memory.exported().get());
  receive_message(kSocket);  // it is killed here
}

void exporter_killed() {
  use_device(0);
  load_kernels();
  cudaStream_t stream = new_stream();
  Figures back("ms");
  bool held = true;
  unsigned rounds = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const unsigned value = 0xA5A50000U + static_cast<unsigned>(trial);
    const size_t before = settled_free_memory();
    Child child("exporter", value);
    expect_message(child.socket(), "its context");
    send_message(child.socket(), 0);
    Message message = expect_message(child.socket(), "its memory");
    Clock::time_point start;
    {
      const SharedMemory memory(message.fd.get(), kBytes);
      message.fd.reset();
      const Mapped<Reading> reading;
      read_on(memory.words(), kCount, value, reading.get(), stream);
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

void unread_descriptor() {
  use_device(0);
  Figures back("ms");
  int held = 0;
  int readable = 0;
  for (int trial = 0; trial < 2 * kTrials; ++trial) {
    const unsigned value = 0x5A5A0000U + static_cast<unsigned>(trial);
    const size_t before = settled_free_memory();
    Child child("exporter", value);
    expect_message(child.socket(), "its context");
    send_message(child.socket(), 0);
    if (!eventually([&] { return is_readable(child.socket()); })) gpu::give_up("no descriptor comes");
    child.kill();
    child.await_death();
    held += is_held(before) ? 1 : 0;
    if (trial % 2 == 0) {  // take it after all
      const Message message = expect_message(child.socket(), "a descriptor sent before the death");
      const SharedMemory memory(message.fd.get(), kBytes);
      readable += holds(memory, value) ? 1 : 0;
    }
    const auto start = Clock::now();
    child.close_socket();
    gpu::expect(memory_comes_back(before), "memory whose descriptor nobody read is given back when the socket is closed");
    if (trial % 2 == 1) back.add(microseconds(start, Clock::now()) * 1e-3);
  }
  const std::string of = " of " + std::to_string(2 * kTrials) + " trials";
  answer("descriptor unread in a dead sender's socket: holds the memory", std::to_string(held) + of);
  answer("descriptor read after the sender's death: memory there, data intact",
         std::to_string(readable) + " of " + std::to_string(kTrials) + " trials");
  back.print("descriptor unread: closing the socket to memory free");
}

}  // namespace experiments
