// SPDX-License-Identifier: Apache-2.0
//
// Does a killed process write to memory of another after its socket is closed, or after its pidfd says that it is gone?
#include <algorithm>
#include <deque>
#include <random>

#include "bench/experiments/kernels.hpp"
#include "bench/experiments/questions.hpp"
#include "bench/experiments/raw.hpp"

namespace experiments {

void counter_role(int device) {
  use_device(device);
  load_kernels();
  cudaStream_t stream = new_stream();
  send_message(kSocket, 0);
  Message message = expect_message(kSocket, "the memory");
  const SharedMemory memory(message.fd.get(), SharedMemory::kUnit);
  message.fd.reset();
  count_up(memory.words(), stream);
  receive_message(kSocket);  // it is killed here
}

namespace {

struct Trials {
  Figures eof{}, pidfd{}, from_eof{}, from_pidfd{};
  int after_eof = 0, after_pidfd = 0, maybe_after_pidfd = 0;  // as the watching kernel saw it
  int copied_at_eof = 0, copied_at_pidfd = 0, later = 0;      // other than in the end
};

// The words as they were when a copy that was started then was done. A copy needs no kernel to have its turn.
struct Copy {
  unsigned words[kWatched * kWatchedStride];
  bool equals(const Copy& other) const {
    for (size_t i = 0; i < kWatched; ++i) {
      if (words[i * kWatchedStride] != other.words[i * kWatchedStride]) return false;
    }
    return true;
  }
};
void start_copy(const Mapped<Copy>& copy, const SharedMemory& memory, cudaStream_t stream) {
  gpu::cuda(cudaMemcpyAsync(copy.get(), memory.words(), sizeof(Copy), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
}

void one(Child& child, SharedMemory& memory, cudaStream_t stream, cudaStream_t copies, useconds_t delay, Trials& trials) {
  const Mapped<Marks> marks;
  const Mapped<Seen> seen;
  const Mapped<Copy> at_eof;
  const Mapped<Copy> at_pidfd;
  const Mapped<Copy> at_stop;
  const Mapped<Copy> in_the_end;
  gpu::cuda(cudaMemsetAsync(memory.words(), 0, SharedMemory::kUnit, stream), "cudaMemsetAsync");
  gpu::cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  expect_message(child.socket(), "its context");
  watch(memory.words(), marks.get(), seen.get(), stream);
  send_message(child.socket(), 0, memory.exported().get());
  if (!soon([&] { return look(seen->begun) != 0; })) gpu::give_up("the other process' kernel does not count");
  usleep(delay);

  const auto start = Clock::now();
  child.kill();
  bool eof = false;
  bool gone = false;
  if (!soon([&] {
        if (!eof && is_readable(child.socket())) {
          put(marks->eof, 1);
          start_copy(at_eof, memory, copies);
          eof = true;
          trials.eof.add(microseconds(start, Clock::now()));
        }
        if (!gone && is_readable(child.pidfd())) {
          put(marks->pidfd, 1);
          start_copy(at_pidfd, memory, copies);
          gone = true;
          trials.pidfd.add(microseconds(start, Clock::now()));
        }
        return eof && gone;
      }))
    gpu::give_up("a killed process does not end");
  usleep(50'000);
  start_copy(at_stop, memory, copies);
  put(marks->stop, 1);
  gpu::cuda(cudaStreamSynchronize(stream), "the watching kernel");
  gpu::expect(seen->ended == Ended::told && seen->eof_at != 0 && seen->pidfd_at != 0, "fence: the watch lasted to its end");

  const auto ahead = [](uint64_t a, uint64_t b) { return (static_cast<double>(a) - static_cast<double>(b)) * 1e-3; };
  const uint64_t last = *std::max_element(seen->new_from, seen->new_from + kWatched);
  const uint64_t old = *std::max_element(seen->old_until, seen->old_until + kWatched);
  trials.from_eof.add(ahead(last, seen->eof_at));
  trials.from_pidfd.add(ahead(last, seen->pidfd_at));
  trials.after_eof += old > seen->eof_at ? 1 : 0;
  trials.after_pidfd += old > seen->pidfd_at ? 1 : 0;
  trials.maybe_after_pidfd += last > seen->pidfd_at ? 1 : 0;

  start_copy(in_the_end, memory, copies);
  gpu::cuda(cudaStreamSynchronize(copies), "copies");
  trials.copied_at_eof += at_eof->equals(*in_the_end.get()) ? 0 : 1;
  trials.copied_at_pidfd += at_pidfd->equals(*in_the_end.get()) ? 0 : 1;
  trials.later += at_stop->equals(*in_the_end.get()) ? 0 : 1;
}

void series(const std::string& where, int device, int count) {
  SharedMemory memory(SharedMemory::kUnit);
  cudaStream_t stream = new_stream();
  cudaStream_t copies = new_stream();
  std::mt19937 random(1);
  Trials trials;
  // The next ones make their contexts meanwhile: it saves time, and a driver that is busy is what puts clean-up off.
  std::deque<Child> children;
  for (int i = 0; i < count; ++i) {
    while (children.size() < 3 && static_cast<int>(children.size()) < count - i) children.emplace_back("counter", device);
    one(children.front(), memory, stream, copies, static_cast<useconds_t>(1000 + random() % 5000), trials);
    children.pop_front();
  }
  const std::string name = "fence, " + where + ": ";
  const std::string of = " in " + std::to_string(count);
  trials.eof.print(name + "SIGKILL to end of file");
  trials.pidfd.print(name + "SIGKILL to pidfd");
  trials.from_eof.print(name + "last change seen, after end of file");
  trials.from_pidfd.print(name + "last change seen, after pidfd");
  const auto count_of = [](int number) { return std::to_string(number); };
  answer(name + "trials with changes after end of file",
         count_of(trials.copied_at_eof) + " by a copy started then, " + count_of(trials.after_eof) + " surely by samples," + of);
  answer(name + "trials with changes after pidfd",
         count_of(trials.copied_at_pidfd) + " by a copy started then, " + count_of(trials.after_pidfd) + " surely and " +
             count_of(trials.maybe_after_pidfd) + " perhaps by samples, " + count_of(trials.later) + " later than 50 ms," + of);
}

}  // namespace

void fence(int gpus, int trials) {
  use_device(0);
  load_kernels();
  series("one GPU", 0, trials);
  if (gpus > 1) series("two GPUs", 1, trials);
}

}  // namespace experiments
