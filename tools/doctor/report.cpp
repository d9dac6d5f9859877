#include <algorithm>
#include <nlohmann/json.hpp>
#include "tools/doctor/finding.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
struct Style {
  const char* word;
  Colour colour;
};

Style style_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return {"OK", Colour::green};
    case Verdict::note: return {"note", Colour::cyan};
    case Verdict::warning: return {"warn", Colour::yellow};
    case Verdict::failure: break;
  }
  return {"FAIL", Colour::red};
}

// Words into lines of about `width` characters, each after `indent`.
std::string wrap(const std::string& text, const std::string& indent, size_t width) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column > 0 && column + 1 + end - at > width) {
      out += "\n";
      column = 0;
    }
    out += column == 0 ? indent : " ";
    out += text.substr(at, end - at);
    column += 1 + end - at;
    at = end + 1;
  }
  return out + "\n";
}

long count(const std::vector<Finding>& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.verdict == verdict; });
}
}  // namespace

bool any_failure(const std::vector<Finding>& findings) { return count(findings, Verdict::failure) > 0; }

nlohmann::json doctor_json(const std::vector<Finding>& findings) {
  nlohmann::json out{{"healthy", !any_failure(findings)}, {"checks", nlohmann::json::array()}};
  for (const Finding& finding : findings) {
    nlohmann::json check{{"check", finding.check}, {"verdict", style_of(finding.verdict).word}, {"detail", finding.detail}};
    if (!finding.remedy.empty()) check["remedy"] = finding.remedy;
    out["checks"].push_back(check);
  }
  return out;
}

std::string doctor_text(const std::vector<Finding>& findings, bool colour) {
  size_t widest = 0;
  for (const Finding& finding : findings) widest = std::max(widest, finding.check.size());
  std::string out;
  for (const Finding& finding : findings) {
    const Style style = style_of(finding.verdict);
    const std::string word = std::string(4 - std::string(style.word).size(), ' ') + style.word;
    out += paint(word, style.colour, colour) + "  " + finding.check + std::string(widest - finding.check.size() + 2, ' ') +
           finding.detail + "\n";
    if (!finding.remedy.empty()) out += wrap(finding.remedy, std::string(widest + 8, ' '), 92);
  }
  const long failures = count(findings, Verdict::failure);
  const long warnings = count(findings, Verdict::warning);
  const std::string verdict = failures > 0   ? paint("symm does not work here", Colour::red, colour)
                              : warnings > 0 ? paint("symm works here, with warnings", Colour::yellow, colour)
                                             : paint("symm works here", Colour::green, colour);
  return out + "\n" + verdict + ": " + std::to_string(failures) + " failures, " + std::to_string(warnings) + " warnings.\n";
}
}  // namespace symm::tool
