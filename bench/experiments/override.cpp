// A producer's stream waits for a word that its consumer should write. The consumer is killed; the producer's host writes the
// word from another stream.
#include "bench/experiments/raw.hpp"

namespace experiments {
void consumer_role(long) {
  use_device(0);
  send_message(kSocket);
  const symm::Fd fd = expect_message(kSocket, "the memory");
  const SharedMemory memory(fd.get(), SharedMemory::kUnit);
  send_message(kSocket);
  receive_message(kSocket);  // it is killed here
}

void override_of_wait(const Setup&) {
  constexpr uint64_t kKilled = 10;
  constexpr uint64_t kAll = 210;
  use_device(0);
  const SharedMemory memory(SharedMemory::kUnit);
  gpu::cuda(cudaMemset(memory.words(), 0, SharedMemory::kUnit), "cudaMemset");
  gpu::cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cudaStream_t waiting = new_stream();
  cudaStream_t writing = new_stream();
  const Mapped<unsigned> passed;
  Figures from_pidfd;
  Figures from_write;
  bool waited = true;
  for (uint64_t turn = 1; turn <= kAll; ++turn) {
    std::optional<Child> child;
    if (turn <= kKilled) {
      child.emplace("consumer", 0);
      expect_message(child->socket(), "its context");
      send_message(child->socket(), memory.exported().get());
      expect_message(child->socket(), "that it has mapped");
    }
    ANSWERS_CALL(cuStreamWaitValue64, waiting, memory.address(), turn, CU_STREAM_WAIT_VALUE_GEQ);
    ANSWERS_CALL(cuStreamWriteValue32, waiting, reinterpret_cast<CUdeviceptr>(passed.get()), static_cast<unsigned>(turn), 0);
    usleep(2000);
    if (child) {
      child->kill();
      child->await_death();
    }
    waited = waited && cudaStreamQuery(waiting) == cudaErrorNotReady && look(*passed.get()) == turn - 1;
    const auto start = Clock::now();
    ANSWERS_CALL(cuStreamWriteValue64, writing, memory.address(), turn, 0);
    const bool released = soon([&] { return look(*passed.get()) == turn; });
    const auto end = Clock::now();
    const bool idle = soon([&] { return cudaStreamQuery(waiting) == cudaSuccess; });
    if (!released || !idle) gpu::give_up("a stream stays waiting for a word that its own process has written");
    if (child) from_pidfd.add(microseconds(start, end));
    if (turn > kKilled) from_write.add(microseconds(start, end));
  }
  gpu::expect(waited, "the stream waited until the word was written");
  gpu::expect(cudaStreamSynchronize(waiting) == cudaSuccess, "the override releases a stream that waited for a killed process");
  from_pidfd.print("override of a stream's wait: consumer known dead to stream going on");
  from_write.print("override of a stream's wait: the host's write to stream going on");
}
}  // namespace experiments
