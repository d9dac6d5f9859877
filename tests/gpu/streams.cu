// Streams and kernels of the user's own: memory outlives the kernels that read it, streams are
// told apart by more than their handles, several groups work at once, and captures stay valid.
#include <algorithm>
#include <cmath>

#include "tests/gpu/world.hpp"

namespace gpu {
namespace {
// Reads memory again and again for `ns` nanoseconds.
__global__ void read_for(
    const volatile unsigned* from, size_t words, unsigned long long ns, unsigned* sum) {
  unsigned long long start = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  unsigned total = 0;
  do {
    for (size_t i = threadIdx.x; i < words; i += blockDim.x * 97UL) {
      total += from[i];
    }
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < ns);
  atomicAdd(sum, total);
}

constexpr unsigned long long kMs = 1'000'000;
constexpr size_t kBytes = size_t{16} << 20;

void read(const Rank& rank, const void* from, unsigned long long ns, cudaStream_t stream) {
  read_for<<<1, 128, 0, stream>>>(static_cast<const unsigned*>(from), kBytes / 4, ns,
      reinterpret_cast<unsigned*>(rank.ordinary));
  cuda(cudaGetLastError(), "read_for");
}

// Operands are released when their kernel has just begun, as by `y = x * 2; del x` in Python.
void outlives_kernels(Rank& rank, std::barrier<>& together, bool recorded) {
  for (int round = 0; round < 5; ++round) {
    ::symm::Buffer buffer = rank.whole.allocate(kBytes);
    ::symm::Memory memory = rank.whole.rendezvous(buffer);
    rank.settle(together);
    read(rank, buffer.span().data(), 40 * kMs, rank.second);

    for (int peer = 0; peer < rank.size; ++peer) {
      read(rank, memory.span<char>(peer).data(), 10 * kMs, rank.second);
    }

    if (recorded) memory.record_use(rank.second);
    const auto start = std::chrono::steady_clock::now();
    memory.reset();
    buffer.reset();

    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    if (rank.rank == 0 && round == 0) {
      std::printf("release took %lld ms\n", static_cast<long long>(took.count()));
    }

    const cudaError_t result = cudaStreamSynchronize(rank.second);
    expect(result == cudaSuccess,
        who(rank, std::string("memory outlives its kernels: ") + cudaGetErrorString(result)));

    if (result != cudaSuccess) give_up("the context is lost");
    rank.settle(together);
  }
}

float value(int rank, int call) { return static_cast<float>(rank + 1 + call % 13); }

float total(int size, int call) {
  return static_cast<float>(size * (size + 1) / 2 + size * (call % 13));
}

// Two threads of a rank take turns, each on its own default stream. Both streams have one
// handle.
void threads_own_streams(Rank& rank, std::barrier<>& together) {
  int device = 0;
  cuda(cudaGetDevice(&device), "cudaGetDevice");
  auto* const mine = reinterpret_cast<float*>(rank.block);
  constexpr size_t kCount = 100'000;
  const std::vector<float> operand(kCount, value(rank.rank, 0));

  rank.upload(mine, operand);
  rank.settle(together);
  std::barrier<> turn(2);
  support::as_threads(2, [&](int thread) {
    cuda(cudaSetDevice(device), "cudaSetDevice");
    for (int call = 0; call < 40; ++call) {
      // The threads issue one after the other, with nothing else between the two streams.
      if (call % 2 == thread) {
        symm(symm_allreduce(rank.group, mine, rank.ordinary, kCount, SYMM_DTYPE_F32, SYMM_OP_SUM,
                 nullptr, cudaStreamPerThread),
            "all-reduce on a thread's own stream");
      }
      turn.arrive_and_wait();
    }

    cuda(cudaStreamSynchronize(cudaStreamPerThread), "synchronize");
    turn.arrive_and_wait();
  });

  expect(rank.whole.status().status == SYMM_OK, who(rank, "streams of threads"));
  const auto got = rank.download<float>(rank.ordinary, kCount);
  expect(got.back() == total(rank.size, 0), who(rank, "sum on streams of threads"));
  rank.settle(together);
}

// Three groups of the same ranks work at once, each on a stream of its own. Each rank issues the
// calls of the groups in another order. Long, since all its steps share groups, streams and
// operands, which go only when all ranks have ended.
void groups_at_once(Rank& rank, std::barrier<>& together) {
  constexpr int kGroups = 3;
  constexpr int kCalls = 30;
  constexpr size_t kCounts[] = {700, 40'000, 300'000, 3'000'000};
  std::vector<::symm::Group> groups;
  std::vector<cudaStream_t> streams(kGroups);
  std::vector<float*> operands(kGroups);

  for (int g = 0; g < kGroups; ++g) {
    groups.push_back(rank.whole.split(0, rank.rank));
    cuda(cudaStreamCreateWithFlags(&streams[static_cast<size_t>(g)], cudaStreamNonBlocking),
        "cudaStreamCreate");
    cuda(cudaMalloc(reinterpret_cast<void**>(&operands[static_cast<size_t>(g)]),
             kCalls * 4096 + kCounts[3] * 8),
        "cudaMalloc");
  }

  rank.settle(together);
  const auto issue = [&](size_t g, int call) {
    float* const send = operands[g];
    float* const recv = send + kCounts[3];
    const size_t count = kCounts[(static_cast<size_t>(call) + g) % std::size(kCounts)];
    if (call % 5 == 4) {
      symm(symm_barrier(groups[g].get(), nullptr, 0, call % 8, nullptr, streams[g]), "barrier");
    } else {
      symm(symm_allreduce(groups[g].get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
               streams[g]),
          "all-reduce");
    }
  };

  for (size_t g = 0; g < kGroups; ++g) {
    const std::vector<float> host(kCounts[3], value(rank.rank, static_cast<int>(g)));
    rank.upload(operands[g], host.data(), host.size() * 4, streams[g]);
  }

  together.arrive_and_wait();
  for (int call = 0; call < kCalls; ++call) {
    for (int g = 0; g < kGroups; ++g) {
      issue(static_cast<size_t>((g + rank.rank) % kGroups), call);
    }
  }

  for (size_t g = 0; g < kGroups; ++g) {
    const symm_status_t status = symm_group_synchronize(groups[g].get(), streams[g], nullptr);
    expect(status == SYMM_OK, who(rank, "group " + std::to_string(g) + " of three: " +
                                            (status == SYMM_OK ? "" : symm_last_error())));
    float got = 0;
    rank.download(&got, operands[g] + kCounts[3], sizeof got, streams[g]);
    expect(got == total(rank.size, static_cast<int>(g)),
        who(rank, "sum of group " + std::to_string(g)));
  }

  rank.settle(together);
  groups.clear();
  together.arrive_and_wait();
  for (size_t g = 0; g < kGroups; ++g) {
    cuda(cudaStreamDestroy(streams[g]), "cudaStreamDestroy");
    cuda(cudaFree(operands[g]), "cudaFree");
  }

  together.arrive_and_wait();
}

void helpers(Rank& rank, std::barrier<>& together) {
  const ::symm::Group& group = rank.whole;
  read(rank, rank.block, 300 * kMs, rank.stream);
  group.stream_wait(rank.second, rank.stream);
  expect(!group.stream_done(rank.second), who(rank, "a stream that waits is not done"));

  try {
    group.synchronize(rank.second, 20);
    expect(false, who(rank, "synchronize in time"));
  } catch (const ::symm::Error& error) {
    expect(error.status() == SYMM_ERR_TIMEOUT, who(rank, error.what()));
  }

  expect(group.status().status == SYMM_OK, who(rank, "a time-out of synchronize harms nothing"));
  group.synchronize(rank.second);
  expect(group.stream_done(rank.stream), who(rank, "done"));

  group.barrier({}, 0, 0, rank.stream);
  group.stream_wait(rank.second, ::symm::all_streams);
  group.synchronize(rank.second);
  rank.settle(together);
}

// Memory is released while a stream is captured. The capture must stay valid, and the memory
// comes back afterwards.
void captures(Rank& rank, std::barrier<>& together) {
  ::symm::Buffer buffer = rank.whole.allocate(kBytes);
  ::symm::Memory memory = rank.whole.rendezvous(buffer);
  rank.settle(together);
  {
    const Graph graph(rank, [&] {
      rank.whole.barrier({}, 1, 0, rank.stream);
      memory.reset();
      buffer.reset();
      rank.whole.stream_wait(rank.stream, ::symm::all_streams);
      const auto done = std::make_unique<int32_t>();
      expect(symm_stream_query(rank.group, rank.stream, nullptr, done.get()) ==
                 SYMM_ERR_INVALID_ARGUMENT,
          who(rank, "a stream under capture is not asked"));
      rank.whole.barrier({}, 1, 0, rank.stream);
    });

    rank.settle(together);
    for (int i = 0; i < 3; ++i) {
      graph.replay();
    }

    rank.whole.synchronize(rank.stream);
    rank.settle(together);
  }

  rank.whole.barrier({}, 1, 0, rank.stream);
  rank.settle(together);
}

// Two graphs of two streams each are captured by turns. Each call reduces the result of the call
// before it. Long, since the order of its steps is under test: what is captured, made ready and
// launched, and when.
void captures_by_turns(Rank& rank, std::barrier<>& together) {
  constexpr size_t kCount = 4096;
  constexpr int kCalls = 4;
  auto* const data = reinterpret_cast<float*>(rank.ordinary);
  const std::vector<float> ones(2 * kCount, 1.0F);
  std::vector<float> sums(ones.size());

  cuda(
      cudaMemcpy(data, ones.data(), ones.size() * sizeof(float), cudaMemcpyHostToDevice), "upload");
  cudaStream_t streams[2][2] = {{rank.stream}, {rank.second}};

  cudaGraph_t graphs[2];
  cudaGraphExec_t execs[2];
  for (auto& [first, forked] : streams) {
    cuda(cudaStreamCreateWithFlags(&forked, cudaStreamNonBlocking), "a stream");
    cuda(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), "begin capture");
    rank.whole.stream_wait(forked, first);
  }

