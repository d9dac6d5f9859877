// Lists of pieces from one rank to another on one GPU, from the call until the other rank's stream
// has seen the signal, beside cuMemcpyBatchAsync() and a signal, and one copy of as many bytes. The
// ways take turns; medians of the turns, in microseconds, with the first and the last decile.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <symm/symm.hpp>

namespace {
void cuda(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

// cuMemcpyBatchAsync() of CUDA 12.8, which later drivers have as well.
struct Location {
  int type;
  int id;
};
struct Attributes {
  int order;
  Location from;
  Location to;
  unsigned flags;
};
using Batch = int (*)(
    uint64_t*, uint64_t*, size_t*, size_t, Attributes*, size_t*, size_t, size_t*, cudaStream_t);

Batch batch_of_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : reinterpret_cast<Batch>(dlsym(driver, "cuMemcpyBatchAsync"));
}

struct Rank {
  symm::Group group;
  symm::Memory memory;
  cudaStream_t stream = nullptr;
};

// Pages of one size, at random places on both sides.
struct Pages {
  size_t count;
  size_t bytes;
  std::vector<uint64_t> from;
  std::vector<uint64_t> to;
  std::vector<symm_piece_t> pieces;
  uint64_t* from_device = nullptr;
  uint64_t* to_device = nullptr;
  symm_piece_t* pieces_device = nullptr;

