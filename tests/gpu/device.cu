// Kernels of a user's own with symm/device.cuh: signals mixed with calls of the host, eagerly
// and in a graph; barriers of blocks and of grids; a deadline and a stop word, after which the
// stream still works.
#include "tests/gpu/world.hpp"
#include <symm/device.cuh>

namespace gpu {
namespace {
using namespace symm::device;

constexpr int kRounds = 50;
// The Grid lies at this offset in the block.
constexpr size_t kGridOffset = size_t{1} << 20;

// The stop word, and the words by which kernels tell of errors. They lie in memory of the host.
struct Words {
  unsigned stop;
  int code;
  unsigned wrong;
};

__device__ bool has_failed(const Outcome& outcome, Words* words) {
  if (!outcome && threadIdx.x == 0) words->code = outcome.code;
  return !outcome;
}

Memory view_of(const Rank& rank, uint64_t timeout_ms, const unsigned* stop = nullptr) {
  Memory view = {};
  symm(symm::device::describe(rank.memory.get(), timeout_ms, stop, &view), "describe");
  return view;
}

// Hands numbers to the next rank, and takes those of the last one.
__global__ void pass_on(const Memory memory, int channel, Words* words) {
  const int next = (memory.rank + 1) % memory.size;
  const int last = (memory.rank + memory.size - 1) % memory.size;
  auto* const theirs = symm::device::pointer<unsigned>(memory, next);
  const auto* const mine = symm::device::pointer<unsigned>(memory, memory.rank);

  for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x) {
    theirs[i] = static_cast<unsigned>(memory.rank) * 10000 + i;
  }

  symm::device::signal_block(memory, next, channel);
  const Outcome outcome = symm::device::wait_signal_block(memory, last, channel);
  if (has_failed(outcome, words)) return;

  for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x) {
    if (mine[i] != static_cast<unsigned>(last) * 10000 + i) atomicAdd_system(&words->wrong, 1U);
  }
}

// Each block of each rank meets the same block of the others, round after round.
__global__ void blocks_meet(const Memory memory, int first_channel, Words* words) {
  const int channel = first_channel + static_cast<int>(blockIdx.x);
  const size_t at = blockIdx.x * 4096ULL;
  const int next = (memory.rank + 1) % memory.size;

  for (unsigned round = 1; round <= kRounds; ++round) {
    symm::device::pointer<unsigned>(memory, next, at)[threadIdx.x] = round * 1000 + threadIdx.x;
    Outcome outcome = symm::device::barrier_block(memory, channel);
    const unsigned other = (threadIdx.x + 33) % blockDim.x;
    if (outcome &&
        symm::device::pointer<unsigned>(memory, memory.rank, at)[other] != round * 1000 + other) {
      atomicAdd_system(&words->wrong, 1U);
    }
    if (outcome) outcome = symm::device::barrier_block(memory, channel);
    if (has_failed(outcome, words)) return;
  }
}

// All blocks of all ranks meet. Each reads what another block of another rank stored.
__global__ void grids_meet(const Memory memory, int channel, Words* words) {
  auto* const grid = symm::device::pointer<Grid>(memory, memory.rank, kGridOffset);
  const int next = (memory.rank + 1) % memory.size;
  const unsigned other = (blockIdx.x + 1) % gridDim.x;

  for (unsigned round = 1; round <= kRounds; ++round) {
    if (threadIdx.x == 0) symm::device::pointer<unsigned>(memory, next)[blockIdx.x] = round;
    Outcome outcome = symm::device::barrier_grid(memory, channel, grid);
    if (outcome && symm::device::pointer<unsigned>(memory, memory.rank)[other] != round) {
      atomicAdd_system(&words->wrong, 1U);
    }
    if (outcome) outcome = symm::device::barrier_grid(memory, channel, grid);
    if (has_failed(outcome, words)) return;
  }
}

__global__ void wait_only(const Memory memory, int rank, int channel, Words* words) {
  words->code = symm::device::wait_signal(memory, rank, channel).code;
}

