// The measurement itself. Inputs are written anew before every call, so that they lie
// in the caches of their own rank only, as they do in a program that has just computed
// them; only the call is timed; every result is checked. On GPUs calls come in rows or
// in graphs, whose first and last result is checked, and are timed by the device.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/call.hpp"
#include "tools/bench/device.hpp"
#include "tools/bench/measured_group.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/reference.hpp"
#include "tools/bench/thresholds.hpp"
#include "tools/environment.hpp"
#include "tools/host/host.hpp"
#include "tools/svg.hpp"
#include "tools/text.hpp"
#include <symm/symm.hpp>

namespace symm::tool {
namespace {
struct Free {
  void operator()(void* pointer) const { std::free(pointer); }
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options);
  int run();

 private:
  nlohmann::json measure_p2p();
  void finalize();
  double microseconds_of_put(int from, int to, size_t bytes);
  symm_order_t order_of(const Call& call) const;
  Row measure_row(uint64_t bytes, symm_dtype_t dtype, symm_op_t op);
  Result measure(const Call& call, const Pattern& pattern);
  Result measure_on_gpu(const Call& call, const Pattern& pattern);
  void finish(Result& result, std::vector<double>& times, uint64_t wrong);
  void progress(const std::string& text) const;

  Group& control() { return device_ ? control_ : group_; }

  BenchOptions options_;
  Group group_;    // that is measured
  Group control_;  // where that is one of GPUs: of the host back end, by which times are compared
  std::optional<Device> device_;
  std::vector<std::byte> staging_;  // what lies in first_ and second_ on the device
  int32_t rank_ = 0;
  int32_t ranks_ = 0;
  Memory memory_;
  std::unique_ptr<std::byte, Free> private_;
  std::byte* first_ = nullptr;
  std::byte* second_ = nullptr;
};

constexpr size_t kPage = 4096;

// Makes the group and the two operands, which are halves of one allocation: symmetric memory,
// or private memory of the device or the host. On GPUs there is a second group, of the host, by
// which ranks agree on times without touching a stream.
Bench::Bench(const BenchOptions& options) : options_(options) {
  tool::progress("making the group");
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = options_.backend;
  config.name = "bench";
  group_ = create_measured(config, options_);
  const symm_group_info_t info = group_.info();
  options_.backend = info.backend;

  if (info.backend == SYMM_BACKEND_CUDA) {
    config.backend = SYMM_BACKEND_HOST;
    config.name = "bench control";
    control_ = Group::create(config);
    device_.emplace(info.device);
  } else if (options_.graph != 0) {
    throw std::runtime_error("--graph is for GPUs: --backend cuda");
  }

  rank_ = group_.rank();
  ranks_ = group_.size();
  if (options_.root >= ranks_) {
    throw std::runtime_error("--root is " + std::to_string(options_.root) +
                             ", but there are only " + std::to_string(ranks_) + " ranks");
  }

  // At least one element for every rank, whatever was asked for.
  const size_t largest =
      std::max<size_t>(options_.end, static_cast<size_t>(ranks_) * sizeof(double));
  const size_t half = (largest + kPage - 1) / kPage * kPage;

  if (options_.symmetric) {
    memory_ = group_.rendezvous(group_.allocate(2 * half));
    first_ = memory_.span().data();
  } else if (device_) {
    device_->call("cuMemAlloc_v2", &first_, 2 * half);
  } else {
    private_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, 2 * half)));
    if (!private_) throw std::bad_alloc();
    first_ = private_.get();
    std::fill_n(first_, 2 * half, std::byte{0});
  }

  second_ = first_ + half;
  if (device_) staging_.resize(2 * half);
  options_.loose = info.backend == SYMM_BACKEND_HOST && usable_processors() > 1;
  tool::progress("");
}

void Bench::progress(const std::string& text) const {
  if (rank_ == 0) tool::progress(text);
}

Result Bench::measure(const Call& call, const Pattern& pattern) {
  Result result;
  result.measured = true;
  result.iterations = iterations_for(options_, call.bytes());
  result.take_plan(call);
  std::vector<double> times;
  uint64_t wrong = 0;

  for (int i = -options_.warmup; i < result.iterations; ++i) {
    const auto shift = static_cast<size_t>(i + options_.warmup) * 37;
    call.write_inputs(pattern, shift);
    group_.barrier();
    const auto start = std::chrono::steady_clock::now();
    const symm_status_t status = call.run();
    const auto end = std::chrono::steady_clock::now();
    check(status, call.traits->name);
    if (options_.check) wrong += call.count_wrong(pattern, shift);
    if (i >= 0) times.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }

  finish(result, times, wrong);
  return result;
}

