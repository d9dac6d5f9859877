// Calls that a struct describes, alone and in batches: their results are those of the named calls,
// and a batch is refused, agreed on and failed as a whole.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/support/group.hpp"
#include "tests/support/options.hpp"
#include "tools/bench/pattern.hpp"

namespace support {
namespace {
using BatchCalls = std::vector<symm_collective_call_t>;
constexpr const char* kBatchNames[] = {
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "alltoall"};

// Bytes behind each operand: enough for one element more from each rank.
constexpr size_t kRoom = 16;

// Calls of one rank with operands of their own, and what they are compared with.
class BatchWork {
 public:
  explicit BatchWork(const Group& group) : group_(group) {}

  void add(const char* name, symm_dtype_t dtype, symm_op_t op, size_t count, bool in_place,
      int root = 0) {
    const size_t bytes = count * static_cast<size_t>(group_.size()) * symm::tool::size_of(dtype);
    auto& memory = memories_.emplace_back();
    memory.first.resize(bytes + kRoom);
    memory.second.resize(bytes + kRoom);
    operands_.push_back({symm::tool::find_operation(name), group_.rank(), group_.size(), dtype, op,
        root, count, in_place, memory.first.data(), memory.second.data()});
    patterns_.emplace_back(dtype, op, group_.size());
  }

  BatchCalls calls(size_t shift) {
    BatchCalls made;
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands_[i].write_inputs(patterns_[i], shift + i);
      made.push_back(operands_[i].record());
    }
    return made;
  }

  void expect_right(size_t shift) const {
    for (size_t i = 0; i < operands_.size(); ++i) {
      ASSERT_EQ(operands_[i].count_wrong(patterns_[i], shift + i), 0U)
          << "call " << i << ": " << operands_[i].traits->name << " on rank " << group_.rank()
          << " of " << group_.size() << ", count " << operands_[i].count << ", dtype "
          << operands_[i].dtype << (operands_[i].in_place ? ", in place" : "");
    }
  }

 private:
  struct Memories {
    std::vector<std::byte> first;
    std::vector<std::byte> second;
  };
  const Group& group_;
  std::vector<Memories> memories_;
  std::vector<symm::tool::Operands> operands_;
  std::vector<symm::tool::Pattern> patterns_;
};

// Kinds that can be merged, others between them, and sizes on both sides of every limit. `seed` is
// equal on all ranks.
void add_random(BatchWork& work, unsigned seed, int ranks) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  constexpr size_t kCounts[] = {0, 1, 3, 16, 100, 500, 1024, 2049, 30'000};
  constexpr symm_dtype_t kDtypes[] = {SYMM_DTYPE_F32, SYMM_DTYPE_I32, SYMM_DTYPE_BF16};
  const size_t calls = 1 + below(40);
  for (size_t i = 0; i < calls; ++i) {
    work.add(kBatchNames[below(6)], kDtypes[below(3)], SYMM_OP_SUM,
        kCounts[below(below(4) == 0 ? 9 : 6)], below(2) == 0,
        static_cast<int>(below(static_cast<size_t>(ranks))));
  }
}

void run_random(const Group& group, unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    BatchWork work(group);
    add_random(work, round, group.size());
    const BatchCalls calls = work.calls(round * 64);
    check(symm_batch(group.get(), calls.data(), calls.size(), nullptr, nullptr));
    work.expect_right(round * 64);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Batch, GivesTheBitsOfEachCallAlone) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, [](int, const Group& group) { run_random(group, 30); });
  }
}

// More calls, and more bytes, than are made as one.
TEST(Batch, GivesThemBeyondTheLimitsOfOneCall) {
  as_threads(2, [](int, const Group& group) {
    for (const size_t count : {1, 2000, 2048, 2049}) {
      BatchWork work(group);
      for (int i = 0; i < 150; ++i) {
        work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, count, i % 2 == 0);
        work.add("allgather", SYMM_DTYPE_I32, SYMM_OP_SUM, count, false);
      }
      group.batch(work.calls(count));
      work.expect_right(count);
    }
  });
}

