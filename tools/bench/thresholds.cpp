// Fits the thresholds of a plan table to measured times. It measures nothing itself.
#include "tools/bench/thresholds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tools/text.hpp"

namespace symm::tool {
namespace {
double fastest(const Measured& measured) {
  double best = std::numeric_limits<double>::infinity();
  for (const double us : measured.us) {
    if (us > 0) best = std::min(best, us);
  }
  return best;
}

std::string comment(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    out += line.empty() ? "#\n" : "# " + line + "\n";
    at = end + 1;
  }
  return out;
}

std::string figures(const Ladder& ladder) {
  Table table(std::vector<bool>(ladder.candidates.size() + 1, true));
  std::vector<std::string> header{"bytes"};
  for (const Candidate& candidate : ladder.candidates) {
    header.push_back(candidate.name + " ");
  }

  table.add(header);
  for (const Measured& measured : ladder.sizes) {
    std::vector<std::string> cells{std::to_string(measured.bytes)};
    for (const double us : measured.us) {
      char text[32];
      std::snprintf(text, sizeof text, "%.2f%c", us, us == fastest(measured) ? '*' : ' ');
      cells.emplace_back(us > 0 ? text : "- ");
    }
    table.add(cells);
  }

  return table.text();
}

std::string warning(const Ladder& ladder) {
  const auto unsteady = std::count_if(
      ladder.sizes.begin(), ladder.sizes.end(), [](const Measured& one) { return !one.steady; });
  if (unsteady == 0) return "";
  return "\nNot steady: at " + std::to_string(unsteady) + " of " +
         std::to_string(ladder.sizes.size()) +
         " sizes the median was more than twice this. Measure again when nothing else runs.\n";
}

// The rows of the column, and how many sizes NCCL was ahead at in each.
std::string nccl_text(const TuneReport& report) {
  std::string out =
      "\n" +
      comment(
          "NCCL " + report.nccl_version +
          " beside symm with the table above, in turns: bytes of `count`, microseconds of symm /\n"
          "of NCCL; in place in symmetric memory, an all-to-all out of place; calls in a row "
          "without\n"
          "a graph, sums. symm_collective_plan() tells for which calls NCCL was ahead.\n");
  if (!report.nccl_steady) {
    out += comment(
        "Not steady: a median was more than twice its time. Measure again when nothing\n"
        "else runs.\n");
  }

  for (const NcclMeasured& row : report.nccl) {
    if (row.sizes.empty()) continue;
    out += "nccl " + row.collective + " " + row.type + " =";
    for (const NcclMeasured::Size& size : row.sizes) {
      char text[96];
      std::snprintf(text, sizeof text, " %lu:%.2f/%.2f", size.bytes, size.symm_us, size.nccl_us);
      out += text;
    }
    out += "\n";
  }
  return out;
}
}  // namespace

std::vector<size_t> divide(const Ladder& ladder) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const size_t candidates = ladder.candidates.size();

  // loss[k] is the loss of the best division of the sizes so far in which candidate k does the last
  // size.
  std::vector<double> loss(candidates, 0);
  std::vector<std::vector<size_t>> before;  // by size and candidate: that of the size before

  for (const Measured& measured : ladder.sizes) {
    std::vector<double> next(candidates, never);
    std::vector<size_t> from(candidates, 0);
    size_t best = 0;
    for (size_t k = 0; k < candidates; ++k) {
      if (loss[k] < loss[best]) best = k;
      from[k] = best;
      if (measured.us[k] > 0) next[k] = loss[best] + std::log(measured.us[k] / fastest(measured));
    }
    loss = std::move(next);
    before.push_back(std::move(from));
  }

  std::vector<size_t> chosen(ladder.sizes.size());
  auto k = static_cast<size_t>(std::min_element(loss.begin(), loss.end()) - loss.begin());
  for (size_t i = chosen.size(); i-- > 0;) {
    chosen[i] = k;
    k = before[i][k];
  }

  return chosen;
}

std::vector<Threshold> thresholds(const Ladder& ladder) {
  const std::vector<size_t> chosen = divide(ladder);
  std::vector<Threshold> out;
  for (size_t k = 0; k < ladder.candidates.size(); ++k) {
    if (ladder.candidates[k].key.empty()) continue;
    Threshold threshold{ladder.candidates[k].key, 0, false};
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] > k) break;
      threshold.bytes = ladder.sizes[i].bytes;
      threshold.is_end = i + 1 == chosen.size();
    }
    out.push_back(std::move(threshold));
  }

  return out;
}

std::string plan_text(const TuneReport& report) {
  const std::string ranks = std::to_string(report.ranks);
  std::string out =
      comment("Written by symm bench --tune, symm " + report.version + ", " + report.date + ": " +
              ranks + " ranks, " + report.backend + " back end, " + report.device + ".\n" +
              "To use it, set SYMM_PLAN_FILE to the path of this file for all ranks. "
              "plan_table.txt, beside the documents of symm,\n"
              "has the other keys and says what they mean. Microseconds; * is the fastest.\n");

  for (const Ladder& ladder : report.ladders) {
    out += "#\n" + comment(ladder.title + "\n\n" + figures(ladder) + warning(ladder));
  }

  out += "\n[" + report.backend + " " + ranks + "]\n";
  for (const Ladder& ladder : report.ladders) {
    for (const Threshold& threshold : thresholds(ladder)) {
      out += threshold.key + " = " + std::to_string(threshold.bytes) +
             (threshold.is_end ? "  # nothing larger was measured\n" : "\n");
    }
  }

  if (report.nccl_version.empty()) return out;
  return out + nccl_text(report);
}
}  // namespace symm::tool
