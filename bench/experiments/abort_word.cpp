// SPDX-License-Identifier: Apache-2.0
//
// How soon a kernel leaves when the host stores an abort word, and what looking at that word costs a kernel that waits for
// another.
#include <random>

#include "bench/experiments/kernels.hpp"
#include "bench/experiments/questions.hpp"
#include "bench/experiments/raw.hpp"

namespace experiments {
namespace {

struct Words {
  unsigned value;  // 0 at first
  unsigned one;
};

unsigned* new_device_word() {
  void* word = nullptr;
  gpu::cuda(cudaMalloc(&word, 4096), "cudaMalloc");
  gpu::cuda(cudaMemset(word, 0, 4096), "cudaMemset");
  gpu::cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return static_cast<unsigned*>(word);
}

enum class Way {
  mapped,
  copied,
  written
};
constexpr const char* kWays[] = {"mapped host memory", "device memory, by a copy on a stream of its own (symm's way)",
                                 "device memory, by cuStreamWriteValue32"};

}  // namespace

void abort_latency() {
  use_device(0);
  load_kernels();
  cudaStream_t stream = new_stream();
  cudaStream_t own = new_stream();
  unsigned* const on_device = new_device_word();
  unsigned* const polled = new_device_word();
  const Mapped<Words> words;
  words->one = 1;
  std::mt19937 random(2);
  for (const unsigned period : {1U, 1024U}) {
    for (const Way way : {Way::mapped, Way::copied, Way::written}) {
      Figures last_store;
      Figures idle;
      bool told = true;
      for (int trial = 0; trial < 202; ++trial) {
        put(words->value, 0);
        gpu::cuda(cudaMemsetAsync(on_device, 0, sizeof *on_device, stream), "cudaMemsetAsync");
        const Mapped<Leaving> leaving;
        leave_on(way == Way::mapped ? &words->value : on_device, polled, period, leaving.get(), stream);
        if (!soon([&] { return look(leaving->running) != 0; })) gpu::give_up("a kernel does not start");
        usleep(static_cast<useconds_t>(50 + random() % 100));
        const auto start = Clock::now();
        if (way == Way::mapped) put(words->value, 1);
        if (way == Way::copied)
          gpu::cuda(cudaMemcpyAsync(on_device, &words->one, sizeof words->one, cudaMemcpyHostToDevice, own), "cudaMemcpyAsync");
        if (way == Way::written) ANSWERS_CALL(cuStreamWriteValue32, own, reinterpret_cast<CUdeviceptr>(on_device), 1, 0);
        if (!soon([&] { return look(leaving->ended) != Ended::not_yet; })) gpu::give_up("a kernel does not leave");
        const auto left = Clock::now();
        if (!soon([&] { return cudaStreamQuery(stream) == cudaSuccess; })) gpu::give_up("a kernel does not end");
        const auto over = Clock::now();
        told = told && leaving->ended == Ended::told;
        gpu::cuda(cudaStreamSynchronize(own), "cudaStreamSynchronize");
        if (trial < 2) continue;  // first uses of a stream
        last_store.add(microseconds(start, left));
        idle.add(microseconds(start, over));
      }
      const std::string name = std::string("abort word in ") + kWays[static_cast<int>(way)] + ", looked at every " +
                               std::to_string(period) + (period == 1 ? " poll" : " polls");
      gpu::expect(told, name + ": the kernel leaves because of it");
      answer(name, "host store to the kernel's last store " + last_store.text() + "; to stream idle " + idle.text());
    }
  }
  cudaFree(on_device);
  cudaFree(polled);
}

namespace {

// The two sides, each with a stream, a word that the other stores to, and an abort word on its device.
struct Side {
  int device = 0;
  cudaStream_t stream = nullptr;
  unsigned* word = nullptr;
  unsigned* abort = nullptr;
  void use() const { gpu::cuda(cudaSetDevice(device), "cudaSetDevice"); }
};

constexpr unsigned kRounds = 5000;
constexpr unsigned kTimed = kRounds - kRounds / 10 + 1;
constexpr int kRepeats = 9;

// Nanoseconds from one side's store to the other's, the mean over the rounds of one play.
double hop(Side (&sides)[2], unsigned period, const unsigned* host_word) {
  const Mapped<Played> played[2];
  for (const Side& side : sides) {
    side.use();
    gpu::cuda(cudaMemsetAsync(side.word, 0, sizeof *side.word, side.stream), "cudaMemsetAsync");
    gpu::cuda(cudaStreamSynchronize(side.stream), "cudaStreamSynchronize");
  }
  for (int s = 0; s < 2; ++s) {
    const Side& side = sides[s];
    side.use();
    const unsigned* const abort = host_word != nullptr ? host_word : side.abort;
    play({side.word, sides[1 - s].word, abort, period, kRounds, s == 0 ? 1U : 0U}, played[s].get(), side.stream);
  }
  for (int s = 0; s < 2; ++s) {
    gpu::cuda(cudaStreamSynchronize(sides[s].stream), "ping-pong");
    if (played[s]->ended != Ended::told) gpu::give_up("ping-pong: a side did not come");
  }
  return static_cast<double>(played[0]->nanoseconds) / kTimed / 2;
}

}  // namespace

void abort_polling(int gpus) {
  Side sides[2];
  for (int s = 0; s < 2; ++s) {
    sides[s].device = s % gpus;
    use_device(sides[s].device);
    if (gpus > 1) gpu::cuda(cudaDeviceEnablePeerAccess(1 - s, 0), "cudaDeviceEnablePeerAccess");
    load_kernels();
    sides[s].stream = new_stream();
    sides[s].word = new_device_word();
    sides[s].abort = new_device_word();
  }
  const Mapped<Words> words;
  struct Case {
    unsigned period;
    bool on_host;
    Figures figures;
  };
  std::vector<Case> cases = {{0, false, Figures("ns")}};
  for (const bool on_host : {false, true}) {
    for (const unsigned period : {1U, 100U, 1000U, 10000U}) cases.push_back({period, on_host, Figures("ns")});
  }
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // by turns; the first does not count
    for (Case& now : cases) {
      const double one = hop(sides, now.period, now.on_host ? &words->value : nullptr);
      if (repeat != 0) now.figures.add(one);
    }
  }
  gpu::expect(cases[0].figures.quantile(0) > 0, "ping-pong: time passes");
  const std::string where = std::string("ping-pong, one way, ") + (gpus > 1 ? "two GPUs" : "one GPU") + ", abort word ";
  for (Case& now : cases) {
    const std::string period = std::to_string(now.period) + (now.period == 1 ? " look" : " looks");
    const std::string memory = now.on_host ? "mapped host" : "device";
    now.figures.print(where + (now.period == 0 ? "never polled" : "in " + memory + " memory, polled every " + period));
  }
}

}  // namespace experiments
