// symm bench --tune --nccl: symm chooses by the table that was just measured, and NCCL by itself.
// Both take turns, so that other load on the machine affects both.
#include "tools/bench/beside_nccl.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <ratio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/call.hpp"
#include "tools/bench/device.hpp"
#include "tools/bench/measured_group.hpp"
#include "tools/bench/nccl.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/thresholds.hpp"
#include "tools/environment.hpp"
#include "tools/text.hpp"
#include <symm/symm.h>
#include <symm/symm.hpp>

namespace symm::tool {
namespace {
constexpr uint64_t kMega = uint64_t{1} << 20;

// A row of the column. `type` is how the table names it.
struct Case {
  const char* collective;
  symm_dtype_t dtype;
  const char* type;
  uint64_t end;  // if the user does not say
};
// The time of a collective that moves data and combines none depends on the bytes alone.
constexpr Case kCases[] = {{"allreduce", SYMM_DTYPE_F32, "f32", 64 * kMega},
    {"allreduce", SYMM_DTYPE_BF16, "bf16", 64 * kMega},
    {"reduce_scatter", SYMM_DTYPE_F32, "f32", 16 * kMega},
    {"reduce_scatter", SYMM_DTYPE_BF16, "bf16", 16 * kMega},
    {"allgather", SYMM_DTYPE_U8, "any", 16 * kMega},
    {"broadcast", SYMM_DTYPE_U8, "any", 64 * kMega}, {"reduce", SYMM_DTYPE_F32, "f32", 64 * kMega},
    {"reduce", SYMM_DTYPE_BF16, "bf16", 64 * kMega},
    {"alltoall", SYMM_DTYPE_U8, "any", 16 * kMega}};

// The largest of the ranks' values, each by itself.
std::vector<double> largest(const Group& control, std::vector<double> values) {
  control.allreduce(values, values, SYMM_OP_MAX);
  return values;
}

// A file of this process with the table, for the group that is made next.
class PlanFile {
 public:
  explicit PlanFile(const std::string& text) {
    const std::string folder = environment("TMPDIR");
    path_ = (folder.empty() ? "/tmp" : folder) + "/symm-tune-XXXXXX";
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("--nccl: cannot write a table in " + path_);
    ::close(fd);
    std::ofstream file(path_);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("--nccl: cannot write " + path_);
    ::setenv("SYMM_PLAN_FILE", path_.c_str(), 1);
  }
  ~PlanFile() { ::unlink(path_.c_str()); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

 private:
  std::string path_;
};

class BesideNccl {
 public:
  BesideNccl(const BenchOptions& options, const Group& control, const std::string& table);
  void measure(TuneReport& report);

 private:
  uint64_t end_of(const Case& one) const { return options_.end_given ? options_.end : one.end; }
  size_t room() const;
  void require_right_sums();
  Call call_of(const Case& one, uint64_t bytes) const;
  NcclMeasured measure(const Case& one);
  double sample(const Call& call, bool by_nccl);
  void wait() const {
    while (!group_.stream_done(stream_)) {
    }
  }

