// Reads the plan table: the text that is compiled in, a file of the user's over it, and the
// environment over both. An impossible value is refused where it is read.
#include "core/backend/plan_table.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/nccl_column.hpp"
#include "core/backend/plan_text.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/store.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/host/execution.hpp"
#include "plan_table_text.hpp"

namespace symm {
namespace {
using plan_text::in_quotes;
using plan_text::read_amount;
using plan_text::read_number;
using plan_text::refuse;

constexpr uint64_t kKi = 1024;
constexpr uint64_t kMi = 1024 * kKi;
constexpr size_t kLargestFile = kMi;

constexpr PlanKey kHostKeys[] = {
    {"ll", 0, host::kEntryPayload, 1},
    {"one_shot", 0, 256 * kMi, 1},
    {"step", 64, 16 * kMi, 64},
    {"gather", 0, 256 * kMi, 1},
    {"slices", 0, 256 * kMi, 1},
    {"round", kKi, 256 * kMi, 64},
    {"direct", 0, kMostRanks, 1},
    {"tell", 0, kMostRanks, 1},
    {"pull", 0, 256 * kMi, 1},
};
constexpr PlanKey kCudaKeys[] = {
    {"ll", 0, 256 * kMi, 1},
    {"one_shot", 0, 256 * kMi, 1},
    {"scatter", 0, 256 * kMi, 1},
    {"marked", 0, 256 * kMi, 1},
    {"two_shot", 0, 256 * kMi, 1},
    {"chunk", 64 * kKi, 256 * kMi, 1},
    {"flat", 0, 256 * kMi, 1},
    {"relay", 0, 256 * kMi, 1},
    {"reduce", 0, 256 * kMi, 1},
    {"copy_engine", 0, 256 * kMi, 1},
    {"bulk", 0, cuda::kMaxWorkGroups, 1},
    {"threads", 32, 256, 32},
    {"early", 0, kMi, 1},
    {"work_groups", 1, cuda::kMaxWorkGroups, 1},
    {"width", 128, 1024, 32},
    {"tile", cuda::kPack, kMi, cuda::kPack},
    {"groups", 1, 64, 1},
    {"multiprocessors", 1, 4096, 1},
    {"large", 0, 1, 1},
    {"hop", 1, 256 * kMi, 1},
};
static_assert(std::size(kHostKeys) <= kMaxPlanKeys && std::size(kCudaKeys) <= kMaxPlanKeys);

const char* backend_name(BackendKind backend) {
  return backend == BackendKind::cuda ? "cuda" : "host";
}

Variable variable_of(BackendKind backend) {
  return backend == BackendKind::cuda ? Variable("SYMM_CUDA_TUNE") : Variable("SYMM_HOST_TUNE");
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const size_t first = text.find_first_not_of(blank);
  return first == std::string_view::npos
             ? std::string_view{}
             : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// Takes the text before `separator`, or all of the text, off the front.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return part;
}

std::string allowed(const PlanKey& key) {
  const auto text = [](uint64_t value) { return std::to_string(value); };
  return "must be " + text(key.least) + " .. " + text(key.most) +
         (key.multiple == 1 ? "" : " and a multiple of " + text(key.multiple));
}

bool is_allowed(const PlanKey& key, uint64_t value) {
  return value >= key.least && value <= key.most && value % key.multiple == 0;
}

size_t find_key(BackendKind backend, std::string_view name) {
  const auto keys = plan_keys(backend);
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const PlanKey& key) { return name == key.name; });
  return static_cast<size_t>(found - keys.begin());
}

const char* text_of(BackendKind backend, PlanOrigin origin) {
  switch (origin) {
    case PlanOrigin::built_in: return "built in";
    case PlanOrigin::file: return "SYMM_PLAN_FILE";
    case PlanOrigin::variable: return variable_of(backend);
  }
  return "?";
}

std::string describe(BackendKind backend, const PlanValues& values, size_t key) {
  return format("%s = %lu (%s)", plan_keys(backend)[key].name, values.value[key],
      text_of(backend, values.origin[key]));
}

std::string read_file(const std::string& path, const std::string& name) {
  // O_NONBLOCK keeps open() from waiting for the writer of a pipe.
  const Fd fd = make_fd(::open, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!fd) throw system_error(errno, "open", name);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) throw system_error(errno, "fstat", name);
  if (!S_ISREG(status.st_mode)) refuse(name, "is not an ordinary file");

  if (static_cast<size_t>(status.st_size) > kLargestFile) {
    refuse(name, "is larger than a plan table can be");
  }

  std::string text(static_cast<size_t>(status.st_size), '\0');
  const ssize_t got = read_whole(fd.get(), text.data(), text.size());
  if (got < 0) throw system_error(errno, "read", name);
  text.resize(static_cast<size_t>(got));

  return text;
}
}  // namespace

