// The one thread of the library: it sleeps until a control socket has something to read
// or a peer's pidfd says that it died, and calls whoever watches that descriptor.
//
// It starts with the first connection of a mesh, or the first use of sharing by tokens,
// and stays, asleep, when nothing is left to watch: ending it would mean that a release
// waits for it, and a release must never wait (the thread may be in the user's log
// callback, which may wait for a lock that the releasing thread holds). It is never
// joined, and nothing it touches is ever destroyed, so exit() needs no order. A forked
// child has none of its parent's; its own starts when it is needed. Additions and
// removals go to epoll directly and need no wake-up call.
#pragma once

#include <map>
#include <memory>

#include "core/base/per_process.hpp"

namespace symm {
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void ready(int fd) noexcept = 0;  // on the monitor thread, which holds no lock
};

class Monitor {
 public:
  static Monitor& current();  // of this process, started on first use. Throws Error(system)
  Monitor(Monitor&&) = delete;

  // Call `watched` whenever `fd` is readable or hung up. Returns a number for forget().
  uint64_t watch(int fd, std::weak_ptr<Watched> watched);
  // Also when it can be written, until this is taken back.
  void want_writable(uint64_t number, bool wanted) noexcept;
  // No call begins after this. One that is under way keeps `watched` alive.
  void forget(uint64_t number) noexcept;
  static void forget(std::atomic<uint64_t>& watching) noexcept {  // once; 0: nothing is watched
    if (const uint64_t number = watching.exchange(0)) current().forget(number);
  }

 private:
  friend PerProcess<Monitor>;
  Monitor();
  struct Entry {
    int fd;
    std::weak_ptr<Watched> watched;
  };
  void run() noexcept;
  void call(uint64_t number);

  PeerFd epoll_;
  std::mutex mutex_;
  std::atomic<uint64_t> last_ = 0;
  std::map<uint64_t, Entry> entries_;
};
}  // namespace symm
