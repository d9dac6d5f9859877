// What a barrier costs whose counters are right on several streams: claimed atomically by the kernel, or its turns ordered by an
// event; on one stream and on two by turns, eagerly and in a graph.
#include <array>
#include <barrier>
#include "bench/experiments/kernels.cuh"
#include "bench/experiments/raw.hpp"

namespace experiments {
namespace {

constexpr int kBarriers = 200;
constexpr int kRepeats = 15;

// One of two sides at a barrier, as a kernel of the library's does it.
struct Meeting {
  unsigned *mine, *theirs;  // arrivals of the other side here, and of this side there
  unsigned *sent, *taken;   // this side's own counters
  unsigned* late;           // not 0: the other side did not come
};
// Both counters are loaded and stored, so one at a time; or a number is claimed atomically, then the other side told by an
// addition.
template <bool claims> __global__ void __launch_bounds__(32) meet(const Meeting side) {
  symm::cuda::begin();
  if (threadIdx.x != 0) return;
  unsigned wanted;
  if constexpr (claims) {
    wanted = symm::cuda::claim(side.taken) + 1;
    symm::cuda::add_release(side.theirs, 1U);
  } else {
    const unsigned mark = load_relaxed(side.sent) + 1;
    wanted = load_relaxed(side.taken) + 1;
    symm::cuda::store_release(side.theirs, mark);
    store_relaxed(side.sent, mark);
  }
  uint64_t deadline = 0;
  for (unsigned looks = 1; static_cast<int>(load_relaxed(side.mine) - wanted) < 0; ++looks) {
    if ((looks & 1023U) != 0) continue;
    const uint64_t now = nanoseconds();
    if (deadline == 0) deadline = now + kLimit;
    if (now < deadline) continue;
    store_relaxed(side.late, 1U);
    return;
  }
  symm::cuda::load_acquire(side.mine);
  symm::cuda::let_next_launch();
  if constexpr (!claims) store_relaxed(side.taken, wanted);
}

struct Way {
  const char* name;
  void (*kernel)(Meeting);
  bool has_turns;  // an event behind each barrier, awaited by the next one if that is on another stream
  bool is_right_on_two;
};
constexpr Way kWays[] = {{"stored", meet<false>, false, false},
                         {"stored, with turns by an event", meet<false>, true, true},
                         {"claimed", meet<true>, false, true}};

struct Side {
  int device = 0;
  unsigned* words = nullptr;  // of 128 bytes each: arrivals of the other side, sent, taken, late
  cudaStream_t streams[2] = {};
  cudaEvent_t turn = nullptr, fork = nullptr, join = nullptr;
  Meeting meeting{};

  void meet(const Way& way, cudaStream_t stream) const {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config{{1, 1, 1}, {32, 1, 1}, 0, stream, &early, 1};
    gpu::cuda(cudaLaunchKernelEx(&config, way.kernel, meeting), "meet");
  }
  void run(const Way& way, int streams_used) const {
    for (int i = 0; i < kBarriers; ++i) {
      cudaStream_t stream = streams[i % streams_used];
      if (way.has_turns && streams_used > 1 && i > 0) gpu::cuda(cudaStreamWaitEvent(stream, turn, 0), "cudaStreamWaitEvent");
      meet(way, stream);
      if (way.has_turns) gpu::cuda(cudaEventRecord(turn, stream), "cudaEventRecord");
    }
  }
  cudaGraphExec_t captured(const Way& way, int streams_used) const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    gpu::cuda(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), "begin capture");
    gpu::cuda(cudaEventRecord(fork, streams[0]), "cudaEventRecord");
    gpu::cuda(cudaStreamWaitEvent(streams[1], fork, 0), "cudaStreamWaitEvent");
    run(way, streams_used);
    gpu::cuda(cudaEventRecord(join, streams[1]), "cudaEventRecord");
    gpu::cuda(cudaStreamWaitEvent(streams[0], join, 0), "cudaStreamWaitEvent");
    gpu::cuda(cudaStreamEndCapture(streams[0], &graph), "end capture");
    gpu::cuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    gpu::cuda(cudaGraphUpload(exec, streams[0]), "upload of a graph");
    cudaGraphDestroy(graph);
    return exec;
  }
  void wait() const {
    for (cudaStream_t stream : streams) gpu::cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
};

// Microseconds a barrier, by repeat; what side 0 sees.
Figures measured(std::array<Side, 2>& sides, const Way& way, int streams_used, bool in_graph) {
  Figures figures;
  std::barrier<> together(2);
  const auto play = [&](const Side& side, bool is_first) {
    gpu::cuda(cudaSetDevice(side.device), "cudaSetDevice");
    gpu::cuda(cudaMemset(side.words, 0, 4096), "cudaMemset");
    gpu::cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cudaGraphExec_t exec = in_graph ? side.captured(way, streams_used) : nullptr;
    for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // the first does not count
      together.arrive_and_wait();
      const auto start = Clock::now();
      if (in_graph) gpu::cuda(cudaGraphLaunch(exec, side.streams[0]), "replay");
      else side.run(way, streams_used);
      side.wait();
      if (is_first && repeat > 0) figures.add(microseconds(start, Clock::now()) / kBarriers);
    }
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  };
  support::as_threads(2, [&](int s) { play(sides[static_cast<size_t>(s)], s == 0); });
  return figures;
}

bool counts_are_exact(const std::array<Side, 2>& sides) {
  for (const Side& side : sides) {
    std::array<unsigned, 128> seen{};
    gpu::cuda(cudaMemcpy(seen.data(), side.words, sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
    constexpr unsigned kAll = kBarriers * (kRepeats + 1);
    if (seen[0] != kAll || seen[64] != kAll || seen[96] != 0) return false;
  }
  return true;
}

}  // namespace

void barriers_on_streams(const Setup& setup) {
  std::array<Side, 2> sides;
  for (int s = 0; s < 2; ++s) {
    Side& side = sides[static_cast<size_t>(s)];
    side.device = s % setup.gpus;
    use_device(side.device);
    if (setup.gpus > 1) gpu::cuda(cudaDeviceEnablePeerAccess(1 - s, 0), "cudaDeviceEnablePeerAccess");
    side.words = new_device_words();
    for (cudaStream_t& stream : side.streams) stream = new_stream();
    for (cudaEvent_t* event : {&side.turn, &side.fork, &side.join})
      gpu::cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  for (size_t s = 0; s < 2; ++s) {
    unsigned* const words = sides[s].words;
    sides[s].meeting = {words, sides[1 - s].words, words + 32, words + 64, words + 96};
  }
  for (const bool in_graph : {true, false}) {
    for (const int streams : {1, 2}) {
      for (const Way& way : kWays) {
        if (streams == 2 && !way.is_right_on_two) continue;
        Figures figures = measured(sides, way, streams, in_graph);
        const std::string name = std::string("a barrier, ") + (setup.gpus > 1 ? "two GPUs, " : "one GPU, ") +
                                 (in_graph ? "graphs of 200, " : "200 eagerly, ") + std::to_string(streams) +
                                 (streams > 1 ? " streams by turns: " : " stream: ") + way.name;
        gpu::expect(counts_are_exact(sides), name + ": every barrier is counted once");
        figures.print(name);
      }
    }
  }
}

}  // namespace experiments
