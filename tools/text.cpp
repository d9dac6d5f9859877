// Formats sizes, tables and colours for a terminal or a file.
#include "tools/text.hpp"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tools/environment.hpp"

namespace symm::tool {
namespace {
// Terminal columns of UTF-8 text without control characters: continuation bytes take none.
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}
}  // namespace

std::string format_bytes(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value == std::floor(value) ? "%.0f %s" : "%.1f %s", value,
      units[unit]);
  return buffer;
}

uint64_t parse_bytes(const std::string& text) {
  const std::string problem =
      "'" + text + "' is not a size; write bytes or a number with K, M, G or T";
  size_t used = 0;
  double value = 0;

  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    throw std::invalid_argument(problem);
  }

  std::string suffix = text.substr(used);
  static constexpr std::string_view letters = "KMGT";
  if (!suffix.empty() && suffix != "B") {
    const size_t power =
        letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0]))));
    const std::string rest = suffix.substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) {
      throw std::invalid_argument(problem);
    }
    value *= std::pow(1024.0, static_cast<double>(power + 1));
  }

  if (!(value >= 0) || value > 0x1p53 || value != std::floor(value)) {
    throw std::invalid_argument(problem);
  }

  return static_cast<uint64_t>(value);
}

std::string version_text(uint32_t version) {
  return std::to_string(version >> 24) + "." + std::to_string(version >> 12 & 0xFFF) + "." +
         std::to_string(version & 0xFFF);
}

std::string other_layout(uint64_t magic, uint64_t version, uint64_t ours) {
  constexpr int kLast = 56;  // the last character of a magic is the number of the layout
  constexpr uint64_t kName = ~(UINT64_MAX << kLast);
  if ((magic & kName) != (ours & kName) || magic == ours) return "";

  const auto number = [](uint64_t of) { return std::string(1, static_cast<char>(of >> kLast)); };
  // Behind the first number stood no version.
  const std::string theirs =
      number(magic) == "1" ? "before 0.2.0" : version_text(static_cast<uint32_t>(version));
  return "is written by symm " + theirs + " (number " + number(magic) +
         "), and this program, of symm " + version_text(SYMM_VERSION) + ", reads number " +
         number(ours);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string format_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> spans;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    std::string span = std::to_string(ranks[first]);
    if (last > first) span += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
    spans.push_back(span);
    first = last + 1;
  }

  return (ranks.size() == 1 ? "rank " : "ranks ") + join(spans, ", ");
}

std::string signal_name(int signal) {
  // The names are in glibc from 2.32 on.
#define SYMM_SIGNAL(name) \
  {                       \
    name, #name           \
  }

  static constexpr std::pair<int, const char*> names[] = {SYMM_SIGNAL(SIGHUP), SYMM_SIGNAL(SIGINT),
      SYMM_SIGNAL(SIGQUIT), SYMM_SIGNAL(SIGILL), SYMM_SIGNAL(SIGTRAP), SYMM_SIGNAL(SIGABRT),
      SYMM_SIGNAL(SIGBUS), SYMM_SIGNAL(SIGFPE), SYMM_SIGNAL(SIGKILL), SYMM_SIGNAL(SIGUSR1),
      SYMM_SIGNAL(SIGSEGV), SYMM_SIGNAL(SIGUSR2), SYMM_SIGNAL(SIGPIPE), SYMM_SIGNAL(SIGALRM),
      SYMM_SIGNAL(SIGTERM), SYMM_SIGNAL(SIGCHLD), SYMM_SIGNAL(SIGCONT), SYMM_SIGNAL(SIGSTOP),
      SYMM_SIGNAL(SIGTSTP), SYMM_SIGNAL(SIGTTIN), SYMM_SIGNAL(SIGTTOU), SYMM_SIGNAL(SIGURG),
      SYMM_SIGNAL(SIGXCPU), SYMM_SIGNAL(SIGXFSZ), SYMM_SIGNAL(SIGPROF), SYMM_SIGNAL(SIGIO),
      SYMM_SIGNAL(SIGVTALRM), SYMM_SIGNAL(SIGPWR), SYMM_SIGNAL(SIGSYS), SYMM_SIGNAL(SIGWINCH)};
#undef SYMM_SIGNAL
  for (const auto& [number, name] : names) {
    if (number == signal) return std::string(name) + " (" + strsignal(signal) + ")";
  }

  return "signal " + std::to_string(signal);
}

bool wants_colour(int fd) {
  const std::string term = environment("TERM");
  return isatty(fd) != 0 && *environment("NO_COLOR") == '\0' && !term.empty() && term != "dumb";
}

std::string paint(std::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::plain) return std::string(text);
  static constexpr const char* codes[] = {"0", "1", "31", "32", "33", "34", "35", "36"};
  return std::string("\033[") + codes[static_cast<size_t>(colour)] + "m" + std::string(text) +
         "\033[0m";
}

void progress(const std::string& text) {
  static const bool shown = isatty(STDERR_FILENO) != 0 || *environment("SYMM_RUN_TERMINAL") != '\0';
  if (shown) std::fprintf(stderr, "\033[2K%s\r", text.c_str());
}

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width(row[i]));
    }
  }

  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? pad + row[i] : row[i] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }

  return out;
}
}  // namespace symm::tool
