// The plan table: what is compiled in, what a file and the
// environment make of it, and what is said of a bad one.
#include "core/backend/plan_table.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "core/backend/backend.hpp"
#include "core/backend/nccl_column.hpp"
#include "core/base/error.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"
#include "tests/support/core.hpp"

namespace symm {
namespace {
using support::expect_failure;

std::string no_machine() { return ""; }

PlanValues built_in(BackendKind backend, int size) {
  return PlanTable::built_in().values(backend, size, no_machine);
}

// The values of a table in which `text` is laid over what is compiled in.
PlanValues with(
    const std::string& text, BackendKind backend, int size, const std::string& machine = "") {
  PlanTable table = PlanTable::built_in();
  table.add(text, "test", PlanOrigin::file);
  return table.values(backend, size, [&] { return machine; });
}

TEST(PlanTable, EveryKeyHasAnAllowedValueForEverySize) {
  for (const BackendKind backend : {BackendKind::host, BackendKind::cuda}) {
    for (int size = 1; size <= 64; ++size) {
      const PlanValues values = built_in(backend, size);
      for (const PlanKey& key : plan_keys(backend)) {
        const uint64_t value = values.of(backend, key.name);
        EXPECT_GE(value, key.least) << key.name << ", " << size;
        EXPECT_LE(value, key.most) << key.name << ", " << size;
      }
    }
  }
}

TEST(PlanTable, WhatIsCompiledIn) {
  const PlanValues two = built_in(BackendKind::host, 2);
  EXPECT_EQ(two.of(BackendKind::host, "ll"), 56U);
  EXPECT_EQ(two.of(BackendKind::host, "one_shot"), 1024U);
  EXPECT_EQ(two.of(BackendKind::host, "step"), 32768U);
  EXPECT_EQ(two.origin[0], PlanOrigin::built_in);

  // Sizes that are divided by the number of ranks are rounded down.
  EXPECT_EQ(built_in(BackendKind::host, 3).of(BackendKind::host, "one_shot"), 682U);
  EXPECT_EQ(built_in(BackendKind::host, 1000).of(BackendKind::host, "one_shot"), 2U);

  const PlanValues four = built_in(BackendKind::cuda, 4);
  EXPECT_EQ(four.of(BackendKind::cuda, "ll"), 262144U);
  EXPECT_EQ(four.of(BackendKind::cuda, "one_shot"), 262144U);
  EXPECT_EQ(four.of(BackendKind::cuda, "copy_engine"), 33554432U);
  EXPECT_EQ(four.of(BackendKind::cuda, "threads"), 128U);
  EXPECT_EQ(four.of(BackendKind::cuda, "tile"), 16384U);
}

TEST(PlanTable, LaterSectionsReplaceEarlierOnes) {
  const char* text =
      "# a comment\n"
      "[host]\n"
      "one_shot = 3K   # and another\n"
      "\n"
      "  [ host 3-4 ]\r\n"
      "ll=0\r\n"
      "one_shot = 1M / ranks\n"
      "[host 9-]\n"
      "step = 64\n"
      "[cuda 4 on NVIDIA H200]\n"
      "tile = 16\n"
      "[cuda on NVIDIA H1]\n"
      "tile = 32";

  EXPECT_EQ(with(text, BackendKind::host, 2).of(BackendKind::host, "one_shot"), 3072U);
  EXPECT_EQ(with(text, BackendKind::host, 2).of(BackendKind::host, "ll"), 56U);
  EXPECT_EQ(with(text, BackendKind::host, 4).of(BackendKind::host, "one_shot"), 262144U);
  EXPECT_EQ(with(text, BackendKind::host, 4).of(BackendKind::host, "ll"), 0U);
  EXPECT_EQ(with(text, BackendKind::host, 5).of(BackendKind::host, "ll"), 56U);
  EXPECT_EQ(with(text, BackendKind::host, 9).of(BackendKind::host, "step"), 64U);
  EXPECT_EQ(with(text, BackendKind::host, 500).of(BackendKind::host, "step"), 64U);
  EXPECT_EQ(with(text, BackendKind::host, 8).of(BackendKind::host, "step"), 32768U);

  EXPECT_EQ(with(text, BackendKind::cuda, 4, "NVIDIA H200").of(BackendKind::cuda, "tile"), 16U);
  EXPECT_EQ(with(text, BackendKind::cuda, 8, "NVIDIA H200").of(BackendKind::cuda, "tile"), 6144U);
  EXPECT_EQ(
      with(text, BackendKind::cuda, 4, "NVIDIA H100 80GB HBM3").of(BackendKind::cuda, "tile"), 32U);

  const PlanValues mixed = with(text, BackendKind::host, 4);
  EXPECT_EQ(mixed.origin[0], PlanOrigin::file);
  EXPECT_EQ(mixed.origin[2], PlanOrigin::built_in);
}

TEST(PlanTable, WhatIsWrongIsSaidWithLineAndKey) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"[host]\nfast = 1", "test:2: 'fast' is not a key of host; known are ll, one_shot, step"},
      {"[cuda]\n\nstep = 64", "test:3: 'step' is not a key of cuda"},
      {"one_shot = 1", "test:1: 'one_shot = 1' stands before the first [section]"},
      {"[rocm]", "test:1: '[rocm]' is of no back end"},
      {"[host", "test:1: '[host' has no ']'"},
      {"[host 0]", "ranks are written"},
      {"[host 4-2]", "ranks are written"},
      {"[host 2-4-8]", "ranks are written"},
      {"[host -2]", "neither a number of ranks nor"},
      {"[host many]", "'many' is neither a number of ranks nor"},
      {"[host]\none_shot", "test:2: 'one_shot' is not key = number"},
      {"[host]\none_shot =", "test:2: one_shot: '' is not a number"},
      {"[host]\none_shot = 1X", "test:2: one_shot: '1X' is not a number"},
      {"[host]\none_shot = -1", "test:2: one_shot: '-1' is not a number"},
      {"[host]\none_shot = 20000000000G", "is not a number"},
      {"[host]\none_shot = 2G", "test:2: one_shot: 2G must be 0 .. 268435456"},
      {"[host]\nll = 57", "test:2: ll: 57 must be 0 .. 56"},
      {"[host]\nstep = 65", "test:2: step: 65 must be 64 .. 16777216 and a multiple of 64"},
      {"[host]\none_shot = 2K / size", "test:2: one_shot: only '/ ranks' may follow a number"},
      {"[host]\nll = 1\nll = 2", "test:3: ll: has a value already, test:2"},
      {"[host]\nstep = 64 / ranks", "step: 32, of 2 ranks, must be 64"},
      // A section of another machine is checked all the same.
      {"[cuda 16 on something else]\nwork_groups = 1000",
          "test:2: work_groups: 1000 must be 1 .. 128"},
  };

  for (const auto& one : cases) {
    expect_failure(
        Status::invalid_argument, {one.expected}, [&] { with(one.text, BackendKind::host, 2); });
  }
}

