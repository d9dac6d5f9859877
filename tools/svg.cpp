// Draws bars, lines and plans as SVG text.
#include "tools/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/text.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;
constexpr const char* kColours[] = {
    "#c0392b", "#1f4e79", "#2e7d32", "#8e44ad", "#e67e22", "#555555"};

using Points = std::map<double, double>;

// One element a line, so that a change to a picture is a change to a few lines.
class Svg {
 public:
  Svg(int width, int height, const std::string& title) {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" )"
        R"(font-family="sans-serif" font-size="12">)",
        width, height);
    add(R"(<rect width="100%%" height="100%%" fill="white"/>)");
    label(width / 2.0, 22, title, "middle", "black");
  }

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list list;
    va_start(list, format);
    append(format, list);
    va_end(list);
    text_ += '\n';
  }

  void label(double x, double y, const std::string& text, const char* anchor, const char* colour) {
    begin(R"(<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">)", x, y, anchor, colour);
    for (const char letter : text) {
      add_escaped(letter);
    }
    text_ += "</text>\n";
  }

  template <class X, class Y>
  void line(const Points& points, const X& x, const Y& y, const char* colour, const char* dashes) {
    begin(R"(<polyline fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s" points=")",
        colour, dashes);
    for (const auto& [at, value] : points) {
      begin("%.1f,%.1f ", x(at), y(value));
    }
    text_ += "\"/>\n";
  }

  std::string end() { return text_ + "</svg>\n"; }

 private:
  // Part of an element: the line goes on.
  [[gnu::format(printf, 2, 3)]] void begin(const char* format, ...) {
    va_list list;
    va_start(list, format);
    append(format, list);
    va_end(list);
  }

  [[gnu::format(printf, 2, 0)]] void append(const char* format, va_list list) {
    char part[256];
    std::vsnprintf(part, sizeof part, format, list);
    text_ += part;
  }

  void add_escaped(char letter) {
    switch (letter) {
      case '<': text_ += "&lt;"; break;
      case '&': text_ += "&amp;"; break;
      default: text_ += letter;
    }
  }

  std::string text_;
};

// The properties that tell the curves of a report apart.
std::map<std::string, Points> curves_of(const json& report) {
  std::map<std::string, Points> curves;
  for (const json& result : report.at("results")) {
    const std::string place = result.value("in_place", false) ? ", in place" : "";
    curves[result.value("type", "") + " " + result.value("redop", "") + place]
          [result.value("size", 1.0)] = result.at("time_us").at("p50").get<double>();
  }
  return curves;
}
}  // namespace

