// Ranks that call different things are told so. Without SYMM_GROUP_CHECK those find out
// that wait for each other anyway; with it, all.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
struct Arguments {
  symm_collective_call_t call;
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;

  void scale(double factor) { options = scaled(SYMM_SCALE_BEFORE, factor).value; }
};

symm_status_t call(const Group& group, Arguments a) {
  static thread_local std::vector<double> send(1 << 17);
  static thread_local std::vector<double> recv(1 << 17);
  a.call.send = send.data();
  a.call.recv = recv.data();
  return run(group.get(), &a.call, &a.options);
}

struct Difference {
  std::string name;
  Arguments common;
  Arguments odd;                  // the arguments of the one rank that differs
  std::vector<std::string> said;  // what the message must contain
};

std::ostream& operator<<(std::ostream& out, const Difference& difference) {
  return out << difference.name;
}

std::vector<Difference> differences() {
  std::vector<Difference> all;
  for (const auto& [literal, what, reduces, rooted, divided] : kCollectives) {
    const std::string name = literal;
    Arguments common{call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_F32).value};
    const auto add = [&](const std::string& kind, const std::function<void(Arguments&)>& change,
                         std::vector<std::string> said) {
      Arguments odd = common;
      change(odd);
      all.push_back({name + "_" + kind, common, odd, std::move(said)});
    };
    const bool all_to_all = what == SYMM_COLLECTIVE_ALLTOALL;
    add("count", [](Arguments& a) { a.call.count = 3; }, {"count 4", "count 3"});
    add("much_larger_count", [](Arguments& a) { a.call.count = 20'000; },
        {"count 4", "count 20000"});
    add("dtype", [](Arguments& a) { a.call.dtype = SYMM_DTYPE_I32; }, {"f32", "i32"});
    if (reduces) add("op", [](Arguments& a) { a.call.op = SYMM_OP_MAX; }, {"sum", "max"});
    if (reduces) {
      add("scale", [](Arguments& a) { a.scale(2); },
          {"makes " + name + "(f32, sum, count 4", "scaled before by 2"});
    }
    if (reduces) {
      common.scale(0.5);
      add("factor", [](Arguments& a) { a.scale(2); },
          {"scaled before by 0.5", "scaled before by 2"});
      common = {call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_BF16).value};
      add("result", [](Arguments& a) { a.options.result_dtype = SYMM_DTYPE_F32; },
          {"bf16, sum, result f32, count 4"});
      common = {call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_F32).value};
      common.options.result_dtype = SYMM_DTYPE_F16;
      add("narrow_result", [](Arguments& a) { a.options.result_dtype = SYMM_DTYPE_BF16; },
          {"f32, sum, result f16, count 4", "f32, sum, result bf16, count 4"});
      common = {call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_F32).value};
    }
    if (reduces) {
      const auto by_wire = [](Arguments& a) {
        a.options.wire_dtype = SYMM_DTYPE_I8;
        a.options.wire_group = 32;
      };
      add("wire", by_wire, {"f32, sum", "wire i8 in groups of 32"});
      by_wire(common);
      add("wire_group", [](Arguments& a) { a.options.wire_group = 128; },
          {"wire i8 in groups of 32", "wire i8 in groups of 128"});
      add("sum_of_wire", [](Arguments& a) { a.call.op = SYMM_OP_AVG; }, {"f32, sum", "f32, avg"});
      common = {call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_F32).value};
    }
    if (what == SYMM_COLLECTIVE_ALLREDUCE || what == SYMM_COLLECTIVE_REDUCE_SCATTER ||
        what == SYMM_COLLECTIVE_ALLGATHER) {
      const auto in_chunks_of = [](size_t bytes) {
        return [=](Arguments& a) { a.options.chunk_bytes = bytes; };
      };
      add("chunks", in_chunks_of(16), {name + "(f32", "in chunks with hash"});
      in_chunks_of(16)(common);
      add("chunk_bytes", in_chunks_of(32), {name + "(f32", "in chunks with hash"});
      add("count_of_chunks", [](Arguments& a) { a.call.count = 8; }, {"in chunks with hash"});
      common = {call_of(what, nullptr, nullptr, 4, SYMM_DTYPE_F32).value};
    }
    if (rooted) add("root", [](Arguments& a) { a.call.root = 1; }, {"root 0", "root 1"});
    add("algorithm", [](Arguments& a) { a.options.algorithm = SYMM_ALGORITHM_TWO_SHOT_STAGED; },
        {"two_shot_staged"});
    add("max_blocks", [](Arguments& a) { a.options.max_blocks = 4; }, {"max_blocks 4"});
    if (reduces) {
      add("order", [](Arguments& a) { a.options.order = SYMM_ORDER_ANY; }, {"in any order"});
    }
    add("collective",
        [=](Arguments& a) {
          a.call.collective = all_to_all ? SYMM_COLLECTIVE_ALLREDUCE : SYMM_COLLECTIVE_ALLTOALL;
        },
        {name, all_to_all ? "allreduce" : "alltoall"});
  }

  return all;
}

