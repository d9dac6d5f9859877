// Several groups at once on devices that have room for few blocks. All their collectives end, in
// whatever order each device gets them, if each kernel keeps to its part of the device. Also one
// group whose kernels get less of the device than that.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/occupancy.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_ll_reduce_2, symm_ll_move_2,
    symm_one_shot_any_2, symm_one_shot_ahead_any, symm_two_shot_any_2, symm_pipeline_any_2,
    symm_pipeline_move;
extern "C" void symm_pieces_move(symm::cuda::PiecesArgs args);

namespace symm::cuda::model {
namespace {
constexpr int kRanks = 2;
// Elements (f32) of each rank: these are more tiles than both stages have slots.
constexpr size_t kCount = 160;
constexpr uint64_t kTile = 16;

struct Form {
  const char* name;
  void (*kernel)(CollectiveArgs);
  Collective collective;
  bool steps;  // each block keeps in step with one block of every rank
};

void gather_pieces(CollectiveArgs call) {
  PiecesArgs args{};
  args.call = call;
  args.element = sizeof(float);
  for (uint64_t r = 0; r < kRanks; ++r) {
    args.send[r] = {0, call.unit};
    args.recv[r] = {r * call.unit, call.unit};
  }
  symm_pieces_move(args);
}

constexpr Form kForms[] = {
    {"ll", symm_ll_reduce_2, Collective::allreduce, false},
    {"ll moving", symm_ll_move_2, Collective::allgather, false},
    {"one shot", symm_one_shot_any_2, Collective::allreduce, false},
    {"one shot ahead", symm_one_shot_ahead_any, Collective::allreduce, false},
    {"two shots", symm_two_shot_any_2, Collective::allreduce, false},
    {"pipeline", symm_pipeline_any_2, Collective::allreduce, true},
    {"pipeline moving", symm_pipeline_move, Collective::allgather, true},
    // This kernel has one more block, for the rank's own piece.
    {"pieces", gather_pieces, Collective::allgather, true},
};

// Calls of several groups. The calls of a group come one after the other, and all are launched at
// once.
class Calls {
 public:
  // With `in_turn` the kernels of all groups run on a device one after the other.
  Calls(const Ranks::Options& options, unsigned blocks, bool in_turn = false)
      : ranks_(options), blocks_(blocks), groups_(options.groups), in_turn_(in_turn) {}

  void launch(int group, const Form& form, int absent = -1) {
    launch(group, form, blocks_, 1, absent);
  }

  // Each of the `blocks` takes `units` of a multiprocessor.
  void launch(int group, const Form& form, unsigned blocks, unsigned units, int absent = -1) {
    auto& call = *calls_.emplace_back(std::make_unique<Call>());
    call.form = &form;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < kCount; ++i) {
        call.send[rank].push_back(static_cast<float>(1000 * calls_.size() + 100 * rank + i));
      }
      call.recv[rank].assign(
          kCount * (form.collective == Collective::allgather ? kRanks : 1), -1.0F);
    }

    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == absent) continue;
      const auto r = static_cast<size_t>(rank);
      const auto number = static_cast<size_t>(group * kRanks + rank);
      CollectiveArgs args =
          args_of(ranks_, number, form.collective, call.send[r], call.recv[r], kCount);
      args.tile = form.steps ? kTile : args.unit;
      const uint64_t parts = (form.collective == Collective::allreduce ? kRanks : 1) * blocks;
      args.tiles = form.steps ? args.unit / (parts * kTile) + 1 : 1;
      args.work_groups = std::max(1, static_cast<int32_t>(blocks) - 1);
      args.copies_out = 1;
      ranks_.launch((in_turn_ ? 0 : group * kRanks) + rank, form.kernel, args, blocks, units);
    }
  }

  WaitError trouble(int group, int rank) const {
    return WaitError{ranks_.record(group * kRanks + rank).trouble};
  }

  // Returns "" if all calls ended and all results are right.
  std::string run() {
    if (!ranks_.run()) return "nothing goes on";
    for (int at = 0; at < kRanks * groups_; ++at) {
      if (ranks_.record(at).state != 0) return "trouble";
    }

    for (const auto& call : calls_) {
      for (size_t rank = 0; rank < kRanks; ++rank) {
        for (size_t i = 0; i < call->recv[rank].size(); ++i) {
          const float expected = call->form->collective == Collective::allgather
                                     ? call->send[i / kCount][i % kCount]
                                     : call->send[0][i] + call->send[1][i];
          if (call->recv[rank][i] != expected) {
            return std::string("wrong result of ") + call->form->name;
          }
        }
      }
    }

    return "";
  }

 private:
  struct Call {
    const Form* form;
    std::array<std::vector<float>, kRanks> send;
    std::array<std::vector<float>, kRanks> recv;
  };

  Ranks ranks_;
  unsigned blocks_;
  int groups_;
  bool in_turn_;
  std::vector<std::unique_ptr<Call>> calls_;
};

