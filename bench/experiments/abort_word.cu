// How soon a kernel leaves when the host stores an abort word, and what looking at that word costs a kernel that waits for
// another.
#include <random>
#include "bench/experiments/kernels.cuh"
#include "bench/experiments/raw.hpp"

namespace experiments {
namespace {
struct Words {
  unsigned value;  // 0 at first
  unsigned one;
};

// Polls a word of its own in device memory and, every `period` looks, `word`; leaves when that is not 0.
struct Leaving {
  unsigned running;
  Ended ended;
};
__global__ void leave_on(const unsigned* word, const unsigned* polled, unsigned period, Leaving* leaving) {
  const uint64_t deadline = nanoseconds() + kLimit;
  store_relaxed(&leaving->running, 1U);
  Ended how = Ended::not_yet;
  for (unsigned looks = 1; how == Ended::not_yet; ++looks) {
    if (load_relaxed(polled) != 0) how = Ended::deadline;  // nobody stores there
    if (looks % period != 0) continue;
    if (load_relaxed(word) != 0) how = Ended::told;
    else if (nanoseconds() > deadline) how = Ended::deadline;
  }
  end(&leaving->ended, how);
}

enum class Way { mapped, copied, written };
constexpr const char* kWays[] = {"mapped host memory", "device memory, by a copy on a stream of its own (symm's way)",
    "device memory, by cuStreamWriteValue32"};

// One of two sides: waits for the other's number in `mine` and stores it to `theirs`. Every `period` looks it polls `abort`, if
// `period` is not 0. The first side says how many nanoseconds all rounds took.
struct PingPong {
  unsigned *mine, *theirs;
  const unsigned* abort;
  unsigned period, rounds, first;
};
struct Played {
  uint64_t nanoseconds;
  Ended ended;
};
__global__ void play(const PingPong side, Played* played) {
  const uint64_t deadline = nanoseconds() + kLimit;
  unsigned looks = 0;
  unsigned since = 0;  // looks since the abort word was polled
  uint64_t start = 0;
  for (unsigned round = 1; round <= side.rounds; ++round) {
    if (round == side.rounds / 10) start = nanoseconds();  // the other side is there by then
    if (side.first != 0) store_relaxed(side.theirs, round);
    while (load_relaxed(side.mine) < round) {
      if (side.period != 0 && ++since >= side.period) {
        since = 0;
        if (load_relaxed(side.abort) != 0) return end(&played->ended, Ended::deadline);
      }
      if ((++looks & 0xFFFFU) == 0 && nanoseconds() > deadline) return end(&played->ended, Ended::deadline);
    }
    if (side.first == 0) store_relaxed(side.theirs, round);
  }
  played->nanoseconds = nanoseconds() - start;
  end(&played->ended, Ended::told);
}
}  // namespace

void abort_latency(const Setup&) {
  use_device(0);
  cudaStream_t stream = new_stream();
  cudaStream_t own = new_stream();
  unsigned* const on_device = new_device_words();
  unsigned* const polled = new_device_words();
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
        leave_on<<<1, 1, 0, stream>>>(way == Way::mapped ? &words->value : on_device, polled, period, leaving.get());
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
    const PingPong mine{side.word, sides[1 - s].word, abort, period, kRounds, s == 0 ? 1U : 0U};
    play<<<1, 1, 0, side.stream>>>(mine, played[s].get());
  }
  for (int s = 0; s < 2; ++s) {
    gpu::cuda(cudaStreamSynchronize(sides[s].stream), "ping-pong");
    if (played[s]->ended != Ended::told) gpu::give_up("ping-pong: a side did not come");
  }
  return static_cast<double>(played[0]->nanoseconds) / kTimed / 2;
}
}  // namespace

void abort_polling(const Setup& setup) {
  Side sides[2];
  for (int s = 0; s < 2; ++s) {
    sides[s].device = s % setup.gpus;
    use_device(sides[s].device);
    if (setup.gpus > 1) gpu::cuda(cudaDeviceEnablePeerAccess(1 - s, 0), "cudaDeviceEnablePeerAccess");
    sides[s].stream = new_stream();
    sides[s].word = new_device_words();
    sides[s].abort = new_device_words();
  }
  const Mapped<Words> words;
  struct Case {
    unsigned period;
    bool on_host;
    Figures figures;
  };
  std::vector<Case> cases = {{0, false, Figures("ns")}};
  for (const bool on_host : {false, true})
    for (const unsigned period : {1U, 100U, 1000U, 10000U}) cases.push_back({period, on_host, Figures("ns")});
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // by turns; the first does not count
    for (Case& now : cases) {
      const double one = hop(sides, now.period, now.on_host ? &words->value : nullptr);
      if (repeat != 0) now.figures.add(one);
    }
  }
  gpu::expect(cases[0].figures.quantile(0) > 0, "ping-pong: time passes");
  const std::string where = std::string("ping-pong, one way, ") + (setup.gpus > 1 ? "two GPUs" : "one GPU") + ", abort word ";
  for (Case& now : cases) {
    const std::string period = std::to_string(now.period) + (now.period == 1 ? " look" : " looks");
    const std::string memory = now.on_host ? "mapped host" : "device";
    now.figures.print(where + (now.period == 0 ? "never polled" : "in " + memory + " memory, polled every " + period));
  }
}
}  // namespace experiments
