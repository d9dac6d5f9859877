// Memory kept for when there is no other, so that the other ranks learn in time that this rank has
// run out of memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace symm {
class Reserve {
 public:
  static void keep() noexcept {
    if (kept.load(std::memory_order_relaxed) == nullptr) {
      std::free(kept.exchange(std::malloc(kBytes)));
    }
  }
  static void give_back() noexcept { std::free(kept.exchange(nullptr)); }

 private:
  // malloc() takes a block of this size from the heap; it would map a larger one.
  static constexpr size_t kBytes = 65'536;
  static inline std::atomic<void*> kept{nullptr};
};

// Runs `task`, and if there is no memory for it, once more with the reserve. When `task` throws, it
// must have changed nothing.
template <class Task>
auto with_reserve(Task&& task) {
  Reserve::keep();
  try {
    return task();
  } catch (const std::bad_alloc&) {
    Reserve::give_back();
  }
  return task();
}
}  // namespace symm