Ranks::Options options_of(int groups, unsigned room, unsigned seed) {
  // The pipeline needs a thread for each rank that it waits for.
  return {.ranks = kRanks,
      .groups = groups,
      .room = room,
      .seed = seed,
      .threads = kRanks,
      .slot = 2048,
      .work_groups = 8};
}

// The outcome of three calls of each group, a mixture that the seed draws.
std::string outcome(int groups, unsigned room, unsigned blocks, unsigned seed) {
  Calls calls(options_of(groups, room, seed), blocks);
  std::mt19937 random(seed);
  for (int call = 0; call < 3; ++call) {
    for (int group = 0; group < groups; ++group) {
      calls.launch(group, kForms[random() % std::size(kForms)]);
    }
  }
  return calls.run();
}

// There is room for all blocks of all groups but the last, and for one block of the last. Of three
// groups of two ranks, as here, at most one can be kept off its devices.
TEST(SeveralGroups, AllEndWhereEachKeepsToItsPart) {
  for (const int groups : {2, 3}) {
    for (const unsigned blocks : {3U, 6U, 9U}) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        ASSERT_EQ(outcome(groups, blocks + 1, blocks, seed), "")
            << groups << " groups, " << blocks << " blocks, seed " << seed;
      }
    }
  }
}

// Where kernels do not keep to their parts, the model must notice that groups wait for each other.
TEST(SeveralGroups, TheModelSeesThemInEachOthersWay) {
  unsigned seed = 0;
  while (seed < 100 && outcome(2, 6, 6, seed) != "nothing goes on") {
    ++seed;
  }
  EXPECT_LT(seed, 100U);
  for (seed = 0; seed < 100 && outcome(4, 9, 6, seed) != "nothing goes on"; ++seed) {
  }
  EXPECT_LT(seed, 100U) << "four groups of two ranks, of which two are kept out";
}

// How ranks share a device: the groups, the multiprocessors that a kernel has, the units of a
// multiprocessor, and how many of them a large block takes.
struct Sharing {
  int groups = 3;
  unsigned share = 3;
  unsigned units = 8;
  unsigned large = 7;
};

// The outcome of groups both ranks of which share a device. It has so many multiprocessors that
// each kernel but one has its share of them, and one is left. A small block takes one unit of a
// multiprocessor. A kernel of small blocks has as many as a kernel of large ones, or as many as fit
// onto its share if blocks count by what they take.
std::string outcome_on_one_device(bool by_what_they_take, unsigned seed, const Sharing& how = {}) {
  const auto kernels = static_cast<unsigned>(how.groups * kRanks);
  Ranks::Options options = options_of(how.groups, (kernels - 1) * how.share + 1, seed);
  options.on_one = kRanks;
  options.units = how.units;
  Calls calls(options, how.share);
  std::mt19937 random(seed);
  for (int call = 0; call < 3; ++call) {
    for (int group = 0; group < how.groups; ++group) {
      const bool is_small = random() % 2 == 0;
      const unsigned blocks = is_small && by_what_they_take ? how.units * how.share : how.share;
      // Kernels in step have at most as many blocks as the model has work groups.
      const Form& form = kForms[random() % (by_what_they_take ? 5 : std::size(kForms))];
      calls.launch(group, form, blocks, is_small ? 1 : how.large);
    }
  }
  return calls.run();
}

// A block that counts as a whole multiprocessor keeps no more than one from others, wherever it is.
TEST(SeveralGroups, ShareADeviceWhereBlocksCountAsMultiprocessors) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    ASSERT_EQ(outcome_on_one_device(false, seed), "") << "seed " << seed;
  }
}

// However many groups there are, whatever share each has, and however small multiprocessors are.
TEST(SeveralGroups, ShareADeviceInEveryWay) {
  for (const Sharing& how :
      {Sharing{1, 1, 1, 1}, Sharing{1, 4, 8, 8}, Sharing{2, 1, 8, 7}, Sharing{2, 2, 2, 2},
          Sharing{2, 5, 4, 3}, Sharing{3, 1, 8, 7}, Sharing{3, 2, 16, 9}, Sharing{3, 3, 2, 2},
          Sharing{3, 3, 8, 8}, Sharing{3, 4, 3, 2}, Sharing{3, 5, 8, 5}, Sharing{3, 6, 4, 4}}) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      ASSERT_EQ(outcome_on_one_device(false, seed, how), "")
          << how.groups << " groups, shares of " << how.share << ", blocks of " << how.large
          << " of " << how.units << " units, seed " << seed;
    }
  }
}