TEST(Batch, GivesThemInAGroupThatChecksToo) {
  as_threads(3, [](int, const Group& group) { run_random(group, 10); }, SYMM_GROUP_CHECK);
}

TEST(Batch, GivesThemBetweenProcesses) {
  as_processes(3, [](int, const Group& group) {
    run_random(group, 10);
    group.barrier();
  });
}

TEST(Batch, CountsEachOfItsCalls) {
  as_threads(2, [](int, const Group& group) {
    BatchWork work(group);
    for (int i = 0; i < 10; ++i) {
      work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    }
    group.batch(work.calls(0));
    symm_collective_stats_t stats{};
    stats.struct_size = sizeof stats;
    check(symm_group_collective_stats(group.get(), SYMM_COLLECTIVE_ALLREDUCE, &stats));
    EXPECT_EQ(stats.calls, 10U);
    EXPECT_EQ(stats.bytes, 160U);
  });
}

TEST(Batch, OfNothingIsNothingToDo) {
  as_threads(2, [](int rank, const Group& group) {
    if (rank == 0) check(symm_batch(group.get(), nullptr, 0, nullptr, nullptr));
    group.batch(BatchCalls());
  });
}

TEST(Batch, OfOneCallIsThatCall) {
  as_threads(
      2,
      [](int rank, const Group& group) {
        BatchWork work(group);
        work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 100, false);
        const BatchCalls calls = work.calls(7);
        if (rank == 0) {
          group.batch(calls);
        } else {
          check(run(group.get(), calls.data(), nullptr));
        }
        work.expect_right(7);
      },
      SYMM_GROUP_CHECK);
}

// ---- symm_collective()

TEST(GenericCollective, MeetsTheNamedCall) {
  as_threads(
      3,
      [](int rank, const Group& group) {
        for (const char* name : kBatchNames) {
          BatchWork work(group);
          work.add(name, SYMM_DTYPE_F32, SYMM_OP_SUM, 50, false, 1);
          BatchCalls calls = work.calls(3);
          // Fields that the collective has no argument for are ignored.
          calls[0].rows = 17;
          calls[0].recv_stride = 5;
          if (rank == 1) {
            check(run(group.get(), calls.data(), nullptr));
          } else {
            group.collective(calls[0]);
          }
          work.expect_right(3);
        }
      },
      SYMM_GROUP_CHECK);
}

// One rank of two makes the named call, the other that of the struct.
template <class Named>
void make_one_of(int rank, const Group& group, const symm_collective_call_t& call, Named named) {
  if (rank == 0) {
    check(named());
  } else {
    group.collective(call);
  }
}

TEST(GenericCollective, ExpressesCountsAndDisplacements) {
  as_threads(2, [](int rank, const Group& group) {
    const std::vector<float> send = {1, 2, 3, 4};
    std::vector<float> recv(6, -1);
    const size_t own[] = {static_cast<size_t>(rank) + 1, static_cast<size_t>(rank) + 1};
    const size_t counts[] = {1, 2};
    const size_t displacements[] = {4, 1};
    auto call = call_of(SYMM_COLLECTIVE_ALLTOALLV, send.data(), recv.data(), 0, 0).value;
    call.send_counts = own;
    call.recv_counts = counts;
    call.recv_displacements = displacements;
    make_one_of(rank, group, call, [&] {
      return symm_alltoallv(group.get(), send.data(), own, nullptr, recv.data(), counts,
          displacements, SYMM_DTYPE_F32, nullptr, nullptr);
    });
    EXPECT_EQ(recv, rank == 0 ? (std::vector<float>{-1, 1, 2, -1, 1, -1})
                              : (std::vector<float>{-1, 3, 4, -1, 2, -1}));
  });
}