std::span<const PlanKey> plan_keys(BackendKind backend) {
  return backend == BackendKind::cuda ? std::span<const PlanKey>(kCudaKeys)
                                      : std::span<const PlanKey>(kHostKeys);
}

uint64_t PlanValues::of(BackendKind backend, std::string_view key) const {
  const size_t index = find_key(backend, key);
  if (index == plan_keys(backend).size()) {
    throw Error(Status::internal, in_quotes(key) + " is not a key of the plan table");
  }
  return value[index];
}

std::string plan_difference(
    BackendKind backend, int rank, const PlanValues& mine, int peer, const PlanValues& theirs) {
  for (size_t key = 0; key < plan_keys(backend).size(); ++key) {
    if (mine.value[key] == theirs.value[key]) continue;
    return format("the plan must be the same on all ranks, but rank %d has %s and rank %d has %s",
        rank, describe(backend, mine, key).c_str(), peer, describe(backend, theirs, key).c_str());
  }

  if (mine.nccl_hash != theirs.nccl_hash) {
    return format(
        "the plan must be the same on all ranks, but the NCCL columns of rank %d (%lu rows) and "
        "rank %d (%lu rows) differ (SYMM_PLAN_FILE)",
        rank, mine.nccl_rows, peer, theirs.nccl_rows);
  }
  return "";
}

PlanTable PlanTable::built_in() {
  PlanTable table;
  table.add(kPlanTableText, "plan_table.txt", PlanOrigin::built_in);
  return table;
}

PlanTable PlanTable::from_environment(BackendKind backend) {
  PlanTable table = built_in();
  if (const std::string path = environment("SYMM_PLAN_FILE"); !path.empty()) {
    table.add_file(path, "SYMM_PLAN_FILE " + path);
  }
  table.add_values(backend, environment(variable_of(backend)), variable_of(backend).name());
  return table;
}

void PlanTable::add_file(const std::string& path, const std::string& name) {
  add(read_file(path, name), name, PlanOrigin::file);
}

PlanTable::Section PlanTable::section_of(std::string_view title, const std::string& where) {
  Section section;
  const std::string whole = in_quotes("[" + std::string(title) + "]");
  std::string_view rest = trim(title);
  const std::string_view backend = take(rest, ' ');

  if (backend == "host") {
    section.backend = BackendKind::host;
  } else if (backend == "cuda") {
    section.backend = BackendKind::cuda;
  } else {
    refuse(where, whole + " is of no back end; there are host and cuda");
  }

  rest = trim(rest);
  if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    std::string_view ranks = take(rest, ' ');
    const bool open_ended = ranks.back() == '-';
    const bool single = ranks.find('-') == std::string_view::npos;
    uint64_t first = 0;
    uint64_t last = 0;
    const bool understood = read_number(take(ranks, '-'), &first) &&
                            (single || open_ended || read_number(ranks, &last));
    if (single) last = first;
    constexpr uint64_t most = 1 << 20;
    if (!understood || first < 1 || first > most || last > most || (!open_ended && last < first)) {
      refuse(where, whole + ": ranks are written 2, 3-4 or 9-");
    }
    section.first = static_cast<int>(first);
    section.last = static_cast<int>(last);
    rest = trim(rest);
  }

  if (rest.starts_with("on ")) {
    section.machine = trim(rest.substr(3));
    rest = {};
  }

  if (!rest.empty()) {
    refuse(where,
        whole + ": '" + std::string(rest) + "' is neither a number of ranks nor 'on <device>'");
  }

  return section;
}

bool PlanTable::Section::fits(
    BackendKind of, int size, const std::function<std::string()>& on) const {
  if (backend != of || size < first || (last != 0 && size > last)) return false;
  return machine.empty() || on().starts_with(machine);
}

