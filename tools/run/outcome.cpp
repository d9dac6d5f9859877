#include "tools/run/outcome.hpp"
#include <algorithm>
#include "tools/run/rank_process.hpp"
#include "tools/text.hpp"

namespace symm::tool {
bool Outcome::record(int rank, int wait_status, bool expected) {
  if (wait_status == 0) return false;
  if (!expected && !first_failure_) {
    first_failure_ = wait_status;
    return true;
  }
  if (expected && !first_ended_) first_ended_ = wait_status;
  later_[describe_end(wait_status)].push_back(rank);
  return false;
}

int Outcome::status() const {
  if (first_failure_) return shell_status(*first_failure_);
  return first_ended_ ? shell_status(*first_ended_) : 0;
}

std::vector<std::string> Outcome::later() const {
  std::vector<std::string> out;
  for (const auto& [end, unsorted] : later_) {
    std::vector<int> ranks = unsorted;
    std::sort(ranks.begin(), ranks.end());
    std::string text = end;
    if (ranks.size() > 1 && text.rfind("was ", 0) == 0) text = "were " + text.substr(4);
    out.push_back(format_ranks(ranks) + " " + text);
  }
  return out;
}
}  // namespace symm::tool
