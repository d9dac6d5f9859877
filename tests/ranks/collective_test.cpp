// The collectives through the whole library. tests/kernels compares the arithmetic with a reference exhaustively; here it is
// about what lies around it: symmetric and private operands in any mixture, offsets, in place, forced algorithms, plans,
// disagreement.
#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace support { namespace {
// Small integers, so that f32 sums are exact whatever is tested.
float value(int rank, size_t i) { return static_cast<float>((static_cast<size_t>(rank) * 31 + i * 7) % 101); }

// All collectives, with this rank's operands in symmetric or private memory.
void run_all(const Group& group, const Block& block, size_t count, bool in_place, bool private_send, bool private_recv,
    symm_algorithm_t algorithm) {
  const int rank = group.rank();
  const int size = group.size();
  const auto n = static_cast<size_t>(size);
  const auto r = static_cast<size_t>(rank);
  const size_t all = count * n;
  const auto options = forced(algorithm);
  SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(size) + ", count " + std::to_string(count) +
               ", algorithm " + std::to_string(algorithm) + (in_place ? ", in place" : ""));
  const size_t half = 400'000;
  // Each operand of `call` is one block of elements, or one for each rank; `expected` is element i of block b of the result.
  const auto expect = [&](symm_collective_t what, symm_op_t op, int root, bool all_in, bool all_out, const auto& expected) {
    std::vector<float> own_send(all + 3), own_recv(all + 3);
    float* in = private_send ? own_send.data() + 3 : block.at<float>(rank) + count % 3;  // at odd offsets
    float* out = private_recv ? own_recv.data() + 3 : block.at<float>(rank) + half + 5;
    if (in_place && all_in && !all_out) out = in + r * count;
    else if (in_place) in = out + (all_out && !all_in ? r * count : 0);
    for (size_t i = 0; i < (all_in ? all : count); ++i) in[i] = value(rank, i);
    check(run(group.get(), call_of(what, in, out, count, SYMM_DTYPE_F32, op, root), options));
    for (size_t i = 0; i < (all_out ? all : count); ++i)
      if (const std::optional<float> right = expected(i / count, i % count)) {
        ASSERT_EQ(out[i], *right) << "collective " << what << " at " << i;
      }
  };
  const auto of_all = [&](size_t i, const auto& op) {
    float result = value(0, i);
    for (int p = 1; p < size; ++p) result = op(result, value(p, i));
    return result;
  };
  const auto larger = [](float a, float b) { return std::max(a, b); };
  const auto smaller = [](float a, float b) { return std::min(a, b); };

  const auto all_sums = [&](size_t, size_t i) { return of_all(i, std::plus<>()); };
  expect(SYMM_COLLECTIVE_ALLREDUCE, SYMM_OP_SUM, 0, false, false, all_sums);
  const auto own_maxima = [&](size_t, size_t i) { return of_all(r * count + i, larger); };
  expect(SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_OP_MAX, 0, true, false, own_maxima);
  const auto of_block = [&](size_t b, size_t i) { return value(static_cast<int>(b), i); };
  expect(SYMM_COLLECTIVE_ALLGATHER, SYMM_OP_SUM, 0, false, true, of_block);
  for (int root = 0; root < size; ++root) {
    const auto of_root = [&](size_t, size_t i) { return value(root, i); };
    expect(SYMM_COLLECTIVE_BROADCAST, SYMM_OP_SUM, root, false, false, of_root);
    const auto minima = [&](size_t, size_t i) { return rank == root ? std::optional(of_all(i, smaller)) : std::nullopt; };
    expect(SYMM_COLLECTIVE_REDUCE, SYMM_OP_MIN, root, false, false, minima);
  }
  const auto for_own = [&](size_t b, size_t i) { return value(static_cast<int>(b), r * count + i); };
  expect(SYMM_COLLECTIVE_ALLTOALL, SYMM_OP_SUM, 0, true, true, for_own);
}

