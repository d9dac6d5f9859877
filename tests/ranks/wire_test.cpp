// Sums with a quantised wire: every collective that has one gives the bits of a reference that
// takes one element at a time, on all ranks, by each algorithm, in either order, from any memory
// and between machines; and the error is within the bound that symm.h states.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/wire_reference.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
using symm::reference::decode;
using symm::reference::encode;
using symm::reference::load_bits;
using symm::reference::store_bits;

constexpr std::array kOperandTypes = {SYMM_DTYPE_F32, SYMM_DTYPE_F16, SYMM_DTYPE_BF16};
constexpr std::array kWireTypes = {SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2, SYMM_DTYPE_I8};
constexpr std::array<int32_t, 2> kGroups = {32, 128};
constexpr std::array kSums = {SYMM_OP_SUM, SYMM_OP_AVG};

float rounded(symm_dtype_t dtype, float x) {
  return dtype == SYMM_DTYPE_F32 ? x : decode(dtype, encode(dtype, x));
}

uint64_t bits_of(symm_dtype_t dtype, float x) {
  return dtype == SYMM_DTYPE_F32 ? symm::reference::to_bits(x) : encode(dtype, x);
}

// Numbers of many magnitudes, some of them 0, which differ from rank to rank. A stretch of them is
// so small that scales have their least value.
std::vector<float> numbers_of(symm_dtype_t dtype, int rank, size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t mixed =
        (i * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(rank) * 0xD6E8FEB86659FD93U) >> 17;
    const auto mantissa = static_cast<float>(static_cast<int>(mixed % 2001) - 1000);
    const int exponent = static_cast<int>(mixed / 2001 % 14) - 14;
    const bool is_tiny = i / 200 % 7 == 3 && dtype != SYMM_DTYPE_F16;
    all[i] = mixed % 11 == 0 ? 0 : rounded(dtype, std::ldexp(mantissa, is_tiny ? -125 : exponent));
  }
  return all;
}

std::vector<std::byte> in_memory(symm_dtype_t dtype, const std::vector<float>& numbers) {
  const size_t element = symm::reference::size_of(dtype);
  std::vector<std::byte> bytes(numbers.size() * element);
  for (size_t i = 0; i < numbers.size(); ++i) {
    store_bits(dtype, bits_of(dtype, numbers[i]), &bytes[i * element]);
  }
  return bytes;
}

std::vector<std::vector<float>> operands_of(symm_dtype_t dtype, int ranks, size_t count) {
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(numbers_of(dtype, rank, count));
  }
  return all;
}

void expect_bits(const WireCase& c, const std::vector<float>& right, const std::byte* seen,
    const std::string& what) {
  const size_t element = symm::reference::size_of(c.dtype);
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_EQ(load_bits(c.dtype, seen + i * element), bits_of(c.dtype, right[i]))
        << what << ": element " << i << " of " << right.size() << ", which is " << right[i]
        << ", dtype " << c.dtype << ", wire " << c.wire << " in groups of " << c.group << ", op "
        << c.op << (c.in_tree ? ", in tree order" : "");
  }
}

// Calls of one group, whose operands are in place, or in private or symmetric memory at odd places.
class Wires {
 public:
  Wires(const Group& group, size_t most_bytes)
      : group_(group),
        room_(most_bytes * static_cast<size_t>(group.size()) + 64),
        block_(allocate(group, 2 * room_)),
        first_(room_),
        second_(room_) {}

  void run(const WireCase& c, size_t count) {
    const int size = group_.size();
    const auto ranks = static_cast<size_t>(size);
    const auto operands = operands_of(c.dtype, size, count * ranks);
    auto heads = operands;
    for (std::vector<float>& head : heads) {
      head.resize(count);
    }

    const std::vector<float> sums = sums_by_wire(c, heads);
    for (const symm_algorithm_t algorithm :
        {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT}) {
      allreduce(c, heads, sums, algorithm);
      reduce(c, heads, sums, algorithm);
    }
    reduce_scatter(c, operands, count);
  }

 private:
  struct Places {
    std::byte* send;
    std::byte* recv;
  };

  // Addresses are multiples of 4, and of more by chance.
  Places places(bool in_place) {
    shift_ += 20;
    const bool is_symmetric = shift_ % 3 == 0;
    std::byte* const first = is_symmetric ? block_.at<std::byte>(group_.rank()) : first_.data();
    std::byte* const second = is_symmetric ? first + room_ : second_.data();
    return {first + shift_ % 64, (in_place ? first : second) + shift_ % 64};
  }

  Passed<symm_collective_options_t> options(const WireCase& c, symm_algorithm_t algorithm) const {
    return wired(c.wire, c.group, algorithm, c.in_tree ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS);
  }

  const std::vector<float>& mine(const std::vector<std::vector<float>>& operands) const {
    return operands[static_cast<size_t>(group_.rank())];
  }

