// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are processes, each of which sees one GPU as its only one (CUDA_VISIBLE_DEVICES), and what the others see when one
// of them is killed or stopped in the middle of collectives: an error in time, a context that still works, and a new group of the
// survivors.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "tests/gpu/world.hpp"

namespace {

using gpu::cuda;
using gpu::expect;
using gpu::symm;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

symm_group_t* form(int rank, int size, const char* name, const std::string& directory) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = 0;
  config.name = name;
  config.create_timeout_ms = 30000;
  config.timeout_ms = 2000;
  const std::string bootstrap = "dir://" + directory;
  config.bootstrap = bootstrap.c_str();
  symm_group_t* group = nullptr;
  symm(symm_group_create(&config, &group), "symm_group_create");
  return group;
}

// True if the sum of rank + 1 over all ranks comes out.
bool sums(symm_group_t* group, float* data, size_t count, cudaStream_t stream) {
  int32_t rank = 0;
  int32_t size = 0;
  symm(symm_group_rank(group, &rank), "symm_group_rank");
  symm(symm_group_size(group, &size), "symm_group_size");
  std::vector<float> host(count, static_cast<float>(rank + 1));
  cuda(cudaMemcpyAsync(data, host.data(), count * 4, cudaMemcpyHostToDevice, stream), "upload");
  symm(symm_allreduce(group, data, data, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, stream), "symm_allreduce");
  cuda(cudaMemcpyAsync(host.data(), data, count * 4, cudaMemcpyDeviceToHost, stream), "download");
  cuda(cudaStreamSynchronize(stream), "synchronise");
  for (const float value : host) {
    if (value != static_cast<float>(size * (size + 1) / 2)) return false;
  }
  return true;
}

int rank_main(int rank, int size, int how, size_t count, const std::string& directory) {
  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  symm_group_t* group = form(rank, size, "all", directory);
  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;
  void* block = nullptr;
  symm(symm_alloc(group, size_t{32} << 20, 0, &buffer), "symm_alloc");
  symm(symm_rendezvous(group, buffer, 0, &memory), "symm_rendezvous");
  symm(symm_buffer_pointer(buffer, &block), "symm_buffer_pointer");
  auto* data = static_cast<float*>(block);
  const std::string who = std::string(how == SIGKILL ? "killed" : "stopped") + ", " + std::to_string(count) + " elements, rank " +
                          std::to_string(rank) + " of " + std::to_string(size) + ": ";
  for (int i = 0; i < 3; ++i) expect(sums(group, data, count, stream), who + "sum between processes");
  if (rank == size - 1) {
    std::fflush(stdout);
    raise(how);
    std::_Exit(0);  // a stopped rank that was woken up to end
  }
  const auto start = std::chrono::steady_clock::now();
  symm_status_t status = SYMM_OK;
  symm_group_status_t health{};
  health.struct_size = sizeof health;
  while (status == SYMM_OK && health.status == SYMM_OK && seconds_since(start) < 20) {
    status = symm_allreduce(group, data, data, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, stream);
    expect(cudaStreamSynchronize(stream) == cudaSuccess, who + "the stream stays usable");
    symm(symm_group_status(group, &health), "symm_group_status");
  }
  const double took = seconds_since(start);
  const symm_status_t wanted = how == SIGKILL ? SYMM_ERR_PEER_FAILED : SYMM_ERR_TIMEOUT;
  expect(health.status == wanted, who + "status " + symm_status_string(health.status) + ": " + health.message);
  expect(health.failed_rank == size - 1, who + "names the rank: " + health.message);
  expect(took < 10, who + "in time");
  if (rank == 0) std::printf("%sevident after %.2f ms: %s\n", who.c_str(), took * 1e3, health.message);
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  symm_group_release(group);
  if (size > 2) {
    symm_group_t* survivors = form(rank, size - 1, "survivors", directory);
    float* mine = nullptr;
    cuda(cudaMalloc(reinterpret_cast<void**>(&mine), count * 4), "cudaMalloc");
    expect(sums(survivors, mine, count, stream), who + "a new group of the survivors");
    symm_group_release(survivors);
    cudaFree(mine);
  } else {
    expect(cudaMemsetAsync(nullptr, 0, 0, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess,
           who + "the context stays usable");
  }
  return gpu::role_result();
}

const bool kRole = [] {
  gpu::role() = [](int, char** argv) {
    return rank_main(std::atoi(argv[0]), std::atoi(argv[1]), std::atoi(argv[2]), std::strtoul(argv[3], nullptr, 10), argv[4]);
  };
  return true;
}();

class Processes : public testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(Processes, HearOfARankThatIsGone) {
  const int size = gpu::machine().ranks;
  const auto [how, count] = GetParam();
  if (size > gpu::machine().devices || size < 2)
    GTEST_SKIP() << size << " ranks of a GPU each on " << gpu::machine().devices << " GPUs";
  char directory[] = "/tmp/symm-gpu-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
      const std::string r = std::to_string(rank);
      const std::string n = std::to_string(size);
      const std::string signal = std::to_string(how);
      execl("/proc/self/exe", "processes", "role", r.c_str(), n.c_str(), signal.c_str(), count, directory,
            static_cast<char*>(nullptr));
      std::_Exit(127);
    }
    ranks.push_back(pid);
  }
  for (int rank = 0; rank + 1 < size; ++rank) {
    int status = 0;
    waitpid(ranks[static_cast<size_t>(rank)], &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "rank " + std::to_string(rank) + " ended with " + std::to_string(status));
  }
  kill(ranks.back(), SIGKILL);
  waitpid(ranks.back(), nullptr, 0);
  std::filesystem::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Signals, Processes,
                         testing::Combine(testing::Values(SIGKILL, SIGSTOP), testing::Values("500", "100000", "8000000")));

}  // namespace