  Pages(size_t count_, size_t bytes_) : count(count_), bytes(bytes_), from(count), to(count) {
    uint64_t state = 1;
    for (size_t i = 0; i < count; ++i) {
      from[i] = i;
      to[i] = i;
    }
    for (auto* const table : {&from, &to}) {
      for (size_t i = count; i > 1; --i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::swap((*table)[i - 1], (*table)[(state >> 33) % i]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      pieces.push_back({from[i] * bytes, to[i] * bytes, bytes, 1, 0, 0});
    }
    upload(from_device, from);
    upload(to_device, to);
    upload(pieces_device, pieces);
  }

  template <class T>
  static void upload(T*& to, const std::vector<T>& values) {
    cuda(cudaMalloc(reinterpret_cast<void**>(&to), values.size() * sizeof(T)), "cudaMalloc");
    cuda(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  }
};

struct Way {
  const char* name;
  std::function<void(uint64_t value)> call;
  std::vector<double> times{};
};

double at(std::vector<double>& times, double part) {
  std::sort(times.begin(), times.end());
  return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
}

class Bench {
 public:
  Bench(Rank& sender, Rank& receiver, char* source, size_t source_bytes, int turns)
      : sender_(sender),
        receiver_(receiver),
        source_(source),
        source_bytes_(source_bytes),
        turns_(turns),
        block_(reinterpret_cast<char*>(receiver.memory.span(1).data())) {}

  void eager(size_t count, size_t bytes) {
    const Pages pages(count, bytes);
    std::vector<Way> ways = ways_of(pages);
    for (Way& way : ways) {
      check(way, pages);
    }
    for (int turn = 0; turn < turns_; ++turn) {
      for (Way& way : ways) {
        if (!way.call) continue;
        const auto start = std::chrono::steady_clock::now();
        run(way);
        const std::chrono::duration<double, std::micro> passed =
            std::chrono::steady_clock::now() - start;
        if (turn > 0) way.times.push_back(passed.count());
      }
    }
    print(std::to_string(count) + " x " + std::to_string(bytes) + " bytes", ways,
        static_cast<double>(count * bytes));
  }

  // Per call, in graphs of kCalls calls with a signal each.
  void in_graph(size_t count, size_t bytes) {
    constexpr int kCalls = 20;
    const Pages pages(count, bytes);
    std::vector<Way> ways = ways_of(pages);
    for (Way& way : ways) {
      check(way, pages);
    }
    std::vector<cudaGraphExec_t> graphs;
    for (Way& way : ways) {
      graphs.push_back(way.call ? captured(way, kCalls) : nullptr);
    }
    cudaEvent_t begin;
    cudaEvent_t end;
    cuda(cudaEventCreate(&begin), "event");
    cuda(cudaEventCreate(&end), "event");
    for (int turn = 0; turn < turns_; ++turn) {
      for (size_t i = 0; i < ways.size(); ++i) {
        if (graphs[i] == nullptr) continue;
        cuda(cudaEventRecord(begin, sender_.stream), "record");
        cuda(cudaGraphLaunch(graphs[i], sender_.stream), "launch");
        cuda(cudaEventRecord(end, sender_.stream), "record");
        cuda(cudaEventSynchronize(end), "synchronize");
        float ms = 0;
        cuda(cudaEventElapsedTime(&ms, begin, end), "elapsed");
        if (turn > 0) ways[i].times.push_back(1000.0 * ms / kCalls);
      }
    }
    print("in a graph, " + std::to_string(count) + " x " + std::to_string(bytes) + " bytes", ways,
        static_cast<double>(count * bytes));
  }

 private:
  std::vector<Way> ways_of(const Pages& pages) {
    const auto put = [&](const symm::Pieces& pieces) {
      const symm::Span<const std::byte> source(
          reinterpret_cast<const std::byte*>(source_), source_bytes_);
      sender_.memory.put_pieces(1, 0, source, pieces, {}, sender_.stream);
    };
    const auto signalled = [](const symm::Pieces& pieces, uint64_t value) {
      return pieces.with_signal(0, SYMM_SIGNAL_SET, value);
    };
    std::vector<Way> ways = {
        {"list on the host",
            [=, &pages](uint64_t value) { put(signalled(symm::Pieces(pages.pieces), value)); }},
        {"list on the device",
            [=, &pages](uint64_t value) {
              const symm::Span<const symm_piece_t> list(pages.pieces_device, pages.count);
              put(signalled(symm::Pieces(list).on_device(), value));
            }},
        {"tables on the host",
            [=, &pages](uint64_t value) {
              put(signalled(symm::Pieces::pages(pages.bytes, pages.from, pages.to), value));
            }},
        {"tables on the device",
            [=, &pages](uint64_t value) {
              const symm::Span<const uint64_t> from(pages.from_device, pages.count);
              const symm::Span<const uint64_t> to(pages.to_device, pages.count);
              put(signalled(symm::Pieces::pages(pages.bytes, from, to).on_device(), value));
            }},
        {"cuMemcpyBatchAsync", batch_of(pages)},
        {"one copy of all", [=, &pages](uint64_t value) {
           cuda(cudaMemcpyAsync(block_, source_, pages.count * pages.bytes,
                    cudaMemcpyDeviceToDevice, sender_.stream),
               "copy");
           signal(value);
         }}};
    return ways;
  }

  void signal(uint64_t value) {
    sender_.memory.signal_value(1, 0, SYMM_SIGNAL_SET, value, {}, sender_.stream);
  }

  std::function<void(uint64_t)> batch_of(const Pages& pages) {
    const Batch batch = batch_of_driver();
    if (batch == nullptr) return {};
    struct Lists {
      std::vector<uint64_t> from;
      std::vector<uint64_t> to;
      std::vector<size_t> bytes;
    };
    const auto lists = std::make_shared<Lists>();
    for (const symm_piece_t& piece : pages.pieces) {
      lists->from.push_back(reinterpret_cast<uintptr_t>(source_) + piece.from);
      lists->to.push_back(reinterpret_cast<uintptr_t>(block_) + piece.to);
      lists->bytes.push_back(piece.bytes);
    }
    return [=](uint64_t value) {
      // 1: in the order of the stream.
      Attributes attributes{1, {}, {}, 0};
      size_t first = 0;
      size_t failed = 0;
      const int result = batch(lists->to.data(), lists->from.data(), lists->bytes.data(),
          lists->bytes.size(), &attributes, &first, 1, &failed, sender_.stream);
      if (result != 0) throw std::runtime_error("the driver says " + std::to_string(result));
      signal(value);
    };
  }

  void run(Way& way) {
    const uint64_t value = ++value_;
    way.call(value);
    receiver_.memory.wait_signal_value(0, 0, SYMM_COMPARE_EQ, value, {}, receiver_.stream);
    cuda(cudaStreamSynchronize(receiver_.stream), "wait for the signal");
  }

  // A way that cannot be gone, or copies wrongly, is left out.
  void check(Way& way, const Pages& pages) {
    if (!way.call) {
      std::printf("%s: the driver has none\n", way.name);
      return;
    }
    cuda(cudaMemset(block_, 0, pages.count * pages.bytes), "memset");
    try {
      run(way);
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", way.name, error.what());
      way.call = nullptr;
      return;
    }
    if (std::strcmp(way.name, "one copy of all") == 0) return;
    std::vector<char> seen(pages.count * pages.bytes);
    std::vector<char> source(seen.size());
    cuda(cudaMemcpy(seen.data(), block_, seen.size(), cudaMemcpyDeviceToHost), "copy");
    cuda(cudaMemcpy(source.data(), source_, seen.size(), cudaMemcpyDeviceToHost), "copy");
    for (const symm_piece_t& piece : pages.pieces) {
      if (std::memcmp(&seen[piece.to], &source[piece.from], piece.bytes) == 0) continue;
      std::printf("%s: WRONG RESULT\n", way.name);
      std::exit(1);
    }
  }

  cudaGraphExec_t captured(Way& way, int calls) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cuda(cudaStreamBeginCapture(sender_.stream, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      for (int i = 0; i < calls; ++i) {
        way.call(1);
      }
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", way.name, error.what());
      cudaStreamEndCapture(sender_.stream, &graph);
      cudaGetLastError();
      return nullptr;
    }
    if (cudaStreamEndCapture(sender_.stream, &graph) != cudaSuccess) return nullptr;
    cuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    cudaGraphDestroy(graph);
    return exec;
  }

  static void print(const std::string& what, std::vector<Way>& ways, double bytes) {
    std::printf("%s\n", what.c_str());
    for (Way& way : ways) {
      if (way.times.empty()) continue;
      const double median = at(way.times, 0.5);
      std::printf("  %-22s %10.1f us (%.1f .. %.1f), %7.1f GB/s\n", way.name, median,
          at(way.times, 0.1), at(way.times, 0.9), bytes / median / 1000);
    }
    std::fflush(stdout);
  }

  Rank& sender_;
  Rank& receiver_;
  char* source_;
  size_t source_bytes_;
  int turns_;
  char* block_;
  uint64_t value_ = 0;
};
}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 21;
  constexpr size_t kBytes = size_t{5} << 30;
  Rank ranks[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([r, &ranks] {
      cuda(cudaSetDevice(0), "cudaSetDevice");
      symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
      config.rank = r;
      config.size = 2;
      config.backend = SYMM_BACKEND_CUDA;
      config.bootstrap = "thread://bench-pieces";
      config.flags = SYMM_GROUP_ON_DEVICE | SYMM_GROUP_OVERLAPPING_DEVICES;
      try {
        ranks[r].group = symm::Group::create(config);
        ranks[r].memory = ranks[r].group.rendezvous(ranks[r].group.allocate(kBytes));
      } catch (const std::exception& error) {
        std::printf("rank %d: %s\n", r, error.what());
        std::exit(1);
      }
      cuda(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking), "stream");
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  char* source = nullptr;
  cuda(cudaMalloc(reinterpret_cast<void**>(&source), kBytes), "cudaMalloc");
  std::vector<uint32_t> noise(kBytes / 4 / 16);
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i] = static_cast<uint32_t>(i * 2654435761U);
  }
  for (size_t part = 0; part < 16; ++part) {
    noise[0] = static_cast<uint32_t>(part);
    cuda(cudaMemcpy(source + part * noise.size() * 4, noise.data(), noise.size() * 4,
             cudaMemcpyHostToDevice),
        "copy");
  }

  try {
    Bench bench(ranks[0], ranks[1], source, kBytes, turns);
    bench.eager(10'000, 8 << 10);
    bench.eager(100'000, 45 << 10);
    bench.eager(100'000, 256);
    bench.eager(32, 8 << 10);
    bench.eager(10'000, 64 << 10);
    bench.eager(1000, 1 << 20);
    bench.in_graph(32, 8 << 10);
    bench.in_graph(32, 512);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
