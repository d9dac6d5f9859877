// Operands of symm_allreduce_rmsnorm() on all ranks, and the results that the comment of that
// call in symm.h defines, computed one element at a time.
#pragma once

#include <random>

#include "kernels/rmsnorm.hpp"
#include "tests/kernels/reference.hpp"

namespace symm::testing {
struct NormCase {
  DType dtype = DType::bf16;
  DType weight_dtype = DType::bf16;
  size_t hidden = 0;
  size_t tokens = 0;
  QuantScale kind = QuantScale::tensor;
  bool has_residual = true;
  float epsilon = 1e-5F;
  float weight_offset = 0;
  int ranks = 1;
  symm_order_t order = SYMM_ORDER_RANKS;
};

class NormData {
 public:
  using Bytes = reference::Bytes;
  NormCase given;
  std::vector<Bytes> send;  // by rank
  Bytes residual;
  Bytes weight;
  Bytes residual_out;
  Bytes norm_out;
  Bytes quant_out;
  std::vector<float> scales;  // for QuantScale::tensor the one of the caller

  NormData(const NormCase& c, unsigned seed) : given(c), random_(seed) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      send.push_back(matrix(c.dtype, c.tokens));
    }
    residual = matrix(c.dtype, c.tokens);
    weight = matrix(c.weight_dtype, 1);
    if (c.kind == QuantScale::tensor) scales = {0.37F};
    for (size_t row = 0; row < c.tokens; ++row) {
      normalise(row);
    }
  }

  // "" if all results are right, else what differs. All NaN count as equal.
  std::string difference(const Bytes& residuals, const Bytes& norms, const Bytes& quants,
      const std::vector<float>& got) const {
    const auto compare = [&](const char* name, DType dtype, const Bytes& a,
                             const Bytes& b) -> std::string {
      if (a.size() != b.size()) return std::string(name) + ": another size";
      const std::string found =
          reference::difference(dtype, a.data(), b.data(), b.size() / size_of(dtype));
      return found.empty() ? "" : name + (": " + found);
    };

    if (got != scales) return "scales differ";
    std::string all = compare("residual_out", given.dtype, residuals, residual_out);
    if (all.empty()) all = compare("norm_out", given.dtype, norms, norm_out);
    if (all.empty()) all = compare("quant_out", DType::f8e4m3, quants, quant_out);

    return all;
  }

 private:
  static float value(DType dtype, uint64_t bits) {
    return dtype == DType::f32 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                               : reference::decode(dtype, bits);
  }

  static uint64_t bits(DType dtype, float value) {
    return dtype == DType::f32 ? std::bit_cast<uint32_t>(value) : reference::encode(dtype, value);
  }

  static void append(Bytes& to, DType dtype, uint64_t word) {
    to.resize(to.size() + size_of(dtype));
    reference::store_bits(dtype, word, to.data() + to.size() - size_of(dtype));
  }

  // Random values, with rows of zeros and with rows that have a NaN or an infinity.
  Bytes matrix(DType dtype, size_t rows) {
    std::uniform_real_distribution<float> range(-3, 3);
    Bytes made;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < given.hidden; ++i) {
        float x = range(random_);
        if (row % 5 == 1) x = 0;
        if (row % 5 == 2 && i == row % given.hidden) x = row % 2 == 0 ? std::nanf("") : INFINITY;
        append(made, dtype, bits(dtype, x));
      }
    }
    return made;
  }

  void normalise(size_t row) {
    const size_t first = row * given.hidden;
    const auto at = [&](const Bytes& from, size_t i) {
      return static_cast<uint64_t>(
          reference::load_bits(given.dtype, &from[i * size_of(given.dtype)]));
    };

    std::vector<float> x;
    std::vector<float> y;
    std::vector<float> chains(1024);

    for (size_t i = 0; i < given.hidden; ++i) {
      std::vector<reference::Bits> column;
      for (const Bytes& operand : send) {
        column.push_back(at(operand, first + i));
      }
      auto h = static_cast<uint64_t>(
          column.size() == 1 ? column[0]
                             : reference::reduce(given.dtype, Op::sum, column, given.order));
      if (given.has_residual) {
        h = static_cast<uint64_t>(
            reference::reduce(given.dtype, Op::sum, {h, at(residual, first + i)}));
      }
      append(residual_out, given.dtype, h);
      x.push_back(value(given.dtype, h));
      chains[i / 8 % 1024] += x[i] * x[i];
    }

    while (chains.size() > 1) {
      std::vector<float> pairs;
      for (size_t k = 0; k < chains.size(); k += 2) {
        pairs.push_back(chains[k] + chains[k + 1]);
      }
      chains = pairs;
    }

    const float inverse =
        1.0F / std::sqrt(chains[0] / static_cast<float>(given.hidden) + given.epsilon);
    for (size_t i = 0; i < given.hidden; ++i) {
      const float g = value(given.weight_dtype,
          static_cast<uint64_t>(
              reference::load_bits(given.weight_dtype, &weight[i * size_of(given.weight_dtype)])));
      const uint64_t word = bits(given.dtype, x[i] * inverse * (given.weight_offset + g));
      append(norm_out, given.dtype, word);
      y.push_back(value(given.dtype, word));
    }

    const size_t length = given.kind == QuantScale::group ? 128 : given.hidden;
    for (size_t i = 0; i < given.hidden; ++i) {
      if (given.kind != QuantScale::tensor && i % length == 0) {
        float most = 0;
        for (size_t k = i; k < i + length; ++k) {
          most = std::fmax(most, std::fabs(y[k]));
        }
        scales.push_back(std::fmax(most / 448.0F, 1.0F / (448.0F * 512.0F)));
      }
      append(quant_out, DType::f8e4m3, reference::encode(DType::f8e4m3, y[i] / scales.back()));
    }
  }

  std::mt19937 random_;
};
}  // namespace symm::testing