  void allreduce(const WireCase& c, const std::vector<std::vector<float>>& operands,
      const std::vector<float>& sums, symm_algorithm_t algorithm) {
    const Places at = places(shift_ % 40 == 0);
    const std::vector<std::byte> given = in_memory(c.dtype, mine(operands));
    std::copy(given.begin(), given.end(), at.send);
    check(symm_allreduce(group_.get(), at.send, at.recv, sums.size(), c.dtype, c.op,
        options(c, algorithm), nullptr));
    expect_bits(c, sums, at.recv, "allreduce by algorithm " + std::to_string(algorithm));
  }

  void reduce(const WireCase& c, const std::vector<std::vector<float>>& operands,
      const std::vector<float>& sums, symm_algorithm_t algorithm) {
    const Places at = places(false);
    const int root = static_cast<int>(shift_ / 20) % group_.size();
    const std::vector<std::byte> given = in_memory(c.dtype, mine(operands));
    std::copy(given.begin(), given.end(), at.send);
    std::memset(at.recv, 0x5A, given.size());
    check(symm_reduce(group_.get(), at.send, group_.rank() == root ? at.recv : nullptr, sums.size(),
        c.dtype, c.op, root, options(c, algorithm), nullptr));
    if (group_.rank() == root) expect_bits(c, sums, at.recv, "reduce");
  }

  void reduce_scatter(
      const WireCase& c, const std::vector<std::vector<float>>& operands, size_t count) {
    const bool in_place = shift_ % 40 == 0;
    Places at = places(in_place);
    const auto rank = static_cast<size_t>(group_.rank());
    const std::vector<std::byte> given = in_memory(c.dtype, mine(operands));
    std::copy(given.begin(), given.end(), at.send);
    if (in_place) at.recv += rank * given.size() / operands.size();
    check(symm_reduce_scatter(group_.get(), at.send, at.recv, count, c.dtype, c.op,
        options(c, SYMM_ALGORITHM_AUTO), nullptr));

    std::vector<std::vector<float>> blocks;
    for (const std::vector<float>& operand : operands) {
      const auto from = operand.begin() + static_cast<std::ptrdiff_t>(rank * count);
      blocks.emplace_back(from, from + static_cast<std::ptrdiff_t>(count));
    }
    expect_bits(c, sums_by_wire(c, blocks), at.recv, "reduce_scatter");
  }

  const Group& group_;
  const size_t room_;
  const Block block_;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
  size_t shift_ = 0;
};

