// symm bench --tune: every algorithm that can do a size takes its turn, in the group that it runs
// in. The sizes at which one should give way to the next become a plan table.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <ratio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/beside_nccl.hpp"
#include "tools/bench/call.hpp"
#include "tools/bench/device.hpp"
#include "tools/bench/measured_group.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/thresholds.hpp"
#include "tools/environment.hpp"
#include "tools/text.hpp"
#include <symm/symm.hpp>

namespace symm::tool {
namespace {
// The measurement behind a row of keys of the plan table. The last candidate can do every size.
struct TuningCase {
  const char* collective;
  symm_dtype_t dtype;
  uint64_t end;  // if the user does not say
  std::vector<std::pair<symm_algorithm_t, const char*>> candidates;
};

std::vector<TuningCase> tuning_cases(const symm_group_info_t& info) {
  constexpr uint64_t mega = uint64_t{1} << 20;
  if (info.machines > 1) {
    return {{"allreduce", SYMM_DTYPE_F32, 16 * mega,
        {{SYMM_ALGORITHM_ONE_SHOT, "gather"}, {SYMM_ALGORITHM_TWO_SHOT_STAGED, "slices"},
            {SYMM_ALGORITHM_CHAIN, ""}}}};
  }

  if (info.backend == SYMM_BACKEND_HOST) {
    return {{"allreduce", SYMM_DTYPE_F32, mega,
        {{SYMM_ALGORITHM_LL, "ll"}, {SYMM_ALGORITHM_ONE_SHOT, "one_shot"},
            {SYMM_ALGORITHM_TWO_SHOT, ""}}}};
  }

  const auto between = [](const char* collective, symm_dtype_t dtype, uint64_t end,
                           symm_algorithm_t algorithm, const char* key) {
    return TuningCase{
        collective, dtype, end, {{algorithm, key}, {SYMM_ALGORITHM_TWO_SHOT_STAGED, ""}}};
  };

  return {between("allreduce", SYMM_DTYPE_I32, 2 * mega, SYMM_ALGORITHM_LL, "ll"),
      between("allgather", SYMM_DTYPE_BF16, 16 * mega, SYMM_ALGORITHM_MARKED, "marked"),
      between("reduce_scatter", SYMM_DTYPE_BF16, 16 * mega, SYMM_ALGORITHM_ONE_SHOT, "scatter"),
      {"allreduce", SYMM_DTYPE_BF16, 64 * mega,
          {{SYMM_ALGORITHM_ONE_SHOT, "one_shot"}, {SYMM_ALGORITHM_TWO_SHOT, "two_shot"},
              {SYMM_ALGORITHM_TWO_SHOT_STAGED, ""}}}};
}

class Tuner {
 public:
  explicit Tuner(const BenchOptions& options);
  int run();

 private:
  uint64_t end_of(const TuningCase& tuning_case) const {
    return options_.end_given ? options_.end : tuning_case.end;
  }

  std::vector<uint64_t> sizes_of(const TuningCase& tuning_case) const;
  Ladder measure(const TuningCase& tuning_case);
  Measured measure_size(const TuningCase& tuning_case, uint64_t bytes);
  double sample(const Call& call, const Pattern& pattern, size_t shift, uint64_t* wrong);
  Call call_of(const TuningCase& tuning_case, size_t candidate, uint64_t bytes) const;
  bool can(const Call& call) const;
  void deliver(const std::string& text) const;

  bool on_host() const { return info_.backend == SYMM_BACKEND_HOST; }

