// What the pipeline's kernels do where ranks disagree, announce what cannot be, or take long.
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" void symm_pair_any(symm::cuda::CollectiveArgs args);
extern "C" void symm_pipeline_any_2(symm::cuda::CollectiveArgs args);
extern "C" void symm_pipeline_any_4(symm::cuda::CollectiveArgs args);
extern "C" void symm_pipeline_move(symm::cuda::CollectiveArgs args);

namespace symm::cuda::model { namespace {
constexpr uint64_t kTile = 16;

// One call, of floats, in private memory; `change` has the last word on a rank's arguments.
class Call {
 public:
  Call(int ranks, uint64_t timeout_ns, unsigned seed, Collective collective, size_t count)
      : ranks_(options_of(ranks, timeout_ns, seed)), collective_(collective), count_(count) {
    for (int rank = 0; rank < ranks; ++rank) {
      send_.emplace_back(
          count * (collective == Collective::reduce_scatter ? static_cast<size_t>(ranks) : 1), static_cast<float>(rank + 1));
      recv_.emplace_back(count * static_cast<size_t>(ranks), -1.0F);
    }
  }
  Ranks& ranks() { return ranks_; }
  const std::vector<float>& send(int rank) const { return send_[static_cast<size_t>(rank)]; }
  const std::vector<float>& recv(int rank) const { return recv_[static_cast<size_t>(rank)]; }
  // All operands are memories 1 and 2 of the group.
  void share() {
    const auto entry = [](uint64_t id, const std::vector<std::vector<float>>& operands) {
      MemoryEntry made{id, operands[0].size() * sizeof(float), {}};
      for (size_t rank = 0; rank < operands.size(); ++rank) made.block[rank] = reinterpret_cast<uintptr_t>(operands[rank].data());
      return made;
    };
    table_ = {entry(1, send_), entry(2, recv_)};
  }
  const MemoryEntry& recv_memory() const { return table_[1]; }

