// The kernel of the hybrid cube mesh and the LL kernel, which use the same slots by turns, compiled
// for the host. All ranks get all sums whatever roles they have, no store leaves the links, and no
// half of the scratch is used too early.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_hybrid_cube_mesh,
    symm_ll_reduce_8;

namespace symm::cuda::model {
namespace {
// The stores by which a rank sends an operand of one pack to its four neighbours: half of each is
// a flag.
constexpr long kOwnStores = 4 * 4;
constexpr long kLong = 300'000;

// Rank at[p] has position p: 0-3 and 4-7 are quads, p and p + 4 partners.
struct Roles {
  uint32_t quad = 0;
  uint32_t partners = 0;

  int partner(int rank) const { return static_cast<int>(partners >> (4 * rank) & 7U); }
  bool in_one_quad(int a, int b) const { return ((quad >> a ^ quad >> b) & 1U) == 0; }
};

Roles roles_of(unsigned seed) {
  std::array<int, 8> at{};
  std::iota(at.begin(), at.end(), 0);
  std::mt19937 random(seed);
  if (seed % 4 != 0) std::shuffle(at.begin(), at.end(), random);

  Roles roles;
  for (size_t p = 0; p < at.size(); ++p) {
    if (p < 4) roles.quad |= 1U << at[p];
    roles.partners |= static_cast<uint32_t>(at[(p + 4) % 8]) << (4 * at[p]);
  }
  return roles;
}

// All-reduces one after the other, launched at once on every rank.
class Calls {
 public:
  Calls(const Ranks::Options& options, size_t count)
      : ranks(options), roles(roles_of(options.seed)), count_(count), random_(options.seed) {
    // A rank leaves when it is done; what it stored counts.
    ranks.at_end = [this](int rank) { leave(rank); };
  }

  void leave(int rank) {
    for (int other = 0; other < 8; ++other) {
      if (other != rank) ranks.told(other).departed.add(rank);
    }
  }

  // `mixed`: some of the calls are by LL. A rank that is absent never comes.
  void launch(size_t calls, bool mixed = false, int absent = -1) {
    // Kernels keep the addresses of operands, so no vector may move any more.
    send_.resize(calls);
    recv_.resize(calls);
    for (size_t call = 0; call < calls; ++call) {
      const bool by_ll = mixed && random_() % 3 == 0;
      const bool in_place = random_() % 2 == 0;
      for (size_t rank = 0; rank < 8; ++rank) {
        std::vector<float>& operand = send_[call][rank];
        for (size_t i = 0; i < count_; ++i) {
          operand.push_back(draw_number(random_));
        }
        recv_[call][rank] = in_place ? operand : std::vector<float>(count_, -1.0F);
      }

      for (size_t rank = 0; rank < 8; ++rank) {
        if (static_cast<int>(rank) == absent) continue;
        const auto& send = in_place ? recv_[call][rank] : send_[call][rank];
        CollectiveArgs args =
            args_of(ranks, rank, Collective::allreduce, send, recv_[call][rank], count_);
        args.in_tree = in_tree(call) ? 1 : 0;
        args.quad = roles.quad;
        args.partners = roles.partners;
        ranks.launch(
            static_cast<int>(rank), by_ll ? symm_ll_reduce_8 : symm_hybrid_cube_mesh, args);
      }
    }
  }

  // "" if all calls ended, no rank was blamed, and all results have the bits of sums in the order
  // of their call.
  std::string outcome() {
    if (!ranks.run()) return "nothing goes on";
    for (int rank = 0; rank < 8; ++rank) {
      if (ranks.record(rank).state != 0) return "trouble";
    }

    for (size_t call = 0; call < send_.size(); ++call) {
      for (size_t i = 0; i < count_; ++i) {
        std::vector<float> numbers;
        for (const std::vector<float>& operand : send_[call]) {
          numbers.push_back(operand[i]);
        }
        const float sum = sum_of(numbers, in_tree(call));
        for (size_t rank = 0; rank < 8; ++rank) {
          const float got = recv_[call][rank][i];
          if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(sum)) return "wrong sums";
        }
      }
    }
    return "";
  }

  Ranks ranks;
  const Roles roles;

 private:
  static bool in_tree(size_t call) { return call % 2 == 1; }

  using OfRanks = std::array<std::vector<float>, 8>;

  size_t count_;
  std::mt19937 random_;
  std::vector<OfRanks> send_;
  std::vector<OfRanks> recv_;
};

TEST(HybridCubeMeshKernel, GivesAllRanksAllSums) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    // Up to four packs, of which the last is often not full.
    Calls calls({.seed = seed, .blocks = 1 + seed % 2, .threads = 1 + seed / 2 % 2}, 1 + seed % 14);
    calls.launch(5);
    ASSERT_EQ(calls.outcome(), "") << "seed " << seed;
  }
}

