// SPDX-License-Identifier: Apache-2.0
//
// After symm_group_abort() in the middle of a collective: stream, context, the graph that was captured with the group, and a new
// group.
#include <algorithm>

#include "bench/experiments/questions.hpp"
#include "bench/experiments/raw.hpp"

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

std::string who(const Rank& rank, const char* what) { return std::string(what) + ", rank " + std::to_string(rank.rank); }

cudaGraphExec_t capture(const Rank& rank, symm_group_t* group, std::barrier<>& together) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  auto* const data = reinterpret_cast<float*>(rank.ordinary);
  rank.settle(together);
  gpu::cuda(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (const size_t count : kCounts) {
    gpu::symm(symm_allreduce(group, rank.block, data, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, rank.stream),
              "symm_allreduce in capture");
  }
  gpu::symm(symm_barrier(group, nullptr, 0, 0, nullptr, rank.stream), "symm_barrier in capture");
  gpu::cuda(cudaStreamEndCapture(rank.stream, &graph), "end capture");
  gpu::cuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  gpu::cuda(cudaGraphUpload(exec, rank.stream), "upload of a graph");
  cudaGraphDestroy(graph);
  rank.settle(together);
  return exec;
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

symm_status_t health(symm_group_t* group) {
  symm_group_status_t status{};
  status.struct_size = sizeof status;
  gpu::symm(symm_group_status(group, &status), "symm_group_status");
  return status.status;
}

symm_group_t* another_group(const Rank& rank, const std::string& bootstrap) {
  int devices = 0;
  gpu::cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank.rank;
  config.size = rank.size;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = rank.rank % devices;
  config.bootstrap = bootstrap.c_str();
  config.create_timeout_ms = 20000;
  config.timeout_ms = 10000;
  config.flags = rank.size > devices ? SYMM_GROUP_OVERLAPPING_DEVICES : 0;
  symm_group_t* group = nullptr;
  gpu::symm(symm_group_create(&config, &group), "symm_group_create");
  return group;
}

void trial(Rank& rank, std::barrier<>& together, Shared& shared, const std::string& bootstrap) {
  const std::vector<float> ones(kMost, 1.0F);
  gpu::cuda(cudaMemcpyAsync(rank.block, ones.data(), kMost * sizeof(float), cudaMemcpyHostToDevice, rank.stream), "upload");
  rank.wait();
  cudaGraphExec_t exec = capture(rank, rank.group, together);
  gpu::cuda(cudaGraphLaunch(exec, rank.stream), "replay");
  gpu::expect(is_sum(rank), who(rank, "a replay before the abort is right"));
  clear(rank);
  together.arrive_and_wait();

  // Rank 0 does not come, and aborts.
  if (rank.rank != 0) gpu::cuda(cudaGraphLaunch(exec, rank.stream), "replay");
  usleep(20'000);
  together.arrive_and_wait();
  if (rank.rank == 0) {
    shared.aborted = Clock::now();
    gpu::symm(symm_group_abort(rank.group, "a question"), "symm_group_abort");
  } else {
    soon([&] { return cudaStreamQuery(rank.stream) != cudaErrorNotReady; });
    const auto idle = Clock::now();
    gpu::expect(cudaStreamSynchronize(rank.stream) == cudaSuccess, who(rank, "the stream is usable after an abort"));
    if (rank.rank == 1) shared.idle.add(microseconds(shared.aborted, idle));
  }
  together.arrive_and_wait();
  gpu::expect(health(rank.group) == SYMM_ERR_ABORTED, who(rank, "the group is aborted"));
  unsigned word = 0;
  gpu::cuda(cudaMemsetAsync(rank.ordinary, 7, sizeof word, rank.stream), "memset after an abort");
  gpu::cuda(cudaMemcpyAsync(&word, rank.ordinary, sizeof word, cudaMemcpyDeviceToHost, rank.stream), "copy after an abort");
  gpu::expect(cudaStreamSynchronize(rank.stream) == cudaSuccess && word == 0x07070707U,
              who(rank, "the context is usable after an abort"));
  gpu::expect(symm_barrier(rank.group, nullptr, 0, 0, nullptr, rank.stream) == SYMM_ERR_ABORTED, who(rank, "later calls say so"));

  // The graph does not ask the library. Once on all ranks, once on one alone.
  for (const bool alone : {false, true}) {
    clear(rank);
    together.arrive_and_wait();
    if (rank.rank == 0 || !alone) {
      const auto start = Clock::now();
      gpu::cuda(cudaGraphLaunch(exec, rank.stream), "replay after an abort");
      const bool usable = cudaStreamSynchronize(rank.stream) == cudaSuccess;
      const double took = microseconds(start, Clock::now()) * 1e-3;
      gpu::expect(usable && took < 5000, who(rank, "a replay after an abort ends, and the stream stays usable"));
      const bool sum = is_sum(rank);
      if (rank.rank == 0) {
        shared.replay.add(took);
        ++shared.replays;
        shared.right += sum ? 1 : 0;
      }
    }
    together.arrive_and_wait();
    gpu::expect(health(rank.group) == SYMM_ERR_ABORTED, who(rank, "the group stays aborted"));
  }
  gpu::cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");

  symm_group_t* next = another_group(rank, bootstrap);
  exec = capture(rank, next, together);
  gpu::cuda(cudaGraphLaunch(exec, rank.stream), "replay with a new group");
  gpu::expect(is_sum(rank), who(rank, "a graph captured anew with a new group is right"));
  rank.settle(together);
  gpu::cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  symm_group_release(next);
}

}  // namespace

void aborted_group() {
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