// A row or a graph of calls is issued twice, and the second one is timed: when it begins, no rank
// is late. Long, since the calls that are checked and those that are timed are issued in one way,
// so that what is timed is what was checked.
Result Bench::measure_on_gpu(const Call& call, const Pattern& pattern) {
  constexpr int calls_in_a_row = 20;
  constexpr int samples = 20;
  const int iterations = options_.iterations > 0 ? options_.iterations : samples;
  Result result;
  result.measured = true;
  result.iterations = iterations;
  result.take_plan(call);
  const int calls = options_.graph > 0 ? options_.graph : calls_in_a_row;
  const auto in_a_row = [&](int count) {
    for (int i = 0; i < count; ++i) {
      check(call.run(), call.traits->name);
    }
  };

  const auto done = [&] {
    while (!group_.stream_done(call.stream)) {
    }
  };

  uint64_t wrong = 0;
  const auto checked = [&](size_t shift, const auto& issue) {
    Call here = call;
    here.first = staging_.data();
    here.second = here.first + (second_ - first_);
    std::byte* const result_there = call.in_place ? first_ : second_;
    std::byte* const result_here = call.in_place ? here.first : here.second;
    here.write_inputs(pattern, shift);
    device_->call("cuMemcpyAsync", first_, here.first, call.bytes(), call.stream);
    done();
    control_.barrier();
    issue();
    device_->call("cuMemcpyAsync", result_here, result_there, call.bytes(), call.stream);
    done();
    wrong += here.count_wrong(pattern, shift);
  };

  if (options_.check) checked(0, [&] { in_a_row(1); });
  void* const graph = options_.graph > 0 ? device_->capture([&] { in_a_row(calls); }) : nullptr;
  const auto issue = [&] {
    if (graph != nullptr) {
      device_->call("cuGraphLaunch", graph, call.stream);
    } else {
      in_a_row(calls);
    }
  };

  std::vector<double> times;
  for (int i = -options_.warmup; i < result.iterations; ++i) {
    control_.barrier();
    issue();
    const double us = device_->microseconds(issue, done) / calls;
    if (i >= 0) times.push_back(us);
  }

  // Calls in place change their own inputs.
  if (options_.check && !call.in_place) checked(37, issue);
  if (graph != nullptr) device_->call("cuGraphExecDestroy", graph);
  finish(result, times, wrong);

  return result;
}

void Bench::finish(Result& result, std::vector<double>& times, uint64_t wrong) {
  control().allreduce(Span(&wrong, 1), Span(&wrong, 1), SYMM_OP_SUM);
  result.wrong = wrong;

  const double median = quantile(times, 0.5);
  std::vector<double> medians(static_cast<size_t>(ranks_));
  control().allgather(Span(&median, 1), medians);
  result.slowest_rank =
      static_cast<int>(std::max_element(medians.begin(), medians.end()) - medians.begin());

  control().allreduce(times, times, SYMM_OP_MAX);
  result.p50_us = quantile(times, 0.5);
  result.min_us = quantile(times, 0);
  result.p99_us = quantile(times, 0.99);
  result.max_us = quantile(times, 1);
}

// The order of which results must have the bits.
symm_order_t Bench::order_of(const Call& call) const {
  const bool by_group = options_.order == SYMM_ORDER_GROUP;
  const bool is_tree = by_group ? (group_.info().flags & SYMM_GROUP_TREE_ORDER) != 0
                                : options_.order == SYMM_ORDER_TREE;
  if (is_tree) return SYMM_ORDER_TREE;
  const bool is_hierarchical =
      call.algorithm() == name_in(algorithms(), symm_algorithm_t{SYMM_ALGORITHM_HIERARCHICAL});
  return is_hierarchical ? SYMM_ORDER_ANY : SYMM_ORDER_RANKS;
}

