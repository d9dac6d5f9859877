// The thread that reads all sockets: it sleeps until a control socket has something to read or a
// pidfd says that a peer died, and calls the object that watches that descriptor.
//
// It starts with the first connection of a mesh, or the first use of sharing by tokens, and stays,
// asleep, when nothing is left to watch. To end it, a release would have to wait for it, and a
// release must never wait (the thread may be in the user's log callback, which may wait for a lock
// that the releasing thread holds). The thread is never joined, and nothing it touches is ever
// destroyed, so exit() needs no order. A forked child does not have its parent's thread; its own
// starts when it is needed. Additions and removals go to epoll directly, and do not wake the
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/peer_fd.hpp"
#include "core/base/per_process.hpp"
#include "core/base/wait.hpp"

namespace symm {
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void ready(int fd) noexcept = 0;  // on the monitor thread, which holds no lock
};

class Monitor {
 public:
  // The monitor of this process, started on first use. Throws Error(system).
  static Monitor& current();
  Monitor(Monitor&&) = delete;

  // Calls `watched` whenever `fd` is readable or hung up. Returns a number for forget().
  uint64_t watch(int fd, std::weak_ptr<Watched> watched);
  // While `wanted`, calls it also whenever the descriptor can be written.
  void want_writable(uint64_t number, bool wanted) noexcept;
  // After this no call begins. A call that is under way keeps `watched` alive.
  void forget(uint64_t number) noexcept;
  // Waits until the thread has read what had come when the call began, for at most a second. A
  // deadline that has passed is no proof that nothing came: after a stop of the process, or under
  // load, the waiting thread may run before this one.
  void catch_up() noexcept;
  // Forgets the number once, and sets it to 0, which means that nothing is watched.
  static void forget(std::atomic<uint64_t>& watching) noexcept {
    if (const uint64_t number = watching.exchange(0)) current().forget(number);
  }

 private:
  friend PerProcess<Monitor>;
  Monitor();
  struct Watch {
    int fd;
    std::weak_ptr<Watched> watched;
  };
  void run() noexcept;
  int read_once(int timeout_ms) noexcept;
  void answer() noexcept;
  void call(uint64_t number);

  PeerFd epoll_;
  // An event of this descriptor asks the thread to catch up. The words count what was asked and
  // what was answered; the second wakes those that asked.
  PeerFd question_;
  std::atomic<uint32_t> asked_ = 0;
  Word answered_ = 0;
  bool is_asked_ = false;  // the thread's own
  std::mutex mutex_;
  std::atomic<uint64_t> last_ = 0;
  std::map<uint64_t, Watch> watches_;
};

// await_change() for news that the monitor's thread hears: when the deadline passes, the news
// that had come by then is read first, and looked at once more.
template <class Look>
bool await_heard(const Word& changes, Deadline deadline, const Look& look,
    const Revocation* revocation = nullptr) {
  if (await_change(changes, deadline, look, revocation)) return true;

  Monitor* monitor = PerProcess<Monitor>::existing();
  if (monitor == nullptr) return false;
  monitor->catch_up();
  return await_change(changes, Deadline::after_ms(Deadline::kNow), look, revocation);
}
}  // namespace symm
