// The private directory in which the ranks of one job meet.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>
#include "tools/unique_fd.hpp"

namespace symm::tool {
// $XDG_RUNTIME_DIR if it is a private directory of this user, else $TMPDIR, else /tmp.
std::string runtime_parent();

// Mode 0700, removed with the object. A lock is held on it for as long as its owner lives, so that `symm doctor` can tell what
// a killed job left behind from what is in use.
class JobDirectory {
 public:
  // Removes those that are stale; `before` is called before it is made. Throws std::system_error.
  explicit JobDirectory(const std::function<void(const std::string& path)>& before = {});
  ~JobDirectory();
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  const std::string& path() const { return path_; }
 private:
  std::string path_;
  UniqueFd lock_;
};

// Directories of this user's jobs whose owner is dead, below `parent`, that have been so for `seconds`.
std::vector<std::string> stale_job_directories(const std::string& parent, time_t seconds = 0);

// Remove a directory and what is in it, following no link. True when it is gone.
bool remove_tree(const std::string& path) noexcept;
}  // namespace symm::tool
