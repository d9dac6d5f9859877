// An object of which each process has one: made on first use and never destroyed, since
// handles may be released while static objects are destroyed. A forked child leaves its
// parent's as it is, for the threads that used it do not exist there and its locks may
// be held for ever; its own is made anew.
#pragma once

#include <atomic>
#include <new>

#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"

namespace symm {
template <class Object>
class PerProcess {
 public:
  static Object& current() {
    if (Object* existing = here.load(std::memory_order_acquire)) return *existing;
    const std::lock_guard lock(making);
    if (Object* existing = here.load(std::memory_order_acquire)) return *existing;
    process::at_fork_in_child(forget);
    auto* made = new Object;
    here.store(made, std::memory_order_release);
    return *made;
  }
  static Object* existing() noexcept { return here.load(std::memory_order_acquire); }

 private:
  static void forget() noexcept {
    PeerFd::close_all_in_child();
    if (Object* of_parent = here.exchange(nullptr)) parents.store(of_parent);
    new (&making) std::mutex;  // another thread of the parent may have held it
  }
  static inline std::atomic<Object*> here{nullptr};
  static inline std::atomic<Object*> parents{nullptr};  // kept reachable
  static constinit inline std::mutex making;
};
}  // namespace symm
