// What an all-reduce costs the host, with a fake NCCL and a fake CUDA driver: symm's own call, and
// the ways in which programs reach it through the drop-in.
//
// host_time <the drop-in>
//
// Prints one JSON object: "calls", for each way how often it calls the driver, by the name of the
// call; "ns", for each way its time in nanoseconds, the lower quartile of all turns; and the same
// while another thread asks for the state of the communicator all the time, as watchdogs do now and
// then. Ways whose names end with "legacy" are on the legacy stream.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/process.hpp"
#include <symm/symm.h>

extern "C" symm::cuda::CUresult cuCtxSetCurrent(symm::cuda::CUcontext context);
extern "C" symm::cuda::CUresult cuDevicePrimaryCtxRetain(
    symm::cuda::CUcontext* context, symm::cuda::CUdevice device);
extern "C" symm::cuda::CUresult cuStreamCreate(symm::cuda::CUstream* stream, unsigned flags);

namespace {
using symm::nccl::Comm;
using symm::nccl::Result;
using symm::nccl::UniqueId;

constexpr size_t kCount = 256;
constexpr int kBfloat16 = 9;
constexpr int kSum = 0;
constexpr int kRanks = 2;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

// The functions of one NCCL: the drop-in, or the one behind it.
struct Nccl {
  explicit Nccl(void* library) {
    find(library, "ncclGetUniqueId", get_unique_id);
    find(library, "ncclCommInitRank", init);
    find(library, "ncclCommGetAsyncError", async_error);
    find(library, "ncclGroupStart", group_start);
    find(library, "ncclGroupEnd", group_end);
    find(library, "ncclAllReduce", all_reduce);
  }

  template <class Call>
  static void find(void* library, const char* name, Call& call) {
    call = reinterpret_cast<Call>(dlsym(library, name));
    require(call != nullptr, name);
  }

  Result (*get_unique_id)(UniqueId*);
  Result (*init)(Comm*, int, UniqueId, int);
  Result (*async_error)(Comm, Result*);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void*, void*, size_t, int, int, Comm, void*);
};

// One rank of two, which are threads of this process. The kernels are not carried out, so the first
// rank makes its calls without the second one.
struct Rank {
  Comm comm = nullptr;
  symm_group_t* group = nullptr;
  void* stream = nullptr;
  void* send = nullptr;
  void* recv = nullptr;
};

Rank make_rank(const Nccl& nccl, const UniqueId& id, int rank) {
  Rank made;
  symm::cuda::CUcontext context = nullptr;
  symm::cuda::CUstream stream = nullptr;
  require(cuDevicePrimaryCtxRetain(&context, rank) == 0, "the context");
  require(cuCtxSetCurrent(context) == 0, "the current context");
  require(cuStreamCreate(&stream, 0) == 0, "a stream");
  made.stream = stream;
  made.send = fake_cuda::ordinary_memory(1 << 20);
  made.recv = fake_cuda::ordinary_memory(1 << 20);

  require(nccl.init(&made.comm, kRanks, id, rank) == symm::nccl::kSuccess, "ncclCommInitRank");
  const Result first =
      nccl.all_reduce(made.send, made.recv, kCount, kBfloat16, kSum, made.comm, made.stream);
  require(first == symm::nccl::kSuccess, "the first all-reduce goes to symm");

  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = kRanks;
  config.backend = SYMM_BACKEND_CUDA;
  config.device = rank;
  config.flags = SYMM_GROUP_ON_DEVICE;
  config.bootstrap = "thread://host-time";
  config.name = "host time";
  require(symm_group_create(&config, &made.group) == SYMM_OK, symm_last_error());
  return made;
}

struct Way {
  std::string name;
  std::function<void()> call;
};

// The ways take turns.
std::map<std::string, double> ns_of(const std::vector<Way>& ways) {
  constexpr int kTurns = 300;
  constexpr int kCalls = 50;
  std::map<std::string, std::vector<double>> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const Way& way : ways) {
      const int64_t start = support::now_ns();
      for (int i = 0; i < kCalls; ++i) {
        way.call();
      }
      times[way.name].push_back(static_cast<double>(support::now_ns() - start) / kCalls);
      fake_cuda::launches();
    }
  }

  std::map<std::string, double> quartiles;
  for (auto& [name, all] : times) {
    std::nth_element(all.begin(), all.begin() + kTurns / 4, all.end());
    quartiles[name] = all[kTurns / 4];
  }
  return quartiles;
}

