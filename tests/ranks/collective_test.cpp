// The collectives through the whole library. tests/kernels compares the arithmetic with
// a reference exhaustively; here it is about what lies around it: symmetric and private
// operands in any mixture, offsets, in place, forced algorithms, plans, disagreement.
#include <stdlib.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
// Sums whose bits show an order other than that of ranks.
symm::tool::Pattern pattern_of(int ranks) { return {SYMM_DTYPE_F32, SYMM_OP_SUM, ranks}; }

// One call, which must give the bits of the reference.
void compare(const Group& group, const symm::tool::Pattern& pattern,
    const symm::tool::Operands& operands, symm_algorithm_t algorithm, size_t shift) {
  operands.write_inputs(pattern, shift);
  const symm_collective_call_t call = operands.record();
  check(run(group.get(), &call, forced(algorithm)));
  ASSERT_EQ(operands.count_wrong(pattern, shift), 0U)
      << operands.traits->name << " on rank " << operands.rank << " of " << operands.ranks
      << ", root " << operands.root << ", dtype " << operands.dtype << ", op " << operands.op
      << ", count " << operands.count << ", algorithm " << algorithm
      << (operands.in_place ? ", in place" : "");
}

symm::tool::Operands operands_of(const Group& group, const char* name, size_t count, bool in_place,
    float* first, float* second, int root = 0) {
  return {symm::tool::find_operation(name), group.rank(), group.size(), SYMM_DTYPE_F32, SYMM_OP_SUM,
      root, count, in_place, reinterpret_cast<std::byte*>(first),
      reinterpret_cast<std::byte*>(second)};
}

// All collectives, with this rank's operands in
// symmetric or private memory, both at odd offsets.
void run_all(const Group& group, const symm::tool::Pattern& pattern, const Block& block,
    size_t count, bool in_place, bool private_first, bool private_second,
    symm_algorithm_t algorithm) {
  const int rank = group.rank();
  const int size = group.size();
  const size_t all = count * static_cast<size_t>(size);
  std::vector<float> own_first(all + 3);
  std::vector<float> own_second(all + 3);
  float* const first = private_first ? own_first.data() + 3 : block.at<float>(rank) + count % 3;
  float* const second = private_second ? own_second.data() + 3 : block.at<float>(rank) + all + 5;
  size_t shift = 0;
  for (const char* name : {"allreduce", "reduce_scatter", "allgather", "broadcast", "reduce",
           "alltoall", "scan", "exscan"}) {
    const int roots = symm::tool::find_operation(name)->rooted ? size : 1;
    for (int root = 0; root < roots; root += 1 + size / 8) {  // with other operands each time
      compare(group, pattern, operands_of(group, name, count, in_place, first, second, root),
          algorithm, shift += 37);
    }
  }
}