  for (int i = 0; i < 2 * kCalls; ++i) {
    float* const mine = data + static_cast<size_t>(i % 2) * kCount;
    symm(symm_allreduce(rank.group, mine, mine, kCount, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
             streams[i % 2][i / 2 % 2]),
        "sum");
  }

  for (int g = 0; g < 2; ++g) {
    rank.whole.stream_wait(streams[g][0], ::symm::all_streams);
    cuda(cudaStreamEndCapture(streams[g][0], &graphs[g]), "end capture");
  }

  // A graph cannot be made ready while the other stream is captured.
  for (int g = 0; g < 2; ++g) {
    cuda(cudaGraphInstantiate(&execs[g], graphs[g], 0), "instantiate");
    cuda(cudaGraphDestroy(graphs[g]), "destroy");
  }

  // Otherwise the first launch makes a graph ready, for which the driver may wait until the device
  // is idle. Where ranks share a device, it never is: the graph of another rank waits there for
  // this one. Without this step the test timed out with 4 and 8 ranks on one device, 1 time of 30
  // and only as the first program of the machine; with it 0 times of 12, which does not prove that
  // this was the reason.
  for (cudaGraphExec_t exec : execs) {
    cuda(cudaGraphUpload(exec, rank.stream), "upload of a graph");
  }

