// Complex numbers and pairs of a value and an index: what comes out is written here by hand, and is
// the same by every algorithm and in both orders. tests/ranks/collective_test.cpp compares random
// ones with the reference.
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"

namespace support {
namespace {
// Two shots, unstaged, are of symmetric memory.
constexpr symm_algorithm_t kAlgorithms[] = {
    SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED};
constexpr symm_order_t kOrders[] = {SYMM_ORDER_RANKS, SYMM_ORDER_TREE, SYMM_ORDER_ANY};
constexpr size_t kPairCounts[] = {1, 3, 1000};
constexpr int kSize = 4;

// All-reduces `mine`, and expects `right` of each element, by all algorithms, orders and counts.
template <class T>
void expect_everywhere(const Group& group, const T& mine, symm_op_t op, const T& right) {
  for_each_combination(
      std::tuple(std::span(kAlgorithms), std::span(kOrders), std::span(kPairCounts)),
      [&](symm_algorithm_t algorithm, symm_order_t order, size_t count) {
        auto options = forced(algorithm);
        options.value.order = order;
        std::vector<T> in(count, mine);
        std::vector<T> out(count);
        check(symm_allreduce(group.get(), in.data(), out.data(), count, symm::Dtype<T>::value, op,
            options, nullptr));
        for (const T& one : out) {
          ASSERT_TRUE(one == right) << "op " << op << ", algorithm " << algorithm << ", order "
                                    << order << ", count " << count;
        }
      });
}

template <class T>
const T& of_rank(const std::array<T, kSize>& all, const Group& group) {
  return all[static_cast<size_t>(group.rank())];
}

// Equal values: the lowest index wins, whichever rank has it; -0.0 and +0.0 are equal.
template <class Value, class Index>
void expect_places(const Group& group) {
  using Pair = symm::Pair<Value, Index>;
  constexpr Index kMost = std::numeric_limits<Index>::max();
  const std::array<Pair, kSize> all = {Pair{7, 30}, Pair{static_cast<Value>(-2), 9}, Pair{7, -4},
      Pair{static_cast<Value>(-2), kMost}};
  expect_everywhere(group, of_rank(all, group), SYMM_OP_MAXLOC, Pair{7, -4});
  expect_everywhere(group, of_rank(all, group), SYMM_OP_MINLOC, Pair{static_cast<Value>(-2), 9});

  // A scan is of the ranks up to each; an exscan begins with what no pair is worse than.
  const Pair mine = of_rank(all, group);
  Pair up_to{};
  Pair before{};
  constexpr symm_dtype_t kType = symm::Dtype<Pair>::value;
  check(symm_scan(group.get(), &mine, &up_to, 1, kType, SYMM_OP_MAXLOC, nullptr, nullptr));
  check(symm_exscan(group.get(), &mine, &before, 1, kType, SYMM_OP_MAXLOC, nullptr, nullptr));
  EXPECT_TRUE(up_to == (Pair{7, group.rank() < 2 ? Index{30} : Index{-4}}));
  constexpr bool kHasInfinity = std::numeric_limits<Value>::has_infinity;
  const Value least =
      kHasInfinity ? -std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::lowest();
  const std::array<Pair, kSize> firsts = {
      Pair{least, kMost}, Pair{7, 30}, Pair{7, 30}, Pair{7, -4}};
  EXPECT_TRUE(before == of_rank(firsts, group)) << "rank " << group.rank();
}

TEST(TwoParts, PairsGiveTheLowestIndexOfTheBestValue) {
  as_threads(kSize, [](int, const Group& group) {
    expect_places<float, int32_t>(group);
    expect_places<double, int64_t>(group);
    expect_places<int32_t, int32_t>(group);
    expect_places<int64_t, int64_t>(group);

    using Pair = symm::Pair<double, int64_t>;
    const std::array<Pair, kSize> zeros = {
        Pair{0.0, 8}, Pair{-0.0, 5}, Pair{0.0, 6}, Pair{-0.0, 7}};
    expect_everywhere(group, of_rank(zeros, group), SYMM_OP_MINLOC, Pair{0.0, 5});
    expect_everywhere(group, of_rank(zeros, group), SYMM_OP_MAXLOC, Pair{0.0, 5});
  });
}

// NaN is ahead of infinities, too, and says where it came from.
TEST(TwoParts, APairWithNanWins) {
  as_threads(kSize, [](int, const Group& group) {
    using Pair = symm::Pair<float, int32_t>;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const std::array<Pair, kSize> all = {
        Pair{kInfinity, 0}, Pair{kNan, 12}, Pair{-kInfinity, 1}, Pair{kNan, 11}};
    for (const symm_op_t op : {SYMM_OP_MINLOC, SYMM_OP_MAXLOC}) {
      Pair found{};
      check(symm_allreduce(
          group.get(), &of_rank(all, group), &found, 1, SYMM_DTYPE_F32_I32, op, nullptr, nullptr));
      EXPECT_TRUE(std::isnan(found.value));
      EXPECT_EQ(found.index, 11);
    }
  });
}

template <class T>
void expect_numbers(const Group& group) {
  using Complex = std::complex<T>;
  const std::array<Complex, kSize> all = {
      Complex{1, 2}, Complex{3, -1}, Complex{0, 1}, Complex{-4, 6}};
  const Complex mine = of_rank(all, group);
  expect_everywhere(group, mine, SYMM_OP_SUM, Complex{0, 8});
  expect_everywhere(group, mine, SYMM_OP_AVG, Complex{0, 2});
  // (1+2i)(3-i) = 5+5i, times i is -5+5i, times -4+6i is -10-50i.
  expect_everywhere(group, mine, SYMM_OP_PROD, Complex{-10, -50});

  constexpr symm_dtype_t kType = symm::Dtype<Complex>::value;
  Complex up_to;
  Complex before;
  check(symm_scan(group.get(), &mine, &up_to, 1, kType, SYMM_OP_PROD, nullptr, nullptr));
  check(symm_exscan(group.get(), &mine, &before, 1, kType, SYMM_OP_PROD, nullptr, nullptr));
  const std::array<Complex, kSize> products = {
      Complex{1, 2}, Complex{5, 5}, Complex{-5, 5}, Complex{-10, -50}};
  EXPECT_EQ(up_to, of_rank(products, group));
  const size_t rank = static_cast<size_t>(group.rank());
  EXPECT_EQ(before, rank == 0 ? Complex(1, 0) : products[rank - 1]);
}

TEST(TwoParts, ComplexNumbersAreAddedAndMultiplied) {
  as_threads(kSize, [](int, const Group& group) {
    expect_numbers<float>(group);
    expect_numbers<double>(group);
  });
}

// The parts of a sum have the bits of sums of real numbers; a product looks for no infinities, as
// that of C does.
TEST(TwoParts, AreRoundedAsRealNumbersAre) {
  as_threads(kSize, [](int rank, const Group& group) {
    const std::array<std::complex<float>, 5> mine = {
        std::complex<float>{0.1F * static_cast<float>(rank + 1), 1e8F},
        {1e-8F, rank == 0 ? 1e8F : 1.0F}, {3, 4}, {5, 6}, {7, 8}};
    std::array<std::complex<float>, 5> sums{};
    std::array<float, 10> parts{};
    for (const symm_order_t order : kOrders) {
      auto options = forced(SYMM_ALGORITHM_AUTO);
      options.value.order = order;
      check(symm_allreduce(
          group.get(), mine.data(), sums.data(), 5, SYMM_DTYPE_C64, SYMM_OP_SUM, options, nullptr));
      check(symm_allreduce(group.get(), mine.data(), parts.data(), 10, SYMM_DTYPE_F32, SYMM_OP_SUM,
          options, nullptr));
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sums[i], std::complex<float>(parts[2 * i], parts[2 * i + 1])) << i;
      }
    }

    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::complex<double> infinite(rank == 0 ? kInfinity : 0, rank == 0 ? 0 : 1);
    std::complex<double> product;
    check(symm_allreduce(
        group.get(), &infinite, &product, 1, SYMM_DTYPE_C128, SYMM_OP_PROD, nullptr, nullptr));
    EXPECT_TRUE(std::isnan(product.real()));
  });
}

