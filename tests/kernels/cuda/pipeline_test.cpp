// The kernels of the pipeline where ranks disagree,
// announce offsets that cannot be, or take long.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_pipeline_any_2,
    symm_pipeline_any_4, symm_pipeline_move;

namespace symm::cuda::model {
namespace {
constexpr uint64_t kTile = 16;

// A call of floats in private memory. `change` may change the arguments of a rank.
class Call {
 public:
  Call(int ranks, uint64_t timeout_ns, unsigned seed, Collective collective, size_t count)
      : ranks_(options_of(ranks, timeout_ns, seed)), collective_(collective), count_(count) {
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t blocks = traits(collective).send_per_rank ? static_cast<size_t>(ranks) : 1;
      auto& send = send_.emplace_back(count * blocks, static_cast<float>(rank + 1));
      for (size_t i = 0; i < send.size() && collective == Collective::alltoall; ++i) {
        send[i] += 10.0F * static_cast<float>(i / count);
      }
      recv_.emplace_back(count * static_cast<size_t>(ranks), -1.0F);
    }
  }

  Ranks& ranks() { return ranks_; }

  const std::vector<float>& send(int rank) const { return send_[static_cast<size_t>(rank)]; }

  const std::vector<float>& recv(int rank) const { return recv_[static_cast<size_t>(rank)]; }

  // Registers all operands as memories 1 and 2 of the group.
  void share() {
    const auto entry = [](uint64_t id, const std::vector<std::vector<float>>& operands) {
      MemoryEntry made{id, operands[0].size() * sizeof(float), {}};
      for (size_t rank = 0; rank < operands.size(); ++rank) {
        made.block[rank] = reinterpret_cast<uintptr_t>(operands[rank].data());
      }
      return made;
    };
    table_ = {entry(1, send_), entry(2, recv_)};
  }

  bool run(
      unsigned blocks = 1, const std::function<void(int rank, CollectiveArgs&)>& change = nullptr) {
    const bool moves = !traits(collective_).has_op;
    for (int rank = 0; rank < static_cast<int>(send_.size()); ++rank) {
      const auto r = static_cast<size_t>(rank);
      CollectiveArgs args = args_of(ranks_, r, collective_, send_[r], recv_[r], count_);

      args.tile = kTile;
      args.spares_root = collective_ == Collective::broadcast ? 1 : 0;
      const size_t owners = traits(collective_).cut_into_slices
                                ? send_.size() - static_cast<size_t>(args.spares_root)
                                : 1;
      const uint64_t parts = blocks * owners;
      args.tiles = (args.unit + parts * kTile - 1) / (parts * kTile);
      args.copies_out = is_delivered_to(collective_, rank, args.root) ? 1 : 0;
      args.comm.memories = reinterpret_cast<uintptr_t>(table_.data());
      args.comm.memory_count = static_cast<int32_t>(table_.size());
      if (change) change(rank, args);

      auto* const combines = send_.size() == 2 ? symm_pipeline_any_2 : symm_pipeline_any_4;
      ranks_.launch(rank, moves ? symm_pipeline_move : combines, args, blocks);
    }
    return ranks_.run();
  }

 private:
  static Ranks::Options options_of(int ranks, uint64_t timeout_ns, unsigned seed) {
    return {.ranks = ranks,
        .seed = seed,
        .threads = static_cast<unsigned>(ranks),
        .slot = kTile,
        .work_groups = 2,
        .timeout_ns = timeout_ns};
  }

  Ranks ranks_;
  Collective collective_;
  size_t count_;
  std::vector<std::vector<float>> send_;
  std::vector<std::vector<float>> recv_;
  std::vector<MemoryEntry> table_;
};

// In tree order, and in that of the ranks, which here differ in most elements.
TEST(PipelineKernels, CombinesInTheOrderOfTheCall) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    constexpr size_t kCount = 50;
    const bool in_tree = seed % 2 == 0;
    std::mt19937 random(seed);
    std::vector<std::vector<float>> send(4, std::vector<float>(kCount));
    for (std::vector<float>& operand : send) {
      std::generate(operand.begin(), operand.end(), [&] { return draw_number(random); });
    }

    Call call(4, UINT64_MAX, seed, Collective::allreduce, kCount);
    ASSERT_TRUE(call.run(1 + seed % 2, [&](int rank, CollectiveArgs& args) {
      args.send = reinterpret_cast<uintptr_t>(send[static_cast<size_t>(rank)].data());
      args.in_tree = in_tree ? 1 : 0;
    }));
    for (size_t i = 0; i < kCount; ++i) {
      const float right = sum_of({send[0][i], send[1][i], send[2][i], send[3][i]}, in_tree);
      for (int rank = 0; rank < 4; ++rank) {
        ASSERT_EQ(call.recv(rank)[i], right) << "element " << i << ", rank " << rank;
      }
    }
  }
}

