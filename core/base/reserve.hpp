// Memory that is kept for when there is no other: so that
// the others learn in time that this rank has run out of it.
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
  static constexpr size_t kBytes = 65'536;  // of the heap, where larger ones are mapped
  static inline std::atomic<void*> kept{nullptr};
};

// `task`, and if there is no memory for it, once more with
// the reserve. When it throws, all must be as it was.
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