// Small blocks lie on all multiprocessors, and a large one of another kernel has room on none.
TEST(SeveralGroups, TheModelSeesRoomInPieces) {
  unsigned seed = 0;
  while (seed < 200 && outcome_on_one_device(true, seed) != "nothing goes on") {
    ++seed;
  }
  EXPECT_LT(seed, 200U);
}

// The outcome of three groups that work in the stages of one. The kernels of all of them come in
// one order, or those of each group in an order of their own.
std::string outcome_of_shared_stages(bool in_turn, unsigned seed) {
  Ranks::Options options = options_of(3, 1000, seed);
  options.share_stages = true;
  Calls calls(options, 6, in_turn);
  std::mt19937 random(seed);
  for (int call = 0; call < 8; ++call) {
    calls.launch(static_cast<int>(random() % 3), kForms[random() % std::size(kForms)]);
  }
  return calls.run();
}

TEST(SeveralGroups, ShareStagesWhereTheyTakeTurns) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    ASSERT_EQ(outcome_of_shared_stages(true, seed), "") << "seed " << seed;
  }
  unsigned seed = 0;
  while (seed < 60 && outcome_of_shared_stages(false, seed) != "wrong result of pipeline") {
    ++seed;
  }
  EXPECT_LT(seed, 60U) << "the model notices where they do not";
}

// Rank 1 does not come, so rank 0 gives up the first call after its deadline, and the second call
// at once: the stages are spoilt, and no kernel of any group uses them any more.
TEST(SeveralGroups, LeaveStagesThatAreSpoilt) {
  for (const Form& form : kForms) {
    for (const int group : {0, 1}) {
      if (!form.steps) continue;
      Ranks::Options options = options_of(2, 1000, 1);
      options.share_stages = true;
      options.timeout_ns = 100'000;

      Calls calls(options, 6, true);
      calls.launch(1 - group, form, 1);
      calls.launch(group, form, 1);

      EXPECT_EQ(calls.run(), "trouble");
      EXPECT_EQ(calls.trouble(1 - group, 0), WaitError::timeout);
      EXPECT_EQ(calls.trouble(group, 0), WaitError::spoilt) << form.name;
    }
  }
}

// A stream may have only a part of the device.
TEST(OneGroup, EndsWhereNotAllOfItsBlocksHaveRoom) {
  for (const Form& form : kForms) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      Calls calls(options_of(1, 1, seed), 6);
      for (int call = 0; call < 2; ++call) {
        calls.launch(0, form);
      }
      ASSERT_EQ(calls.run(), "") << form.name << ", seed " << seed;
    }
  }
}

// A half of LL's slots may be used again because calls alternate between two halves, and because a
// kernel starts only when all stores of the one before it are in view. The model must notice when
// either does not hold.
TEST(OneGroup, TheModelSeesAHalfThatIsUsedTooEarly) {
  const auto is_noticed = [](bool has_one_half) {
    for (unsigned seed = 0; seed < 200; ++seed) {
      Ranks::Options options = options_of(1, 1000, seed);
      (has_one_half ? options.has_one_half : options.ends_early) = true;
      Calls calls(options, 1);
      for (int call = 0; call < 5; ++call) {
        calls.launch(0, kForms[0]);
      }
      if (!calls.run().empty()) return true;
    }
    return false;
  };

  EXPECT_TRUE(is_noticed(true)) << "the same half in every call";
  EXPECT_TRUE(is_noticed(false))
      << "a kernel that starts before what the last one stored is in view";
}

TEST(Plans, OfThreeGroupsFitOntoADevice) {
  Tuning tuning;
  for (const int groups : {1, 2, 3}) {
    for (const int on_one : {1, 2}) {
      for (const int multiprocessors : {1, 16, 78, 108, 132}) {
        tuning.groups = groups;
        const int blocks = max_blocks_of(multiprocessors, 4, on_one, tuning);
        EXPECT_GE(blocks, 1);

        if (multiprocessors >= 16) {
          EXPECT_LE(blocks * std::max(1, on_one * groups - 1) + 3, 2 * multiprocessors)
              << "no work group of the last has room";
        }

        const int of_two = max_blocks_of(multiprocessors, 2, on_one, tuning);
        EXPECT_EQ(of_two, on_one == 2 ? blocks
                                      : max_blocks_of(multiprocessors, 4, 1,
                                            {.groups = std::max(1, groups - 1)}));

        tuning.multiprocessors = 16;
        EXPECT_EQ(max_blocks_of(multiprocessors, 4, on_one, tuning),
            max_blocks_of(std::min(multiprocessors, 16), 4, on_one, tuning));
        tuning.multiprocessors = 4096;
      }
    }
  }
}
}  // namespace
}  // namespace symm::cuda::model
