// After symm_group_abort() in the middle of a collective: stream, context, the graph that was captured with the group, and a new
// group.
#include "bench/experiments/experiment.hpp"

namespace experiments {
namespace {
using gpu::Rank;

constexpr int kRanks = 2;
constexpr size_t kCounts[] = {700, 200'000, 6'000'000};  // one shot, two shots, pipeline
constexpr size_t kMost = 6'000'000;

struct Shared {
  Clock::time_point aborted;
  Figures idle{};
  Figures replay{};
  int right = 0, replays = 0;
};

std::unique_ptr<gpu::Graph> capture(const Rank& rank, const ::symm::Group& group, std::barrier<>& together) {
  rank.settle(together);
  auto graph = std::make_unique<gpu::Graph>(rank, [&] {
    float* const data = reinterpret_cast<float*>(rank.ordinary);
    for (const size_t count : kCounts)
      group.allreduce(::symm::Span(reinterpret_cast<const float*>(rank.block), count), ::symm::Span(data, count), SYMM_OP_SUM,
          {SYMM_ALGORITHM_AUTO, 0, rank.stream});
    group.barrier({}, 0, 0, rank.stream);
  });
  rank.settle(together);
  return graph;
}

// Every rank's operand is ones, and its result was cleared before.
bool is_sum(const Rank& rank) {
  std::vector<float> got(kMost);
  if (cudaMemcpyAsync(got.data(), rank.ordinary, kMost * sizeof(float), cudaMemcpyDeviceToHost, rank.stream) != cudaSuccess ||
      cudaStreamSynchronize(rank.stream) != cudaSuccess)
    return false;
  return std::all_of(got.begin(), got.end(), [](float value) { return value == kRanks; });
}

void clear(const Rank& rank) {
  gpu::cuda(cudaMemsetAsync(rank.ordinary, 0, kMost * sizeof(float), rank.stream), "clear");
  rank.wait();
}

bool is_aborted(const Rank& rank) { return rank.whole.status().status == SYMM_ERR_ABORTED; }

void trial(Rank& rank, std::barrier<>& together, Shared& shared, const std::string& bootstrap) {
  const std::vector<float> ones(kMost, 1.0F);
  gpu::cuda(cudaMemcpyAsync(rank.block, ones.data(), kMost * sizeof(float), cudaMemcpyHostToDevice, rank.stream), "upload");
  rank.wait();
  auto graph = capture(rank, rank.whole, together);
  graph->replay();
  gpu::expect(is_sum(rank), gpu::who(rank, "a replay before the abort is right"));
  clear(rank);
  together.arrive_and_wait();

  // Rank 0 does not come, and aborts.
  if (rank.rank != 0) graph->replay();
  usleep(20'000);
  together.arrive_and_wait();
  if (rank.rank == 0) {
    shared.aborted = Clock::now();
    rank.whole.abort("a question");
  } else {
    soon([&] { return cudaStreamQuery(rank.stream) != cudaErrorNotReady; });
    const auto idle = Clock::now();
    gpu::expect(cudaStreamSynchronize(rank.stream) == cudaSuccess, gpu::who(rank, "the stream is usable after an abort"));
    if (rank.rank == 1) shared.idle.add(microseconds(shared.aborted, idle));
  }
  together.arrive_and_wait();
  gpu::expect(is_aborted(rank), gpu::who(rank, "the group is aborted"));
  unsigned word = 0;
  gpu::cuda(cudaMemsetAsync(rank.ordinary, 7, sizeof word, rank.stream), "memset after an abort");
  gpu::cuda(cudaMemcpyAsync(&word, rank.ordinary, sizeof word, cudaMemcpyDeviceToHost, rank.stream), "copy after an abort");
  gpu::expect(cudaStreamSynchronize(rank.stream) == cudaSuccess && word == 0x07070707U,
      gpu::who(rank, "the context is usable after an abort"));
  gpu::expect(
      symm_barrier(rank.group, nullptr, 0, 0, nullptr, rank.stream) == SYMM_ERR_ABORTED, gpu::who(rank, "later calls say so"));

  // The graph does not ask the library. Once on all ranks, once on one alone.
  for (const bool alone : {false, true}) {
    clear(rank);
    together.arrive_and_wait();
    if (rank.rank == 0 || !alone) {
      const auto start = Clock::now();
      graph->replay();
      const bool usable = cudaStreamSynchronize(rank.stream) == cudaSuccess;
      const double took = microseconds(start, Clock::now()) * 1e-3;
      gpu::expect(usable && took < 5000, gpu::who(rank, "a replay after an abort ends, and the stream stays usable"));
      const bool sum = is_sum(rank);
      if (rank.rank == 0) {
        shared.replay.add(took);
        ++shared.replays;
        shared.right += sum ? 1 : 0;
      }
    }
    together.arrive_and_wait();
    gpu::expect(is_aborted(rank), gpu::who(rank, "the group stays aborted"));
  }
  graph.reset();

  int devices = 0;
  gpu::cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  const ::symm::Group next = gpu::form(
      rank.rank, rank.size, rank.rank % devices, bootstrap, 10000, rank.size > devices ? SYMM_GROUP_OVERLAPPING_DEVICES : 0);
  graph = capture(rank, next, together);
  graph->replay();
  gpu::expect(is_sum(rank), gpu::who(rank, "a graph captured anew with a new group is right"));
  rank.settle(together);
  graph.reset();
}
}  // namespace

void aborted_group(int) {
  Shared shared;
  shared.replay = Figures("ms");
  for (int i = 0; i < 5; ++i) {
    const std::string bootstrap = "thread://" + gpu::unique_name();
    gpu::run_ranks(kRanks, [&](Rank& rank, std::barrier<>& together) { trial(rank, together, shared, bootstrap); });
  }
  shared.idle.print("symm_group_abort() on one rank to idle stream on another");
  shared.replay.print("replay after an abort: until its kernels have left");
  answer("replay after an abort: results that happen to be right",
      std::to_string(shared.right) + " of " + std::to_string(shared.replays));
}
}  // namespace experiments