// Draws axes, then curves, then the legend. Long, since all of them share the scales.
std::string bench_svg(const json& report, const json& baseline) {
  constexpr double kLeft = 60;
  constexpr double kTop = 40;
  constexpr double kWidth = 560;
  constexpr double kHeight = 320;
  Svg svg(640, 400,
      "symm " + report.value("collective", "") + ", " + std::to_string(report.value("ranks", 0)) +
          " ranks, " + report.value("backend", "") + ": microseconds by bytes");
  const auto curves = curves_of(report);
  const auto before = baseline.is_null() ? std::map<std::string, Points>() : curves_of(baseline);
  double first = INFINITY;
  double last = 0;
  double low = INFINITY;
  double high = 0;

  for (const auto* all : {&curves, &before}) {
    for (const auto& [name, points] : *all) {
      for (const auto& [bytes, us] : points) {
        first = std::min(first, bytes);
        last = std::max(last, bytes);
        low = std::min(low, us / 1.1);
        high = std::max(high, us * 1.1);
      }
    }
  }

  const auto x = [&](double bytes) {
    return kLeft + kWidth * std::log(bytes / first) / std::max(std::log(last / first), 1e-9);
  };

  const auto y = [&](double us) {
    return kTop + kHeight * std::log(high / us) / std::log(high / low);
  };

  for (double power = 1e-3; power < 1e9; power *= 10) {
    for (const double us : {power, 2 * power, 5 * power}) {
      if (us < low || us > high) continue;
      svg.add(R"(<path d="M%.1f %.1fh%.1f" stroke="#dddddd"/>)", kLeft, y(us), kWidth);
      char number[16];
      std::snprintf(number, sizeof number, "%g", us);
      svg.label(kLeft - 8, y(us) + 4, number, "end", "black");
    }
  }

  for (double bytes = first; bytes <= last;
      bytes *= std::max(2.0, std::exp2(std::ceil(std::log2(last / first) / 8)))) {
    svg.label(x(bytes), kTop + kHeight + 20, format_bytes(static_cast<uint64_t>(bytes)), "middle",
        "black");
  }

  size_t number = 0;
  for (const auto& [name, points] : curves) {
    const char* const colour = kColours[number % std::size(kColours)];
    svg.line(points, x, y, colour, "none");
    if (const auto old = before.find(name); old != before.end()) {
      svg.line(old->second, x, y, colour, "6 4");
    }
    svg.label(kLeft + 12, kTop + 18 + 18 * static_cast<double>(number++), name, "start", colour);
  }

  return svg.end();
}

std::string links_svg(const json& back_end) {
  if (!back_end.at("available").get<bool>()) throw std::runtime_error(back_end.value("reason", ""));
  const json& links = back_end.at("links");
  if (!links.contains("matrix")) throw std::runtime_error(links.value("reason", ""));
  std::vector<json> devices = back_end.at("devices");
  std::stable_sort(devices.begin(), devices.end(),
      [](const json& a, const json& b) { return a.at("numa_node") < b.at("numa_node"); });
  Svg svg(640, 480,
      back_end.value("name", "") + ": devices, their NUMA nodes, and links (" +
          links.value("class", "") + ")");
  const auto angle = [&](size_t i) {
    return 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(devices.size());
  };

  const auto x = [&](size_t i) { return 320 - 220 * std::cos(angle(i)); };
  const auto y = [&](size_t i) { return 250 - 170 * std::sin(angle(i)); };
  const auto number = [&](size_t i) { return devices[i].at("device").get<size_t>(); };
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int count = links.at("matrix").at(number(i)).at(number(j));
      if (count == 0) continue;
      svg.add(R"(<path d="M%.1f %.1fL%.1f %.1f" stroke="#1f4e79" stroke-width="%.1f"/>)", x(i),
          y(i), x(j), y(j), 1 + count / 4.0);
      svg.label((x(i) + 2 * x(j)) / 3, (y(i) + 2 * y(j)) / 3 - 4, std::to_string(count), "middle",
          "black");
    }
  }

  for (size_t i = 0; i < devices.size(); ++i) {
    const int node = devices[i].at("numa_node");
    const char* const colour = kColours[static_cast<size_t>(node + 1) % std::size(kColours)];
    svg.add(R"(<circle cx="%.1f" cy="%.1f" r="24" fill="white" stroke="%s" stroke-width="3"/>)",
        x(i), y(i), colour);
    svg.label(x(i), y(i) + 4, std::to_string(number(i)), "middle", "black");
    svg.label(
        x(i), y(i) + 40, node < 0 ? "" : "NUMA node " + std::to_string(node), "middle", colour);
  }

  return svg.end();
}

namespace {
// Draws the algorithms of a number of ranks, by bytes: a rectangle for each run of one algorithm.
void draw_runs(Svg& svg, const json& row, double y, std::map<std::string, const char*>& colours) {
  for (size_t first = 0, end = 0; first < row.size(); first = end) {
    const std::string algorithm = row[first][1];
    while (end < row.size() && row[end][1] == algorithm) {
      ++end;
    }
    const char* const colour =
        colours.try_emplace(algorithm, kColours[colours.size() % std::size(kColours)])
            .first->second;
    const double x = 60 + 23 * static_cast<double>(first);
    const double width = 23 * static_cast<double>(end - first);
    svg.add(
        R"(<rect x="%g" y="%g" width="%g" height="19" fill="%s"/>)", x, y - 14, width - 1, colour);
    if (width > 8 * static_cast<double>(algorithm.size())) {
      svg.label(x + width / 2, y, algorithm, "middle", "white");
    }
  }
}
}  // namespace

std::string plan_svg(const json& maps) {
  Svg svg(640, 60 + 220 * static_cast<int>(maps.size()),
      "algorithms of all-reduces (bf16, in place, symmetric memory), by ranks and bytes");
  std::map<std::string, const char*> colours;
  double y = 54;

  for (const auto& [name, rows] : maps.items()) {
    svg.label(52, y, name, "end", "black");
    for (const auto& [ranks, row] : rows.items()) {
      svg.label(52, y += 20, ranks, "end", "black");
      draw_runs(svg, row, y, colours);
    }
    for (size_t i = 0; i < rows.front().size(); i += 4) {
      svg.label(72 + 23 * static_cast<double>(i), y + 20,
          format_bytes(rows.front()[i][0].get<uint64_t>()), "middle", "black");
    }
    y += 60;
  }

  double x = 60;
  for (const auto& [algorithm, colour] : colours) {
    svg.label(std::exchange(x, x + 120), y - 10, algorithm, "start", colour);
  }

  return svg.end();
}
}  // namespace symm::tool