void run_many(const Group& group, const symm::tool::Pattern& pattern,
    const std::vector<size_t>& counts, symm_algorithm_t algorithm,
    const std::vector<int>& mixtures = {0, 1, 2, 3}) {
  const size_t most = counts.back() * static_cast<size_t>(group.size()) + 8;
  const Block block = allocate(group, 2 * most * sizeof(float));
  for (const size_t count : counts) {
    for (const bool in_place : {false, true}) {
      for (const int mixture : mixtures) {
        const bool alone = mixture == 3 && group.rank() == group.size() - 1;  // one rank only
        run_all(group, pattern, block, count, in_place, mixture == 1 || alone,
            mixture == 2 || alone, algorithm);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

const std::vector<size_t> kCounts = {0, 1, 13, 14, 15, 1000, 5000, 33333};

TEST(Collective, AllOfThemWithAnyMixtureOfOperands) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, [pattern = pattern_of(size)](int, const Group& group) {
      run_many(group, pattern, kCounts, SYMM_ALGORITHM_AUTO);
    });
  }
}

TEST(Collective, BetweenProcesses) {
  as_processes(4, [pattern = pattern_of(4)](int, const Group& group) {
    run_many(group, pattern, kCounts, SYMM_ALGORITHM_AUTO);
    group.barrier();
  });
}

// Runs all collectives of one type and operation of some bytes, by every algorithm that there is,
// with the operands in one place and another.
class AllCollectives {
 public:
  explicit AllCollectives(const Group& group) : group_(group) {}

  void run(symm_dtype_t dtype, symm_op_t op, size_t bytes) {
    if (!symm::reference::has_op(dtype, op)) return;
    const size_t element = symm::tool::size_of(dtype);
    if (bytes > 200'000 && element != 4) return;

    const symm::tool::Pattern pattern(dtype, op, group_.size());
    symm::tool::Operands operands{nullptr, group_.rank(), group_.size(), dtype, op, 0,
        bytes / element, false, first_.data(), second_.data()};
    for (const auto& [name, algorithms] : kWays) {
      operands.traits = symm::tool::find_operation(name);
      for (const symm_algorithm_t algorithm : algorithms) {
        if (!has_these_bits(operands, algorithm)) continue;
        operands.root = static_cast<int>(shift_) % group_.size();
        operands.in_place = std::popcount(shift_) % 2 != 0;  // half, whatever else they are
        compare(group_, pattern, operands, algorithm, shift_ += 37);
      }
    }

    expect_equal_pieces(pattern, operands);
  }

 private:
  using Ways = std::vector<std::pair<const char*, std::vector<symm_algorithm_t>>>;
  static inline const Ways kWays = {
      {"allreduce", {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED,
                        SYMM_ALGORITHM_CHAIN, SYMM_ALGORITHM_BRUCK, SYMM_ALGORITHM_HIERARCHICAL}},
      {"reduce", {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_CHAIN}},
      {"reduce_scatter", {SYMM_ALGORITHM_AUTO}}, {"allgather", {SYMM_ALGORITHM_AUTO}},
      {"broadcast", {SYMM_ALGORITHM_AUTO}}, {"alltoall", {SYMM_ALGORITHM_AUTO}},
      {"scan", {SYMM_ALGORITHM_AUTO}}, {"exscan", {SYMM_ALGORITHM_AUTO}}};

  // Whether the algorithm adds in the order of ranks here, or the order does not matter.
  bool has_these_bits(const symm::tool::Operands& operands, symm_algorithm_t algorithm) const {
    const bool hierarchical = algorithm == SYMM_ALGORITHM_HIERARCHICAL;
    const bool any_layout = !hierarchical && algorithm != SYMM_ALGORITHM_CHAIN;
    const bool any_order = symm::reference::format_of(operands.dtype).bias == 0 ||
                           operands.op == SYMM_OP_MAX || operands.op == SYMM_OP_MIN;
    if (!operands.traits->reduces && operands.op != SYMM_OP_SUM) return false;
    const bool is_scan = operands.traits->collective == SYMM_COLLECTIVE_SCAN ||
                         operands.traits->collective == SYMM_COLLECTIVE_EXSCAN;
    if (is_scan && operands.op == SYMM_OP_AVG) return false;
    return (in_line_ || any_layout) && (any_order || !hierarchical);
  }

  // A reduce-scatter with counts, all of which are equal.
  void expect_equal_pieces(const symm::tool::Pattern& pattern, symm::tool::Operands& operands) {
    const std::vector<size_t> equal(static_cast<size_t>(group_.size()), operands.count);
    operands.traits = symm::tool::find_operation("reduce_scatter");
    operands.write_inputs(pattern, shift_ += 37);
    check(symm_reduce_scatterv(group_.get(), operands.send(), equal.data(), nullptr,
        operands.recv(), operands.dtype, operands.op, nullptr, nullptr));
    ASSERT_EQ(operands.count_wrong(pattern, shift_), 0U)
        << "reduce_scatterv, dtype " << operands.dtype << ", op " << operands.op;
  }

  int machine_of(int rank) const { return group_.peer_info(rank).machine; }

  const Group& group_;
  const bool in_line_ = group_.info().machines == 4 || (machine_of(1) == 0 && machine_of(2) == 1);
  std::vector<std::byte> first_ = std::vector<std::byte>(2'500'000);
  std::vector<std::byte> second_ = std::vector<std::byte>(2'500'000);
  size_t shift_ = 0;
};

// Among the sizes are some of more bytes than go at once.
void run_all_types(const Group& group) {
  AllCollectives collectives(group);
  const std::array<size_t, 7> sizes = {0, 8, 64, 16'384, 16'448, 140'000, 600'000};
  for_each_combination(std::tuple(symm::tool::dtypes(), symm::tool::ops(), sizes),
      [&](const auto& dtype, const auto& op, size_t bytes) {
        collectives.run(dtype.value, op.value, bytes);
      });
}

TEST_F(Multinode, HasTheBitsOfTheReference) {
  SYMM_NOT_UNDER_TSAN("a minute; Multinode.MoveLargeBlocks goes the same ways");
  setenv("SYMM_HOST_TUNE", "gather=64,slices=64K,round=32K", 1);
  expect_on_all_layouts([](int, const Group& group) { run_all_types(group); });
}

TEST(Scan, NamesTheRankThatDoesNotCome) {
  as_threads(3, [](int rank, const Group& group) {
    group.barrier();
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
      return;
    }

    std::vector<float> data(1000);
    expect_failed(symm_scan(group.get(), data.data(), data.data(), data.size(), SYMM_DTYPE_F32,
                      SYMM_OP_SUM, forced(SYMM_ALGORITHM_AUTO, 2000), nullptr),
        SYMM_ERR_TIMEOUT, {"scan", "rank 1"});
    EXPECT_EQ(last_failure().rank, 1);
  });
}

TEST(Collective, SixtyFourRanks) {
  as_threads(64, [pattern = pattern_of(64)](int, const Group& group) {
    run_many(group, pattern, {3, 100, 1000}, SYMM_ALGORITHM_AUTO, {0});
  });
}

TEST(Collective, EveryAlgorithmGivesTheSameBits) {
  as_threads(4, [pattern = pattern_of(4)](int, const Group& group) {
    run_many(group, pattern, {0, 1, 3}, SYMM_ALGORITHM_LL);
    run_many(group, pattern, kCounts, SYMM_ALGORITHM_ONE_SHOT);
    run_many(group, pattern, kCounts, SYMM_ALGORITHM_TWO_SHOT_STAGED);
    // The plan takes two-shot, except for small calls and for an all-to-all in place.
    run_many(group, pattern, kCounts, SYMM_ALGORITHM_AUTO, {0});
  });
}

TEST(Collective, AHybridCubeMeshGivesTheSameBits) {
  as_threads(8, [pattern = pattern_of(8)](int, const Group& group) {
    std::vector<float> first(kCounts.back());
    std::vector<float> second(kCounts.back());
    size_t shift = 0;
    for (const size_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        compare(group, pattern,
            operands_of(group, "allreduce", count, in_place, first.data(), second.data()),
            SYMM_ALGORITHM_HYBRID_CUBE_MESH, shift += 37);
      }
    }
  });
}

