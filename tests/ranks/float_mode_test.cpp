// A rank whose thread rounds in another direction, flushes to zero or traps gets the bits that the
// others get, from every call that computes with floats or takes numbers of its caller.
#include "tests/support/float_mode.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/support/machines.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
using symm::reference::size_of;
using Bytes = std::vector<std::byte>;

// More than what is multiplied at a time.
constexpr size_t kCount = 1024;

constexpr symm_dtype_t kFloats[] = {SYMM_DTYPE_F32, SYMM_DTYPE_F64, SYMM_DTYPE_F16, SYMM_DTYPE_BF16,
    SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2};

// Numbers of any sign and size, but no NaN or infinity. They are made of integers, so that a rank
// whose floats trap can make them.
Bytes operand_of(symm_dtype_t dtype, int rank) {
  const symm::reference::FloatFormat format = symm::reference::format_of(dtype);
  const size_t bytes = size_of(dtype);
  const uint64_t magnitudes = (uint64_t{1} << (8 * bytes - 1)) - 1;
  const uint64_t finite = magnitudes >> format.mantissa_bits << format.mantissa_bits;
  Bytes operand(kCount * bytes);
  auto random = static_cast<uint64_t>(rank) + 1;

  for (size_t i = 0; i < kCount; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const uint64_t bits = random >> 7;
    // Every other number is about 1.
    const uint64_t half = finite / 2 >> format.mantissa_bits << format.mantissa_bits;
    const uint64_t magnitude =
        i % 2 == 0 ? bits % finite : half + bits % (uint64_t{1} << format.mantissa_bits);
    const uint64_t word = magnitude | (bits & (magnitudes + 1));
    std::memcpy(&operand[i * bytes], &word, bytes);
  }
  return operand;
}

// All results so far, and how each call ended. Only calls of the library are made in `mode`.
class Calls {
 public:
  Calls(const Group& group, const FloatMode& mode) : group_(group), mode_(mode) {}

  const Bytes& results() const { return results_; }

  void all() {
    for (const symm_dtype_t dtype : kFloats) {
      for (const symm_op_t op : {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_PROD, SYMM_OP_MAX}) {
        reduce(dtype, op, forced(SYMM_ALGORITHM_AUTO));
      }
      with_factors(dtype);
    }
    for (const symm_dtype_t dtype : {SYMM_DTYPE_F32, SYMM_DTYPE_F16, SYMM_DTYPE_BF16}) {
      with_norm(dtype);
    }
  }

 private:
  void make(const std::function<symm_status_t()>& call, std::vector<Bytes*> recv) {
    symm_status_t status{};
    uint64_t after = 0;
    {
      const InMode strange(mode_);
      status = call();
      after = current_mode();
    }

    EXPECT_EQ(after, mode_.control) << mode_.name << ": the call left another mode";
    results_.push_back(static_cast<std::byte>(status));
    for (const Bytes* one : recv) {
      results_.insert(results_.end(), one->begin(), one->end());
    }
  }

  void reduce(symm_dtype_t dtype, symm_op_t op, const symm_collective_options_t* options) {
    const Bytes send = operand_of(dtype, group_.rank());
    Bytes recv(kCount * sizeof(double));
    make(
        [&] {
          return symm_allreduce(
              group_.get(), send.data(), recv.data(), kCount, dtype, op, options, nullptr);
        },
        {&recv});
  }

  void with_factors(symm_dtype_t dtype) {
    // Some are subnormal numbers, or are rounded to such as f32; some are refused.
    constexpr double kFactors[] = {0.1, 1 / 3.0, -1e-40, 1e-310, 5e-324, 1e39};
    constexpr float kPointed[] = {0.1F, 1e-40F, 0x1p-149F};

    for (const symm_scale_t position : {SYMM_SCALE_BEFORE, SYMM_SCALE_AFTER}) {
      auto options = forced(SYMM_ALGORITHM_AUTO);
      options.value.scale_position = position;
      for (const double& factor : kFactors) {
        std::memcpy(&options.value.scale, &factor, sizeof factor);
        reduce(dtype, SYMM_OP_SUM, options);
      }

      options.value.scale = 0;
      for (const float& factor : kPointed) {
        options.value.scale_pointer = &factor;
        reduce(dtype, SYMM_OP_SUM, options);
      }
    }
  }

  void with_norm(symm_dtype_t dtype) {
    constexpr size_t kHidden = 128;
    constexpr size_t kTokens = kCount / kHidden;
    const Bytes send = operand_of(dtype, group_.rank());
    const Bytes residual = operand_of(dtype, 7);
    const Bytes weight = operand_of(dtype, 8);
    constexpr double kNumbers[][2] = {
        {0.1, 0.1}, {1e-40, 1e-310}, {5e-324, 1 / 3.0}, {-0.1, 0}, {1e39, 0}, {0, 1e39}};

    for (const auto& [epsilon, offset] : kNumbers) {
      Bytes normed(send.size());
      Bytes quantised(kCount);
      Bytes scales(kTokens * sizeof(float));
      symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;
      norm.residual_in = residual.data();
      norm.norm_out = normed.data();
      norm.weight = weight.data();
      std::memcpy(&norm.epsilon, &epsilon, sizeof epsilon);
      std::memcpy(&norm.weight_offset, &offset, sizeof offset);
      norm.quant_out = quantised.data();
      norm.scale_kind = SYMM_QUANT_SCALE_TOKEN;
      norm.scale_out = scales.data();
      make(
          [&] {
            return symm_allreduce_rmsnorm(
                group_.get(), send.data(), kTokens, kHidden, dtype, &norm, nullptr, nullptr);
          },
          {&normed, &quantised, &scales});
    }
  }

  const Group& group_;
  const FloatMode mode_;
  Bytes results_;
};

Bytes results_of(const Group& group, const FloatMode& mode) {
  Calls calls(group, mode);
  calls.all();
  return calls.results();
}

void expect_same_in_all_modes(const Group& group) {
  const Bytes right = results_of(group, kDefaultMode);
  for (const FloatMode& mode : strange_modes()) {
    const bool is_strange = group.rank() == 1 % group.size();
    EXPECT_EQ(results_of(group, is_strange ? mode : kDefaultMode) == right, true)
        << "rank 1 " << mode.name;
    EXPECT_EQ(results_of(group, mode) == right, true) << "every rank " << mode.name;
  }
}

TEST(FloatMode, OfTheCallerDoesNotMatter) {
  for (const int size : {1, 3}) {
    as_threads(size, [](int, const Group& group) { expect_same_in_all_modes(group); });
  }
}

// Threads of the library are started by the caller, and begin in the caller's mode.
TEST(FloatMode, OfTheCallerDoesNotMatterFromTheStart) {
  Bytes right;
  as_threads(2, [&](int rank, const Group& group) {
    const Bytes results = results_of(group, kDefaultMode);
    if (rank == 0) right = results;
  });

  for (const FloatMode& mode : strange_modes()) {
    const Bootstrap meeting;
    as_threads(2, [&](int rank) {
      const InMode strange(mode);
      const Group group = create(meeting.threads(), rank, 2);
      EXPECT_EQ(results_of(group, mode) == right, true) << mode.name;
    });
  }
}

TEST_F(Multinode, FloatModeOfTheCallerDoesNotMatter) {
  for (const char* layout : {"ab", "aabb"}) {
    expect_on_machines(layout, [](int, const Group& group) { expect_same_in_all_modes(group); });
  }
}
}  // namespace
}  // namespace support