TEST(GenericCollective, ExpressesCountsOnTheDevice) {
  as_threads(2, [](int rank, const Group& group) {
    const std::vector<float> send = {1, 2, 3, 4};
    std::vector<float> recv(4, -1);
    const size_t counts[] = {2, 2};
    auto call = call_of(SYMM_COLLECTIVE_ALLTOALLV, send.data(), recv.data(), 0, 0).value;
    call.flags = SYMM_CALL_DEVICE_COUNTS;
    call.send_capacity = 4;
    call.recv_capacity = 4;
    call.send_counts = counts;
    call.recv_counts = counts;
    make_one_of(rank, group, call, [&] {
      return symm_alltoallv_device(group.get(), send.data(), 4, counts, nullptr, recv.data(), 4,
          counts, nullptr, SYMM_DTYPE_F32, nullptr, nullptr);
    });
    EXPECT_EQ(
        recv, rank == 0 ? (std::vector<float>{1, 2, 1, 2}) : (std::vector<float>{3, 4, 3, 4}));
  });
}

TEST(GenericCollective, ExpressesRowsAndRmsnorm) {
  as_threads(2, [](int rank, const Group& group) {
    const std::vector<float> send = {1, 2};
    std::vector<float> recv(8, -1);
    auto call = call_of(SYMM_COLLECTIVE_ALLGATHER_ROWS, send.data(), recv.data(), 1, 0).value;
    call.rows = 2;
    call.recv_stride = 4;
    make_one_of(rank, group, call, [&] {
      return symm_allgather_rows(
          group.get(), send.data(), recv.data(), 2, 1, 4, SYMM_DTYPE_F32, nullptr, nullptr);
    });
    EXPECT_EQ(recv, (std::vector<float>{1, 1, -1, -1, 2, 2, -1, -1}));

    alignas(16) std::array<float, 8> matrix{};
    alignas(16) std::array<float, 8> weight{};
    alignas(16) std::array<float, 8> result{};
    matrix.fill(3);
    weight.fill(2);
    const auto norm = normed(weight.data(), result.data());
    call = call_of(SYMM_COLLECTIVE_ALLREDUCE_RMSNORM, matrix.data(), nullptr, 8, 0).value;
    call.rows = 1;
    call.fused = &norm.value;
    call.fused_version = SYMM_FUSED_VERSION;
    make_one_of(rank, group, call, [&] {
      return symm_allreduce_rmsnorm(
          group.get(), matrix.data(), 1, 8, SYMM_DTYPE_F32, norm, nullptr, nullptr);
    });
    for (const float one : result) {
      EXPECT_EQ(one, 2.F);
    }
  });
}

// ---- refusals

std::string refusal_of_batch(const Group& group, const BatchCalls& calls, symm_status_t status,
    const symm_batch_options_t* options = nullptr) {
  EXPECT_EQ(symm_batch(group.get(), calls.data(), calls.size(), options, nullptr), status);
  return symm_last_error();
}

TEST(Batch, IsRefusedAsAWholeAndNamesTheCall) {
  as_threads(2, [](int, const Group& group) {
    BatchWork work(group);
    for (int i = 0; i < 4; ++i) {
      work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    }
    const BatchCalls good = work.calls(0);
    const auto expect = [&](const char* said, symm_status_t status, auto change) {
      BatchCalls calls = good;
      change(calls);
      EXPECT_EQ(refusal_of_batch(group, calls, status), said);
    };
    const auto& invalid = SYMM_ERR_INVALID_ARGUMENT;
    expect("calls[2]: recv: is NULL", invalid, [](BatchCalls& calls) { calls[2].recv = nullptr; });
    expect("calls[3]: collective: 99 is not known to this library", SYMM_ERR_UNSUPPORTED,
        [](BatchCalls& calls) { calls[3].collective = 99; });
    expect("calls[1]: the calls differ in struct_size", invalid,
        [](BatchCalls& calls) { calls[1].struct_size -= 8; });
    expect("calls[0]: flags: SYMM_CALL_DEVICE_COUNTS goes with SYMM_COLLECTIVE_ALLTOALLV only",
        invalid, [](BatchCalls& calls) { calls[0].flags = SYMM_CALL_DEVICE_COUNTS; });
    expect("calls[0]: send_capacity: 9 goes with SYMM_CALL_DEVICE_COUNTS only", invalid,
        [](BatchCalls& calls) { calls[0].send_capacity = 9; });
    expect("calls[1]: fused: is NULL", invalid,
        [](BatchCalls& calls) { calls[1].collective = SYMM_COLLECTIVE_ALLREDUCE_RMSNORM; });
    const auto tag = tagged("a tag");
    expect(
        "calls[3]: options: timeout_ms, failure, tag and request are those of the batch, and 0 "
        "here",
        invalid, [&](BatchCalls& calls) { calls[3].options = tag; });
    const auto impossible = forced(SYMM_ALGORITHM_COPY_ENGINE);
    BatchCalls calls = good;
    calls[2].options = impossible;
    EXPECT_EQ(refusal_of_batch(group, calls, invalid).find("calls[2]: options.algorithm: "), 0U);

    // Nothing has happened, and the group is as before.
    group.batch(good);
    work.expect_right(0);
  });
}

