// The arithmetic against which results are checked must itself be right; and a check
// that cannot fail is none: wrong results are counted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/tools/captured.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/reference.hpp"
#include "tools/bench/thresholds.hpp"
#include "tools/svg.hpp"

namespace symm::reference {
namespace {
TEST(SmallFloat, KnownNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();

  const struct {
    symm_dtype_t dtype;
    float value;
    unsigned code;
  } rows[] = {{SYMM_DTYPE_F16, 1.0F, 0x3C00}, {SYMM_DTYPE_F16, -2.0F, 0xC000},
      {SYMM_DTYPE_F16, 65519.0F, 0x7BFF}, {SYMM_DTYPE_F16, 65520.0F, 0x7C00},
      {SYMM_DTYPE_F16, kInfinity, 0x7C00}, {SYMM_DTYPE_BF16, 1.0F, 0x3F80},
      {SYMM_DTYPE_BF16, kLargest, 0x7F80}, {SYMM_DTYPE_BF16, 3e38F, 0x7F62},
      {SYMM_DTYPE_BF16, kInfinity, 0x7F80}, {SYMM_DTYPE_F8E4M3, 448.0F, 0x7E},
      {SYMM_DTYPE_F8E4M3, 1e9F, 0x7E}, {SYMM_DTYPE_F8E4M3, kInfinity, 0x7F},
      {SYMM_DTYPE_F8E5M2, -1e9F, 0xFB}, {SYMM_DTYPE_F8E5M2, -kLargest, 0xFB},
      {SYMM_DTYPE_F8E5M2, kInfinity, 0x7C}, {SYMM_DTYPE_F8E5M2, -kInfinity, 0xFC}};

  for (const auto& row : rows) {
    EXPECT_EQ(encode(row.dtype, row.value), row.code) << row.dtype << ", " << row.value;
  }
  EXPECT_EQ(decode(SYMM_DTYPE_F8E5M2, 0x7B), 57344.0F);
}

template <typename T>
T reduced(symm_dtype_t dtype, symm_op_t op, const std::vector<T>& values) {
  std::vector<Bits> operands;
  for (const T value : values) {
    operands.push_back(to_bits(value));
  }
  return from_bits<T>(reference::reduce(dtype, op, operands));
}

TEST(Reduce, InTheOrderOfTheRanks) {
  EXPECT_EQ(reduced<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, 1.0F, -1e8F}), 0.0F);
  EXPECT_EQ(reduced<float>(SYMM_DTYPE_F32, SYMM_OP_SUM, {1e8F, -1e8F, 1.0F}), 1.0F);
}

TEST(Reduce, SmallFloatsRoundOnce) {
  // 1 + 2^-11 + 2^-11 is 1 + 2^-10 in f32; rounding after each addition would lose both.
  const auto half = [](float value) {
    return static_cast<uint16_t>(encode(SYMM_DTYPE_F16, value));
  };
  EXPECT_EQ(
      reduced<uint16_t>(SYMM_DTYPE_F16, SYMM_OP_SUM, {half(1), half(0x1p-11F), half(0x1p-11F)}),
      half(1 + 0x1p-10F));
}
}  // namespace
}  // namespace symm::reference