void PlanTable::add_entry(Section& section, std::string_view assignment, const std::string& where) {
  const size_t equals = assignment.find('=');
  const std::string_view name = trim(assignment.substr(0, equals));
  if (equals == std::string_view::npos) {
    refuse(where, in_quotes(assignment) + " is not key = number");
  }

  if (NcclColumn::is_name(name)) {
    // A column is for one number of ranks, and comes from one file.
    if (section.origin == PlanOrigin::variable) {
      refuse(where, in_quotes(name) + " stands in files only (SYMM_PLAN_FILE)");
    }
    if (section.backend != BackendKind::cuda || section.first != section.last) {
      refuse(where, in_quotes(name) + " stands in sections as [cuda 4] only, with their ranks");
    }
    section.nccl.push_back(NcclColumn::parse(name, trim(assignment.substr(equals + 1)), where));
    return;
  }

  const size_t key = find_key(section.backend, name);
  const auto keys = plan_keys(section.backend);
  if (key == keys.size()) {
    std::string known;
    for (const PlanKey& one : keys) {
      known += std::string(known.empty() ? "" : ", ") + one.name;
    }
    refuse(where, in_quotes(name) + " is not a key of " + backend_name(section.backend) +
                      "; known are " + known);
  }

  for (const Entry& entry : section.entries) {
    if (entry.key == key) {
      refuse(where, std::string(name) + ": has a value already, " + entry.where);
    }
  }

  const std::string_view written = trim(assignment.substr(equals + 1));
  std::string_view amount = written;
  Entry entry{key, 0, false, where};

  if (const size_t slash = written.find('/'); slash != std::string_view::npos) {
    if (trim(written.substr(slash + 1)) != "ranks") {
      refuse(where, std::string(name) + ": only '/ ranks' may follow a number");
    }
    amount = trim(written.substr(0, slash));
    entry.divided = true;
  }

  if (!read_amount(amount, &entry.value)) {
    refuse(where, std::string(name) + ": " + in_quotes(amount) + " is not a number");
  }

  if (!entry.divided && !is_allowed(keys[key], entry.value)) {
    refuse(where, std::string(name) + ": " + std::string(written) + " " + allowed(keys[key]));
  }

  section.entries.push_back(std::move(entry));
}

void PlanTable::add(std::string_view text, const std::string& name, PlanOrigin origin) {
  bool inside = false;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = take(text, '\n');
    const std::string where = name + ":" + std::to_string(number);
    line = trim(take(line, '#'));
    if (line.empty()) continue;

    if (line.front() == '[') {
      if (line.back() != ']') refuse(where, in_quotes(line) + " has no ']'");
      sections_.push_back(section_of(line.substr(1, line.size() - 2), where));
      sections_.back().origin = origin;
      inside = true;
    } else {
      if (!inside) refuse(where, in_quotes(line) + " stands before the first [section]");
      add_entry(sections_.back(), line, where);
    }
  }
}

void PlanTable::add_values(BackendKind backend, std::string_view text, const std::string& name) {
  Section section;
  section.backend = backend;
  section.origin = PlanOrigin::variable;
  while (!text.empty()) {
    add_entry(section, trim(take(text, ',')), name);
  }
  sections_.push_back(std::move(section));
}

// The values for a group of `size` ranks. A section that fits overrides those before it, and
// what is not the built-in value is logged, since it explains why this group is faster or
// slower than others.
PlanValues PlanTable::values(
    BackendKind backend, int size, const std::function<std::string()>& machine) const {
  PlanValues values;
  for (const Section& section : sections_) {
    if (!section.fits(backend, size, machine)) continue;
    for (const Entry& entry : section.entries) {
      const PlanKey& key = plan_keys(backend)[entry.key];
      const uint64_t value =
          entry.divided ? entry.value / static_cast<uint64_t>(size) : entry.value;
      if (!is_allowed(key, value)) {
        refuse(entry.where,
            format("%s: %lu, of %d ranks, %s", key.name, value, size, allowed(key).c_str()));
      }
      values.value[entry.key] = value;
      values.origin[entry.key] = section.origin;
    }
  }

  for (size_t key = 0; key < plan_keys(backend).size(); ++key) {
    if (values.origin[key] != PlanOrigin::built_in) {
      log::write(log::Level::info, "%s plan for %d ranks: %s", backend_name(backend), size,
          describe(backend, values, key).c_str());
    }
  }

  const NcclColumn column = nccl_column(backend, size, machine);
  values.nccl_hash = column.hash();
  values.nccl_rows = column.rows();
  return values;
}

NcclColumn PlanTable::nccl_column(
    BackendKind backend, int size, const std::function<std::string()>& machine) const {
  NcclColumn column(size);
  for (const Section& section : sections_) {
    if (section.nccl.empty() || !section.fits(backend, size, machine)) continue;
    for (const NcclRow& row : section.nccl) {
      column.add(row);
    }
  }
  return column;
}
}  // namespace symm
