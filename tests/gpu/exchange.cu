// Kernels with symm/exchange.cuh give the bits of symm_allreduce(), eagerly and in graphs. The
// test prints how long both take.
#include <random>

#include "tests/gpu/world.hpp"
#include <symm/exchange.cuh>

namespace gpu {
namespace {
namespace exchange = symm::device::exchange;
using symm::device::Exchange;
using symm::device::Outcome;

// The parts of a call that a launch does, as bits.
constexpr int kPush = 1;
constexpr int kTake = 2;

constexpr unsigned kMost = 16384;  // packs

template <class Type>
__global__ void all_reduce(const __grid_constant__ Exchange given, const uint4* in, uint4* out,
    unsigned packs, int parts, int* code) {
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned stride = gridDim.x * blockDim.x;
  for (unsigned q = first; q < packs && (parts & kPush) != 0; q += stride) {
    exchange::push(given, q, in[q]);
  }
  for (unsigned q = first; q < packs && (parts & kTake) != 0; q += stride) {
    float sum[Type::kCount];
    const Outcome outcome = exchange::take_sum<Type>(given, q, in[q], sum);
    if (!outcome) return void(*code = outcome.code);
    out[q] = exchange::round<Type>(sum);
  }
}

// Compares all-reduces by exchanges with those of the library, and times both. Long, since the
// library's result, one kernel, graphs of its parts, and the times follow each other on the same
// operands.
template <class Type>
void compare(
    Rank& rank, std::barrier<>& together, symm_dtype_t dtype, const char* name, int* code) {
  const ::symm::Exchange scratch(rank.whole, kMost * sizeof(uint4));
  const Exchange given = scratch.device(20000);
  auto* const in = reinterpret_cast<uint4*>(rank.ordinary);
  uint4* const out = in + kMost;
  for (const unsigned packs : {1U, 33U, 4096U, kMost}) {
    const size_t bytes = packs * sizeof(uint4);
    const std::string what = std::string(name) + ", " + std::to_string(bytes) + " bytes";
    std::mt19937 random(packs + static_cast<unsigned>(rank.rank));
    std::vector<unsigned> words(packs * 4);
    std::vector<unsigned> right(words.size());

    // Most words are halves below 2, some are any bits at all, and some are the reserved word.
    for (unsigned& word : words) {
      if (random() % 4 != 0) {
        word = random() & 0xBFFFBFFFU;
      } else if (random() % 4 != 0) {
        word = random();
      } else {
        word = ~0U;
      }
    }

    rank.upload(in, words.data(), bytes, rank.stream);
    const auto launch = [&](int parts) {
      all_reduce<Type><<<16, 256, 0, rank.stream>>>(given, in, out, packs, parts, code);
    };

    const auto library = [&] {
      symm(symm_allreduce(
               rank.group, in, out, packs * Type::kCount, dtype, SYMM_OP_SUM, nullptr, rank.stream),
          "allreduce");
    };

    // Replays what `body` issues `times` times, leaves the result in `words`, and returns how
    // many microseconds a replay takes.
    const auto replay = [&](int times, const std::function<void()>& body) {
      cuda(cudaMemsetAsync(out, 0xA5, bytes, rank.stream), "poison");
      rank.settle(together);
      const Graph graph(rank, body);
      rank.settle(together);

      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) {
        graph.replay();
      }

      rank.wait();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      rank.settle(together);
      rank.download(words.data(), out, bytes, rank.stream);
      rank.settle(together);

      return took.count() / times;
    };

    const auto ten = [](const auto& call) {
      return [&] {
        for (int i = 0; i < 10; ++i) {
          call();
        }
      };
    };

    replay(5, ten(library));
    const double theirs = replay(50, ten(library)) / 10;
    right = words;
    launch(kPush | kTake);
    rank.settle(together);
    rank.download(words.data(), out, bytes, rank.stream);

    expect(*code == 0 && words == right, who(rank, what + ", one kernel"));
    replay(5, [&] {
      launch(kPush | kTake);
      launch(kPush);
      launch(kTake);
    });

    expect(*code == 0 && words == right, who(rank, what + ", in a graph"));
    const double ours = replay(50, ten([&] { launch(kPush | kTake); })) / 10;
    expect(*code == 0 && words == right, who(rank, what + ", again and again"));

    if (rank.rank == 0) {
      std::printf("%s: %.2f us, symm_allreduce() %.2f us\n", what.c_str(), ours, theirs);
    }
  }
  // No other rank comes to this call.
  if (rank.rank == 0) {
    all_reduce<Type>
        <<<1, 1, 0, rank.stream>>>(scratch.device(200), in, out, 1, kPush | kTake, code);
    rank.wait();
    const Outcome outcome{std::exchange(*code, 0)};
    expect(outcome.trouble() == symm::device::Trouble::timeout && outcome.peer() > 0,
        who(rank, "deadline"));
  }
  rank.settle(together);
}

TEST(ExchangeHeader, SumsAreThoseOfTheLibrary) {
  run_ranks(machine().ranks, [](Rank& rank, std::barrier<>& together) {
    int* code = nullptr;
    cuda(cudaHostAlloc(reinterpret_cast<void**>(&code), sizeof *code,
             cudaHostAllocMapped | cudaHostAllocPortable),
        "code");
    *code = 0;

    // Kernels are loaded now: loading waits for the device, on which another rank's kernel may
    // be waiting for a kernel of this rank.
    cudaFuncAttributes attributes;
    for (const auto kernel :
        {all_reduce<exchange::bf16>, all_reduce<exchange::f16>, all_reduce<exchange::f32>}) {
      cuda(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
    }

    rank.settle(together);
    compare<exchange::bf16>(rank, together, SYMM_DTYPE_BF16, "bf16", code);
    compare<exchange::f16>(rank, together, SYMM_DTYPE_F16, "f16", code);
    compare<exchange::f32>(rank, together, SYMM_DTYPE_F32, "f32", code);
    together.arrive_and_wait();
    cudaFreeHost(code);
  });
}
}  // namespace
}  // namespace gpu