  rank.settle(together);
  for (cudaGraphExec_t exec : execs) {
    cuda(cudaGraphLaunch(exec, rank.stream), "replay");
  }

  rank.whole.synchronize(rank.stream);
  cuda(cudaMemcpy(sums.data(), data, sums.size() * sizeof(float), cudaMemcpyDeviceToHost),
      "download");

  const float wanted = std::pow(static_cast<float>(rank.size), static_cast<float>(kCalls));
  expect(std::count(sums.begin(), sums.end(), wanted) == std::ssize(sums),
      who(rank, "captures by turns"));

  rank.settle(together);
  for (int g = 0; g < 2; ++g) {
    cudaGraphExecDestroy(execs[g]);
    cudaStreamDestroy(streams[g][1]);
  }
}

class Streams : public testing::Test {
 protected:
  static void run(const std::function<void(Rank&, std::barrier<>&)>& body) {
    run_ranks(machine().ranks, [&](Rank& rank, std::barrier<>& together) {
      // The kernel is loaded now: loading waits for the device, on which another rank's kernel
      // may be waiting for a kernel of this rank.
      cudaFuncAttributes attributes;
      cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(read_for)),
          "load a kernel");
      rank.settle(together);
      body(rank, together);
    });
  }
};

TEST_F(Streams, MemoryOutlivesKernels) {
  for (const bool recorded : {false, true}) {
    run([recorded](
            Rank& rank, std::barrier<>& together) { outlives_kernels(rank, together, recorded); });
  }
}

TEST_F(Streams, EachThreadHasItsOwn) { run(threads_own_streams); }

TEST_F(Streams, GroupsAtOnce) { run(groups_at_once); }

TEST_F(Streams, Helpers) { run(helpers); }

TEST_F(Streams, CapturesAreLeftAlone) { run(captures); }

TEST_F(Streams, CapturesMayTakeTurns) { run(captures_by_turns); }

// The last test: all memory of the tests before it has come back.
TEST_F(Streams, MemoryComesBack) {
  symm_ipc_collect(nullptr, nullptr);
  const size_t before = free_memory();
  run([](Rank& rank, std::barrier<>& together) { outlives_kernels(rank, together, false); });
  symm_ipc_collect(nullptr, nullptr);
  expect_free(before);
}
}  // namespace
}  // namespace gpu