namespace symm::tool {
namespace {
std::vector<std::byte> data(
    const Pattern& pattern, symm_dtype_t dtype, int rank, size_t first, size_t count) {
  std::vector<std::byte> out(count * size_of(dtype));
  pattern.write(out.data(), rank, first, count);
  return out;
}

TEST(Pattern, KnowsItsOwnDataAndNoOther) {
  const Pattern pattern(SYMM_DTYPE_F32, SYMM_OP_SUM, 3);
  const size_t count = 3 * Pattern::period + 17;
  auto seen = data(pattern, SYMM_DTYPE_F32, 1, 5, count);
  EXPECT_EQ(pattern.count_wrong(seen.data(), 1, 5, count), 0U);
  EXPECT_GT(pattern.count_wrong(seen.data(), 2, 5, count), count / 2);
  EXPECT_GT(pattern.count_wrong(seen.data(), 1, 6, count), count / 2);
  EXPECT_GT(pattern.count_wrong(seen.data(), 1, 5 + 4096, count), count / 2)
      << "data from another slice must show";
  seen[4 * 100] ^= std::byte{1};
  seen[4 * (count - 1) + 3] ^= std::byte{1};
  EXPECT_EQ(pattern.count_wrong(seen.data(), 1, 5, count), 2U);
}

// Reduces the operands of all ranks, `inputs`, element by element.
std::vector<std::byte> reduced_one_by_one(symm_dtype_t dtype, symm_op_t op,
    const std::vector<std::vector<std::byte>>& inputs, size_t count) {
  const size_t element = size_of(dtype);
  std::vector<std::byte> out(count * element);
  for (size_t i = 0; i < count; ++i) {
    std::vector<reference::Bits> one;
    for (const auto& input : inputs) {
      one.push_back(reference::load_bits(dtype, &input[i * element]));
    }
    reference::store_bits(dtype, reference::reduce(dtype, op, one), &out[i * element]);
  }
  return out;
}

TEST(Pattern, ReductionsMatchElementByElement) {
  for (const auto& [type, dtype] : dtypes()) {
    for (const auto& [name, op] : ops()) {
      const bool is_average_of_bool = dtype == SYMM_DTYPE_BOOL && op == SYMM_OP_AVG;
      if (!is_average_of_bool && !reference::has_op(dtype, op)) continue;
      const Pattern pattern(dtype, op, 4);
      constexpr size_t count = 5000;
      std::vector<std::vector<std::byte>> inputs;
      for (int rank = 0; rank < 4; ++rank) {
        inputs.push_back(data(pattern, dtype, rank, 9, count));
      }

      std::vector<std::byte> out = reduced_one_by_one(dtype, op, inputs, count);
      EXPECT_EQ(pattern.count_wrong_reduced(out.data(), 9, count), 0U) << type << ' ' << name;
      out[0] ^= std::byte{1};
      EXPECT_EQ(pattern.count_wrong_reduced(out.data(), 9, count), 1U) << type << ' ' << name;
    }
  }
}

// The order in which SYMM_ALGORITHM_HIERARCHICAL combines: (r0 op r1) op (r2 op r3), in the
// precision of sums, rounded once.
TEST(Pattern, HasElementsForAnyOrder) {
  for (const symm_op_t op : {SYMM_OP_SUM, SYMM_OP_PROD, SYMM_OP_AVG}) {
    const auto wrong = [op](symm_order_t order) {
      const Pattern pattern(SYMM_DTYPE_F32, op, 4, order);
      std::vector<float> of[4];
      std::vector<float> out;
      for (int rank = 0; rank < 4; ++rank) {
        of[rank].resize(Pattern::period);
        pattern.write(reinterpret_cast<std::byte*>(of[rank].data()), rank, 0, Pattern::period);
      }

      for (size_t i = 0; i < Pattern::period; ++i) {
        if (op == SYMM_OP_PROD) {
          out.push_back((of[0][i] * of[1][i]) * (of[2][i] * of[3][i]));
        } else {
          out.push_back(
              ((of[0][i] + of[1][i]) + (of[2][i] + of[3][i])) / (op == SYMM_OP_AVG ? 4 : 1));
        }
      }

      return pattern.count_wrong_reduced(
          reinterpret_cast<std::byte*>(out.data()), 0, Pattern::period);
    };

    EXPECT_EQ(wrong(SYMM_ORDER_ANY), 0U) << op;
    EXPECT_EQ(wrong(SYMM_ORDER_TREE), 0U) << op << ": this is the tree of four ranks";
    EXPECT_GT(wrong(SYMM_ORDER_RANKS), Pattern::period / 16) << op << ": another order must show";
  }
}

TEST(BenchOptions, Sizes) {
  BenchOptions options;
  options.begin = 8;
  options.end = 100;
  EXPECT_EQ(sizes(options), (std::vector<uint64_t>{8, 16, 32, 64}));
  options.factor = 1.1;
  options.end = 10;
  EXPECT_EQ(sizes(options), (std::vector<uint64_t>{8, 9}));
  options.iterations = 3;
  EXPECT_EQ(iterations_for(options, 8), 3);
  options.iterations = 0;
  EXPECT_GT(iterations_for(options, 8), iterations_for(options, uint64_t{1} << 30));
}

TEST(BenchResult, BusFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLREDUCE, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_REDUCE_SCATTER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLGATHER, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLTOALL, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_BROADCAST, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_REDUCE, 8), 1);
}

