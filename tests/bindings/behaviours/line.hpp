// One line of table.txt, and the values in it as one rank reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace behaviours {
// 0: nobody has said.
inline const int kRanks = std::getenv("SYMM_SIZE") != nullptr ? std::atoi(std::getenv("SYMM_SIZE")) : 0;

// The value of SYMM_<KIND>_<name>, KIND one of DTYPE, OP, ALGORITHM and STATUS (where OK and ERR_<name> are meant); a number
// stands for itself.
int32_t constant(const std::string& kind, const std::string& name);

class Line {
 public:
  Line(const std::string& text, int rank);

  bool mine = false;  // whether this rank runs it
  std::string verb;
  std::string failure;             // the status with which it must fail, or ""
  std::optional<int64_t> blamed;   // the rank that the failure must name, -1: none
  std::vector<std::string> words;  // that the message must contain

  bool has(const std::string& key) const { return values_.contains(key); }
  // `otherwise` is the value where the key is absent; without one the key must be there.
  using Integer = std::optional<int64_t>;
  using Text = std::optional<std::string>;
  std::string text(const std::string& key, const Text& otherwise = {}) const;
  int64_t integer(const std::string& key, Integer otherwise = {}) const;
  int32_t integer32(const std::string& key, Integer otherwise = {}) const {
    return static_cast<int32_t>(integer(key, otherwise));
  }
  size_t size(const std::string& key, Integer otherwise = {}) const { return static_cast<size_t>(integer(key, otherwise)); }
  int32_t constant(const std::string& key, const Text& otherwise = {}) const;  // the kind is the key's
  std::pair<std::string, int64_t> address(const std::string& key) const;
  std::vector<int32_t> ranks(const std::string& key) const;
  int64_t formula(int64_t rank, int64_t i) const;
  // A key that nobody asked for is a mistake in the table or in the runner.
  void require_all_used() const;
  void use_all() const {  // where there is nothing to do
    for (const auto& [key, value] : values_) used_.insert(key);
  }
 private:
  int64_t parse(const std::string& value) const;

  int rank_;
  std::map<std::string, std::string> values_;
  mutable std::set<std::string> used_;
  std::vector<int64_t> f_;
};
}  // namespace behaviours
