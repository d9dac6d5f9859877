// Parts of a call by themselves: the bandwidth of memory, and the cost of a call that waits for no
// other rank.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include <benchmark/benchmark.h>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/types.hpp"
#include <symm/symm.h>

namespace {
using symm::DType;
using symm::host::Reduction;

struct Free {
  void operator()(std::byte* block) const { std::free(block); }
};

using Block = std::unique_ptr<std::byte[], Free>;

Block make_block(size_t bytes) {
  Block block(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
  std::fill_n(block.get(), bytes, std::byte{0});
  return block;
}

// The bandwidth of memory: every thread copies an array of its own to another. Bytes read and bytes
// written both count. Ordinary stores are those of a reduction, since memcpy() chooses its stores
// by itself.
void copy(benchmark::State& state, const char* stores, bool nontemporal) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Block from = make_block(bytes);
  const Block to = make_block(bytes);
  const std::byte* source = from.get();
  std::byte* destination = to.get();
  Reduction one;
  one.dtype = DType::f32;
  one.count = bytes / sizeof(float);
  one.sources = &source;
  one.source_count = 1;
  one.destinations = &destination;
  one.destination_count = 1;

  for (auto _ : state) {
    if (nontemporal) {
      symm::host::copy(destination, source, bytes, true);
    } else {
      symm::host::reduce(one);
    }
  }

  state.SetBytesProcessed(2 * state.iterations() * state.range(0));
  state.SetLabel(stores);
}

// A call in a group of one: guard, handle, checks, plan, turn and a copy.
void one_rank(benchmark::State& state) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.size = 1;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://micro";
  symm_group_t* group = nullptr;
  symm_status_t status = symm_group_create(&config, &group);
  const float send[2] = {1, 2};
  float recv[2];

  for (auto _ : state) {
    if (status == SYMM_OK) {
      status = symm_allreduce(group, send, recv, 2, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr);
    }
    benchmark::DoNotOptimize(recv);
  }

  if (status != SYMM_OK) state.SkipWithError(symm_last_error());
  symm_group_release(group);
}

BENCHMARK_CAPTURE(copy, ordinary, "ordinary", false)->Arg(64 << 20)->Threads(2)->UseRealTime();
BENCHMARK_CAPTURE(copy, past_the_cache, "past the cache", true)
    ->Arg(64 << 20)
    ->Threads(2)
    ->UseRealTime();
BENCHMARK(one_rank)->Name("allreduce/8 bytes/one rank");
}  // namespace

BENCHMARK_MAIN();
