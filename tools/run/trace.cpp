// The timeline of symm run --trace: what the processes of a job noted, written as JSON for
// trace viewers.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <ios>
#include <istream>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "symm/page.h"
#include "symm/symm.h"
#include "tools/bench/pattern.hpp"
#include "tools/run/job.hpp"
#include "tools/run/launcher.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
// A call that ran on a GPU was only issued at the time that its note has.
bool is_issued_only(const symm_trace_call_t& call) {
  const std::string_view what = call.name;
  return call.backend == SYMM_BACKEND_CUDA && !what.starts_with("group_") && what != "rendezvous" &&
         what != "sleep";
}

// One event of the timeline. `process` begins it, and `later_ns` goes from the process's clock to
// that of the timeline.
void write_call(std::ostream& out, const std::string& process, const symm_trace_call_t& call,
    int64_t later_ns) {
  const double begin_us = static_cast<double>(static_cast<int64_t>(call.begin_ns) + later_ns) / 1e3;
  const bool has_ended = call.end_ns > 0;
  out << process << R"(,"tid":)" << call.thread << R"(,"name":")" << call.name << R"(","ts":)"
      << begin_us;
  if (has_ended) {
    out << R"(,"dur":)" << static_cast<double>(call.end_ns - call.begin_ns) / 1e3;
  }

  out << R"(,"ph":")" << (has_ended ? "X" : "B") << R"(","args":{"group":)";
  out << nlohmann::json(call.group).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (call.tag[0] != '\0') {
    out << R"(,"tag":)";
    out << nlohmann::json(call.tag).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (call.size > 0) out << R"(,"rank":")" << call.rank << " of " << call.size << '"';
  if (call.peer >= 0) out << R"(,"peer":)" << call.peer;
  if (call.bytes > 0) out << R"(,"bytes":)" << call.bytes;
  if (call.dtype != 0) {
    out << R"(,"dtype":")" << tool::name_in(dtypes(), symm_dtype_t{call.dtype}) << '"';
  }
  if (call.algorithm >= 0) {
    out << R"(,"algorithm":")" << tool::name_in(algorithms(), symm_algorithm_t{call.algorithm})
        << '"';
  }
  if (call.failed != 0 && has_ended) out << R"(,"failed":true)";
  if (is_issued_only(call)) out << R"(,"only":"issued here")";
  out << "}}";
}

// The calls that a process's ring of notes still has, from number `first` on.
void write_calls(std::ostream& out, const std::string& process, std::istream& file,
    const symm_trace_t& head, uint64_t first, int64_t later_ns) {
  for (uint64_t number = first; number < head.calls; ++number) {
    symm_trace_call_t call{};
    if (number == first || number % head.room == 0) {
      file.seekg(static_cast<std::streamoff>((number % head.room + 1) * sizeof call));
    }
    file.read(reinterpret_cast<char*>(&call), sizeof call);
    if (call.mark != number + 1) continue;  // the process ended while it wrote this
    write_call(out, process, call, later_ns);
  }
}
}  // namespace

// Turns the notes of processes, whose format is in symm/page.h, into JSON that Chrome and Perfetto
// read, an event a line.
void Launcher::write_timeline() {
  std::ofstream out(options_.trace);
  out << std::fixed << std::setprecision(3)
      << R"({"traceEvents":[{"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}})";
  std::optional<int64_t> clock;  // clock of the first process; all on its machine share it
  const auto files = std::distance(std::filesystem::directory_iterator(job_.trace), {});
  int64_t file_number = 0;

  for (const auto& entry : std::filesystem::directory_iterator(job_.trace)) {
    std::ifstream file(entry.path());
    symm_trace_t head{};
    file.read(reinterpret_cast<char*>(&head), sizeof head);
    if (head.magic != SYMM_TRACE_MAGIC) {
      const std::string why = other_layout(head.magic, head.version, SYMM_TRACE_MAGIC);
      if (!why.empty()) say("--trace: " + entry.path().filename().string() + " " + why);
      continue;
    }

    int64_t later_ns = 0;
    if (!options_.hosts.empty()) {
      if (!clock) clock = head.to_realtime_ns;
      later_ns = head.to_realtime_ns - *clock;
    }

    std::string name = "rank " + std::to_string(head.rank);
    progress("trace: " + name + ", process " + std::to_string(++file_number) + " of " +
             std::to_string(files));
    const uint64_t left_out = head.calls - std::min(head.calls, head.room);
    if (left_out > 0) {
      name += ": the first " + std::to_string(left_out) + " calls are left out";
      say("--trace: " + name);
    }

    const std::string process = ",\n{\"pid\":" + std::to_string(head.rank);
    out << process << R"(,"ph":"M","name":"process_name","args":{"name":")" << name << "\"}}";
    write_calls(out, process, file, head, left_out, later_ns);
  }

  progress("");
  if (!(out << "\n]}\n").flush()) {
    say("--trace: " + options_.trace + " cannot be written to its end");
  }

  remove_tree(job_.trace);
}
}  // namespace symm::tool
