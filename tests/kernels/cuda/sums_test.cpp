// The arithmetic of the kernels, compiled for the host: of any number of ranks it has the bits of a
// reference that takes one element at a time, in rank order and in tree order.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/prefixes.cuh"
#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/test.hpp"
#include "tools/bench/reference.hpp"

namespace symm::cuda {
namespace {
constexpr size_t kPacks = 8;
constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::f8e4m3,
    DType::f8e5m2, DType::c64, DType::c128};
constexpr Order kOrders[] = {Order::ranks, Order::tree};

// The operands of a rank each, some packs long, and what they make together.
struct Case {
  Case(DType dtype, Op op, int ranks, Order order) : name(text_of(dtype, op, ranks, order)) {
    args.dtype = static_cast<int32_t>(combined_as(dtype, op));
    of = dtype;
    args.op = static_cast<int32_t>(op);
    args.in_tree = order == Order::tree ? 1 : 0;
    testing::Values values(dtype, op, static_cast<unsigned>(ranks));
    count = kPacks * kPack / size_of(dtype);
    for (int rank = 0; rank < ranks; ++rank) {
      operands.push_back(values.make(count));
    }
    combine_operands();
  }

  // Makes `right` of the operands.
  void combine_operands() {
    const DType dtype = of;
    const symm_order_t in = args.in_tree != 0 ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS;
    right = reference::combined(dtype, operands, 0, count, dtype, [&](const auto& bits) {
      return reference::reduce(dtype, static_cast<Op>(args.op), bits, in);
    });
  }

  static std::string text_of(DType dtype, Op op, int ranks, Order order) {
    return std::string(op_name(op)) + " of " + dtype_name(dtype) + ", ranks " +
           std::to_string(ranks) + (order == Order::tree ? ", in tree order" : "");
  }

  uint4 pack(int rank, size_t number) const {
    uint4 pack;
    std::memcpy(&pack, operands[static_cast<size_t>(rank)].data() + number * kPack, kPack);
    return pack;
  }

  // Compares what `combine` makes of each pack.
  void expect(const std::function<uint4(size_t number)>& combine) const {
    std::vector<std::byte> got(kPacks * kPack);
    for (size_t number = 0; number < kPacks; ++number) {
      const uint4 made = combine(number);
      std::memcpy(got.data() + number * kPack, &made, kPack);
    }
    EXPECT_EQ(reference::difference(of, got.data(), right.data(), count), "") << name;
  }

  std::string name;
  DType of{};  // the operands' type, as which they need not be combined
  CollectiveArgs args{};
  size_t count = 0;
  std::vector<reference::Bytes> operands;
  reference::Bytes right;
};

// All operands in an array, as most kernels have them.
template <class Arithmetic, int kRanks>
void expect_of_array(const Case& c) {
  const auto ranks = static_cast<int>(c.operands.size());
  c.expect([&](size_t number) {
    uint4 operands[kRanks];
    for (int rank = 0; rank < ranks; ++rank) {
      operands[rank] = c.pack(rank, number);
    }
    return Arithmetic::run(operands, ranks, c.args);
  });
}

template <class Arithmetic>
void expect_of_loads(const Case& c) {
  c.expect([&](size_t number) {
    const auto load = [&](int rank) { return c.pack(rank, number); };
    return Arithmetic::run_loaded(load, static_cast<int>(c.operands.size()), c.args);
  });
}

TEST(CudaArithmetic, OfAnyTypeHasTheBitsOfTheReference) {
  for (const DType dtype : kFloats) {
    for (const Op op : {Op::sum, Op::avg, Op::prod}) {
      for (int ranks = 1; ranks <= kRoom; ++ranks) {
        for (const Order order : kOrders) {
          const Case c(dtype, op, ranks, order);
          expect_of_array<Any, kRoom>(c);
          if (ranks % 5 == 1) expect_of_loads<Any>(c);
        }
      }
    }
  }
}

// The order of ranks says nothing of pairs, so that there is no other for them.
TEST(CudaArithmetic, OfPairsHasTheBitsOfTheReference) {
  for (const DType dtype : {DType::i32_i32, DType::i64_i64, DType::f32_i32, DType::f64_i64}) {
    for (const Op op : {Op::minloc, Op::maxloc}) {
      for (int ranks = 1; ranks <= kRoom; ++ranks) {
        const Case c(dtype, op, ranks, Order::ranks);
        expect_of_array<Any, kRoom>(c);
        expect_of_loads<Any>(c);
      }
    }
  }
}

template <class Type, int kRanks = 8>
void expect_of_sums(DType dtype) {
  for (const Op op : {Op::sum, Op::avg}) {
    for (const Order order : kOrders) {
      expect_of_array<SumOrAverage<Type>, kRanks>(Case(dtype, op, kRanks, order));
    }
  }
  if constexpr (kRanks > 2) expect_of_sums<Type, kRanks - 1>(dtype);
}

TEST(CudaArithmetic, OfSumsInRegistersHasTheBitsOfTheReference) {
  expect_of_sums<Bf16>(DType::bf16);
  expect_of_sums<F16>(DType::f16);
  expect_of_sums<NativeElement<float>>(DType::f32);
}

template <class Type>
void expect_of_loaded_sums(DType dtype) {
  for (int ranks = 1; ranks <= kRoom; ++ranks) {
    for (const Op op : {Op::sum, Op::avg}) {
      for (const Order order : kOrders) {
        expect_of_loads<SumOrAverage<Type>>(Case(dtype, op, ranks, order));
      }
    }
  }
}

TEST(CudaArithmetic, OfSumsOfLoadsHasTheBitsOfTheReference) {
  expect_of_loaded_sums<Bf16>(DType::bf16);
  expect_of_loaded_sums<F16>(DType::f16);
  expect_of_loaded_sums<NativeElement<float>>(DType::f32);
}
TEST(CudaArithmetic, OfPrefixesHasTheBitsOfTheReference) {
  for (const DType dtype : reference::kDTypes) {
    for (const Op op : reference::kOps) {
      if (!reference::has_op(dtype, op) || op == Op::avg) continue;
      constexpr int kRanks = 11;
      std::vector<Case> cases;
      for (int ranks = 1; ranks <= kRanks; ++ranks) {
        cases.emplace_back(dtype, op, ranks, Order::ranks);
      }

      // All results are of the operands of the last case.
      const Case& all = cases.back();
      uint4 made[kPacks][kRanks];
      for (size_t number = 0; number < kPacks; ++number) {
        for (int rank = 0; rank < kRanks; ++rank) {
          made[number][rank] = all.pack(rank, number);
        }
        make_prefixes(made[number], kRanks, combined_as(dtype, op), op);
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        Case& one = cases[static_cast<size_t>(rank)];
        one.operands.assign(all.operands.begin(), all.operands.begin() + rank + 1);
        one.combine_operands();
        one.expect([&](size_t number) { return made[number][rank]; });
      }
    }
  }
}
}  // namespace
}  // namespace symm::cuda
