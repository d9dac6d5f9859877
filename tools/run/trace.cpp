#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <ios>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "symm/symm.h"
#include "tools/bench/pattern.hpp"
#include "tools/run/job.hpp"
#include "tools/run/launcher.hpp"
#include "tools/text.hpp"
#include <symm/page.h>

namespace symm::tool {
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
    if (head.magic != SYMM_TRACE_MAGIC) continue;  // another version wrote it
    const int64_t later_ns =
        options_.hosts.empty()
            ? 0
            : head.to_realtime_ns - *(clock = clock.value_or(head.to_realtime_ns));
    const uint64_t left_out = head.calls - std::min(head.calls, head.room);
    const std::string which = ",\n{\"pid\":" + std::to_string(head.rank);
    std::string name = "rank " + std::to_string(head.rank);
    progress("trace: " + name + ", process " + std::to_string(++file_number) + " of " +
             std::to_string(files));
    if (left_out > 0) {
      say("--trace: " +
          (name += ": the first " + std::to_string(left_out) + " calls are left out"));
    }
    out << which << R"(,"ph":"M","name":"process_name","args":{"name":")" << name << "\"}}";
    for (uint64_t number = left_out; number < head.calls; ++number) {
      symm_trace_call_t call{};
      if (number == left_out || number % head.room == 0) {
        file.seekg(static_cast<std::streamoff>((number % head.room + 1) * sizeof call));
      }
      file.read(reinterpret_cast<char*>(&call), sizeof call);
      if (call.mark != number + 1) continue;  // the process ended while it wrote this
      const std::string_view what = call.name;
      const double begin_us =
          static_cast<double>(static_cast<int64_t>(call.begin_ns) + later_ns) / 1e3;
      out << which << R"(,"tid":)" << call.thread << R"(,"name":")" << what << R"(","ts":)"
          << begin_us;
      if (call.end_ns > 0) {
        out << R"(,"dur":)" << static_cast<double>(call.end_ns - call.begin_ns) / 1e3;
      }
      out << R"(,"ph":")" << (call.end_ns > 0 ? "X" : "B") << R"(","args":{"group":)";
      out << nlohmann::json(call.group)
                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
      if (call.failed != 0 && call.end_ns > 0) out << R"(,"failed":true)";
      if (call.backend == SYMM_BACKEND_CUDA && !what.starts_with("group_") &&
          what != "rendezvous" && what != "sleep") {
        out << R"(,"only":"issued here")";
      }
      out << "}}";
    }
  }

  progress("");
  if (!(out << "\n]}\n").flush()) {
    say("--trace: " + options_.trace + " cannot be written to its end");
  }

  remove_tree(job_.trace);
}
}  // namespace symm::tool