TEST(PlanTable, SingleValues) {
  PlanTable table = PlanTable::built_in();
  table.add_values(BackendKind::cuda,
      "one_shot=1024, "
      "work_groups=7,tile=4K,threads=64,chunk=131072,ll=512,two_shot=9999,early=8,width=1024,flat="
      "5K,"
      "marked=3K,scatter=6K,relay=7K,reduce=8K,copy_engine=9K,bulk=3",
      "VARIABLE");
  const PlanValues values = table.values(BackendKind::cuda, 8, no_machine);
  const uint64_t expected[] = {
      512, 1024, 6144, 3072, 9999, 131072, 5120, 7168, 8192, 9216, 3, 64, 8, 7, 1024, 4096};

  for (size_t key = 0; key < std::size(expected); ++key) {
    EXPECT_EQ(values.value[key], expected[key]);
  }

  EXPECT_EQ(values.origin[3], PlanOrigin::variable);
  EXPECT_EQ(table.values(BackendKind::host, 8, no_machine).origin[0], PlanOrigin::built_in);
  for (const char* text :
      {"one_shot", "one_shot=", "one_shot=x", "work_groups=0", "work_groups=1000", "tile=17",
          "fast=1", "threads=33", "width=2048", "chunk=1", "ll=1,,tile=16"}) {
    expect_failure(Status::invalid_argument, {"VARIABLE: "},
        [&] { table.add_values(BackendKind::cuda, text, "VARIABLE"); });
  }
}

