// The logic of symm/exchange.cuh with ranks as threads of the host: turns, order, which
// rank waits for which, and which words are sent for reserved ones.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "symm/device.cuh"
#include "symm/symm.h"
#include "tests/support/process.hpp"
#include "tools/bench/reference.hpp"
#include <symm/exchange.cuh>

namespace {
using namespace symm::device;

// The scratch and the exchanges that `size` ranks are given.
struct Given {
  explicit Given(int size, unsigned long long timeout_ns = 20'000'000'000ULL) {
    for (int rank = 0; rank < size; ++rank) {
      blocks.emplace_back(exchange::scratch_bytes(size, 40) / sizeof(Pack));
    }
    for (std::vector<Pack>& block : blocks) {
      table.push_back(block.data());
    }
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back({{sizeof(Memory), kLayout, rank, size, 0, table.data(), nullptr, nullptr,
                           timeout_ns, &stop},
          40, {}});
      for (size_t r = 0; r < blocks.size() && r < Exchange::kNearRanks; ++r) {
        ranks.back().scratch[r] = reinterpret_cast<char*>(blocks[r].data());
      }
    }
  }

  std::vector<std::vector<Pack>> blocks;
  std::vector<void*> table;
  std::vector<Exchange> ranks;
  unsigned stop = 0;
};

// Most words are halves below 2, some are any bits at all, and some are the reserved word.
std::vector<Pack> message(int rank, unsigned turn) {
  std::mt19937 random(static_cast<unsigned>(rank) * 31 + turn);
  std::vector<Pack> packs(turn % 3 == 1 ? 5 : 40);
  for (Pack& pack : packs) {
    for (unsigned* word : {&pack.x, &pack.y, &pack.z, &pack.w}) {
      const auto any = static_cast<unsigned>(random());
      *word = any & 0xBFFFBFFFU;
      if (any % 9 == 0) *word = ~0U;
      if (any % 9 == 1) *word = any;
    }
  }
  return packs;
}

// Messages of several lengths come one after the other, and nothing keeps the ranks together
// between them.
template <class Type>
void sums_are_the_references(symm_dtype_t dtype, int size) {
  const Given given(size);
  const auto element = [&](const std::vector<Pack>& packs, size_t i) {
    return static_cast<uint64_t>(symm::reference::load_bits(
        dtype, reinterpret_cast<const std::byte*>(packs.data()) + i * 16 / Type::kCount));
  };

  support::as_threads(size, [&](int rank) {
    const Exchange& mine = given.ranks[static_cast<size_t>(rank)];
    for (unsigned turn = 0; turn < 6; ++turn) {
      std::vector<Pack> packs = message(rank, turn);
      for (size_t q = 0; q < packs.size() && turn != 4; ++q) {
        exchange::push(mine, q, packs[q]);
      }

      for (size_t q = packs.size(); q-- > 0;) {
        float sum[Type::kCount];
        ASSERT_TRUE(turn == 4 ? exchange::all_reduce_sum<Type>(mine, q, packs[q])
                              : exchange::take_sum<Type>(mine, q, packs[q], sum));
        if (turn != 4) packs[q] = exchange::round<Type>(sum);
      }

      std::vector<std::vector<Pack>> all;
      for (int r = 0; r < size; ++r) {
        all.push_back(message(r, turn));
      }

      for (size_t i = 0; i < packs.size() * Type::kCount; ++i) {
        std::vector<symm::reference::Bits> operands;
        for (const auto& of_rank : all) {
          operands.push_back(element(of_rank, i));
        }
        const uint64_t got = element(packs, i);
        const auto right =
            static_cast<uint64_t>(symm::reference::reduce(dtype, SYMM_OP_SUM, operands));
        const auto is_nan = [&](uint64_t bits) {
          return std::isnan(symm::reference::decode(dtype, bits));
        };
        ASSERT_TRUE(got == right || (is_nan(got) && is_nan(right))) << got << " and not " << right;
      }
    }
  });
}

TEST(Exchange, SumsAreThoseOfTheReference) {
  for (const int size : {1, 2, 3, 10, Exchange::kNearRanks, Exchange::kNearRanks + 4}) {
    sums_are_the_references<exchange::bf16>(SYMM_DTYPE_BF16, size);
    sums_are_the_references<exchange::f32>(SYMM_DTYPE_F32, size);
  }
}

TEST(Exchange, WordsArriveAsTheyAreButForTheReservedOne) {
  const Given given(3);
  support::as_threads(3, [&](int rank) {
    const Pack pack = {0x80000000U, 0, ~0U, static_cast<unsigned>(rank)};
    unsigned next = 0;
    exchange::push(given.ranks[static_cast<size_t>(rank)], 0, pack);

    ASSERT_TRUE(
        exchange::take(given.ranks[static_cast<size_t>(rank)], 0, pack, [&](int from, Pack theirs) {
          EXPECT_TRUE(theirs.x == 0x80000000U && theirs.y == 0 && theirs.z == 0x7FFF7FFFU &&
                      theirs.w == next)
              << from;
          EXPECT_EQ(static_cast<unsigned>(from), next++);
        }));
    EXPECT_EQ(next, 3U);
  });
}

TEST(Exchange, ARankThatDoesNotComeIsNamed) {
  Given given(3, 2'000'000);
  Pack pack{};
  exchange::push(given.ranks[1], 1, pack);

  const auto fails = [&](Trouble trouble, int peer) {
    const Outcome outcome = exchange::all_reduce_sum<exchange::f32>(given.ranks[0], 1, pack);
    EXPECT_TRUE(outcome.trouble() == trouble && outcome.peer() == peer) << outcome.code;
  };

  fails(Trouble::timeout, 2);
  given.ranks[0].memory.timeout_ns = ~0ULL;
  given.stop = 1;
  fails(Trouble::stopped, 2);
  given.ranks[0].memory.layout = kLayout + 1;
  fails(Trouble::layout, 0);
}
}  // namespace