TEST(HybridCubeMeshKernel, TakesTurnsWithLL) {
  for (unsigned seed = 1000; seed < 1008; ++seed) {
    Calls calls({.seed = seed, .threads = 1 + seed % 2}, 5);
    calls.launch(6, true);
    ASSERT_EQ(calls.outcome(), "") << "seed " << seed;
  }
}

// A half may be used again because calls use the two halves by turns, and because a kernel starts
// when all is in view that the one before it has stored. The model must notice if either is not so.
TEST(HybridCubeMeshKernel, TheModelSeesAHalfThatIsUsedTooEarly) {
  const auto is_noticed = [](Ranks::Options options) {
    for (options.seed = 0; options.seed < 200; ++options.seed) {
      Calls calls(options, 4);
      calls.launch(5);
      if (!calls.outcome().empty()) return true;
    }
    return false;
  };

  EXPECT_TRUE(is_noticed({.has_one_half = true}));
  EXPECT_TRUE(is_noticed({.ends_early = true}));
}

// Ranks store to neighbours only: their own operand to all, their partner's to their quad.
TEST(HybridCubeMeshKernel, KeepsToLinks) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    Calls calls({.seed = seed}, 4);
    // The sources of what one rank has stored to another.
    std::array<std::array<std::set<int>, 8>, 8> stored;
    calls.ranks.at_store = [&](int by, int owner, int source) {
      if (owner != by)
        stored.at(static_cast<size_t>(by)).at(static_cast<size_t>(owner)).insert(source);
    };
    calls.launch(3);
    ASSERT_EQ(calls.outcome(), "");

    for (int by = 0; by < 8; ++by) {
      for (int owner = 0; owner < 8; ++owner) {
        if (by == owner) continue;
        std::set<int> expected;
        if (calls.roles.in_one_quad(by, owner)) expected = {by, calls.roles.partner(by)};
        if (calls.roles.partner(by) == owner) expected = {by};
        EXPECT_EQ(stored.at(static_cast<size_t>(by)).at(static_cast<size_t>(owner)), expected)
            << by << " to " << owner;
      }
    }
  }
}

// Ranks that are no neighbours of the absent one miss it only in what its partner, who has come,
// does not relay. All name the rank that is absent.
TEST(HybridCubeMeshKernel, NamesTheRankThatDoesNotCome) {
  for (const int absent : {1, 6}) {
    Calls calls({.seed = 10 + static_cast<unsigned>(absent), .timeout_ns = 200'000}, 4);
    calls.ranks.at_end = nullptr;
    calls.launch(1, false, absent);
    EXPECT_EQ(calls.outcome(), "trouble");
    for (int rank = 0; rank < 8; ++rank) {
      if (rank == absent) continue;
      const ErrorRecord& record = calls.ranks.record(rank);
      EXPECT_EQ(static_cast<WaitError>(record.trouble), WaitError::timeout) << "rank " << rank;
      EXPECT_EQ(record.peer, absent) << "rank " << rank;
    }
  }
}

// A rank that has left has sent its operand to its partner before. That the partner is slow to
// relay it is not a failure of either.
TEST(HybridCubeMeshKernel, WaitsForTheSlowPartnerOfARankThatHasLeft) {
  for (const int slow : {0, 3, 5, 6}) {
    Calls calls({.seed = 20 + static_cast<unsigned>(slow)}, 4);
    calls.launch(1);
    calls.ranks.hold(slow, kOwnStores, kLong);
    EXPECT_EQ(calls.outcome(), "") << slow;
    EXPECT_GT(calls.ranks.now(), static_cast<uint64_t>(kLong)) << "it was not slow";
  }
}

TEST(HybridCubeMeshKernel, NamesAPartnerThatHasLeftWithoutRelaying) {
  constexpr int kGone = 5;
  Calls calls({.seed = 4}, 4);
  calls.launch(1);
  calls.ranks.hold(kGone, kOwnStores, kLong);
  calls.leave(kGone);
  EXPECT_EQ(calls.outcome(), "trouble");

  int named = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const ErrorRecord& record = calls.ranks.record(rank);
    if (record.state == 0) continue;
    EXPECT_EQ(static_cast<WaitError>(record.trouble), WaitError::departed);
    EXPECT_EQ(record.peer, kGone);
    ++named;
  }
  EXPECT_GE(named, 3) << "the rest of its quad";
}
}  // namespace
}  // namespace symm::cuda::model