void run_many(const Group& group, const std::vector<size_t>& counts, symm_algorithm_t algorithm) {
  const Block block = allocate(group, size_t{4} << 20);
  for (const size_t count : counts) {
    for (const bool in_place : {false, true}) {
      for (const int mixture : {0, 1, 2, 3}) {
        const bool alone = mixture == 3 && group.rank() == group.size() - 1;  // one rank only
        run_all(group, block, count, in_place, mixture == 1 || alone, mixture == 2 || alone, algorithm);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

const std::vector<size_t> kCounts = {0, 1, 13, 14, 15, 1000, 5000, 33333};

TEST(Collective, AllOfThemWithAnyMixtureOfOperands) {
  for (const int size : {1, 2, 3, 5})
    as_threads(size, [](int, const Group& group) { run_many(group, kCounts, SYMM_ALGORITHM_AUTO); });
}

TEST(Collective, BetweenProcesses) {
  as_processes(4, [](int, const Group& group) {
    run_many(group, kCounts, SYMM_ALGORITHM_AUTO);
    group.barrier();
  });
}

TEST(Collective, SixtyFourRanks) {
  as_threads(64, [](int, const Group& group) {
    const Block block = allocate(group, size_t{1} << 16);
    for (const size_t count : {size_t{3}, size_t{100}, size_t{4000}}) {
      float* data = block.at<float>(group.rank());
      for (size_t i = 0; i < count; ++i) data[i] = value(group.rank(), i);
      check(allreduce(group, data, data, count));
      for (size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int p = 0; p < 64; ++p) sum += value(p, i);
        ASSERT_EQ(data[i], sum);
      }
    }
  });
}

TEST(Collective, ForcedAlgorithmsOnSymmetricMemory) {
  as_threads(4, [](int, const Group& group) {
    run_many(group, {0, 1, 3}, SYMM_ALGORITHM_LL);
    run_many(group, kCounts, SYMM_ALGORITHM_ONE_SHOT);
    run_many(group, kCounts, SYMM_ALGORITHM_TWO_SHOT_STAGED);
  });
}

TEST(Collective, EveryAlgorithmGivesTheSameBits) {
  as_threads(8, [](int rank, const Group& group) {
    const size_t count = 20'000;
    const Block block = allocate(group, 4 * count * sizeof(float));
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::uniform_real_distribution<float> distribution(-1e3F, 1e3F);
    float* send = block.at<float>(rank);
    float* recv = send + count;
    for (size_t i = 0; i < count; ++i) send[i] = distribution(random);
    std::vector<float> first;
    for (const symm_algorithm_t algorithm :
        {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED}) {
      std::fill_n(recv, count, 0.0F);
      group.barrier();
      check(allreduce(group, send, recv, count, algorithm));
      if (first.empty()) first.assign(recv, recv + count);
      EXPECT_EQ(std::memcmp(first.data(), recv, count * sizeof(float)), 0) << "algorithm " << algorithm;
      group.barrier();
      EXPECT_EQ(std::memcmp(block.at<float>((rank + 1) % 8) + count, recv, count * sizeof(float)), 0) << "ranks differ";
      group.barrier();
    }
  });
}

TEST(Collective, SeveralThreadsOfARankTakeTurns) {
  as_threads(2, [](int, const Group& group) {
    // Every thread makes the same call, so whichever thread's turn it is on either rank, the calls match.
    as_threads(4, [&](int) {
      for (int i = 0; i < 500; ++i) {
        int32_t one = 1;
        check(symm_allreduce(group.get(), &one, &one, 1, SYMM_DTYPE_I32, SYMM_OP_SUM, nullptr, nullptr));
        EXPECT_EQ(one, 2);
      }
    });
  });
}

TEST(Collective, OperandsOfDifferentMemories) {
  as_threads(2, [](int rank, const Group& group) {
    const size_t count = 50'000;
    const Block a = allocate(group, count * sizeof(float));
    const Block b = allocate(group, 2 * count * sizeof(float));
    // Rank 0 sends from a and rank 1 from b, at another offset.
    float* send = rank == 0 ? a.at<float>(0) : b.at<float>(1) + 77;
    float* recv = rank == 0 ? b.at<float>(0) : a.at<float>(1);
    for (size_t i = 0; i < count; ++i) send[i] = value(rank, i);
    check(allreduce(group, send, recv, count, SYMM_ALGORITHM_TWO_SHOT));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(recv[i], value(0, i) + value(1, i));
  });
}

// What was found out about the operands of one call is remembered for the next; each of these would then be wrong.
TEST(Collective, OperandsThatChangeBetweenCallsLikeEachOther) {
  constexpr size_t kCount = 3000;
  as_threads(3, [](int rank, const Group& group) {
    Block block = allocate(group, 64 * 1024);
    std::vector<float> priv(kCount);
    const auto expect_sum = [&](float* operand) {
      for (size_t i = 0; i < kCount; ++i) operand[i] = value(rank, i);
      check(allreduce(group, operand, operand, kCount));
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(operand[i], value(0, i) + value(1, i) + value(2, i)) << i;
    };
    float* same = block.at<float>(rank);
    for (int i = 0; i < 3; ++i) expect_sum(same);
    // Only rank 1 moves: to another place, to private memory, and back.
    for (float* operand : {same + kCount, priv.data(), same}) expect_sum(rank == 1 ? operand : same);
    // The same operands in another collective, and with another root.
    for (const int root : {0, 2, 0}) {
      for (size_t i = 0; i < kCount; ++i) same[i] = value(rank + root, i);
      check(symm_broadcast(group.get(), same, same, kCount, SYMM_DTYPE_F32, root, nullptr, nullptr));
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(same[i], value(2 * root, i)) << i;
    }
    expect_sum(same);
    // The same addresses, but of a memory that met anew, and then of no memory at all.
    Memory again = group.rendezvous(block.buffer);
    expect_sum(same);
    block.memory = std::move(again);
    expect_sum(same);
    block.memory.reset();
    expect_sum(same);
  });
}

// A root's operands are asked of the root only.
TEST(Plan, KnowsTheRoot) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<float> own(64);
    symm_plan_info_t plan;
    const auto call =
        call_of(SYMM_COLLECTIVE_BROADCAST, rank == 1 ? own.data() : nullptr, own.data(), 64, SYMM_DTYPE_F32, SYMM_OP_SUM, 1);
    check(plan_of(group.get(), call, nullptr, plan));
    group.barrier();
  });
}

TEST(Collective, RefusesTheBlockOfAnotherRankInPlace) {
  as_threads(2, [](int, const Group& group) {
    std::vector<float> own(100);
    float* data = own.data();
    symm_group_t* g = group.get();
    EXPECT_EQ(symm_allgather(g, data, data, 10, SYMM_DTYPE_F32, nullptr, nullptr),
        group.rank() == 0 ? SYMM_OK : SYMM_ERR_INVALID_ARGUMENT);
    // Rank 0 made a legal call (its own part in place) and is now one ahead; this is the contract, and a matching call of
    // rank 1 goes on.
    if (group.rank() == 1) check(symm_allgather(g, data + 50, data, 10, SYMM_DTYPE_F32, nullptr, nullptr));
  });
}
}}  // namespace support
