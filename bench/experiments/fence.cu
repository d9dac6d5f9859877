// Does a killed process write to memory of another after its socket is closed, or after its pidfd says that it is gone?
#include <algorithm>
#include <deque>
#include <random>
#include "bench/experiments/kernels.cuh"
#include "bench/experiments/raw.hpp"

namespace experiments {
namespace {
constexpr int kWatched = 32;        // words that are counted up and watched,
constexpr int kWatchedStride = 32;  // so many words apart

// Counts each watched word up, as fast as it goes, until the deadline.
__global__ void count_up(unsigned* words) {
  const uint64_t deadline = nanoseconds() + kLimit;
  for (unsigned i = 1; (i & 1023U) != 0 || nanoseconds() < deadline; ++i) store_relaxed(words + blockIdx.x * kWatchedStride, i);
}

// Samples the watched words without pause. Times are the device's clock, in nanoseconds.
struct Marks {  // the host says what it has seen
  unsigned eof, pidfd, stop;
};
struct Seen {
  unsigned begun;  // some word was counted up
  Ended ended;
  uint64_t eof_at, pidfd_at;     // when the marks were seen here
  uint64_t old_until[kWatched];  // the last change came after this,
  uint64_t new_from[kWatched];   // and before this
};
__global__ void watch(const unsigned* words, const Marks* marks, Seen* seen) {
  __shared__ volatile unsigned over;
  if (threadIdx.x == 0) over = 0;
  __syncthreads();
  if (threadIdx.x == kWatched) {  // a warp of its own, because the host's memory is far
    const uint64_t deadline = nanoseconds() + kLimit;
    uint64_t eof = 0;
    uint64_t pidfd = 0;
    while (over == 0) {
      if (eof == 0 && load_relaxed(&marks->eof) != 0) eof = nanoseconds();
      if (pidfd == 0 && load_relaxed(&marks->pidfd) != 0) pidfd = nanoseconds();
      if (load_relaxed(&marks->stop) != 0) over = static_cast<unsigned>(Ended::told);
      if (nanoseconds() > deadline) over = static_cast<unsigned>(Ended::deadline);
    }
    seen->eof_at = eof;
    seen->pidfd_at = pidfd;
    seen->ended = static_cast<Ended>(over);
  }
  if (threadIdx.x >= kWatched) return;
  unsigned value = 0;
  uint64_t before = nanoseconds();
  uint64_t old_until = 0;
  uint64_t new_from = 0;
  while (over == 0) {
    const uint64_t start = nanoseconds();
    const unsigned now = load_relaxed(words + threadIdx.x * kWatchedStride);
    if (now != value) {
      if (value == 0) store_relaxed(&seen->begun, 1U);
      old_until = before;
      new_from = nanoseconds();
      value = now;
    }
    before = start;
  }
  seen->old_until[threadIdx.x] = old_until;
  seen->new_from[threadIdx.x] = new_from;
}

struct Trials {
  Figures eof{}, pidfd{}, from_eof{}, from_pidfd{};
  int after_eof = 0, after_pidfd = 0, maybe_after_pidfd = 0;  // as the watching kernel saw it
  int copied_at_eof = 0, copied_at_pidfd = 0, later = 0;      // other than in the end
};

// The words as they were when a copy that was started then was done. A copy needs no kernel to have its turn.
struct Copy {
  unsigned words[kWatched * kWatchedStride];
  bool equals(const Copy& other) const {
    for (size_t i = 0; i < kWatched; ++i)
      if (words[i * kWatchedStride] != other.words[i * kWatchedStride]) return false;
    return true;
  }
};

void one(Child& child, SharedMemory& memory, cudaStream_t stream, cudaStream_t copies, useconds_t delay, Trials& trials) {
  const Mapped<Marks> marks;
  const Mapped<Seen> seen;
  const Mapped<Copy> at_eof, at_pidfd, at_stop, in_the_end;
  const auto start_copy = [&](const Mapped<Copy>& copy) {
    gpu::cuda(cudaMemcpyAsync(copy.get(), memory.words(), sizeof(Copy), cudaMemcpyDeviceToHost, copies), "cudaMemcpyAsync");
  };
  gpu::cuda(cudaMemsetAsync(memory.words(), 0, SharedMemory::kUnit, stream), "cudaMemsetAsync");
  gpu::cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  expect_message(child.socket(), "its context");
  watch<<<1, kWatched + 32, 0, stream>>>(memory.words(), marks.get(), seen.get());
  send_message(child.socket(), memory.exported().get());
  if (!soon([&] { return look(seen->begun) != 0; })) gpu::give_up("the other process' kernel does not count");
  usleep(delay);

  const auto start = Clock::now();
  child.kill();
  const auto mark = [&](int fd, unsigned& word, const Mapped<Copy>& copy, Figures& figures) {
    if (word != 0 || !is_readable(fd)) return word != 0;
    put(word, 1);
    start_copy(copy);
    figures.add(microseconds(start, Clock::now()));
    return true;
  };
  if (!soon([&] {
        const bool eof = mark(child.socket(), marks->eof, at_eof, trials.eof);
        return mark(child.pidfd(), marks->pidfd, at_pidfd, trials.pidfd) && eof;
      }))
    gpu::give_up("a killed process does not end");
  usleep(50'000);
  start_copy(at_stop);
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

  start_copy(in_the_end);
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
  const auto count_of = [](int trials_so) { return std::to_string(trials_so); };
  answer(name + "trials with changes after end of file",
      count_of(trials.copied_at_eof) + " by a copy started then, " + count_of(trials.after_eof) + " surely by samples," + of);
  answer(name + "trials with changes after pidfd",
      count_of(trials.copied_at_pidfd) + " by a copy started then, " + count_of(trials.after_pidfd) + " surely and " +
          count_of(trials.maybe_after_pidfd) + " perhaps by samples, " + count_of(trials.later) + " later than 50 ms," + of);
}
}  // namespace

void counter_role(long device) {
  use_device(static_cast<int>(device));
  cudaStream_t stream = new_stream();
  send_message(kSocket);
  const SharedMemory memory(expect_message(kSocket, "the memory").get(), SharedMemory::kUnit);
  count_up<<<kWatched, 1, 0, stream>>>(memory.words());
  receive_message(kSocket);  // it is killed here
}

void fence(const Setup& setup) {
  use_device(0);
  series("one GPU", 0, setup.trials);
  if (setup.gpus > 1) series("two GPUs", 1, setup.trials);
}
}  // namespace experiments