void expect_refused(symm_status_t status, const std::string& word) {
  EXPECT_EQ(status, SYMM_ERR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(symm_last_error()).find(word), std::string::npos) << symm_last_error();
}

TEST(TwoParts, HaveNoOtherOperations) {
  as_threads(1, [](int, const Group& group) {
    std::array<double, 2> one{};
    const auto reduce = [&](symm_dtype_t dtype, symm_op_t op,
                            const symm_collective_options_t* options = nullptr) {
      return symm_allreduce(group.get(), one.data(), one.data(), 1, dtype, op, options, nullptr);
    };
    for (const symm_dtype_t dtype : {SYMM_DTYPE_C64, SYMM_DTYPE_C128}) {
      for (const symm_op_t op : {SYMM_OP_MIN, SYMM_OP_MAX}) {
        expect_refused(reduce(dtype, op), "no order");
      }
      for (const symm_op_t op : {SYMM_OP_BAND, SYMM_OP_BOR, SYMM_OP_BXOR}) {
        expect_refused(reduce(dtype, op), "integers");
      }
      for (const symm_op_t op : {SYMM_OP_MINLOC, SYMM_OP_MAXLOC}) {
        expect_refused(reduce(dtype, op), "of pairs of a value and an index");
      }

      auto options = forced(SYMM_ALGORITHM_AUTO);
      options.value.scale_position = SYMM_SCALE_AFTER;
      options.value.scale = 2;
      expect_refused(reduce(dtype, SYMM_OP_SUM, options), "is not a float");
      options = forced(SYMM_ALGORITHM_AUTO);
      options.value.result_dtype = SYMM_DTYPE_F32;
      expect_refused(reduce(dtype, SYMM_OP_SUM, options), "options.result_dtype: f32 of c");
    }

    for (const symm_dtype_t dtype :
        {SYMM_DTYPE_I32_I32, SYMM_DTYPE_I64_I64, SYMM_DTYPE_F32_I32, SYMM_DTYPE_F64_I64}) {
      for (const symm_op_t op :
          {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_MIN, SYMM_OP_MAX, SYMM_OP_PROD, SYMM_OP_BOR}) {
        expect_refused(reduce(dtype, op), op == SYMM_OP_BOR ? "integers" : "minloc and maxloc");
      }
    }
  });
}
}  // namespace
}  // namespace support
