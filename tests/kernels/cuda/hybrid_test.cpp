// The hybrid cube mesh kernel as it is, and the LL kernel, which uses the same slots by turns: in every order of steps that is
// drawn, all ranks get all sums, no store leaves the links, and no half of the scratch is used too early.
#include "core/backend/topology.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" void symm_hybrid_cube_mesh(symm::cuda::CollectiveArgs args);
extern "C" void symm_ll_reduce_8(symm::cuda::CollectiveArgs args);

namespace symm::cuda::model {
namespace {
using Operand = std::vector<float>;

// Where the ranks stand: shuffled.
CubeMesh cube_of(unsigned seed) {
  std::array<int, 8> at{};  // rank at position p: 0-3 and 4-7 are quads, p and p + 4 partners
  std::iota(at.begin(), at.end(), 0);
  std::mt19937 random(seed);
  if (seed % 4 != 0) std::shuffle(at.begin(), at.end(), random);
  CubeMesh cube{0, 0};
  for (size_t p = 0; p < 8; ++p) {
    if (p < 4) cube.quad |= 1U << at[p];
    cube.partners |= static_cast<uint32_t>(at[(p + 4) % 8]) << 4 * at[p];
  }
  return cube;
}

struct Result {
  bool ended = true;
  bool right = true;
  bool in_trouble = false;
};

// Some calls one after the other on every rank, all launched at once.
class Calls {
 public:
  Calls(const Ranks::Options& options, size_t count, bool mixed)
      : ranks_(options), cube_(cube_of(options.seed)), count_(count), mixed_(mixed), random_(options.seed) {
    ranks_.at_end = [this](int rank) {  // as if it had left: what it stored counts
      for (int other = 0; other < 8; ++other) ranks_.words(other).departed |= 1U << rank;
    };
  }
  Ranks& ranks() { return ranks_; }
  const CubeMesh& cube() const { return cube_; }
  int partner(int rank) const { return static_cast<int>(cube_.partners >> 4 * rank & 7U); }

  void launch(int calls, int absent = -1) {
    send_.resize(static_cast<size_t>(calls));
    recv_ = send_;
    for (size_t call = 0; call < send_.size(); ++call) {
      const bool in_place = random_() % 2 == 0;
      const bool cube = !mixed_ || random_() % 3 != 0;
      for (int rank = 0; rank < 8; ++rank) {
        Operand operand(count_);
        for (float& x : operand) x = std::ldexp(static_cast<float>(random_() % 1000), static_cast<int>(random_() % 40) - 20);
        operands_.push_back(operand);
        send_[call].push_back(operand);
        recv_[call].push_back(in_place ? Operand() : Operand(count_, -1.0F));
      }
      for (int rank = 0; rank < 8; ++rank) {
        const auto r = static_cast<size_t>(rank);
        CollectiveArgs args{};
        args.comm = ranks_.comm(rank);
        args.unit = count_ * sizeof(float);
        args.send = reinterpret_cast<uintptr_t>(send_[call][r].data());
        args.recv = in_place ? args.send : reinterpret_cast<uintptr_t>(recv_[call][r].data());
        args.collective = static_cast<int32_t>(Collective::allreduce);
        args.dtype = static_cast<int32_t>(DType::f32);
        args.quad = cube_.quad;
        args.partners = cube_.partners;
        if (rank == absent) continue;
        if (cube) ranks_.launch(rank, symm_hybrid_cube_mesh, args);
        else ranks_.launch(rank, symm_ll_reduce_8, args);
      }
    }
  }

  Result run() {
    Result result;
    result.ended = ranks_.run();
    for (int rank = 0; rank < 8; ++rank) result.in_trouble = result.in_trouble || ranks_.record(rank).state != 0;
    for (size_t call = 0; call < send_.size() && result.ended && !result.in_trouble; ++call) {
      for (size_t i = 0; i < count_; ++i) {
        float sum = operands_[call * 8][i];
        for (size_t r = 1; r < 8; ++r) sum += operands_[call * 8 + r][i];
        for (size_t r = 0; r < 8; ++r) {
          const Operand& got = recv_[call][r].empty() ? send_[call][r] : recv_[call][r];
          result.right = result.right && std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(sum);
        }
      }
    }
    return result;
  }
 private:
  Ranks ranks_;
  CubeMesh cube_;
  size_t count_;
  bool mixed_;
  std::mt19937 random_;
  std::vector<Operand> operands_;
  std::vector<std::vector<Operand>> send_, recv_;
};

Result outcome(const Ranks::Options& options, int calls, size_t count, bool mixed) {
  Calls all(options, count, mixed);
  all.launch(calls);
  return all.run();
}

TEST(HybridCubeMeshKernel, AllRanksGetAllSums) {
  for (unsigned seed = 0; seed < 28; ++seed) {
    const Ranks::Options options{.seed = seed, .blocks = 1 + seed % 2, .threads = 1 + seed / 2 % 2};
    const size_t count = 1 + seed % 14;  // up to four packs, the last one not full
    const Result result = outcome(options, 5, count, false);
    ASSERT_TRUE(result.ended && result.right && !result.in_trouble) << "seed " << seed << ": "
                                                                    << (!result.ended          ? "nothing goes on"
                                                                           : result.in_trouble ? "trouble"
                                                                                               : "wrong sums");
  }
}

TEST(HybridCubeMeshKernel, MixesWithLL) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const Ranks::Options options{.seed = 1000 + seed, .threads = 1 + seed % 2};
    const Result result = outcome(options, 6, 5, true);
    ASSERT_TRUE(result.ended && result.right && !result.in_trouble) << "seed " << options.seed;
  }
}

