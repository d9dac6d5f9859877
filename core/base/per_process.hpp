// An object of which each process has one: made on first use and never destroyed, since handles may
// be released while static objects are destroyed. A forked child leaves its parent's object as it
// is, because the threads that used the object do not exist in the child and its locks may be held
// for ever. The child makes an object of its own.
#pragma once

#include <atomic>
#include <mutex>
#include <new>

#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"

namespace symm {
template <class Object>
class PerProcess {
 public:
  // The arguments serve to make the object; an existing object stays as it is.
  template <class... Arguments>
  static Object& current(const Arguments&... arguments) {
    if (Object* existing = instance.load(std::memory_order_acquire)) return *existing;

    const std::lock_guard lock(making);
    if (Object* existing = instance.load(std::memory_order_acquire)) return *existing;

    process::at_fork_in_child(forget);
    auto* made = new Object(arguments...);
    instance.store(made, std::memory_order_release);
    return *made;
  }
  static Object* existing() noexcept { return instance.load(std::memory_order_acquire); }

 private:
  static void forget() noexcept {
    PeerFd::close_all_in_child();
    if (Object* parents_instance = instance.exchange(nullptr)) kept.store(parents_instance);
    new (&making) std::mutex;  // another thread of the parent may have held it
  }
  static inline std::atomic<Object*> instance{nullptr};
  // The parent's object in a child, kept reachable so that no leak is reported.
  static inline std::atomic<Object*> kept{nullptr};
  static constinit inline std::mutex making;
};
}  // namespace symm
