// A small process that outlives a launcher that is killed, and then ends its ranks and removes its directory.
#pragma once

#include <sys/types.h>
#include <string>
#include "tools/unique_fd.hpp"

namespace symm::tool {
// Ranks also die with the launcher by PR_SET_PDEATHSIG, but that reaches neither their children nor the directory.
class Warden {
 public:
  explicit Warden(const std::string& directory);  // throws std::system_error
  ~Warden();                                      // all is well: the warden leaves without doing anything
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  void watch(pid_t process_group);
  void forget(pid_t process_group);  // before its leader is reaped, so that the number cannot have passed to somebody else
 private:
  void tell(int what, pid_t process_group) const;

  UniqueFd pipe_;
  pid_t pid_ = -1;
};
}  // namespace symm::tool