class Mismatch : public testing::TestWithParam<Difference> {};

// In checked mode every rank reports the difference at the first call, whichever rank differs, and
// all ranks report it in the same words.
TEST_P(Mismatch, IsReportedByEveryRankWhenChecked) {
  for (const int odd : {0, 2}) {
    std::string said[3];
    const auto body = [&](int rank, const Group& group) {
      expect_failed(call(group, rank == odd ? GetParam().odd : GetParam().common),
          SYMM_ERR_MISMATCH, GetParam().said);
      said[rank] = symm_last_error();
      EXPECT_EQ(last_failure().rank, odd) << said[rank];
      EXPECT_EQ(group.status().status, SYMM_ERR_MISMATCH);
      EXPECT_EQ(call(group, GetParam().common), SYMM_ERR_MISMATCH) << "the group is of no more use";
    };
    as_threads(3, body, SYMM_GROUP_CHECK);
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
  }
}

TEST(CheckedMismatch, IsThatOfTheOddOneThoughAnotherIsLate) {
  const Difference difference = differences().front();
  as_threads(
      3,
      [&](int rank, const Group& group) {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
        expect_failed(
            call(group, rank == 0 ? difference.odd : difference.common), SYMM_ERR_MISMATCH, {});
        EXPECT_EQ(last_failure().rank, 0) << symm_last_error();
      },
      SYMM_GROUP_CHECK);
}

// Unchecked it is found by ranks that wait for each
// other, and then told to all; nobody hangs or crashes.
TEST_P(Mismatch, IsFoundByAWaitingRankWhenNotChecked) {
  if (GetParam().name == "broadcast_root") {
    GTEST_SKIP() << "two roots wait for nobody, and each other rank for one of them only";
  }

  as_threads(3, [&](int rank, const Group& group) {
    symm_status_t status = SYMM_OK;
    for (int i = 0; i < 3 && status == SYMM_OK; ++i) {
      status = call(group, rank == 1 ? GetParam().odd : GetParam().common);
    }
    while (status == SYMM_OK) {
      status = symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr);
    }
    const std::string message = symm_last_error();
    expect_failed(status, SYMM_ERR_MISMATCH, GetParam().said);
    EXPECT_TRUE(names_rank(message, 1) && (names_rank(message, 0) || names_rank(message, 2)))
        << message;
  });
}

INSTANTIATE_TEST_SUITE_P(Each, Mismatch, testing::ValuesIn(differences()),
    [](const auto& difference) { return difference.param.name; });

// Tags are each rank's own. The message has the tag of the rank that found the mismatch.
TEST(MismatchOfTags, IsNone) {
  as_threads(
      3,
      [](int rank, const Group& group) {
        const std::string tag = "call of rank " + std::to_string(rank);
        float value = 1;
        const auto sum = [&](int32_t max_blocks) {
          return symm_allreduce(group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM,
              tagged(tag.c_str(), max_blocks), nullptr);
        };
        check(sum(0));
        EXPECT_EQ(value, 3);
        expect_failed(sum(rank == 1 ? 8 : 300), SYMM_ERR_MISMATCH,
            {"max_blocks 8", "max_blocks 255 or more", "; the call of rank ",
                "has the tag \"call of rank "});
      },
      SYMM_GROUP_CHECK);
}

// Ranks 0 and 1 both find that rank 2 differs, and rank 2 finds that it differs from both. The vote
// blames the rank that rank 0 found, not rank 0.
TEST(MismatchOfGroups, PlanTablesDiffer) {
  as_ranks(3, [](int rank, const Config& config, Facts& facts) {
    facts.pids[rank] = getpid();
    if (rank == 2) setenv("SYMM_HOST_TUNE", "one_shot=16", 1);
    const Outcome outcome = expect_failure(SYMM_ERR_MISMATCH, {}, [&] { create(config, rank, 3); });
    EXPECT_EQ(outcome.rank, 2) << outcome.message;
    EXPECT_EQ(outcome.pid, facts.pids[2]) << outcome.message;
  });
}
}  // namespace
}  // namespace support
