// The kernels of all-reduce with RMSNorm, and of RMSNorm alone, compiled for the host: calls of any
// shape have the bits of the definition on all ranks, whichever rank is held up anywhere.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/kernels/rmsnorm_case.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::RmsNormArgs> symm_rmsnorm_bf16_1,
    symm_rmsnorm_bf16_2, symm_rmsnorm_bf16_3, symm_rmsnorm_bf16_4, symm_rmsnorm_f32_1,
    symm_rmsnorm_f32_2, symm_rmsnorm_f32_3, symm_rmsnorm_f32_4;

namespace symm::cuda::model {
namespace {
using testing::NormCase;
using testing::NormData;
using NormKernel = void (*)(RmsNormArgs);
constexpr unsigned kMostRanks = 4;
constexpr NormKernel kKernels[2][kMostRanks] = {
    {symm_rmsnorm_bf16_1, symm_rmsnorm_bf16_2, symm_rmsnorm_bf16_3, symm_rmsnorm_bf16_4},
    {symm_rmsnorm_f32_1, symm_rmsnorm_f32_2, symm_rmsnorm_f32_3, symm_rmsnorm_f32_4}};

struct Results {
  NormData::Bytes residuals;
  NormData::Bytes norms;
  NormData::Bytes quants;
  std::vector<float> scales;
};

template <class T>
uint64_t address(std::vector<T>& of) {
  return reinterpret_cast<uintptr_t>(of.data());
}

// The call is in place, as in inference: the sums replace the residual.
RmsNormArgs arguments(NormData& data, int rank, Results& results) {
  const NormCase& c = data.given;
  results = {data.residual, data.norm_out, data.quant_out, data.scales};
  RmsNormArgs args{};
  args.call.send = address(data.send[static_cast<size_t>(rank)]);
  args.residual_in = c.has_residual ? address(results.residuals) : 0;
  args.residual_out = address(results.residuals);
  args.norm_out = address(results.norms);
  args.weight = address(data.weight);
  args.quant_out = address(results.quants);
  (c.kind == QuantScale::tensor ? args.scale_in : args.scale_out) = address(results.scales);
  args.rows = static_cast<uint32_t>(c.tokens);
  args.hidden = static_cast<uint32_t>(c.hidden);
  args.epsilon = c.epsilon;
  args.weight_offset = c.weight_offset;
  args.weight_dtype = static_cast<int32_t>(c.weight_dtype);
  args.scale_kind = static_cast<int32_t>(c.kind);

  return args;
}

TEST(RmsNormKernels, HaveTheBitsOfTheDefinition) {
  constexpr DType kWeights[] = {DType::bf16, DType::f32, DType::f16};
  for (unsigned seed = 0; seed < 16; ++seed) {
    std::mt19937 random(seed);
    const int n = 1 + static_cast<int>(seed % kMostRanks);
    const bool is_f32 = seed / kMostRanks % 2 == 1;

    // Rows of bf16 are worked on by two warps, or by one.
    const size_t hidden = n == 2 && !is_f32 && seed % 3 == 1 ? 512 : 256;
    const unsigned threads = hidden == 512 ? 64 : 32;
    Ranks ranks({.ranks = n,
        .seed = seed,
        .blocks = 1 + seed / 3 % 2,
        .threads = threads,
        .slot = 4096,
        .work_groups = 1});
    std::vector<NormData> calls;
    std::vector<std::vector<Results>> results(3);

    for (unsigned call = 0; call < 3; ++call) {
      calls.emplace_back(NormCase{is_f32 ? DType::f32 : DType::bf16, kWeights[random() % 3], hidden,
                             2 + random() % 3, static_cast<QuantScale>(random() % 3),
                             random() % 2 == 0, 1e-5F, static_cast<float>(random() % 2), n,
                             random() % 2 == 0 ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS},
          seed * 3 + call);
      results[call].resize(static_cast<size_t>(n));
    }

    for (unsigned call = 0; call < 3; ++call) {
      for (int rank = 0; rank < n; ++rank) {
        RmsNormArgs args = arguments(calls[call], rank, results[call][static_cast<size_t>(rank)]);
        args.call.comm = ranks.comm(rank);
        args.call.in_tree = calls[call].given.order == SYMM_ORDER_TREE ? 1 : 0;
        const NormKernel kernel = kKernels[is_f32 ? 1 : 0][n - 1];
        ranks.launch(rank, [=](const CollectiveArgs&) { kernel(args); }, args.call);
      }
    }

    ranks.hold(static_cast<int>(random() % static_cast<unsigned>(n)),
        static_cast<long>(random() % 500), 3000);
    ASSERT_TRUE(ranks.run()) << "nothing goes on, seed " << seed;

    for (unsigned call = 0; call < 3; ++call) {
      for (const Results& got : results[call]) {
        ASSERT_EQ(calls[call].difference(got.residuals, got.norms, got.quants, got.scales), "")
            << "seed " << seed << ", call " << call << ", " << n << " ranks";
      }
    }
  }
}
}  // namespace
}  // namespace symm::cuda::model