void right(Result result) { require(result == symm::nccl::kSuccess, "a call succeeds"); }

// The ways of rank 0 on a stream. "group" is what PyTorch does for each collective.
std::vector<Way> ways_on(
    void* stream, const std::string& end, const Nccl& nccl, const Nccl& real, const Rank& me) {
  const auto own = [&me, stream] {
    const symm_status_t status = symm_allreduce(
        me.group, me.send, me.recv, kCount, SYMM_DTYPE_BF16, SYMM_OP_SUM, nullptr, stream);
    require(status == SYMM_OK, "symm_allreduce");
  };
  const auto call = [&nccl, &me, stream] {
    right(nccl.all_reduce(me.send, me.recv, kCount, kBfloat16, kSum, me.comm, stream));
  };
  const auto group = [&nccl, call] {
    right(nccl.group_start());
    call();
    right(nccl.group_end());
  };
  // The fake gives numbers of its calls as results.
  const auto behind = [&real, &me, stream] {
    real.group_start();
    real.all_reduce(me.send, me.recv, kCount, kBfloat16, kSum, me.comm, stream);
    real.group_end();
  };
  return {{"symm" + end, own}, {"call" + end, call}, {"group" + end, group},
      {"NCCL behind" + end, behind}};
}

std::vector<Way> all_ways(const Nccl& nccl, const Nccl& real, const Rank& me) {
  std::vector<Way> ways = ways_on(me.stream, "", nccl, real, me);
  for (Way& way : ways_on(nullptr, ", legacy", nccl, real, me)) {
    ways.push_back(std::move(way));
  }
  ways.push_back({"question", [&nccl, &me] {
                    Result error = symm::nccl::kSuccess;
                    right(nccl.async_error(me.comm, &error));
                    right(error);
                  }});
  return ways;
}

void print(const char* name, const std::map<std::string, double>& numbers, const char* end) {
  std::printf("\"%s\": {", name);
  const char* between = "";
  for (const auto& [key, number] : numbers) {
    std::printf("%s\"%s\": %.0f", between, key.c_str(), number);
    between = ", ";
  }
  std::printf("}%s", end);
}
}  // namespace

int main(int count, char** words) {
  require(count == 2, "the drop-in is named");
  void* const library = dlopen(words[1], RTLD_NOW);
  require(library != nullptr, "the drop-in is loaded");
  void* (*marker)() = nullptr;
  Nccl::find(library, "symm_nccl_marker", marker);
  const Nccl nccl(library);
  const Nccl real(marker());

  UniqueId id{};
  require(nccl.get_unique_id(&id) == symm::nccl::kSuccess, "ncclGetUniqueId");
  std::future<Rank> other = std::async(std::launch::async, [&] { return make_rank(nccl, id, 1); });
  const Rank me = make_rank(nccl, id, 0);
  other.wait();
  const std::vector<Way> ways = all_ways(nccl, real, me);

  std::printf("{\"calls\": {");
  const char* end = ", ";
  for (const Way& way : ways) {
    way.call();
    std::map<std::string, double> calls;
    for (const auto& [name, times] : fake_cuda::calls_of(way.call)) {
      calls[name] = static_cast<double>(times);
    }
    if (&way == &ways.back()) end = "}, ";
    print(way.name.c_str(), calls, end);
  }
  print("ns", ns_of(ways), ", ");

  // A watchdog asks all the time.
  std::atomic<bool> is_over{false};
  std::thread watchdog([&] {
    while (!is_over) {
      Result error = symm::nccl::kSuccess;
      nccl.async_error(me.comm, &error);
    }
  });
  print("ns with a watchdog", ns_of(ways), "}\n");
  is_over = true;
  watchdog.join();
  std::fflush(stdout);
  std::_Exit(0);
}
