// Calls in chunks on GPUs: a kernel on another stream finds behind each word of progress every byte
// of its chunk, and one that makes the chunks of an operand says by words which are ready; with
// delays, by kernels and by copy engines, eagerly and in graphs.
#include <array>
#include <cstring>

#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace gpu {
namespace {
// Words, the value of captured calls, and the count of wrong bytes lie in the last part of a block.
constexpr size_t kWords = Rank::kBlock - (size_t{1} << 20);
constexpr size_t kEpoch = Rank::kBlock - (size_t{1} << 16);
constexpr size_t kWrong = Rank::kBlock - (size_t{1} << 15);
constexpr size_t kSend = size_t{40} << 20;

__host__ __device__ unsigned char byte_of(int rank, unsigned value, size_t i) {
  return static_cast<unsigned char>(
      (i * 2'654'435'761U >> 13) + value * 29 + static_cast<unsigned>(rank) * 71);
}

__host__ __device__ int number_of(int rank, unsigned value, size_t i) {
  return static_cast<int>((i * 40'503U + value * 17U) % 10'007U) * (rank + 1);
}

__device__ unsigned load_acquire(const unsigned* word) {
  unsigned value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ void store_release(unsigned* word, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// Some nanoseconds to milliseconds, which differ from chunk to chunk.
__device__ void pause(unsigned seed) {
  seed = (seed + 1) * 2'654'435'761U;
  unsigned long long start = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < (seed >> 30 == 0 ? (seed >> 8) % 1'000'000U : 0));
}

struct Gather {
  const unsigned* words;
  const unsigned char* recv;
  unsigned* wrong;
  size_t unit;
  size_t chunk_bytes;
  size_t chunks;
  int rank;
  int size;
  unsigned value;
};

// Waits for the words in their order, and looks at what lies behind each.
__global__ void consume(const Gather g) {
  constexpr unsigned long long kLimit = 15'000'000'000;
  __shared__ bool has_come;
  unsigned long long start = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  for (int step = 0; step < g.size; ++step) {
    const int peer = (g.rank + step) % g.size;
    for (size_t c = 0; c < g.chunks; ++c) {
      if (threadIdx.x == 0) {
        unsigned long long now = start;
        const unsigned* const word = g.words + static_cast<size_t>(peer) * g.chunks + c;
        has_come = false;
        while (!has_come && now - start < kLimit) {
          has_come = static_cast<int>(load_acquire(word) - g.value) >= 0;
          asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        }
        if (!has_come) atomicAdd(g.wrong, 1U << 24);
        pause(g.value * 131 + static_cast<unsigned>(c) * 7 + static_cast<unsigned>(step));
      }
      __syncthreads();
      if (!has_come) return;
      const size_t end = min((c + 1) * g.chunk_bytes, g.unit);
      for (size_t i = c * g.chunk_bytes + threadIdx.x; i < end; i += blockDim.x) {
        const unsigned char seen = g.recv[static_cast<size_t>(peer) * g.unit + i];
        if (seen != byte_of(peer, g.value, i)) atomicAdd(g.wrong, 1U);
      }
      __syncthreads();
    }
  }
}

__global__ void count_on(unsigned* epoch) { ++*epoch; }

__global__ void fill(unsigned char* send, size_t unit, int rank, const unsigned* epoch) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < unit; i += gridDim.x * blockDim.x) {
    send[i] = byte_of(rank, *epoch, i);
  }
}

// Makes chunks of numbers, chunk c of all blocks before chunk c + 1 of any, and says so.
__global__ void produce(int* send, unsigned* words, size_t count, size_t blocks, size_t chunk,
    size_t chunks, int rank, unsigned value) {
  for (size_t c = 0; c < chunks; ++c) {
    for (size_t block = 0; block < blocks; ++block) {
      if (threadIdx.x == 0) pause(value * 57 + static_cast<unsigned>(c + block));
      __syncthreads();
      const size_t end = min((c + 1) * chunk, count);
      for (size_t i = c * chunk + threadIdx.x; i < end; i += blockDim.x) {
        send[block * count + i] = number_of(rank, value, block * count + i);
      }
      __threadfence_system();
      __syncthreads();
      if (threadIdx.x == 0) store_release(words + block * chunks + c, value);
    }
  }
}

unsigned* words_at(const Rank& rank, size_t at) {
  return reinterpret_cast<unsigned*>(rank.block + at);
}

// Loads a kernel of this program. The first launch would do that, and wait for the device, where a
// collective may be waiting for what the kernel is to do.
template <class Kernel>
void load(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  cuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

void expect_nothing_wrong(const Rank& rank, const std::string& what) {
  const unsigned wrong = rank.download<unsigned>(rank.block + kWrong, 1)[0];
  expect(wrong == 0, who(rank, what + ": " + std::to_string(wrong) + " wrong bytes"));
}

void gather(Rank& rank, std::barrier<>& together, symm_algorithm_t algorithm, size_t unit,
    size_t chunk_bytes) {
  const size_t chunks = (unit - 1) / chunk_bytes + 1;
  const std::string what = "allgather by " + std::to_string(algorithm) + " of " +
                           std::to_string(unit) + " in chunks of " + std::to_string(chunk_bytes);
  unsigned* const words = words_at(rank, kWords);
  unsigned* const epoch = words_at(rank, kEpoch);
  auto* const send = reinterpret_cast<unsigned char*>(rank.block) + kSend;
  rank.upload(words, std::vector<unsigned>(chunks * static_cast<size_t>(rank.size), 0));
  rank.upload(epoch, std::vector<unsigned>(1, 0));
  rank.upload(rank.block + kWrong, std::vector<unsigned>(1, 0));

  symm_status_t status = SYMM_OK;
  const auto issue = [&](support::Passed<symm_collective_options_t> options) {
    options.value.algorithm = algorithm;
    count_on<<<1, 1, 0, rank.stream>>>(epoch);
    fill<<<8, 256, 0, rank.stream>>>(send, unit, rank.rank, epoch);
    status =
        symm_allgather(rank.group, send, rank.block, unit, SYMM_DTYPE_U8, options, rank.stream);
  };
  rank.settle(together);
  const Graph graph(
      rank, [&] { issue(support::in_chunks(chunk_bytes, 0, words, nullptr, epoch)); });
  symm(status, "allgather in a graph");

  for (unsigned value = 1; value <= 6; ++value) {
    rank.settle(together);
    consume<<<1, 256, 0, rank.second>>>({words, reinterpret_cast<const unsigned char*>(rank.block),
        words_at(rank, kWrong), unit, chunk_bytes, chunks, rank.rank, rank.size, value});
    cuda(cudaGetLastError(), "consume");
    if (value % 2 == 0) {
      graph.replay();
    } else {
      issue(support::in_chunks(chunk_bytes, value, words));
      symm(status, "allgather");
    }
  }
  rank.settle(together);
  expect_nothing_wrong(rank, what);
  const auto seen = rank.download<unsigned>(words, chunks * static_cast<size_t>(rank.size));
  expect(seen == std::vector<unsigned>(seen.size(), 6), who(rank, what + ": the words"));
}

void reduce(Rank& rank, std::barrier<>& together, bool scatters, size_t count, size_t chunk_bytes) {
  const size_t chunk = chunk_bytes / sizeof(int);
  const size_t chunks = (count - 1) / chunk + 1;
  const auto size = static_cast<size_t>(rank.size);
  const size_t blocks = scatters ? size : 1;
  unsigned* const words = words_at(rank, kWords);
  unsigned* const epoch = words_at(rank, kEpoch);
  auto* const send = reinterpret_cast<int*>(rank.block);
  auto* const recv = reinterpret_cast<int*>(rank.ordinary);
  rank.upload(words, std::vector<unsigned>(chunks * blocks, 0));
  rank.upload(epoch, std::vector<unsigned>(1, 0));

  symm_status_t status = SYMM_OK;
  const auto run = scatters ? symm_reduce_scatter : symm_allreduce;
  const auto issue = [&](const support::Passed<symm_collective_options_t>& options) {
    count_on<<<1, 1, 0, rank.stream>>>(epoch);
    status = run(rank.group, send, recv, count, SYMM_DTYPE_I32, SYMM_OP_SUM, options, rank.stream);
  };
  rank.settle(together);
  const Graph graph(
      rank, [&] { issue(support::in_chunks(chunk_bytes, 0, nullptr, words, epoch)); });
  symm(status, "a reduction in a graph");

  for (unsigned value = 1; value <= 4; ++value) {
    cuda(cudaMemsetAsync(send, 0x7F, blocks * count * sizeof(int), rank.stream), "cudaMemset");
    rank.settle(together);
    if (value % 2 == 0) {
      graph.replay();
    } else {
      issue(support::in_chunks(chunk_bytes, value, nullptr, words));
      symm(status, "a reduction");
    }
    produce<<<1, 256, 0, rank.second>>>(
        send, words, count, blocks, chunk, chunks, rank.rank, value);
    cuda(cudaGetLastError(), "produce");
    rank.settle(together);

    const std::vector<int> seen = rank.download<int>(recv, count);
    const size_t first = scatters ? static_cast<size_t>(rank.rank) * count : 0;
    bool is_right = true;
    for (size_t i = 0; i < count && is_right; ++i) {
      int right = 0;
      for (int r = 0; r < rank.size; ++r) {
        right += number_of(r, value, first + i);
      }
      is_right = seen[i] == right;
    }
    expect(is_right, who(rank, std::string(scatters ? "reduce_scatter" : "allreduce") + " of " +
                                   std::to_string(count) + ", call " + std::to_string(value)));
  }
}

TEST(Chunks, AreThereWhenTheirWordsAre) {
  if (const std::string why = too_many_ranks_a_device(); !why.empty()) GTEST_SKIP() << why;
  run_ranks(machine().ranks, [](Rank& rank, std::barrier<>& together) {
    load(consume);
    load(count_on);
    load(fill);
    for (const symm_algorithm_t algorithm : {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_COPY_ENGINE}) {
      gather(rank, together, algorithm, 1'000, 416);
      gather(rank, together, algorithm, 100'003, 16'384);
      gather(rank, together, algorithm, size_t{4} << 20, size_t{1} << 20);
    }
  });
}

TEST(Chunks, AreTakenWhenTheyAreReady) {
  if (const std::string why = too_many_ranks_a_device(); !why.empty()) GTEST_SKIP() << why;
  run_ranks(machine().ranks, [](Rank& rank, std::barrier<>& together) {
    load(count_on);
    load(produce);
    for (const bool scatters : {false, true}) {
      reduce(rank, together, scatters, 1'001, 1'024);
      reduce(rank, together, scatters, 300'000, size_t{256} << 10);
    }
  });
}

TEST(Chunks, ThatAreNeverReadyEndAtTheDeadline) {
  run_ranks(2, [](Rank& rank, std::barrier<>& together) {
    unsigned* const words = words_at(rank, kWords);
    rank.upload(words, std::vector<unsigned>{1, 1, rank.rank == 0 ? 0U : 1U});
    auto options = support::in_chunks(1'024, 1, nullptr, words);
    options.value.timeout_ms = rank.rank == 0 ? 1'000 : 15'000;
    rank.settle(together);
    symm(symm_allreduce(rank.group, rank.block, rank.ordinary, 700, SYMM_DTYPE_I32, SYMM_OP_SUM,
             options, rank.stream),
        "allreduce");
    rank.wait();
    // The other rank hears of it a little later.
    const auto has_failed = [&] { return rank.whole.status().status != SYMM_OK; };
    expect(support::eventually(has_failed), who(rank, "the group fails"));
    const symm_status_t status = symm_allreduce(rank.group, rank.block, rank.ordinary, 1,
        SYMM_DTYPE_I32, SYMM_OP_SUM, nullptr, rank.stream);
    const std::string message = symm_last_error();
    expect(status == SYMM_ERR_TIMEOUT, who(rank, "the deadline: " + message));
    expect(message.find("options.ready[2]") != std::string::npos, who(rank, message));
  });
}
}  // namespace
}  // namespace gpu