TEST(Wire, HasTheBitsOfTheReference) {
  for (const int size : {1, 2, 3, 5, 8}) {
    as_threads(size, [size](int, const Group& group) {
      Wires wires(group, 20'000);
      for_each_combination(std::tuple(kOperandTypes, kWireTypes, kGroups, kSums),
          [&](symm_dtype_t dtype, symm_dtype_t wire, int32_t per_scale, symm_op_t op) {
            for (const bool in_tree : {false, true}) {
              if (in_tree && size < 5) continue;
              const WireCase c{dtype, wire, per_scale, op, in_tree};
              for (const size_t count : {0, 1, 31, 129, 1'000}) {
                wires.run(c, count);
              }
            }
          });
      wires.run({SYMM_DTYPE_BF16, SYMM_DTYPE_I8, 32, SYMM_OP_SUM, true}, 10'000);
    });
    if (testing::Test::HasFailure()) return;
  }
}

// A call that is larger than the memory in which codes are made is made in parts.
TEST(Wire, HasTheSameBitsInParts) {
  as_threads(3, [](int, const Group& group) {
    Wires wires(group, 3'600'000);
    wires.run({SYMM_DTYPE_F32, SYMM_DTYPE_I8, 128, SYMM_OP_SUM, false}, 900'000);
    wires.run({SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3, 32, SYMM_OP_AVG, false}, 700'001);
  });
}

TEST(Wire, HasTheSameBitsBetweenMachines) {
  for (const char* layout : {"AB", "AABB", "ABC"}) {
    expect_on_machines(layout, [](int, const Group& group) {
      Wires wires(group, 200'000);
      for_each_combination(std::tuple(kOperandTypes, kWireTypes, kGroups),
          [&](symm_dtype_t dtype, symm_dtype_t wire, int32_t per_scale) {
            for (const size_t count : {1, 1'000, 40'000}) {
              wires.run({dtype, wire, per_scale, SYMM_OP_SUM, group.size() > 3}, count);
            }
          });
    });
    if (testing::Test::HasFailure()) return;
  }
}

// The most by which encoding changes `x` in a group whose largest magnitude is `amax`.
double change_of(symm_dtype_t wire, double x, double amax) {
  const double floor = std::max(amax, static_cast<double>(most_of_codes(wire)) * 0x1p-100);
  const double any = floor * 0x1p-22;
  if (wire == SYMM_DTYPE_I8) return floor / 254 + any;
  if (wire == SYMM_DTYPE_F8E4M3) return std::max(std::fabs(x) / 16, floor * 0x1p-18) + any;
  return std::max(std::fabs(x) / 8, floor * 0x1p-32) + any;
}

TEST(Wire, ErrsByNoMoreThanItsBound) {
  constexpr int kRanks = 4;
  constexpr size_t kNumbers = 4'000;
  as_threads(kRanks, [](int rank, const Group& group) {
    const auto operands = operands_of(SYMM_DTYPE_F32, kRanks, kNumbers);
    const auto& mine = operands[static_cast<size_t>(rank)];
    for_each_combination(std::tuple(kWireTypes, kGroups), [&](symm_dtype_t wire, int32_t length) {
      std::vector<float> recv(kNumbers);
      check(symm_allreduce(group.get(), mine.data(), recv.data(), kNumbers, SYMM_DTYPE_F32,
          SYMM_OP_SUM, wired(wire, length), nullptr));

      std::vector<double> exact(kNumbers);
      std::vector<double> bound(kNumbers);
      std::vector<float> sums(kNumbers);
      for (const std::vector<float>& operand : operands) {
        std::vector<float> amax;
        const auto left = through_wire(operand, wire, static_cast<size_t>(length), &amax);
        for (size_t i = 0; i < kNumbers; ++i) {
          exact[i] += operand[i];
          bound[i] += change_of(wire, operand[i], amax[i]);
          sums[i] += left[i];
        }
      }
      std::vector<float> most;
      through_wire(sums, wire, static_cast<size_t>(length), &most);
      double worst = 0;
      for (size_t i = 0; i < kNumbers; ++i) {
        bound[i] += change_of(wire, sums[i], most[i]) + kRanks * 0x1p-24 * most[i];
        const double error = std::fabs(recv[i] - exact[i]);
        ASSERT_LE(error, bound[i]) << "element " << i << ", wire " << wire << " by " << length;
        worst = std::max(worst, error / bound[i]);
      }
      // A bound of twice the size would say little.
      EXPECT_GT(worst, 0.5) << "wire " << wire << " in groups of " << length;
    });
  });
}

TEST(Wire, MakesAGroupWithAnInfinityOrANanNan) {
  as_threads(2, [](int rank, const Group& group) {
    for (const symm_dtype_t wire : kWireTypes) {
      std::vector<float> numbers(100, 1);
      if (rank == 1) numbers[40] = std::numeric_limits<float>::infinity();
      if (rank == 0) numbers[99] = std::numeric_limits<float>::quiet_NaN();
      check(symm_allreduce(group.get(), numbers.data(), numbers.data(), numbers.size(),
          SYMM_DTYPE_F32, SYMM_OP_SUM, wired(wire, 32), nullptr));
      for (size_t i = 0; i < numbers.size(); ++i) {
        const bool is_lost = (i >= 32 && i < 64) || i >= 96;
        ASSERT_EQ(std::isnan(numbers[i]), is_lost) << "element " << i << ", wire " << wire;
        if (!is_lost) {
          ASSERT_NEAR(numbers[i], 2, 0.01);
        }
      }
    }
  });
}

TEST(Wire, IsInThePlanAndInABatch) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<float> send(50'000, static_cast<float>(rank + 1) * 7);
    std::vector<float> recv(send.size());
    auto options = wired(SYMM_DTYPE_F8E4M3, 0);
    const auto call =
        call_of(SYMM_COLLECTIVE_ALLREDUCE, send.data(), recv.data(), send.size(), SYMM_DTYPE_F32);
    symm_plan_info_t plan{};
    check(plan_of(group.get(), call, options, plan));
    EXPECT_EQ(plan.algorithm, SYMM_ALGORITHM_TWO_SHOT);
    EXPECT_NE(std::string(plan.reason).find("wire f8e4m3 in groups of 128"), std::string::npos)
        << plan.reason;

    // Small calls of a batch are made as one, but not those with a wire.
    std::array<float, 3> small{7, 14, 28};
    std::array<float, 3> plain{1.03F, 1.03F, 1.03F};
    std::vector<symm_collective_call_t> calls{
        call_of(SYMM_COLLECTIVE_ALLREDUCE, small.data(), small.data(), 3, SYMM_DTYPE_F32).value,
        call_of(SYMM_COLLECTIVE_ALLREDUCE, plain.data(), plain.data(), 3, SYMM_DTYPE_F32).value,
        call.value};
    calls[0].options = options;
    calls[2].options = options;
    check(symm_batch(group.get(), calls.data(), calls.size(), nullptr, nullptr));
    EXPECT_EQ(small, (std::array<float, 3>{14, 28, 56}));
    EXPECT_EQ(plain[0], 1.03F + 1.03F);
    EXPECT_EQ(recv, std::vector<float>(send.size(), 21));
  });
}
}  // namespace
}  // namespace support