Row Bench::measure_row(uint64_t bytes, symm_dtype_t dtype, symm_op_t op) {
  const OperationTraits& traits = *options_.traits;
  Call call(group_, &traits, dtype, op, device_ ? Device::stream() : nullptr);
  call.root = options_.root;
  call.count = std::max<size_t>(
      1, bytes / (size_of(dtype) * static_cast<size_t>(traits.divided ? ranks_ : 1)));
  call.first = first_;
  call.second = second_;
  call.options.algorithm = options_.algorithm;
  call.options.order = options_.order;
  Row row;
  row.bytes = call.bytes();
  row.count = call.count;
  row.type = name_in(dtypes(), dtype);
  row.op = traits.reduces ? name_in(ops(), op) : "none";
  row.root = traits.rooted ? options_.root : -1;
  const Pattern pattern(dtype, op, ranks_, order_of(call));

  for (const bool in_place : {false, true}) {
    if (!(in_place ? options_.in_place : options_.out_of_place)) continue;
    progress(std::string(traits.name) + " " + row.type + " " + row.op + ", " +
             format_bytes(row.bytes) + (in_place ? ", in place" : ", out of place"));
    call.in_place = in_place;
    (in_place ? row.in_place : row.out_of_place) =
        device_ ? measure_on_gpu(call, pattern) : measure(call, pattern);
  }

  progress("");
  return row;
}

// Time of each transfer in a row, including the barrier by which all have arrived. 0 on all ranks
// but `from`.
double Bench::microseconds_of_put(int from, int to, size_t bytes) {
  constexpr int calls = 20;
  void* const stream = device_ ? Device::stream() : nullptr;
  const auto issue = [&] {
    for (int i = 0; i < calls && rank_ == from; ++i) {
      memory_.put(to, 0, Span(second_, bytes), {}, stream);
    }
    group_.barrier({}, 0, 0, stream);
  };

  const auto done = [&] {
    while (device_ && !group_.stream_done(stream)) {
    }
  };

  std::vector<double> times;
  const int iterations = options_.iterations > 0 ? options_.iterations : 20;
  for (int i = -options_.warmup; i < iterations; ++i) {
    control().barrier();
    const auto start = std::chrono::steady_clock::now();
    if (!device_) issue();
    const double us = device_ ? device_->microseconds(issue, done)
                              : std::chrono::duration<double, std::micro>(
                                    std::chrono::steady_clock::now() - start)
                                    .count();
    if (i >= 0) times.push_back(us / calls);
  }

  return rank_ == from ? quantile(times, 0.5) : 0;
}

// Measures puts from each rank to each other, of the smallest and of the largest size: one pair
// at a time, so that no transfer has to share a link. All ranks go through all pairs together,
// since the barriers inside are of all. Returns a matrix for each size, and the bytes that
// arrived wrong.
nlohmann::json Bench::measure_p2p() {
  const auto ranks = static_cast<size_t>(ranks_);
  void* const stream = device_ ? Device::stream() : nullptr;
  nlohmann::json report{{"ranks", ranks_}, {"backend", device_ ? "cuda" : "host"}};
  uint64_t wrong = 0;
  const auto measure_pair = [&](int from, int to, size_t bytes) {
    progress(
        "p2p " + std::to_string(from) + " to " + std::to_string(to) + ", " + format_bytes(bytes));
    const auto mark = static_cast<std::byte>(1 + from * ranks_ + to);
    std::byte* const here = device_ ? staging_.data() : second_;
    std::fill_n(here, bytes, mark);
    if (device_) device_->call("cuMemcpyAsync", second_, here, bytes, stream);
    const double us = microseconds_of_put(from, to, bytes);

    // Once more, and the signal behind it says that it is there.
    if (rank_ == from) memory_.put_signal(to, 0, Span(second_, bytes), 0, {}, stream);
    if (rank_ == to) memory_.wait_signal(from, 0, 0, stream);
    if (rank_ != to || !options_.check) return us;

    if (device_) {
      device_->call("cuMemcpyAsync", here, first_, bytes, stream);
      while (!group_.stream_done(stream)) {
      }
    }
    const std::byte* const there = device_ ? here : first_;
    wrong += bytes - static_cast<uint64_t>(std::count(there, there + bytes, mark));
    return us;
  };

  for (const bool large : {false, true}) {
    const size_t bytes = std::max<size_t>(1, large ? options_.end : options_.begin);
    std::vector<double> times(ranks);
    std::vector<double> all(ranks * ranks);
    for (int from = 0; from < ranks_; ++from) {
      for (int to = 0; to < ranks_; ++to) {
        if (from == to) continue;
        const double us = measure_pair(from, to, bytes);
        if (rank_ == from) times[static_cast<size_t>(to)] = us;
      }
    }
    progress("");
    control().allgather(times, all);
    nlohmann::json rows = nlohmann::json::array();
    for (size_t from = 0; from < ranks; ++from) {
      rows.push_back(nlohmann::json::array());
      for (size_t to = 0; to < ranks; ++to) {
        const double us = all[from * ranks + to];
        const double cell = large ? static_cast<double>(bytes) / us / 1000 : us;
        rows.back().push_back(from == to ? 0 : cell);
      }
    }
    report[large ? "GB/s" : "us"] = {{"bytes", bytes}, {"from_to", rows}};
  }

  control().allreduce(Span(&wrong, 1), Span(&wrong, 1), SYMM_OP_SUM);
  report["wrong"] = wrong;
  return report;
}