TEST(Batch, RefusesCallsThatDependOnEachOther) {
  as_threads(2, [](int, const Group& group) {
    std::vector<float> data(64);
    const auto sum = [&](size_t send, size_t recv) {
      return call_of(
          SYMM_COLLECTIVE_ALLREDUCE, data.data() + send, data.data() + recv, 8, SYMM_DTYPE_F32)
          .value;
    };
    const auto& invalid = SYMM_ERR_INVALID_ARGUMENT;
    EXPECT_EQ(refusal_of_batch(group, {sum(0, 8), sum(15, 32)}, invalid),
        "calls[1]: send: overlaps recv of calls[0]");
    EXPECT_EQ(refusal_of_batch(group, {sum(0, 8), sum(16, 24), sum(40, 1)}, invalid),
        "calls[2]: recv: overlaps send of calls[0]");
    EXPECT_EQ(refusal_of_batch(group, {sum(0, 8), sum(24, 12)}, invalid),
        "calls[1]: recv: overlaps recv of calls[0]");
    // What both only read may overlap, and calls may be in place.
    group.batch(BatchCalls{sum(0, 12), sum(4, 24), sum(40, 40)});
  });
}

TEST(GenericCollective, RefusesOptionsInTheCall) {
  as_threads(1, [](int, const Group& group) {
    std::vector<float> data(8);
    auto call = call_of(SYMM_COLLECTIVE_ALLREDUCE, data.data(), data.data(), 8, 0).value;
    const auto options = forced(SYMM_ALGORITHM_AUTO);
    call.options = options;
    EXPECT_EQ(symm_collective(group.get(), &call, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(symm_last_error()).find("call.options: "), 0U);
  });
}

TEST(GenericCollective, RefusesAStructOfAnotherVersionOfFused) {
  as_threads(1, [](int, const Group& group) {
    alignas(16) std::array<float, 8> matrix{};
    alignas(16) std::array<float, 8> result{};
    const auto norm = normed(matrix.data(), result.data());
    auto call = call_of(SYMM_COLLECTIVE_ALLREDUCE_RMSNORM, matrix.data(), nullptr, 8, 0).value;
    call.rows = 1;
    const auto refused = [&] { return symm_collective(group.get(), &call, nullptr, nullptr); };
    EXPECT_EQ(refused(), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_STREQ(symm_last_error(), "fused: is NULL");

    call.fused = &norm.value;
    for (const uint32_t version : {0U, SYMM_FUSED_VERSION + (1U << 16)}) {
      call.fused_version = version;
      EXPECT_EQ(refused(), SYMM_ERR_UNSUPPORTED);
      EXPECT_EQ(std::string(symm_last_error()).find("fused_version: version "), 0U);
    }
    // A newer minor version has added something that this call does not use.
    call.fused_version = SYMM_FUSED_VERSION + 1;
    EXPECT_EQ(refused(), SYMM_OK);
  });
}

// ---- agreement and failure

// Ranks whose batches differ, by `change` on rank 1. Both say which call is the first that does,
// and how.
template <class Change>
void expect_mismatch(const std::string& right, const std::string& wrong, const Change& change) {
  as_threads(2, [&](int rank, const Group& group) {
    BatchWork work(group);
    work.add("allgather", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    work.add("allgather", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    work.add("allgather", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    work.add("broadcast", SYMM_DTYPE_F32, SYMM_OP_SUM, 60'000, false);
    BatchCalls calls = work.calls(0);
    if (rank == 1) change(calls);
    const std::string said = refusal_of_batch(group, calls, SYMM_ERR_MISMATCH);
    const std::string expected = "rank 0 makes " + right + ", rank 1 makes " + wrong;
    EXPECT_NE(said.find(expected), std::string::npos) << said << "\nnot " << expected;
    symm_failure_t status = SYMM_FAILURE_INIT;
    check(symm_group_status(group.get(), &status));
    EXPECT_EQ(status.status, SYMM_ERR_MISMATCH);
  });
}

// The all-gathers are made as one, and what they gather together is equal on both ranks.
TEST(Batch, NamesTheFirstOfMergedCallsThatDiffers) {
  const char* const third = "allgather(f32, count 4) as calls[2] of a batch of 5";
  expect_mismatch(
      third, "allgather(f32, count 3) as calls[2] of a batch of 5", [](BatchCalls& calls) {
        calls[2].count -= 1;
        calls[3].count += 1;
      });
  expect_mismatch(third, "allgather(u32, count 4) as calls[2] of a batch of 5",
      [](BatchCalls& calls) { calls[2].dtype = SYMM_DTYPE_U32; });
  // One rank makes another call in that place, and merges one call less.
  expect_mismatch(third, "allgather(f32, count 4) as calls[3] of a batch of 5",
      [](BatchCalls& calls) { calls[2].collective = SYMM_COLLECTIVE_BROADCAST; });
}

TEST(Batch, NamesTheCallThatDiffers) {
  expect_mismatch("allreduce(f32, sum, count 4) as calls[1] of a batch of 5",
      "allreduce(f32, max, count 4) as calls[1] of a batch of 5",
      [](BatchCalls& calls) { calls[1].op = SYMM_OP_MAX; });
  expect_mismatch("broadcast(f32, count 60000, root 0) as calls[4] of a batch of 5",
      "broadcast(f32, count 59999, root 0) as calls[4] of a batch of 5",
      [](BatchCalls& calls) { calls[4].count -= 1; });
}

TEST(Batch, SaysThatBatchesDifferInLength) {
  expect_mismatch("allgather(f32, count 4) as calls[0] of a batch of 5",
      "allgather(f32, count 4) as calls[0] of a batch of 4",
      [](BatchCalls& calls) { calls.pop_back(); });
  expect_mismatch("allgather(f32, count 4) as calls[0] of a batch of 5", "allgather(f32, count 4)",
      [](BatchCalls& calls) { calls.resize(1); });
}

TEST(Batch, HasOneDeadlineAndOnePlaceForItsFailure) {
  std::atomic<bool> over = false;
  as_threads(2, [&](int rank, const Group& group) {
    if (rank == 1) {
      over.wait(false);
      return;
    }
    BatchWork work(group);
    work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 4, false);
    work.add("allreduce", SYMM_DTYPE_F32, SYMM_OP_SUM, 60'000, false);
    symm_failure_t failure = SYMM_FAILURE_INIT;
    symm_batch_options_t options = SYMM_BATCH_OPTIONS_INIT;
    options.timeout_ms = 50;
    options.failure = &failure;
    options.tag = "the tag";
    const std::string said = refusal_of_batch(group, work.calls(0), SYMM_ERR_TIMEOUT, &options);
    EXPECT_NE(said.find("the tag"), std::string::npos) << said;
    EXPECT_EQ(failure.status, SYMM_ERR_TIMEOUT);
    EXPECT_EQ(failure.rank, 1);
    over = true;
    over.notify_one();
  });
}
}  // namespace
}  // namespace support
