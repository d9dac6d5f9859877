// How a job ended: which rank failed first, what became of the others, and the exit status that says so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace symm::tool {
class Outcome {
 public:
  // A rank ended. `expected`: it was told to end, so how it did so is no news.
  // Returns true if this is the first failure.
  bool record(int rank, int wait_status, bool expected);

  bool failed() const { return first_failure_.has_value(); }
  int status() const;                      // 0, or the first failure's; a rank that was told to end counts if no other failed
  std::vector<std::string> later() const;  // "rank 1 exited with status 1", for failures after the first
 private:
  std::optional<int> first_failure_;
  std::optional<int> first_ended_;  // non-zero end of a rank that was told to end
  std::map<std::string, std::vector<int>> later_;
};
}  // namespace symm::tool