void signals(Rank& rank, std::barrier<>& together, Words* words) {
  const int next = rank.next();
  const int last = rank.last();
  const Memory view = view_of(rank, 20000);
  const auto round = [&] {
    pass_on<<<1, 256, 0, rank.stream>>>(view, 7, words);
    // One more signal and one more wait on the same channel, by calls of the host: a signal of
    // the host meets a wait of a later kernel, and the other way round.
    rank.memory.signal(next, 7, {}, rank.stream);
    rank.memory.wait_signal(last, 7, 0, rank.stream);
    rank.whole.barrier({}, 1, 0, rank.stream);
  };

  rank.settle(together);
  const Graph graph(rank, round);
  rank.settle(together);
  for (int i = 0; i < kRounds; ++i) {
    if (i % 2 == 0) {
      round();
    } else {
      graph.replay();
    }
  }

  rank.wait();
  expect(words->code == 0 && words->wrong == 0, who(rank, "signals of kernels and host"));
  rank.settle(together);
}

void barriers(Rank& rank, std::barrier<>& together, Words* words) {
  const Memory view = view_of(rank, 20000);
  rank.settle(together);
  blocks_meet<<<4, 128, 0, rank.stream>>>(view, 20, words);
  rank.wait();
  expect(words->code == 0 && words->wrong == 0, who(rank, "barriers of blocks"));
  cuda(cudaMemsetAsync(rank.block + kGridOffset, 0, sizeof(Grid), rank.stream), "clear");
  rank.settle(together);
  grids_meet<<<8, 64, 0, rank.stream>>>(view, 30, words);
  rank.wait();
  expect(words->code == 0 && words->wrong == 0, who(rank, "barriers of grids"));
  rank.settle(together);
}

void troubles(Rank& rank, std::barrier<>& together, Words* words) {
  const int other = rank.next();
  wait_only<<<1, 1, 0, rank.stream>>>(view_of(rank, 200), other, 40, words);
  rank.wait();
  Outcome outcome{words->code};
  expect(outcome.trouble() == Trouble::timeout && outcome.peer() == other,
      who(rank, "deadline of a kernel"));

  words->code = 0;
  wait_only<<<1, 1, 0, rank.stream>>>(
      view_of(rank, SYMM_TIMEOUT_INFINITE, &words->stop), other, 40, words);
  *static_cast<volatile unsigned*>(&words->stop) = 1;
  rank.wait();
  outcome = {words->code};
  expect(outcome.trouble() == Trouble::stopped && outcome.peer() == other, who(rank, "stop word"));
  words->code = 0;
  rank.settle(together);

  // The waits that failed have taken no signal, and the stream still works.
  pass_on<<<1, 256, 0, rank.stream>>>(view_of(rank, 20000), 40, words);
  rank.wait();
  expect(words->code == 0 && words->wrong == 0, who(rank, "signals after a deadline"));

  rank.whole.barrier({}, 0, 0, rank.stream);
  rank.wait();
}

TEST(DeviceHeader, MeetsTheHostsCalls) {
  run_ranks(machine().ranks, [](Rank& rank, std::barrier<>& together) {
    Words* words = nullptr;
    cuda(cudaHostAlloc(reinterpret_cast<void**>(&words), sizeof *words,
             cudaHostAllocMapped | cudaHostAllocPortable),
        "cudaHostAlloc");
    std::memset(words, 0, sizeof *words);

    // Kernels are loaded now: loading waits for the device, on which another rank's kernel may
    // be waiting for a kernel of this rank.
    cudaFuncAttributes attributes;
    for (const void* kernel :
        {reinterpret_cast<const void*>(pass_on), reinterpret_cast<const void*>(blocks_meet),
            reinterpret_cast<const void*>(grids_meet), reinterpret_cast<const void*>(wait_only)}) {
      cuda(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
    }

    rank.settle(together);
    signals(rank, together, words);
    barriers(rank, together, words);
    troubles(rank, together, words);
    together.arrive_and_wait();
    cudaFreeHost(words);
  });
}
}  // namespace
}  // namespace gpu