int Bench::run() {
  const bool speaks = rank_ == 0;
  if (options_.p2p) {
    const nlohmann::json report = measure_p2p();
    if (speaks) {
      std::fputs((options_.json ? report.dump(2) + "\n" : p2p_table(report)).c_str(), stdout);
    }
    finalize();
    return report["wrong"] == 0 ? 0 : 1;
  }

  std::ofstream plot;
  if (speaks && !options_.plot.empty()) plot.open(options_.plot);
  if (!plot) throw std::system_error(errno, std::generic_category(), options_.plot);
  const auto print = [&](const std::string& text) {
    if (speaks && !options_.json && !options_.csv) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };

  if (options_.traits->collective == kBarrier) {
    options_.in_place = false;
    options_.out_of_place = true;
    options_.begin = options_.end = 8;
  }

  print(table_header(options_, ranks_, group_.info().bootstrap));
  std::vector<Row> rows;
  for (const symm_dtype_t dtype : options_.types) {
    for (const symm_op_t op : options_.ops) {
      // An operation and a type that were asked for by name are refused by the library, which says
      // why.
      const bool is_named = options_.ops.size() == 1 && options_.types.size() == 1;
      const bool is_refused = options_.traits->reduces && !reference::has_op(dtype, op);
      if (is_refused && !is_named) continue;
      for (const uint64_t bytes : sizes(options_)) {
        rows.push_back(measure_row(bytes, dtype, op));
        print(table_row(options_, rows.back(), ranks_));
      }
      if (!options_.traits->reduces) break;  // there is no op to vary
    }
  }

  print(table_footer(options_, rows, ranks_));
  if (speaks && options_.json) {
    std::printf("%s\n", bench_json(options_, rows, ranks_).dump(2).c_str());
  }

  if (plot.is_open() &&
      !(plot << bench_svg(bench_json(options_, rows, ranks_), options_.baseline)).flush()) {
    throw std::system_error(errno, std::generic_category(), options_.plot);
  }

  if (speaks && options_.csv) {
    std::fputs(bench_csv(bench_json(options_, rows, ranks_)).c_str(), stdout);
  }

  finalize();
  return total_wrong(rows) == 0 ? 0 : 1;
}

void Bench::finalize() {
  group_.finalize();
  if (device_ && !options_.symmetric) device_->call("cuMemFree_v2", first_);
  if (device_) control_.finalize();
}
}  // namespace

symm_status_t Call::run() const {
  if (traits->collective == kBarrier) return symm_barrier(group, nullptr, 0, 0, nullptr, stream);
  return tool::run(group, record(), &options, stream);
}

symm_plan_info_t Call::plan() const {
  symm_plan_info_t info{};
  info.struct_size = sizeof info;
  const symm_collective_call_t call = record();
  check(symm_collective_plan(group, &call, &options, &info), "symm_collective_plan");
  return info;
}

std::string Call::algorithm() const {
  if (traits->collective == kBarrier) return "";
  return name_in(algorithms(), plan().algorithm);
}

void Result::take_plan(const Call& call) {
  if (call.traits->collective == kBarrier) return;
  const symm_plan_info_t plan = call.plan();
  algorithm = name_in(algorithms(), plan.algorithm);
  advice = plan.advice;
  advice_symm_ns = plan.symm_ns;
  advice_nccl_ns = plan.nccl_ns;
}

int run_bench(const BenchOptions& options) { return Bench(options).run(); }
}  // namespace symm::tool