  BenchOptions options_;
  Group control_;  // a group of the host back end, by which ranks compare times
  Group group_;    // that is measured
  symm_group_info_t info_{};
  std::vector<TuningCase> cases_;
  void* stream_ = nullptr;
  Memory memory_;
  bool has_own_values_ = false;
};

Tuner::Tuner(const BenchOptions& options) : options_(options) {
  progress("making the groups");
  // Room to find out that an algorithm is good for larger messages than now: the
  // scratch of CUDA follows from the thresholds.
  has_own_values_ = *environment("SYMM_CUDA_TUNE") != '\0';
  ::setenv("SYMM_CUDA_TUNE", "ll=2M,one_shot=16M,scatter=16M,marked=16M,two_shot=64M", 0);
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.name = "tune control";
  control_ = Group::create(config);
  config.backend = options_.backend;
  config.name = "tune";
  group_ = create_measured(config, options_);
  info_ = group_.info();

  if (info_.size < 2) {
    throw std::runtime_error(
        "--tune needs 2 ranks or more: start it by symm run -n 2, for instance");
  }
  if (options_.nccl) require_nccl(options_, control_, info_);
  cases_ = tuning_cases(info_);
  size_t largest = 0;

  for (const TuningCase& tuning_case : cases_) {
    const bool gathers = find_operation(tuning_case.collective)->divided;
    largest = std::max<size_t>(
        largest, end_of(tuning_case) * static_cast<uint64_t>(gathers ? info_.size : 1));
  }

  memory_ = group_.rendezvous(group_.allocate(std::max<size_t>(largest, 4096)));
  for (TuningCase& tuning_case : cases_) {
    if (can(call_of(tuning_case, tuning_case.candidates.size() - 1, 64))) continue;
    tuning_case.candidates.pop_back();
    tuning_case.candidates.back().second = "";
  }

  progress("");
  if (on_host()) return;
  const Device device(info_.device);
  stream_ = Device::stream();
  memory_.fill32(info_.rank, 0, 0, largest / 4, {}, stream_);

  while (!group_.stream_done(stream_)) {
  }
}

Call Tuner::call_of(const TuningCase& tuning_case, size_t candidate, uint64_t bytes) const {
  Call call(
      group_, find_operation(tuning_case.collective), tuning_case.dtype, SYMM_OP_SUM, stream_);
  call.count = bytes / size_of(tuning_case.dtype);
  call.in_place = true;
  call.first = call.second = memory_.span().data();
  call.options.algorithm = tuning_case.candidates[candidate].first;
  return call;
}

// A tuning_case to the plan, which is answered equally on all ranks.
bool Tuner::can(const Call& call) const {
  try {
    call.algorithm();
  } catch (const Error& error) {
    if (error.status() != SYMM_ERR_INVALID_ARGUMENT) throw;
    return false;
  }
  return true;
}

// The sizes that the user asked for, and the largest size that each candidate can do.
std::vector<uint64_t> Tuner::sizes_of(const TuningCase& tuning_case) const {
  const uint64_t element = size_of(tuning_case.dtype);
  BenchOptions range = options_;
  range.begin = std::max(range.begin, element);
  range.end = end_of(tuning_case);
  std::vector<uint64_t> all;

  for (const uint64_t bytes : sizes(range)) {
    all.push_back(bytes / element * element);
  }

  const std::vector<uint64_t> asked = all;
  for (size_t k = 0; k < tuning_case.candidates.size(); ++k) {
    const auto refused = std::find_if(asked.begin(), asked.end(),
        [&](uint64_t bytes) { return !can(call_of(tuning_case, k, bytes)); });
    if (refused == asked.begin() || refused == asked.end()) continue;
    uint64_t low = *(refused - 1) / element;
    uint64_t high = *refused / element;
    while (high - low > 1) {
      const uint64_t middle = (low + high) / 2;
      (can(call_of(tuning_case, k, middle * element)) ? low : high) = middle;
    }
    all.push_back(low * element);
  }

  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Microseconds per call. On the host one call, as symm bench measures it; on a GPU,
// calls in a row that are waited for together.
double Tuner::sample(const Call& call, const Pattern& pattern, size_t shift, uint64_t* wrong) {
  constexpr int calls_in_a_row = 20;
  const int calls = on_host() ? 1 : calls_in_a_row;
  if (on_host()) call.write_inputs(pattern, shift);
  control_.barrier();
  const auto start = std::chrono::steady_clock::now();

  for (int i = 0; i < calls; ++i) {
    check(call.run(), call.traits->name);
  }

  while (!group_.stream_done(stream_)) {
  }

  const auto end = std::chrono::steady_clock::now();
  if (on_host()) *wrong += call.count_wrong(pattern, shift);
  return std::chrono::duration<double, std::micro>(end - start).count() / calls;
}

// The tenth of the calls that were fastest tell what an algorithm takes when nothing is
// in its way; the others, how busy the machine was.
Measured Tuner::measure_size(const TuningCase& tuning_case, uint64_t bytes) {
  constexpr int samples_on_gpu = 15;
  const Pattern pattern(tuning_case.dtype, SYMM_OP_SUM, info_.size);
  const size_t candidates = tuning_case.candidates.size();
  int samples = options_.iterations;
  if (samples <= 0) samples = on_host() ? iterations_for(options_, bytes) : samples_on_gpu;
  std::vector<std::vector<double>> times(candidates);
  uint64_t wrong = 0;

  for (int i = -options_.warmup; i < samples; ++i) {
    // Candidates take turns, so that other load on the machine affects all of them.
    for (size_t k = 0; k < candidates; ++k) {
      const Call call = call_of(tuning_case, k, bytes);
      if (!can(call)) continue;
      const double us =
          sample(call, pattern, static_cast<size_t>(i + options_.warmup) * 37, &wrong);
      if (i >= 0) times[k].push_back(us);
    }
  }

  if (wrong != 0) {
    throw std::runtime_error(
        std::to_string(wrong) + " elements are wrong at " + std::to_string(bytes) + " bytes");
  }

  Measured out{bytes, {}, true};
  for (std::vector<double>& own : times) {
    if (own.empty()) {
      out.us.push_back(0);
      continue;
    }
    control_.allreduce(own, own, SYMM_OP_MAX);
    out.us.push_back(std::max(quantile(own, 0.1), 1e-3));
    if (quantile(own, 0.5) > 2 * out.us.back()) out.steady = false;
  }

  return out;
}

Ladder Tuner::measure(const TuningCase& tuning_case) {
  Ladder ladder;
  ladder.title = std::string(tuning_case.collective) + " of " +
                 name_in(dtypes(), tuning_case.dtype) +
                 ", in place, symmetric memory: the fastest tenth of the calls, each with its "
                 "slowest rank, by bytes of `count`" +
                 (on_host() ? "" : "; calls in a row without a graph");

  for (const auto& [algorithm, key] : tuning_case.candidates) {
    ladder.candidates.push_back({name_in(algorithms(), algorithm), key});
  }

  for (const uint64_t bytes : sizes_of(tuning_case)) {
    if (info_.rank == 0) {
      progress("tune " + std::string(tuning_case.collective) + ", " + format_bytes(bytes));
    }
    ladder.sizes.push_back(measure_size(tuning_case, bytes));
  }

  if (info_.rank == 0) progress("");
  return ladder;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// Writes the file whole or not at all, as a reader may open it at any time.
void Tuner::deliver(const std::string& text) const {
  if (info_.rank != 0) return;
  if (options_.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }

  const std::string fresh = options_.out + ".new";
  std::ofstream file(fresh);
  file << text;
  file.close();

  if (!file || std::rename(fresh.c_str(), options_.out.c_str()) != 0) {
    throw std::runtime_error("--out: cannot write " + options_.out);
  }

  std::printf("wrote %s; to use it: SYMM_PLAN_FILE=%s on all ranks\n", options_.out.c_str(),
      options_.out.c_str());
}

int Tuner::run() {
  TuneReport report{version_text(symm_version()), today(), on_host() ? "host" : "cuda",
      device_info(info_.backend, info_.device).name, info_.size, {}};
  for (const TuningCase& tuning_case : cases_) {
    report.ladders.push_back(measure(tuning_case));
  }

  memory_ = {};
  group_.finalize();
  if (options_.nccl) {
    // symm now chooses by the table, and not by the values that made room.
    if (!has_own_values_) ::unsetenv("SYMM_CUDA_TUNE");
    measure_nccl(options_, control_, report);
  }

  deliver(plan_text(report));
  std::fflush(stdout);
  control_.finalize();
  return 0;
}
}  // namespace

int run_tune(const BenchOptions& options) { return Tuner(options).run(); }
}  // namespace symm::tool
