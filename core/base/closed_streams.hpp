// The numbers of standard streams that a program has closed. The kernel gives out the lowest free
// number, so without further ado the next descriptor of this process would be what other threads
// of the program take for the stream: their text would land in shared memory or in a connection.
#pragma once

#include <cstdint>
#include <memory>

namespace symm {
// While an object lives, the numbers of standard streams that were closed when it was made lead to
// a file that can be neither read nor written: both fail by EBADF, as on a closed one. A descriptor
// that is made meanwhile has another number. Afterwards the numbers are as they were, except those
// that the program has opened itself. Costs three system calls if no stream is closed.
class ClosedStreams {
 public:
  ClosedStreams();
  ~ClosedStreams();
  ClosedStreams(const ClosedStreams&) = delete;
  ClosedStreams& operator=(const ClosedStreams&) = delete;

  // Whether this process has closed a stream, as far as it matters here: what an object holds
  // counts as closed.
  static bool is_any_closed() noexcept;

 private:
  friend std::shared_ptr<const ClosedStreams> hold_closed_streams();
  // For libraries that open descriptors of their own at any time (UCX, NCCL): holds what another
  // object finds closed later, too.
  enum class For { one_call, connections };
  explicit ClosedStreams(For what);

  bool holds_ = false;
  uint32_t generation_ = 0;  // a forked child has let go of what its parent held
};

// An object that is held from before a foreign library is loaded until after its last connection
// is closed.
std::shared_ptr<const ClosedStreams> hold_closed_streams();
}  // namespace symm