// The two promises on which it rests that a half may be used again. Without either the model must notice.
TEST(HybridCubeMeshKernel, TheModelSeesAHalfThatIsUsedTooEarly) {
  const auto is_noticed = [](Ranks::Options options) {
    for (options.seed = 0; options.seed < 200; ++options.seed) {
      const Result result = outcome(options, 5, 4, false);
      if (!result.ended || !result.right) return true;
    }
    return false;
  };
  EXPECT_TRUE(is_noticed({.has_one_half = true})) << "the same half in every call";
  EXPECT_TRUE(is_noticed({.ends_early = true})) << "a kernel that starts before what the last one stored is in view";
}

// Stores go to neighbours only, and each neighbour gets two operands at most.
TEST(HybridCubeMeshKernel, DataKeepsToLinks) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    Calls calls({.seed = seed}, 4, false);
    std::array<std::array<std::set<int>, 8>, 8> sent;  // by sender and owner: whose operands
    calls.ranks().at_store = [&](int by, int owner, int source) {
      if (owner != by) sent[static_cast<size_t>(by)][static_cast<size_t>(owner)].insert(source);
    };
    calls.launch(3);
    ASSERT_TRUE(calls.run().right);
    for (int by = 0; by < 8; ++by) {
      for (int owner = 0; owner < 8; ++owner) {
        if (by == owner) continue;
        const bool same_quad = (calls.cube().quad >> by & 1U) == (calls.cube().quad >> owner & 1U);
        std::set<int> expected;
        if (same_quad) expected = {by, calls.partner(by)};
        if (calls.partner(by) == owner) expected = {by};
        EXPECT_EQ(sent[static_cast<size_t>(by)][static_cast<size_t>(owner)], expected) << by << " to " << owner;
      }
    }
  }
}

// Ranks that are not its neighbours know of it only by its partner, who has come; all name the one that has not.
TEST(HybridCubeMeshKernel, NamesTheRankThatDidNotCome) {
  for (const int absent : {1, 6}) {
    Calls calls({.seed = 10 + static_cast<unsigned>(absent), .timeout_ns = 200'000}, 4, false);
    calls.ranks().at_end = nullptr;
    calls.launch(1, absent);
    EXPECT_TRUE(calls.run().ended);
    for (int rank = 0; rank < 8; ++rank) {
      if (rank == absent) continue;
      EXPECT_EQ(calls.ranks().record(rank).state, 1U);
      EXPECT_EQ(calls.ranks().record(rank).trouble, static_cast<uint32_t>(WaitError::timeout));
      EXPECT_EQ(calls.ranks().record(rank).peer, absent) << "rank " << rank;
    }
  }
}

// A rank that has left has sent its operand to its partner; that this one is slow in sending it on is no failure of either.
TEST(HybridCubeMeshKernel, WaitsForASlowPartnerOfARankThatHasLeft) {
  constexpr long kSent = 4 * 4;  // its own operand of one pack in pieces of 8 bytes, half of each a flag, to four neighbours
  for (const int slow : {0, 3, 5, 6}) {
    Calls calls({.seed = 20 + static_cast<unsigned>(slow)}, 4, false);
    calls.launch(1);
    calls.ranks().hold(slow, kSent, 300'000);
    const Result result = calls.run();
    EXPECT_TRUE(result.ended && result.right && !result.in_trouble) << slow;
    EXPECT_GT(calls.ranks().now(), 300'000U) << "it was not slow";
  }
}

// If it has left too, without sending, that is one.
TEST(HybridCubeMeshKernel, NamesAPartnerThatHasLeftWithoutSendingOn) {
  constexpr long kSent = 4 * 4;
  constexpr int kGone = 5;
  Calls calls({.seed = 4}, 4, false);
  calls.launch(1);
  calls.ranks().hold(kGone, kSent, 300'000);
  for (int other = 0; other < 8; ++other) calls.ranks().words(other).departed |= other == kGone ? 0U : 1U << kGone;
  calls.run();
  int named = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const ErrorRecord& record = calls.ranks().record(rank);
    if (record.state == 0) continue;
    EXPECT_EQ(record.trouble, static_cast<uint32_t>(WaitError::departed));
    EXPECT_EQ(record.peer, kGone);
    ++named;
  }
  EXPECT_GE(named, 3) << "the rest of its quad";
}
}  // namespace
}  // namespace symm::cuda::model
