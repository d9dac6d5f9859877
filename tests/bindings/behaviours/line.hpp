// One line of table.txt, and the values in it as one rank reads them.
#pragma once

#include "tests/support/test.hpp"

namespace behaviours {
// 0: nobody has said.
inline const int kRanks =
    std::getenv("SYMM_SIZE") != nullptr ? std::atoi(std::getenv("SYMM_SIZE")) : 0;

inline std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  size_t end = text.find(separator);
  while (end != std::string::npos) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
    end = text.find(separator, begin);
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// The value of SYMM_<KIND>_<name>, KIND one of DTYPE, OP,
// ALGORITHM and STATUS (where OK and ERR_<name> are meant).
inline int32_t constant(const std::string& kind, const std::string& name) {
  static const std::map<std::string, int32_t> constants = {
#include "constants.inc"
  };

  // Keys of the table are not all called as constants begin.
  std::string beginning = kind;
  if (kind == "POSITION") beginning = "SCALE";
  if (kind == "STATUS") beginning = "ERR";
  const std::string prefix = "SYMM_" + beginning + "_";
  const auto found = constants.find(name == "OK" ? "SYMM_OK" : prefix + name);
  if (found == constants.end()) throw std::runtime_error("no constant is called " + prefix + name);

  return found->second;
}

class Line {
 public:
  Line(const std::string& text, int rank) : rank_(rank) {
    const std::vector<std::string> halves = split(text, " -> ");
    if (halves.size() == 2) {
      const size_t colon = halves[1].find(": ");
      if (colon == std::string::npos) throw std::runtime_error("no words: " + text);
      const std::vector<std::string> status_and_rank = split(halves[1].substr(0, colon), " rank=");
      failure = status_and_rank[0];
      if (status_and_rank.size() == 2) blamed = parse(status_and_rank[1]);
      words = split(halves[1].substr(colon + 2), " & ");
    }

    std::istringstream stream(halves[0]);
    std::string ranks_of_line;
    stream >> ranks_of_line >> verb;
    const std::vector<std::string> named = split(ranks_of_line, ",");
    mine = ranks_of_line == "all" ||
           std::find(named.begin(), named.end(), std::to_string(rank)) != named.end();

    for (std::string word; stream >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error("no key=value: " + word);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }

    f_ = numbers<int64_t>("f");
  }

  bool mine = false;  // whether this rank runs it
  std::string verb;
  std::string failure;             // the status with which it must fail, or ""
  std::optional<int64_t> blamed;   // the rank that the failure must name, -1: none
  std::vector<std::string> words;  // that the message must contain

  bool has(const std::string& key) const { return values_.contains(key); }
  // `otherwise` is the value where the key is absent; without one the key must be there.
  using Integer = std::optional<int64_t>;
  using Text = std::optional<std::string>;
  std::string text(const std::string& key, const Text& otherwise = {}) const {
    const auto found = values_.find(key);
    if (found == values_.end() && otherwise) return *otherwise;
    if (found == values_.end()) throw std::runtime_error(verb + " without " + key + "=");
    used_.insert(key);
    return found->second;
  }
  int64_t integer(const std::string& key, Integer otherwise = {}) const {
    return otherwise && !has(key) ? *otherwise : parse(text(key));
  }
  int32_t integer32(const std::string& key, Integer otherwise = {}) const {
    return static_cast<int32_t>(integer(key, otherwise));
  }
  size_t size(const std::string& key, Integer otherwise = {}) const {
    return static_cast<size_t>(integer(key, otherwise));
  }
  // Its kind is the key's.
  int32_t constant(const std::string& key, const Text& otherwise = {}) const {
    std::string kind = key;
    std::transform(kind.begin(), kind.end(), kind.begin(),
        [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return behaviours::constant(kind, text(key, otherwise));
  }
  std::pair<std::string, int64_t> address(const std::string& key) const {
    const std::vector<std::string> parts = split(text(key), "+");
    return {parts.at(0), parse(parts.at(1))};
  }
  template <class Number = int32_t>
  std::vector<Number> numbers(const std::string& key) const {
    std::vector<Number> out;
    if (!has(key)) return out;
    for (const std::string& part : split(text(key), ":")) {
      out.push_back(static_cast<Number>(std::stoll(part)));
    }
    return out;
  }
  int64_t formula(int64_t rank, int64_t i) const {
    return (f_.at(0) * rank + f_.at(1) * i) % f_.at(2) + f_.at(3);
  }
  // A key that no verb asked for is a mistake in the table or in the runner.
  void require_all_used() const {
    for (const auto& [key, value] : values_) {
      if (!used_.contains(key)) throw std::runtime_error(verb + " has no key " + key);
    }
  }
  void use_all() const {  // where there is nothing to do
    for (const auto& [key, value] : values_) {
      used_.insert(key);
    }
  }

 private:
  int64_t parse(const std::string& value) const {
    const std::vector<std::string> by_rank = split(value, ",");
    const std::string& one =
        by_rank.size() == 1 ? by_rank[0] : by_rank.at(static_cast<size_t>(rank_));
    if (one == "self") return rank_;
    if (one == "left") return (rank_ + kRanks - 1) % kRanks;
    if (one == "right") return (rank_ + 1) % kRanks;
    return std::stoll(one, nullptr, 0);
  }

  int rank_;
  std::map<std::string, std::string> values_;
  mutable std::set<std::string> used_;
  std::vector<int64_t> f_;
};
}  // namespace behaviours
