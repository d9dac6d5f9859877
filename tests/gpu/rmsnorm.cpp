// All-reduce with residual and RMSNorm has the bits of its definition: in one kernel, by other
// algorithms, in graphs, and on symmetric and ordinary memory.
#include "tests/gpu/world.hpp"
#include "tests/kernels/rmsnorm_case.hpp"
#include "tests/support/options.hpp"

namespace {
using ::symm::DType;
using ::symm::QuantScale;
using ::symm::testing::NormCase;
using ::symm::testing::NormData;

// Places of the operands on the device, in the order of a call's arguments.
struct Places {
  char* send;
  char* residual;
  char* norm_out;
  char* quant_out;
  char* weight;
  float* scales;
};

Places places_of(const gpu::Rank& rank, const NormData& data, bool symmetric) {
  constexpr size_t kVector = size_t{256} << 10;  // weights, or scales
  const size_t bytes = (data.norm_out.size() + 255) / 256 * 256;
  char* at = rank.ordinary + 256 * static_cast<size_t>(rank.rank);
  char* matrix = at + 2 * kVector;
  char* send = symmetric ? rank.block : matrix + 3 * bytes;
  return {
      send, matrix, matrix + bytes, matrix + 2 * bytes, at, reinterpret_cast<float*>(at + kVector)};
}

symm_status_t call(
    const gpu::Rank& rank, const NormCase& c, const Places& at, symm_algorithm_t algorithm) {
  symm_rmsnorm_call_t norm = support::normed(at.weight, at.norm_out, c.epsilon,
      static_cast<symm_dtype_t>(c.weight_dtype), static_cast<symm_quant_scale_t>(c.kind))
                                 .value;
  norm.residual_in = c.has_residual ? at.residual : nullptr;
  norm.residual_out = at.residual;
  norm.weight_offset = c.weight_offset;
  norm.quant_out = at.quant_out;

  if (c.kind == QuantScale::tensor) {
    norm.scale_in = at.scales;
  } else {
    norm.scale_out = at.scales;
  }

  auto options = support::forced(algorithm);
  options.value.order = c.order;
  return symm_allreduce_rmsnorm(rank.group, at.send, c.tokens, c.hidden,
      static_cast<symm_dtype_t>(c.dtype), &norm, options, rank.stream);
}

void check(const gpu::Rank& rank, std::barrier<>& together, const NormData& data,
    const std::string& what, symm_algorithm_t algorithm, bool symmetric, bool in_graph) {
  const Places at = places_of(rank, data, symmetric);
  rank.upload(
      at.send, data.send[static_cast<size_t>(rank.rank)].data(), data.norm_out.size(), rank.stream);
  rank.upload(at.residual, data.residual.data(), data.residual.size(), rank.stream);
  rank.upload(at.weight, data.weight.data(), data.weight.size(), rank.stream);
  if (data.given.kind == QuantScale::tensor) {
    rank.upload(at.scales, data.scales.data(), sizeof(float), rank.stream);
  }
  rank.settle(together);

  const auto run = [&] {
    if (call(rank, data.given, at, algorithm) != SYMM_OK) {
      gpu::give_up(what + ": " + symm_last_error());
    }
  };

  if (in_graph) {
    const gpu::Graph graph(rank, run);
    rank.settle(together);
    graph.replay();
    rank.settle(together);
  } else {
    run();
  }
  rank.settle(together);

  NormData::Bytes residuals(data.residual_out.size());
  NormData::Bytes norms(data.norm_out.size());
  NormData::Bytes quants(data.quant_out.size());
  std::vector<float> scales(data.scales.size());
  rank.download(residuals.data(), at.residual, residuals.size(), rank.stream);
  rank.download(norms.data(), at.norm_out, norms.size(), rank.stream);
  rank.download(quants.data(), at.quant_out, quants.size(), rank.stream);
  rank.download(scales.data(), at.scales, scales.size() * sizeof(float), rank.stream);

  const symm_failure_t health = rank.whole.status();
  if (health.status != SYMM_OK) gpu::give_up(what + ": " + health.message);
  const std::string difference = data.difference(residuals, norms, quants, scales);
  gpu::expect(difference.empty(), gpu::who(rank, what + ": " + difference));
}

TEST(RmsNorm, HasTheBitsOfItsDefinition) {
  const int n = gpu::machine().ranks;
  std::vector<NormCase> cases;
  constexpr DType kTypes[] = {DType::bf16, DType::f16, DType::f32};

  for (unsigned i = 0; i < 36; ++i) {
    const DType dtype = kTypes[i % 3];
    const size_t longest = ::symm::kMostNormBytes / ::symm::size_of(dtype);
    const size_t hidden[] = {256, 7168, longest, 8192 < longest ? size_t{8192} : size_t{4096}};
    const size_t tokens[] = {1, 3, 130, 460};
    cases.push_back({dtype, kTypes[i / 3 % 3], hidden[i % 4], tokens[i / 2 % 4],
        static_cast<QuantScale>(i / 5 % 3), i % 4 != 3, 1e-5F, static_cast<float>(i % 2), n,
        i / 3 % 2 == 1 ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS});
  }

  cases.push_back({DType::bf16, DType::bf16, 72, 5, QuantScale::token, true, 1e-5F, 0, n});
  std::vector<std::unique_ptr<NormData>> data(cases.size());
  std::atomic<size_t> next{0};
  support::as_threads(
      static_cast<int>(std::max(1U, std::thread::hardware_concurrency())), [&](int) {
        for (size_t i = next++; i < cases.size(); i = next++) {
          data[i] = std::make_unique<NormData>(cases[i], static_cast<unsigned>(i));
        }
      });

  gpu::run_ranks(n, [&](gpu::Rank& rank, std::barrier<>& together) {
    for (size_t i = 0; i < data.size(); ++i) {
      const std::string what =
          "rmsnorm " + std::to_string(i) + ", " + std::to_string(cases[i].tokens) + " tokens of " +
          std::to_string(cases[i].hidden) + " " + ::symm::dtype_name(cases[i].dtype);
      check(rank, together, *data[i], what, SYMM_ALGORITHM_AUTO, true, false);
      check(rank, together, *data[i], what + ", ordinary memory, graph", SYMM_ALGORITHM_AUTO, false,
          true);
      check(rank, together, *data[i], what + ", in two kernels", SYMM_ALGORITHM_TWO_SHOT_STAGED,
          i % 2 == 0, i % 3 == 0);
    }
  });
}
}  // namespace
