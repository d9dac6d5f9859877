// A descriptor that a forked child does not keep. A child that held a copy of our sockets would
// hide our death from the other ranks for as long as it lives (measured: 1.7 s late). So the child
// closes all of these right after fork(), where only async-signal-safe calls such as close() are
// allowed: hence a table of plain numbers beside the owners.
//
// If another thread calls fork() between the making of a descriptor and its entry in the table, a
// copy stays in the child. The peers' pidfds then still tell of our death.
#pragma once

#include <cstdint>

#include "core/base/fd.hpp"

namespace symm {
class PeerFd {
 public:
  PeerFd() = default;
  explicit PeerFd(Fd fd);
  PeerFd(PeerFd&& other) noexcept = default;
  PeerFd& operator=(PeerFd&& other) noexcept;
  ~PeerFd() { reset(); }

  int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // Closes the descriptor, except in a child forked since: the child closed all that the table
  // had, and may have opened another descriptor with the same number.
  void reset() noexcept;

  static void close_all_in_child() noexcept;  // async-signal-safe
 private:
  Fd fd_;
  uint32_t slot_ = 0;
  uint32_t generation_ = 0;
};
}  // namespace symm