  const BenchOptions& options_;
  const Group& control_;
  Group group_;
  symm_group_info_t info_{};
  Device device_;
  void* stream_ = Device::stream();
  Memory memory_;
  NcclLibrary nccl_;
  bool steady_ = true;
};

Group group_with(const BenchOptions& options, const std::string& table) {
  const PlanFile file(table);
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = options.backend;
  config.name = "tune beside NCCL";
  return create_measured(config, options);
}

BesideNccl::BesideNccl(const BenchOptions& options, const Group& control, const std::string& table)
    : options_(options),
      control_(control),
      group_(group_with(options, table)),
      info_(group_.info()),
      device_(info_.device) {
  memory_ = group_.rendezvous(group_.allocate(2 * room()));
  NcclLibrary::Id id{};
  if (info_.rank == 0) id = nccl_.unique_id();
  control_.broadcast(id.bytes, id.bytes, 0);
  nccl_.connect(id, info_.rank, info_.size);
  require_right_sums();
}

// Bytes of the largest operand.
size_t BesideNccl::room() const {
  size_t most = 4096;
  for (const Case& one : kCases) {
    const bool divided = find_operation(one.collective)->divided;
    most = std::max<size_t>(most, end_of(one) * static_cast<uint64_t>(divided ? info_.size : 1));
  }
  return most;
}

// A library that does not do what it is asked would be the fastest.
void BesideNccl::require_right_sums() {
  constexpr size_t kCount = 256;
  constexpr Case kSums{"allreduce", SYMM_DTYPE_I32, "i32", 0};
  const auto own = static_cast<uint32_t>(info_.rank + 1);
  memory_.fill32(info_.rank, 0, own, kCount, {}, stream_);
  wait();
  control_.barrier();
  nccl_.run(call_of(kSums, kCount * sizeof(int32_t)).record(), stream_);
  wait();

  std::vector<int32_t> seen(kCount);
  const auto address = [](const void* at) {
    return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(at));
  };
  device_.call("cuMemcpyAsync", address(seen.data()), address(memory_.span().data()),
      seen.size() * sizeof seen[0], stream_);
  wait();
  const int32_t sum = info_.size * (info_.size + 1) / 2;
  const bool wrong =
      std::any_of(seen.begin(), seen.end(), [&](int32_t element) { return element != sum; });
  if (largest(control_, {wrong ? 1.0 : 0.0})[0] != 0) {
    throw std::runtime_error("--nccl: an all-reduce by NCCL " + nccl_.version_text() +
                             " gave wrong sums, so that its times would mean nothing");
  }
}

// The call is in place, except for an all-to-all, which NCCL does not do in place.
Call BesideNccl::call_of(const Case& one, uint64_t bytes) const {
  Call call(group_, find_operation(one.collective), one.dtype, SYMM_OP_SUM, stream_);
  call.count = bytes / size_of(one.dtype);
  call.in_place = call.traits->collective != SYMM_COLLECTIVE_ALLTOALL;
  call.first = memory_.span().data();
  call.second = call.in_place ? call.first : call.first + room();
  return call;
}

// Microseconds per call, of calls in a row that are waited for together.
double BesideNccl::sample(const Call& call, bool by_nccl) {
  constexpr int kCallsInARow = 20;
  const symm_collective_call_t record = call.record();
  control_.barrier();
  const auto start = std::chrono::steady_clock::now();

  for (int i = 0; i < kCallsInARow; ++i) {
    if (by_nccl) {
      nccl_.run(record, stream_);
    } else {
      check(call.run(), call.traits->name);
    }
  }

  wait();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(end - start).count() / kCallsInARow;
}

// The tenth of the samples that were fastest, each of its slowest rank, as for the thresholds.
NcclMeasured BesideNccl::measure(const Case& one) {
  constexpr int kSamples = 15;
  const int samples = options_.iterations > 0 ? options_.iterations : kSamples;
  NcclMeasured row{one.collective, one.type, {}};
  BenchOptions range = options_;
  range.begin = std::max<uint64_t>(range.begin, size_of(one.dtype));
  range.end = end_of(one);

  for (const uint64_t asked : sizes(range)) {
    const uint64_t bytes = asked / size_of(one.dtype) * size_of(one.dtype);
    if (!row.sizes.empty() && row.sizes.back().bytes == bytes) continue;
    if (info_.rank == 0) {
      progress("NCCL beside symm, " + std::string(one.collective) + " of " + one.type + ", " +
               format_bytes(bytes));
    }

    const Call call = call_of(one, bytes);
    std::vector<double> times[2];
    for (int i = -options_.warmup; i < samples; ++i) {
      for (const bool by_nccl : {false, true}) {
        const double us = sample(call, by_nccl);
        if (i >= 0) times[by_nccl ? 1 : 0].push_back(us);
      }
    }

    double best[2];
    for (int who = 0; who < 2; ++who) {
      const std::vector<double> slowest = largest(control_, times[who]);
      best[who] = std::max(quantile(slowest, 0.1), 1e-2);
      steady_ = steady_ && quantile(slowest, 0.5) <= 2 * best[who];
    }
    row.sizes.push_back({bytes, best[0], best[1]});
  }

  return row;
}

void BesideNccl::measure(TuneReport& report) {
  report.nccl_version = nccl_.version_text();
  for (const Case& one : kCases) {
    report.nccl.push_back(measure(one));
  }
  report.nccl_steady = steady_;
  if (info_.rank == 0) progress("");
  group_.finalize();
}
}  // namespace

void require_nccl(
    const BenchOptions& options, const Group& control, const symm_group_info_t& info) {
  if (info.backend != SYMM_BACKEND_CUDA) {
    throw std::runtime_error(
        "--nccl: NCCL moves memory of GPUs, and this is the host back end; --backend cuda asks "
        "for GPUs");
  }
  if (info.machines > 1) {
    throw std::runtime_error("--nccl: the column of NCCL is of ranks on one machine");
  }
  if (options.overlapping_devices) {
    throw std::runtime_error("--nccl: NCCL wants a GPU for each rank, so no --overlapping-devices");
  }

  const NcclLibrary nccl;
  // The version, and its negative: of both the largest.
  const double version = nccl.missing().empty() ? nccl.version() : 0;
  const std::vector<double> versions = largest(control, {version, -version});
  if (!nccl.missing().empty()) {
    throw std::runtime_error("--nccl: there is no NCCL to measure: " + nccl.missing() +
                             "; SYMM_NCCL names the file of one");
  }
  if (versions[0] != -versions[1]) {
    throw std::runtime_error("--nccl: the ranks have no NCCL of one version: this one has " +
                             nccl.version_text() + ", another has none or another");
  }
}

void measure_nccl(const BenchOptions& options, const Group& control, TuneReport& report) {
  BesideNccl(options, control, plan_text(report)).measure(report);
}
}  // namespace symm::tool