TEST(PipelineKernels, TwoRootsAreAMismatch) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    for (const auto& roots : {std::array{2, 2, 2}, std::array{0, 1, 1}}) {
      Call call(3, 300'000, seed, Collective::broadcast, 64);
      const bool agree = roots[0] == roots[1];
      ASSERT_TRUE(call.run(1, [&](int rank, CollectiveArgs& args) {
        args.root = roots[static_cast<size_t>(rank)];
        args.detail = static_cast<uint64_t>(args.root);
        args.copies_out = rank != args.root ? 1 : 0;
      }));

      for (int rank = 0; rank < 2; ++rank) {
        const ErrorRecord& record = call.ranks().record(rank);
        EXPECT_EQ(
            record.trouble, static_cast<uint32_t>(agree ? WaitError::none : WaitError::mismatch))
            << "rank " << rank;
        if (agree) {
          EXPECT_EQ(call.recv(rank)[63], 3.0F);
        } else {
          EXPECT_EQ(
              record.peer_detail, static_cast<uint64_t>(roots[static_cast<size_t>(record.peer)]));
        }
      }
    }
  }
}

// All of recv must lie in its memory, and not only its first byte.
TEST(PipelineKernels, NothingIsStoredBeyondAMemory) {
  constexpr size_t kCount = 16;
  constexpr size_t kAll = 2 * kCount * sizeof(float);
  for (const uint64_t offset : {uint64_t{65}, uint64_t{64} + kAll, ~uint64_t{0}}) {
    std::vector<float> block(64, -1.0F);
    MemoryEntry table[3] = {};
    table[2] = {7, 64 + kAll,
        {reinterpret_cast<uintptr_t>(block.data()), reinterpret_cast<uintptr_t>(block.data())}};

    Call call(2, 300'000, 1, Collective::allgather, kCount);
    ASSERT_TRUE(call.run(1, [&](int rank, CollectiveArgs& args) {
      args.comm.memories = reinterpret_cast<uintptr_t>(table);
      args.comm.memory_count = 3;
      if (rank == 1) {
        args.recv_memory = 7;
        args.recv_offset = offset;
      }
    }));

    EXPECT_EQ(call.ranks().record(0).trouble, static_cast<uint32_t>(WaitError::unknown_memory))
        << offset;
    EXPECT_EQ(block, std::vector<float>(64, -1.0F)) << offset;
  }
}

// One collective among some ranks, from one seed.
struct Drawn {
  Collective collective;
  // A broadcast that is not passed on, or a reduce whose root owns no slice.
  bool otherwise;
  int ranks;
  unsigned seed;

  // Each length and each kind of memory comes twice among 24 seeds.
  size_t count() const { return std::array{1, 9, 64, 190}[seed % 4]; }

  // The ranks whose operands are private: none, rank 1, or all.
  unsigned privates() const { return seed / 4 % 3; }
  bool is_private(int rank) const { return privates() == 2 || (privates() == 1 && rank == 1); }

  bool moves() const { return !traits(collective).has_op; }
  bool is_exchange() const { return collective == Collective::alltoall; }
  bool may_be_in_place() const {
    return collective == Collective::allreduce || collective == Collective::broadcast ||
           is_exchange();
  }
};

using Parameters = std::tuple<std::pair<Collective, bool>, int>;

std::string name_of(const Parameters& parameters) {
  const auto& [what, ranks] = parameters;
  std::string name = collective_name(what.first);
  std::erase(name, '_');
  return name + (what.second ? "Otherwise" : "") + "Of" + std::to_string(ranks);
}

class PipelineResults : public testing::TestWithParam<Parameters> {
 protected:
  static constexpr int kRoot = 1;

  static Drawn drawn(unsigned seed) {
    const auto& [what, ranks] = GetParam();
    return {what.first, what.second, ranks, seed};
  }

  static void change(const Drawn& d, int rank, bool in_place, CollectiveArgs& args) {
    args.root = kRoot;
    const bool is_direct = d.collective == Collective::broadcast && (d.otherwise || d.ranks == 2);
    args.direct = is_direct ? 1 : 0;
    args.spares_root = (args.spares_root != 0 && !is_direct) || (!d.moves() && d.otherwise) ? 1 : 0;

    if (is_direct) {
      args.tiles = args.unit / (2 * kTile) + 1;
    } else if (d.otherwise) {
      args.tiles = args.unit / (2 * (static_cast<uint64_t>(d.ranks) - 1) * kTile) + 1;
    }

    if (in_place) args.recv = args.send;
    args.recv_memory = in_place ? 1 : 2;
    if (d.is_private(rank) || (in_place && d.is_exchange())) args.recv_memory = 0;
    args.copies_out = is_delivered_to(d.collective, rank, kRoot) && d.is_private(rank) ? 1 : 0;
    if (d.collective == Collective::reduce && rank != kRoot) args.recv = 0;

    // Where operands are symmetric, stages are not used: to use one would be a fault.
    if (d.privates() == 0) args.comm.stage[1] = 0;
    if (d.privates() == 0 && d.moves() && args.recv_memory != 0) args.comm.stage[0] = 0;
  }

  // Element i of the result of a rank. `again` says that the operand is the result of a call in
  // place.
  static float expected(const Drawn& d, int rank, size_t i, bool again) {
    const auto source = static_cast<float>(i / d.count());
    const auto me = static_cast<float>(rank);
    if (d.is_exchange()) return again ? me + 1 + 10 * source : source + 1 + 10 * me;
    if (d.moves()) return traits(d.collective).recv_per_rank ? source + 1 : kRoot + 1.0F;

    const auto sum = static_cast<float>(d.ranks * (d.ranks + 1) / 2);
    const bool twice = again && d.collective == Collective::allreduce;
    return twice ? sum * static_cast<float>(d.ranks) : sum;
  }

  static void expect_results(const Drawn& d, Call& call, int round, bool in_place) {
    for (int rank = 0; rank < d.ranks; ++rank) {
      ASSERT_EQ(call.ranks().record(rank).state, 0U);
      if (d.collective == Collective::reduce && rank != kRoot) continue;
      const auto& found = in_place ? call.send(rank) : call.recv(rank);
      const size_t elements = operand_bytes(d.collective, d.count(), d.ranks).recv;
      for (size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(found[i], expected(d, rank, i, round == 2))
            << "rank " << rank << ", " << d.count() << " elements, seed " << d.seed << ", round "
            << round << ", element " << i;
      }
    }
  }
};

// Results go straight to a recv that is memory of the group. Where the recv of all ranks is such
// memory, the second stage is not used, nor is the first stage by kernels that only move; the test
// takes these stages away. Operands end within a piece or before the last, and there are more
// pieces than slots. Calls follow each other, and are in place where they can be.
TEST_P(PipelineResults, AreStoredWhereTheyBelong) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    const Drawn d = drawn(seed);
    Call call(d.ranks, 300'000, seed, d.collective, d.count());
    call.share();

    for (int round = 0; round < 3; ++round) {
      const bool in_place = d.may_be_in_place() && round == 1;
      ASSERT_TRUE(
          call.run(2, [&](int rank, CollectiveArgs& args) { change(d, rank, in_place, args); }));
      ASSERT_NO_FATAL_FAILURE(expect_results(d, call, round, in_place));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PipelineResults,
    testing::Combine(
        testing::Values(std::pair(Collective::allreduce, false),
            std::pair(Collective::reduce_scatter, false), std::pair(Collective::reduce, false),
            std::pair(Collective::reduce, true), std::pair(Collective::allgather, false),
            std::pair(Collective::alltoall, false), std::pair(Collective::broadcast, false),
            std::pair(Collective::broadcast, true)),
        testing::Values(2, 3, 4)),
    [](const auto& each) { return name_of(each.param); });

TEST(PipelineKernels, RecordAMismatchAndARankThatDoesNotCome) {
  for (const bool comes : {false, true}) {
    Call call(2, 100'000, 1, Collective::allreduce, 64);
    if (!comes) call.ranks().hold(1, 0, 400'000);
    ASSERT_TRUE(call.run(1, [&](int rank, CollectiveArgs& args) {
      args.count = static_cast<uint64_t>(64 + (comes ? rank : 0));
    }));
    EXPECT_EQ(call.ranks().record(0).trouble,
        static_cast<uint32_t>(comes ? WaitError::mismatch : WaitError::timeout));
  }
}

// A deadline holds for each wait: a call that makes progress may take longer.
TEST(PipelineKernels, ALongCallIsNoLongWait) {
  constexpr uint64_t kTimeout = 50'000;
  Call call(2, kTimeout, 1, Collective::allreduce, 12'000);
  ASSERT_TRUE(call.run());
  EXPECT_GT(call.ranks().now(), 5 * kTimeout);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(call.ranks().record(rank).state, 0U) << "rank " << rank;
    EXPECT_EQ(call.recv(rank)[11'999], 3.0F);
  }
}
}  // namespace
}  // namespace symm::cuda::model