// A group of one moves nothing over a bus, and nothing at all in place.
TEST(BenchResult, AGroupOfOneHasNoBandwidthThatMeansNothing) {
  BenchOptions options;
  options.traits = find_operation("allreduce");
  Row row;
  row.bytes = 1 << 20;
  row.out_of_place = {.measured = true, .p50_us = 100, .algorithm = "copy"};
  row.in_place = {.measured = true, .p50_us = 0.0002, .algorithm = "copy"};

  const std::string line = table_row(options, row, 1);
  expect_said(line, {"100.00    10.49      N/A", "0.00      N/A      N/A"});
  expect_said(table_footer(options, {row}, 1), {"bus bandwidth : N/A"});
  const nlohmann::json report = bench_json(options, {row}, 1);
  EXPECT_NEAR(report["results"][0]["algbw"].get<double>(), 10.49, 0.01);
  EXPECT_TRUE(report["results"][0]["busbw"].is_null());
  EXPECT_TRUE(report["results"][1]["algbw"].is_null());
  EXPECT_TRUE(report["average_busbw"].is_null());
  EXPECT_FALSE(bench_json(options, {row}, 2)["average_busbw"].is_null());
}

TEST(BenchResult, IsComparedWithThatOfTheSameCall) {
  BenchOptions options;
  options.traits = find_operation("allreduce");
  Row row{
      .bytes = 1024, .count = 256, .type = "f32", .op = "sum", .out_of_place = {}, .in_place = {}};
  row.out_of_place = {.measured = true, .p50_us = 4, .algorithm = "ll"};
  row.in_place = {.measured = true, .p50_us = 5, .algorithm = "ll"};
  options.baseline = bench_json(options, {row}, 2);

  row.in_place.p50_us = 2;
  EXPECT_EQ(speedup(options, row, row.out_of_place), 1);
  EXPECT_EQ(speedup(options, row, row.in_place), 2.5);
  expect_said(table_row(options, row, 2), {"   2.50"});

  const nlohmann::json report = bench_json(options, {row}, 2);
  EXPECT_EQ(report["results"][1]["speedup"], 2.5);
  const std::string csv = bench_csv(report);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_EQ(csv.rfind("advice,advice_nccl_us,advice_symm_us,algbw,algorithm,busbw,count,in_place,"
                      "iterations,redop,root,size,slowest_"
                      "rank,speedup,time_us_max",
                0),
      0U);
  expect_said(csv, {"\nunknown,null,null,0.256,ll,0.256,256,false,0,sum,-1,1024,0,1.0,"});

  const std::string picture = bench_svg(report, options.baseline);
  EXPECT_EQ(
      picture.rfind(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400")", 0), 0U);
  expect_said(picture, {">f32 sum, in place</text>",
                           "stroke-dasharray=\"6 4\" points=\"60.0,67.6 \"/>", ">1 KiB</text>"});

  row.bytes = 2048;
  EXPECT_EQ(speedup(options, row, row.in_place), 0) << "the baseline has no such call";
}

TEST(BenchResult, Quantiles) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.99), 5);
}

Ladder ladder(std::vector<Measured> sizes) {
  return {
      "allreduce", {{"ll", "ll"}, {"one-shot", "one_shot"}, {"two-shot", ""}}, std::move(sizes)};
}

