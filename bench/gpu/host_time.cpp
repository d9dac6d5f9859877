// What issuing an all-reduce takes on the host, from C: ranks are processes, one for each GPU, and bursts of calls are issued on
// a stream without waiting for it. Microseconds: the median and the 99th percentile of single calls, the median of what a call of
// a burst takes with all around it, and what a call takes until the stream has done the burst; the slowest rank of each.
//   host_time <ranks> [<results.json>]
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <symm/symm.hpp>
#include <vector>
#include "tools/bench/quantile.hpp"
#include "tools/bench/stream.hpp"

namespace {
using symm::tool::quantile;
using Clock = std::chrono::steady_clock;

constexpr int kBurst = 64;  // far from what fills a stream's queue
constexpr int kBursts = 41;
constexpr std::array<size_t, 4> kSizes = {8, 1024, size_t{64} << 10, size_t{16} << 20};
constexpr std::array<const char*, 2> kMemories = {"symmetric", "ordinary"};
constexpr size_t kCases = kSizes.size() * kMemories.size();

struct Times {
  double median, high, burst, done;
};

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// The stream's maker has made the context current.
void* ordinary_memory(size_t bytes) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("libcuda.so.1 cannot be loaded");
  const auto allocate = reinterpret_cast<int (*)(unsigned long long*, size_t)>(::dlsym(library, "cuMemAlloc_v2"));
  if (allocate == nullptr) throw std::runtime_error("libcuda.so.1 has no cuMemAlloc_v2");
  unsigned long long address = 0;
  if (const int result = allocate(&address, bytes); result != 0)
    throw std::runtime_error("cuMemAlloc: CUDA error " + std::to_string(result));
  return reinterpret_cast<void*>(address);
}

Times measure(const symm::Group& group, const symm::tool::Stream& stream, void* data, size_t bytes) {
  std::vector<double> calls;
  std::vector<double> bursts;
  std::vector<double> done;
  const size_t count = bytes / 2;
  for (int burst = -1; burst < kBursts; ++burst) {  // the first loads kernels
    group.barrier({}, 0, 0, stream.get());
    stream.synchronize();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBurst; ++i) {
      const Clock::time_point before = Clock::now();
      symm::check(
          symm_allreduce(group.get(), data, data, count, SYMM_DTYPE_BF16, SYMM_OP_SUM, nullptr, stream.get()), "symm_allreduce");
      if (burst >= 0) calls.push_back(microseconds(before, Clock::now()));
    }
    const Clock::time_point issued = Clock::now();
    stream.synchronize();
    if (burst < 0) continue;
    bursts.push_back(microseconds(start, issued) / kBurst);
    done.push_back(microseconds(start, Clock::now()) / kBurst);
  }
  return {quantile(calls, 0.5), quantile(calls, 0.99), quantile(bursts, 0.5), quantile(done, 0.5)};
}

void run_rank(int rank, int size, const std::string& directory, Times* results) {
  const symm::tool::Stream stream(rank);
  const std::string bootstrap = "dir://" + directory;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = rank;
  config.bootstrap = bootstrap.c_str();
  config.create_timeout_ms = 60000;
  config.timeout_ms = 10000;
  config.name = "host_time";
  const auto group = symm::Group::create(config);
  const auto memory = group.rendezvous(group.allocate(kSizes.back()));
  void* const symmetric = memory.span().data();
  void* const ordinary = ordinary_memory(kSizes.back());
  for (int i = 0; i < 10; ++i) measure(group, stream, ordinary, kSizes.front());  // processors wake up
  for (void* data : {symmetric, ordinary})
    for (const size_t bytes : kSizes) *results++ = measure(group, stream, data, bytes);
  stream.synchronize();
  group.finalize();
}

int rank_main(int rank, int size, const std::string& directory, Times* results) {
  try {
    run_rank(rank, size, directory, results);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host_time: rank %d: %s\n", rank, error.what());
    return 1;
  }
  return 0;
}

void print(const Times* all, int size, const char* json) {
  std::string rows;
  std::printf(
      "| memory | bytes | call, median | call, 99th percentile | call in a burst | until done |\n|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < kCases; ++i) {
    Times slowest{};
    for (int rank = 0; rank < size; ++rank) {
      const Times& times = all[static_cast<size_t>(rank) * kCases + i];
      slowest = {std::max(slowest.median, times.median), std::max(slowest.high, times.high), std::max(slowest.burst, times.burst),
          std::max(slowest.done, times.done)};
    }
    const char* memory = kMemories[i / kSizes.size()];
    const size_t bytes = kSizes[i % kSizes.size()];
    std::printf(
        "| %s | %zu | %.2f | %.2f | %.2f | %.2f |\n", memory, bytes, slowest.median, slowest.high, slowest.burst, slowest.done);
    char row[256];
    std::snprintf(row, sizeof row,
        R"(%s{"memory": "%s", "bytes": %zu, "median_us": %.4f, "p99_us": %.4f, "burst_us": %.4f, "done_us": %.4f})",
        i == 0 ? "" : ",\n  ", memory, bytes, slowest.median, slowest.high, slowest.burst, slowest.done);
    rows += row;
  }
  if (json != nullptr) std::ofstream(json) << "{\"world\": " << size << ", \"rows\": [\n  " << rows << "]}\n";
}
}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 0;
  if (size < 2 || size > 16) {
    std::fprintf(stderr, "usage: host_time <ranks, 2 to 16> [<results.json>]\n");
    return 2;
  }
  const size_t bytes = sizeof(Times) * kCases * static_cast<size_t>(size);
  void* shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char directory[] = "/tmp/symm-host-time-XXXXXX";
  if (shared == MAP_FAILED || ::mkdtemp(directory) == nullptr) {
    std::perror("host_time");
    return 1;
  }
  auto* results = static_cast<Times*>(shared);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();  // before anything of CUDA
    if (pid == 0) std::_Exit(rank_main(rank, size, directory, results + static_cast<size_t>(rank) * kCases));
    if (pid > 0) ranks.push_back(pid);
  }
  bool right = ranks.size() == static_cast<size_t>(size);
  for (const pid_t pid : ranks) {
    int status = 0;
    right = ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 && right;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (!right) return 1;
  print(results, size, argc > 2 ? argv[2] : nullptr);
  return 0;
}