// The column of NCCL that a table has for a group of `size` ranks.
NcclColumn column_of(const std::string& text, int size, const std::string& machine = "") {
  PlanTable table = PlanTable::built_in();
  table.add(text, "test", PlanOrigin::file);
  return table.nccl_column(BackendKind::cuda, size, [&] { return machine; });
}

PlanReport advice_for(const NcclColumn& column, Collective collective, DType dtype, size_t count) {
  const CollectiveCall call(
      collective, nullptr, nullptr, count, static_cast<int32_t>(dtype), nullptr);
  PlanReport report;
  column.advise(call, report);
  return report;
}

constexpr char kColumn[] =
    "[cuda 4]\n"
    "nccl allreduce f32 = 1K:10/20 4K:20/19.5 16K:40/20\n"
    "nccl allgather any = 64:5/4\n";

TEST(NcclColumn, SaysForWhichCallsNcclWasAhead) {
  const NcclColumn column = column_of(kColumn, 4);
  const auto at = [&](size_t bytes) {
    return advice_for(column, Collective::allreduce, DType::f32, bytes / sizeof(float));
  };

  EXPECT_EQ(at(1024).advice, Advice::symm);
  EXPECT_EQ(at(1024).symm_ns, 10'000U);
  EXPECT_EQ(at(1024).nccl_ns, 20'000U);
  EXPECT_EQ(at(4096).advice, Advice::symm) << "less than a twentieth";
  const PlanReport large = at(16384);
  EXPECT_EQ(large.advice, Advice::nccl);
  EXPECT_EQ(large.advice_reason,
      "as measured with 4 ranks: NCCL 20.00 us, symm 40.00 us; NCCL is "
      "faster here (test:2)");

  // A third of the way from 4K to 16K.
  const PlanReport between = at(8192);
  EXPECT_EQ(between.advice, Advice::nccl);
  EXPECT_EQ(between.symm_ns, 26'667U);
  EXPECT_EQ(between.nccl_ns, 19'667U);
}

TEST(NcclColumn, OfWhatMovesDataIsOfAllTypes) {
  const NcclColumn column = column_of(kColumn, 4);
  for (const DType dtype : {DType::f32, DType::u8, DType::bf16}) {
    const PlanReport report = advice_for(column, Collective::allgather, dtype, 64 / size_of(dtype));
    EXPECT_EQ(report.advice, Advice::nccl) << dtype_name(dtype);
  }
}

TEST(NcclColumn, WhatWasNotMeasuredIsUnknownAndSaysSo) {
  const NcclColumn column = column_of(kColumn, 4);
  const struct {
    PlanReport report;
    const char* why;
  } rows[] = {{advice_for(column, Collective::allreduce, DType::f32, 255), "at 1020 bytes"},
      {advice_for(column, Collective::allreduce, DType::f32, 4097), "at 16388 bytes"},
      {advice_for(column, Collective::allreduce, DType::bf16, 1024), "allreduce of bf16"},
      {advice_for(column, Collective::broadcast, DType::f32, 1024), "broadcast of f32"},
      {advice_for(column_of(kColumn, 2), Collective::allreduce, DType::f32, 256), "no column"},
      {advice_for(column_of("", 4), Collective::allreduce, DType::f32, 256), "no column"}};
  for (const auto& [report, why] : rows) {
    EXPECT_EQ(report.advice, Advice::unmeasured) << why;
    EXPECT_EQ(report.symm_ns, 0U) << why;
    EXPECT_NE(report.advice_reason.find("not measured"), std::string::npos) << why;
    EXPECT_NE(report.advice_reason.find(why), std::string::npos) << report.advice_reason;
  }

  CollectiveCall forced(
      Collective::allreduce, nullptr, nullptr, 256, static_cast<int32_t>(DType::f32), nullptr);
  forced.algorithm = Algorithm::ll;
  PlanReport report;
  column.advise(forced, report);
  EXPECT_EQ(report.advice, Advice::unmeasured);
}

TEST(NcclColumn, IsOfOneMachineAndLaterRowsReplaceEarlierOnes) {
  const std::string text =
      std::string(kColumn) + "[cuda 4 on NVIDIA H]\nnccl allreduce f32 = 1K:10/1\n";
  const auto advice = [&](const char* machine) {
    return advice_for(column_of(text, 4, machine), Collective::allreduce, DType::f32, 256).advice;
  };
  EXPECT_EQ(advice("NVIDIA H200"), Advice::nccl);
  EXPECT_EQ(advice("NVIDIA A100"), Advice::symm);
}

TEST(NcclColumn, MustBeEqualOnAllRanks) {
  const PlanValues mine = with(kColumn, BackendKind::cuda, 4);
  EXPECT_EQ(mine.nccl_rows, 2U);
  EXPECT_EQ(
      plan_difference(BackendKind::cuda, 0, mine, 1, with(kColumn, BackendKind::cuda, 4)), "");
  const std::string differs =
      plan_difference(BackendKind::cuda, 0, mine, 1, with("", BackendKind::cuda, 4));
  EXPECT_NE(differs.find("rank 0 (2 rows) and rank 1 (0 rows)"), std::string::npos) << differs;
}

TEST(NcclColumn, WhatIsWrongIsSaidWithItsLine) {
  const struct {
    const char* line;
    const char* what;
  } rows[] = {{"nccl allreduce = 8:1/2", "nccl <collective> <data type>"},
      {"nccl allreduce f32 sum = 8:1/2", "nccl <collective> <data type>"},
      {"nccl sendrecv f32 = 8:1/2", "'sendrecv' is not a collective"},
      {"nccl allreduce f31 = 8:1/2", "'f31' is not a data type"},
      {"nccl allreduce any = 8:1/2", "a data type is named for reductions"},
      {"nccl allgather f32 = 8:1/2", "a data type is named for reductions"},
      {"nccl allreduce f32 = 8:1", "'8:1' is not bytes:us/us"},
      {"nccl allreduce f32 = 8:0/2", "'8:0/2' is not bytes:us/us"},
      {"nccl allreduce f32 = 8:1/-2", "is not bytes:us/us"},
      {"nccl allreduce f32 = 8:1./2", "is not bytes:us/us"},
      {"nccl allreduce f32 = 8:1.2345/2", "is not bytes:us/us"},
      {"nccl allreduce f32 = 8:99999999999999/2", "is not bytes:us/us"},
      {"nccl allreduce f32 = x:1/2", "is not bytes:us/us"},
      {"nccl allreduce f32 = 8:1/2 8:1/2", "sizes must ascend"},
      {"nccl allreduce f32 =", "has no times"}};
  for (const auto& [line, what] : rows) {
    expect_failure(Status::invalid_argument, {"test:2: ", what},
        [&, text = line] { column_of(std::string("[cuda 4]\n") + text, 4); });
  }
  for (const char* const section : {"[cuda]", "[cuda 2-4]", "[host 4]"}) {
    expect_failure(Status::invalid_argument, {"test:2: ", "in sections as [cuda 4] only"},
        [&] { column_of(std::string(section) + "\nnccl allreduce f32 = 8:1/2\n", 4); });
  }
  expect_failure(Status::invalid_argument, {"stands in files only"}, [] {
    PlanTable::built_in().add_values(
        BackendKind::cuda, "nccl allreduce f32=8:1/2", "SYMM_CUDA_TUNE");
  });
}

TEST(PlanTable, ADifferenceNamesBothSides) {
  const PlanValues mine = built_in(BackendKind::host, 2);
  PlanValues theirs = mine;
  EXPECT_EQ(plan_difference(BackendKind::host, 0, mine, 3, theirs), "");
  // Equal values from different origins are no difference.
  theirs.origin[1] = PlanOrigin::file;
  EXPECT_EQ(plan_difference(BackendKind::host, 0, mine, 3, theirs), "");
  theirs.value[1] = 77;
  EXPECT_EQ(plan_difference(BackendKind::host, 0, mine, 3, theirs),
      "the plan must be the same on all ranks, but rank 0 has one_shot = 1024 (built in) and rank "
      "3 has one_shot = 77 "
      "(SYMM_PLAN_FILE)");
}
}  // namespace
}  // namespace symm
