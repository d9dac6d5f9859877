// Small collectives of f32 by turns one by one, as a batch whose calls the library may merge, and
// as one whose calls it may not, on the host. Rank 0 prints the times of a round's calls together,
// in microseconds, as its own clock has them.
// usage: symm run -n <ranks> -- symm_bench_batch [<rounds>]
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ratio>
#include <vector>

#include "tools/bench/call.hpp"
#include "tools/bench/thresholds.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
using symm::tool::quantile;

struct Kind {
  symm_collective_t collective;
  const char* name;
  const char* function;
};
constexpr Kind kKinds[] = {{SYMM_COLLECTIVE_ALLREDUCE, "all-reduce", "symm_allreduce"},
    {SYMM_COLLECTIVE_ALLGATHER, "all-gather", "symm_allgather"}};
constexpr size_t kNumbers[] = {2, 8, 32};
constexpr size_t kBytes[] = {16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

// Calls with operands of their own.
struct Work {
  Work(const Kind& kind, size_t number, size_t bytes, int ranks)
      : function(kind.function), send(number), recv(number) {
    const size_t count = bytes / sizeof(float);
    for (size_t i = 0; i < number; ++i) {
      send[i].assign(count, 1);
      recv[i].assign(count * static_cast<size_t>(ranks), 0);
      symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
      call.collective = kind.collective;
      call.send = send[i].data();
      call.recv = recv[i].data();
      call.count = count;
      call.dtype = SYMM_DTYPE_F32;
      calls.push_back(call);
    }
    // Calls with different limits are not merged. The host compares limits, and does no more.
    unlike.assign(number, SYMM_COLLECTIVE_OPTIONS_INIT);
    unmerged = calls;
    for (size_t i = 0; i < number; ++i) {
      unlike[i].max_blocks = static_cast<int32_t>(i) + 1;
      unmerged[i].options = &unlike[i];
    }
  }

  void one_by_one(const symm::Group& group) const {
    for (const symm_collective_call_t& call : calls) {
      symm::check(symm::tool::run(group.get(), call, nullptr, nullptr), function);
    }
  }

  const char* function;
  std::vector<std::vector<float>> send;
  std::vector<std::vector<float>> recv;
  std::vector<symm_collective_call_t> calls;
  std::vector<symm_collective_options_t> unlike;
  std::vector<symm_collective_call_t> unmerged;
};

template <class Make>
double microseconds(const Make& make) {
  constexpr int kRepeats = 10;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) {
    make();
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  return took.count() / kRepeats;
}

void measure(const symm::Group& group, const Kind& kind, size_t number, size_t bytes, int rounds) {
  const Work work(kind, number, bytes, group.size());
  std::vector<double> single;
  std::vector<double> batch;
  std::vector<double> unmerged;
  for (int round = 0; round < rounds; ++round) {
    single.push_back(microseconds([&] { work.one_by_one(group); }));
    batch.push_back(microseconds([&] { group.batch(work.calls); }));
    unmerged.push_back(microseconds([&] { group.batch(work.unmerged); }));
  }
  if (group.rank() != 0) return;

  std::printf(
      "%s, %2zu calls of %5zu B, median and 90th percentile: one by one %8.2f %8.2f, batch "
      "%8.2f %8.2f, not merged %8.2f %8.2f\n",
      kind.name, number, bytes, quantile(single, 0.5), quantile(single, 0.9), quantile(batch, 0.5),
      quantile(batch, 0.9), quantile(unmerged, 0.5), quantile(unmerged, 0.9));
  std::fflush(stdout);
}
}  // namespace

int main(int argc, char** argv) try {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  const symm::Group group = symm::Group::create();
  for (const Kind& kind : kKinds) {
    for (const size_t number : kNumbers) {
      for (const size_t bytes : kBytes) {
        measure(group, kind, number, bytes, std::max(rounds, 1));
      }
    }
  }
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
