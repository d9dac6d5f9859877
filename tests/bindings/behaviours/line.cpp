#include "tests/bindings/behaviours/line.hpp"
#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace behaviours {
namespace {
std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

const std::map<std::string, int32_t> kConstants = {
#include "constants.inc"
};

// Where keys of the table are not called as constants begin.
std::string prefix_of(const std::string& kind) {
  return "SYMM_" + (kind == "POSITION" ? "SCALE" : kind == "STATUS" ? "ERR" : kind) + "_";
}
}  // namespace

int32_t constant(const std::string& kind, const std::string& name) {
  if (std::isdigit(static_cast<unsigned char>(name.at(0))) != 0) return static_cast<int32_t>(std::stoll(name, nullptr, 0));
  const auto found = kConstants.find(name == "OK" ? "SYMM_OK" : prefix_of(kind) + name);
  if (found == kConstants.end()) throw std::runtime_error("no constant is called " + prefix_of(kind) + name);
  return found->second;
}

Line::Line(const std::string& text, int rank) : rank_(rank) {
  const std::vector<std::string> halves = split(text, " -> ");
  if (halves.size() == 2) {
    const std::vector<std::string> parts = split(halves[1], ": ");
    const std::vector<std::string> status_and_rank = split(parts.at(0), " rank=");
    failure = status_and_rank[0];
    if (status_and_rank.size() == 2) blamed = parse(status_and_rank[1]);
    words = split(parts.at(1), " & ");
  }
  std::istringstream stream(halves[0]);
  std::string ranks_of_line;
  stream >> ranks_of_line >> verb;
  const std::vector<std::string> named = split(ranks_of_line, ",");
  mine = ranks_of_line == "all" || std::find(named.begin(), named.end(), std::to_string(rank)) != named.end();
  for (std::string word; stream >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::runtime_error("no key=value: " + word);
    values_[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (has("f")) {
    for (const std::string& part : split(this->text("f"), ":")) f_.push_back(std::stoll(part));
    if (f_.size() != 4) throw std::runtime_error("f is not a:b:m:c");
  }
}

std::string Line::text(const std::string& key, const Text& otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end() && otherwise) return *otherwise;
  if (found == values_.end()) throw std::runtime_error(verb + " without " + key + "=");
  used_.insert(key);
  return found->second;
}

int64_t Line::parse(const std::string& value) const {
  const std::vector<std::string> by_rank = split(value, ",");
  const std::string& one = by_rank.size() == 1 ? by_rank[0] : by_rank.at(static_cast<size_t>(rank_));
  if (one == "self") return rank_;
  if (one == "left") return (rank_ + kRanks - 1) % kRanks;
  if (one == "right") return (rank_ + 1) % kRanks;
  return std::stoll(one, nullptr, 0);
}

int64_t Line::integer(const std::string& key, Integer otherwise) const {
  return otherwise && !has(key) ? *otherwise : parse(text(key));
}

int32_t Line::constant(const std::string& key, const Text& otherwise) const {
  std::string kind = key;
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return behaviours::constant(kind, text(key, otherwise));
}

std::pair<std::string, int64_t> Line::address(const std::string& key) const {
  const std::vector<std::string> parts = split(text(key), "+");
  return {parts.at(0), parse(parts.at(1))};
}

std::vector<int32_t> Line::ranks(const std::string& key) const {
  std::vector<int32_t> out;
  if (!has(key)) return out;
  for (const std::string& part : split(text(key), ":")) out.push_back(std::stoi(part));
  return out;
}

int64_t Line::formula(int64_t rank, int64_t i) const { return (f_.at(0) * rank + f_[1] * i) % f_[2] + f_[3]; }

void Line::require_all_used() const {
  for (const auto& [key, value] : values_)
    if (!used_.contains(key)) throw std::runtime_error(verb + " has no key " + key);
}
}  // namespace behaviours