TEST(Collective, SeveralThreadsOfARankTakeTurns) {
  as_threads(2, [](int, const Group& group) {
    // Every thread makes the same call, so whichever
    // thread's turn it is on either rank, the calls match.
    as_threads(4, [&](int) {
      for (int i = 0; i < 500; ++i) {
        int32_t one = 1;
        check(symm_allreduce(
            group.get(), &one, &one, 1, SYMM_DTYPE_I32, SYMM_OP_SUM, nullptr, nullptr));
        EXPECT_EQ(one, 2);
      }
    });
  });
}

// The library remembers for the next call what it found out about the operands of a call. Each of
// the calls here must not use what it remembers.
TEST(Collective, OperandsThatChangeBetweenCallsLikeEachOther) {
  constexpr size_t kCount = 3000;
  as_threads(3, [pattern = pattern_of(3)](int rank, const Group& group) {
    Block block = allocate(group, 64 * 1024);
    std::vector<float> priv(kCount);
    size_t shift = 0;
    const auto in_place = [&](const char* name, float* operand, int root = 0) {
      compare(group, pattern, operands_of(group, name, kCount, true, operand, nullptr, root),
          SYMM_ALGORITHM_AUTO, shift += 37);
    };

    float* same = block.at<float>(rank);
    for (int i = 0; i < 3; ++i) {
      in_place("allreduce", same);
    }

    // Only rank 1 moves: to another place, to private memory, and back.
    for (float* operand : {same + kCount, priv.data(), same}) {
      in_place("allreduce", rank == 1 ? operand : same);
    }

    // One pair of operands is used in another collective, and with another root.
    for (const int root : {0, 2, 0}) {
      in_place("broadcast", same, root);
    }

    in_place("allreduce", same);
    // The addresses stay, but belong to the memory of another rendezvous, and then to no memory.
    Memory again = group.rendezvous(block.buffer);
    in_place("allreduce", same);
    block.memory = std::move(again);
    in_place("allreduce", same);
    block.memory.reset();
    in_place("allreduce", same);
  });
}

// A root's operands are asked of the root only.
TEST(Plan, KnowsTheRoot) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<float> own(64);
    symm_plan_info_t plan;
    const auto call = call_of(SYMM_COLLECTIVE_BROADCAST, rank == 1 ? own.data() : nullptr,
        own.data(), 64, SYMM_DTYPE_F32, SYMM_OP_SUM, 1);
    check(plan_of(group.get(), call, nullptr, plan));
    group.barrier();
  });
}
}  // namespace
}  // namespace support
