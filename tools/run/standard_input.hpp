// Standard input goes to rank 0.
#pragma once

#include <string>
#include "tools/unique_fd.hpp"

namespace symm::tool {
// A file or pipe is handed over as it is. A terminal is not readable for rank 0, which is in a background process group, so its
// lines are copied through a pipe.
class StandardInput {
 public:
  StandardInput();

  int for_rank_0() const { return pipe_read_ ? pipe_read_.get() : 0; }
  void rank_0_started() { pipe_read_.reset(); }

  // What to poll; -1: nothing. We read only while in the foreground of the terminal and while rank 0 keeps up.
  int readable_fd() const;
  int writable_fd() const { return queue_.empty() ? -1 : pipe_write_.get(); }
  void read_some();
  void write_some();
  void close() { pipe_write_.reset(); }
 private:
  UniqueFd pipe_read_;
  UniqueFd pipe_write_;
  std::string queue_;
  bool ended_ = false;
};
}  // namespace symm::tool