TEST(Thresholds, DivideTheSizes) {
  const struct {
    const char* why;
    std::vector<Measured> sizes;
    std::vector<size_t> candidates;
    std::vector<uint64_t> bytes;
  } rows[] = {
      {"the fastest at each size",
          {{8, {1, 2, 3}}, {64, {0, 2, 3}}, {512, {0, 3, 3.5}}, {4096, {0, 9, 5}},
              {32768, {0, 80, 20}}},
          {0, 1, 1, 2, 2}, {8, 512}},
      {"figures that are out of line, at 64 bytes and at 32 KB, decide nothing",
          {{8, {1, 2, 3}}, {64, {0, 2, 1.8}}, {512, {0, 2, 3}}, {4096, {0, 9, 5}},
              {32768, {0, 19, 20}}},
          {0, 1, 1, 2, 2}, {8, 512}},
      {"30 % lost at 64 bytes are more than 10 % gained at 1 MB, which are far more microseconds",
          {{64, {0, 1.3, 1}}, {1 << 20, {0, 90, 100}}}, {2, 2}, {0, 0}},
      {"a candidate that is never used", {{8, {3, 2, 1}}, {64, {0, 2, 1}}}, {2, 2}, {0, 0}},
      {"the same in the middle", {{8, {1, 2, 3}}, {64, {0, 3, 2}}}, {0, 2}, {8, 8}},
      {"no sizes at all", {}, {}, {0, 0}},
  };

  for (const auto& row : rows) {
    SCOPED_TRACE(row.why);
    const Ladder of = ladder(row.sizes);
    EXPECT_EQ(divide(of), row.candidates);
    std::vector<uint64_t> bytes;
    for (const Threshold& threshold : thresholds(of)) {
      bytes.push_back(threshold.bytes);
    }
    EXPECT_EQ(bytes, row.bytes);
  }
}

TEST(Thresholds, SaysWhereNothingLargerWasMeasured) {
  const auto found = thresholds(ladder({{8, {1, 2, 3}}, {64, {0, 1, 2}}}));
  EXPECT_FALSE(found[0].is_end);
  EXPECT_EQ(found[1].bytes, 64U);
  EXPECT_TRUE(found[1].is_end);
}

TEST(Thresholds, TextIsATableWithFigures) {
  TuneReport report{"0.1.0", "2026-01-02", "host", "A Processor", 3, {}};
  report.ladders.push_back(ladder({{8, {1, 2, 3}}, {64, {0, 2, 3}}, {4096, {0, 9.125, 5}}}));
  const std::string text = plan_text(report);
  expect_said(
      text, {"\n[host 3]\nll = 8\none_shot = 64\n",
                "symm 0.1.0, 2026-01-02: 3 ranks, host back end, A Processor", "1.00*", "9.1"});

  // All but the section are comments.
  size_t lines = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines += text[at] == '#' || text[at] == '\n' ? 0 : 1;
  }

  EXPECT_EQ(lines, 3U) << text;
  EXPECT_EQ(text.find("Not steady"), std::string::npos);
  report.ladders[0].sizes[1].steady = false;
  expect_said(plan_text(report), {"# Not steady: at 1 of 3 sizes"});
}

TEST(Thresholds, TheColumnOfNcclStandsInTheSection) {
  TuneReport report{"0.2.0", "2026-01-02", "cuda", "A Device", 2, {}};
  report.ladders.push_back(ladder({{8, {1, 2, 3}}}));
  EXPECT_EQ(plan_text(report).find("nccl"), std::string::npos) << "it was not measured";

  report.nccl_version = "2.27.3";
  report.nccl = {{"allreduce", "f32", {{8, 1.5, 2.25}, {1024, 3, 2}}}, {"allgather", "any", {}}};
  const std::string text = plan_text(report);
  expect_said(
      text, {"# NCCL 2.27.3 beside symm", "\nnccl allreduce f32 = 8:1.50/2.25 1024:3.00/2.00\n"});
  EXPECT_LT(text.find("[cuda 2]"), text.find("nccl allreduce"));
  EXPECT_EQ(text.find("nccl allgather"), std::string::npos) << "a row without sizes";
  EXPECT_EQ(text.find("Not steady"), std::string::npos);
  report.nccl_steady = false;
  expect_said(plan_text(report), {"# Not steady: a median"});
}
}  // namespace
}  // namespace symm::tool
