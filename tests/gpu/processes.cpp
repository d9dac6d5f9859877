// Ranks are processes, each of which sees one GPU as its only one (CUDA_VISIBLE_DEVICES). One
// of them is killed or stopped in the middle of collectives, and the others get an error in
// time, keep a context that works, and form a new group of the survivors.
#include "tests/gpu/world.hpp"

namespace {
using gpu::cuda;
using gpu::expect;
using gpu::seconds_since;
using symm::Group;

// True if the sum of rank + 1 over all ranks comes out.
bool sums(const Group& group, float* data, size_t count, cudaStream_t stream) {
  std::vector<float> host(count, static_cast<float>(group.rank() + 1));
  cuda(cudaMemcpyAsync(data, host.data(), count * 4, cudaMemcpyHostToDevice, stream), "upload");
  group.allreduce(symm::Span(data, count), symm::Span(data, count), SYMM_OP_SUM,
      {SYMM_ALGORITHM_AUTO, 0, stream});
  cuda(cudaMemcpyAsync(host.data(), data, count * 4, cudaMemcpyDeviceToHost, stream), "download");
  cuda(cudaStreamSynchronize(stream), "synchronise");
  return host ==
         std::vector<float>(count, static_cast<float>(group.size() * (group.size() + 1) / 2));
}

int rank_main(int rank, int size, int how, size_t count, const std::string& directory) {
  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const std::string bootstrap = "dir://" + directory;
  Group group = gpu::form(rank, size, 0, bootstrap, 2000, 0, "all");
  symm::Memory memory = group.rendezvous(group.allocate(size_t{32} << 20));
  float* data = memory.span<float>().data();
  const std::string who = std::string(how == SIGKILL ? "killed" : "stopped") + ", " +
                          std::to_string(count) + " elements, rank " + std::to_string(rank) +
                          " of " + std::to_string(size) + ": ";

  for (int i = 0; i < 3; ++i) {
    expect(sums(group, data, count, stream), who + "sum between processes");
  }

  if (rank == size - 1) {
    std::fflush(stdout);
    raise(how);
    // A rank that was stopped is woken up at the end of the test, to go.
    std::_Exit(0);
  }

  const auto start = std::chrono::steady_clock::now();
  symm_status_t status = SYMM_OK;
  symm_failure_t health = group.status();

  while (status == SYMM_OK && health.status == SYMM_OK && seconds_since(start) < 20) {
    status = symm_allreduce(
        group.get(), data, data, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, stream);
    expect(cudaStreamSynchronize(stream) == cudaSuccess, who + "the stream stays usable");
    health = group.status();
  }

  const double took = seconds_since(start);
  const symm_status_t wanted = how == SIGKILL ? SYMM_ERR_PEER_FAILED : SYMM_ERR_TIMEOUT;
  expect(health.status == wanted,
      who + "status " + symm_status_string(health.status) + ": " + health.message);
  expect(health.rank == size - 1, who + "names the rank: " + health.message);
  expect(took < 10, who + "in time");

  if (rank == 0) {
    std::printf("%sevident after %.2f ms: %s\n", who.c_str(), took * 1e3, health.message);
  }

  memory.reset();
  group.reset();
  if (size > 2) {
    const Group survivors = gpu::form(rank, size - 1, 0, bootstrap, 2000, 0, "survivors");
    float* mine = nullptr;
    cuda(cudaMalloc(reinterpret_cast<void**>(&mine), count * 4), "cudaMalloc");
    expect(sums(survivors, mine, count, stream), who + "a new group of the survivors");
    cudaFree(mine);
  } else {
    expect(cudaMemsetAsync(nullptr, 0, 0, stream) == cudaSuccess &&
               cudaStreamSynchronize(stream) == cudaSuccess,
        who + "the context stays usable");
  }

  return gpu::role_result();
}

// A rank dies while the driver of the others is held up: a stream takes a limited amount of
// work, and a thread that adds to a full stream waits inside the driver for room.
int held_up_main(int rank, int size, const std::string& directory) {
  const Group whole = gpu::form(rank, size, 0, "dir://" + directory, 20'000, 0, "held up");
  const Group part = whole.split(0);
  if (rank == size - 1) {
    usleep(1'000'000);
    raise(SIGKILL);
  }

  cudaStream_t stream = nullptr;
  void* word = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  cuda(cudaMalloc(&word, 4), "cudaMalloc");

  static std::atomic<bool> over{false};
  const auto hold = [](void*) {
    usleep(4'000'000);
    over = true;
  };

  cuda(cudaLaunchHostFunc(stream, hold, nullptr), "cudaLaunchHostFunc");
  std::atomic<int> added{0};
  std::thread filler([&] {
    for (; added < 1'000'000 && !over; ++added) {
      cuda(cudaMemsetAsync(word, 0, 4, stream), "cudaMemsetAsync");
    }
  });

  for (int before = -1; before != added; usleep(100'000)) {
    before = added;
  }
  expect(added < 1'000'000 && !over, "the driver is held up");

  const auto know = [&] {
    return whole.status().status == SYMM_ERR_PEER_FAILED &&
           part.status().status == SYMM_ERR_PEER_FAILED;
  };

  expect(support::eventually(know, 2000) && !over,
      "both groups of rank " + std::to_string(rank) + " hear of it meanwhile");

  filler.join();
  cuda(cudaStreamSynchronize(stream), "the stream goes on");
  return gpu::role_result();
}

void run_processes(std::vector<std::string> arguments, int signal) {
  const int size = gpu::machine().ranks;
  if (size > gpu::machine().devices || size < 2) {
    GTEST_SKIP() << size << " ranks of a GPU each on " << gpu::machine().devices << " GPUs";
  }

  const support::TemporaryDirectory directory;
  arguments.push_back(directory.path());
  const auto prepare = [&](int rank) {
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
    arguments.insert(arguments.begin(), {std::to_string(rank), std::to_string(size)});
    return arguments;
  };

  gpu::run_roles(size, prepare, size - 1, signal);
}

class Processes : public testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(Processes, HearOfARankThatIsGone) {
  const auto [how, count] = GetParam();
  run_processes({std::to_string(how), count}, how);
}

TEST(HeldUp, ADriverThatWaitsHidesNoDeath) { run_processes({}, SIGKILL); }

INSTANTIATE_TEST_SUITE_P(Signals, Processes,
    testing::Combine(
        testing::Values(SIGKILL, SIGSTOP), testing::Values("500", "100000", "8000000")));
}  // namespace

int gpu::role(const std::vector<std::string>& words) {
  if (words.size() == 3) return held_up_main(std::stoi(words[0]), std::stoi(words[1]), words[2]);
  return rank_main(std::stoi(words[0]), std::stoi(words[1]), std::stoi(words[2]),
      std::stoul(words[3]), words[4]);
}
