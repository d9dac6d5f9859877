// What issuing an all-reduce takes on the host, from C: one of the ranks that the script beside it starts, one for each GPU.
// Bursts of calls are issued on a stream without waiting for it. Microseconds: the median and the 99th percentile of single
// calls, the median of what a call of a burst takes with all around it, and what a call takes until the stream has done the
// burst; the slowest rank of each. Rank 0 prints them, and writes them to a file of JSON if one is named.
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <symm/symm.hpp>
#include <vector>
#include "tools/bench/device.hpp"
#include "tools/bench/quantile.hpp"

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

Times measure(const symm::Group& group, void* stream, void* data, size_t bytes) {
  std::vector<double> calls;
  std::vector<double> bursts;
  std::vector<double> done;
  const size_t count = bytes / 2;
  for (int burst = -1; burst < kBursts; ++burst) {  // the first loads kernels
    group.barrier({}, 0, 0, stream);
    while (!group.stream_done(stream)) {}
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBurst; ++i) {
      const Clock::time_point before = Clock::now();
      symm::check(
          symm_allreduce(group.get(), data, data, count, SYMM_DTYPE_BF16, SYMM_OP_SUM, nullptr, stream), "symm_allreduce");
      if (burst >= 0) calls.push_back(microseconds(before, Clock::now()));
    }
    const Clock::time_point issued = Clock::now();
    while (!group.stream_done(stream)) {}
    if (burst < 0) continue;
    bursts.push_back(microseconds(start, issued) / kBurst);
    done.push_back(microseconds(start, Clock::now()) / kBurst);
  }
  return {quantile(calls, 0.5), quantile(calls, 0.99), quantile(bursts, 0.5), quantile(done, 0.5)};
}

symm::Group create(symm_backend_t backend, int device, const char* name) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = backend;
  config.device = device;
  config.create_timeout_ms = 60000;
  config.timeout_ms = 10000;
  config.name = name;
  return symm::Group::create(config);
}

void print(const std::array<Times, kCases>& all, int size, const char* json) {
  std::string rows;
  std::printf(
      "| memory | bytes | call, median | call, 99th percentile | call in a burst | until done |\n|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < kCases; ++i) {
    const Times& slowest = all[i];
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

void run(const char* json) {
  const auto hosts = create(SYMM_BACKEND_HOST, 0, "host_time on the host");
  const auto group = create(SYMM_BACKEND_CUDA, hosts.rank(), "host_time");
  const symm::tool::Device device(hosts.rank());
  void* const stream = device.stream();
  const auto memory = group.rendezvous(group.allocate(kSizes.back()));
  void* const symmetric = memory.span().data();
  const auto not_shared = group.allocate(kSizes.back());
  void* const ordinary = not_shared.span().data();
  for (int i = 0; i < 10; ++i) measure(group, stream, ordinary, kSizes.front());  // processors wake up
  std::array<Times, kCases> all{};
  size_t done = 0;
  for (void* data : {symmetric, ordinary})
    for (const size_t bytes : kSizes) all[done++] = measure(group, stream, data, bytes);
  const symm::Span times(&all[0].median, sizeof all / sizeof(double));
  hosts.allreduce(times, times, SYMM_OP_MAX);
  if (group.rank() == 0) print(all, group.size(), json);
  group.finalize();
}
}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "host_time: %s\n", error.what());
    return 1;
  }
  return 0;
}