  bool run(void (*kernel)(CollectiveArgs), const std::function<void(int rank, CollectiveArgs&)>& change = nullptr) {
    for (int rank = 0; rank < static_cast<int>(send_.size()); ++rank) {
      const auto r = static_cast<size_t>(rank);
      CollectiveArgs args = args_of(ranks_, r, collective_, send_[r], recv_[r], count_);
      args.tile = kTile;
      const uint64_t parts = traits(collective_).cut_into_slices && collective_ != Collective::broadcast ? send_.size()
                             : collective_ == Collective::broadcast                                      ? send_.size() - 1
                                                                                                         : 1;
      args.tiles = (args.unit + parts * kTile - 1) / (parts * kTile);
      args.work_groups = 1;
      args.copies_out = 1;
      args.comm.memories = reinterpret_cast<uintptr_t>(table_.data());
      args.comm.memory_count = static_cast<int32_t>(table_.size());
      if (change) change(rank, args);
      const unsigned roles = kernel == symm_pair_any ? 1 : 3;
      ranks_.launch(rank, kernel, args, static_cast<unsigned>(args.work_groups) * roles);
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
  std::vector<std::vector<float>> send_, recv_;
  std::vector<MemoryEntry> table_;
};

TEST(PipelineKernels, TwoRootsAreAMismatch) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    for (const auto& roots : {std::array{2, 2, 2}, std::array{0, 1, 1}}) {
      Call call(3, 300'000, seed, Collective::broadcast, 64);
      const bool agree = roots[0] == roots[1];
      ASSERT_TRUE(call.run(symm_pipeline_move, [&](int rank, CollectiveArgs& args) {
        args.root = roots[static_cast<size_t>(rank)];
        args.detail = static_cast<uint64_t>(args.root);
      }));
      for (int rank = 0; rank < 2; ++rank) {
        const ErrorRecord& record = call.ranks().record(rank);
        EXPECT_EQ(record.trouble, static_cast<uint32_t>(agree ? WaitError::none : WaitError::mismatch)) << "rank " << rank;
        if (agree) {
          EXPECT_EQ(call.recv(rank)[63], 3.0F);
        } else EXPECT_EQ(record.peer_detail, static_cast<uint64_t>(roots[static_cast<size_t>(record.peer)]));
      }
    }
  }
}

// Not only where recv begins has to be in its memory.
TEST(PipelineKernels, NothingIsStoredBeyondAMemory) {
  constexpr size_t kCount = 16, kAll = 2 * kCount * sizeof(float);
  for (const uint64_t offset : {uint64_t{65}, uint64_t{64} + kAll, ~uint64_t{0}}) {
    std::vector<float> block(64, -1.0F);
    MemoryEntry table[3] = {};
    table[2] = {7, 64 + kAll, {reinterpret_cast<uintptr_t>(block.data()), reinterpret_cast<uintptr_t>(block.data())}};
    Call call(2, 300'000, 1, Collective::allgather, kCount);
    ASSERT_TRUE(call.run(symm_pipeline_move, [&](int rank, CollectiveArgs& args) {
      args.comm.memories = reinterpret_cast<uintptr_t>(table);
      args.comm.memory_count = 3;
      if (rank == 1) args.recv_memory = 7, args.recv_offset = offset;
    }));
    EXPECT_EQ(call.ranks().record(0).trouble, static_cast<uint32_t>(WaitError::unknown_memory)) << offset;
    EXPECT_EQ(block, std::vector<float>(64, -1.0F)) << offset;
  }
}

// Then nothing is in scratch: with slots too small for any tile, results are there. One private operand, and all go by scratch.
TEST(PipelineKernels, MemoryOfTheGroupNeedsNoScratch) {
  constexpr size_t kCount = 50;
  for (const Collective collective :
      {Collective::allreduce, Collective::reduce_scatter, Collective::reduce, Collective::allgather, Collective::broadcast}) {
    const bool moves = !traits(collective).has_op;
    for (const bool one_is_private : {false, true}) {
      for (unsigned seed = 0; seed < 10; ++seed) {
        Call call(3, 300'000, seed, collective, kCount);
        call.share();
        for (int round = 0; round < 2; ++round) {
          ASSERT_TRUE(call.run(moves ? symm_pipeline_move : symm_pipeline_any_4, [&](int rank, CollectiveArgs& args) {
            const bool is_private = one_is_private && round == 0 && rank == 1;
            args.send_memory = is_private ? 0 : 1;
            args.recv_memory = is_private && moves ? 0 : 2;
            for (int r = 0; r < 3; ++r) args.recv_block[r] = call.recv_memory().block[r];
            args.recv_bytes = call.recv_memory().bytes;
            args.root = 1;
            if (collective == Collective::broadcast) args.direct = 1, args.tiles = (args.unit + kTile - 1) / kTile;
            args.work_groups = 2;
            args.direct_blocks = 3;
            args.copies_out = args.recv_memory == 0 ? 1 : 0;
            if (!one_is_private) args.comm.stage[0] = args.comm.stage[1] = 0;  // a fault where it is used
          }));
          for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(call.ranks().record(rank).state, 0U);
            if (collective == Collective::reduce && rank != 1) continue;
            const size_t results = collective == Collective::allgather ? 3 * kCount : kCount;
            for (size_t i = 0; i < results; ++i) {
              const size_t from = collective == Collective::allgather ? i / kCount : 1;
              ASSERT_EQ(call.recv(rank)[i], moves ? static_cast<float>(from + 1) : 6.0F) << name_of(collective) << " " << i;
            }
          }
        }
      }
    }
  }
}

// Operands that end within a piece or before the last, and more pieces than slots; in place, and behind each other.
TEST(PairKernel, CombinesInAnyOrderOfSteps) {
  for (const size_t count : {size_t{1}, size_t{9}, size_t{64}, size_t{190}}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Call call(2, 300'000, seed, Collective::allreduce, count);
      for (int round = 0; round < 4; ++round) {
        const bool pipeline = round == 2;
        ASSERT_TRUE(call.run(pipeline ? symm_pipeline_any_2 : symm_pair_any, [&](int, CollectiveArgs& args) {
          if (pipeline) return;
          args.work_groups = 2;
          args.tiles = args.unit / (4 * kTile) + 1;
          if (round != 1) args.recv = args.send;
        }));
        for (int rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(call.ranks().record(rank).state, 0U);
          const auto& found = pipeline || round == 1 ? call.recv(rank) : call.send(rank);
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(found[i], round == 0 ? 3.0F : 6.0F) << round << " " << i;
        }
      }
    }
  }
}

// Results go straight to recvs that are memory of the group: where all are, the second stage, here none, is not used.
TEST(PairKernel, StoresResultsWhereTheyBelong) {
  constexpr size_t kCount = 190;
  for (const auto& is_private : {std::array{false, false}, std::array{false, true}, std::array{true, true}}) {
    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        Call call(2, 300'000, seed, collective, kCount);
        call.share();
        ASSERT_TRUE(call.run(symm_pair_any, [&](int rank, CollectiveArgs& args) {
          args.work_groups = 2;
          args.tiles = args.unit / (2 * kTile) + 1;
          args.copies_out = collective == Collective::allreduce && is_private[static_cast<size_t>(rank)] ? 1 : 0;
          if (collective == Collective::allreduce && args.copies_out == 0) args.recv_memory = 2;
          if (!is_private[0] && !is_private[1]) args.comm.stage[1] = 0;  // a fault where it is used
        }));
        for (int rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(call.ranks().record(rank).state, 0U);
          const auto& found = call.recv(rank);
          EXPECT_EQ(std::count(found.begin(), found.end(), 3.0F), static_cast<long>(kCount)) << name_of(collective);
          EXPECT_EQ(found[kCount], -1.0F);
        }
      }
    }
  }
}

TEST(PairKernel, ReducesToARoot) {
  for (const int root : {0, 1}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Call call(2, 300'000, seed, Collective::reduce, 190);
      ASSERT_TRUE(call.run(symm_pair_any, [&](int rank, CollectiveArgs& args) {
        args.root = root;
        args.work_groups = 2;
        args.tiles = args.unit / (2 * kTile) + 1;
        if (rank != root) args.recv = 0;
      }));
      EXPECT_EQ(std::count(call.recv(root).begin(), call.recv(root).begin() + 190, 3.0F), 190);
      EXPECT_EQ(call.ranks().record(root).state, 0U);
    }
  }
}

TEST(PairKernel, TellsOfAnotherCallAndOfWhoDoesNotCome) {
  for (const bool comes : {false, true}) {
    Call call(2, 100'000, 1, Collective::allreduce, 64);
    if (!comes) call.ranks().hold(1, 0, 400'000);
    ASSERT_TRUE(call.run(symm_pair_any, [&](int rank, CollectiveArgs& args) {
      args.tiles = 6;
      args.count = static_cast<uint64_t>(64 + (comes ? rank : 0));
    }));
    EXPECT_EQ(call.ranks().record(0).trouble, static_cast<uint32_t>(comes ? WaitError::mismatch : WaitError::timeout));
  }
}

// A deadline is for each wait: who gets on has time.
TEST(PipelineKernels, ALongCallIsNoLongWait) {
  constexpr uint64_t kTimeout = 50'000;
  Call call(2, kTimeout, 1, Collective::allreduce, 12'000);
  ASSERT_TRUE(call.run(symm_pipeline_any_2));
  EXPECT_GT(call.ranks().now(), 5 * kTimeout);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(call.ranks().record(rank).state, 0U) << "rank " << rank;
    EXPECT_EQ(call.recv(rank)[11'999], 3.0F);
  }
}
}}  // namespace symm::cuda::model
