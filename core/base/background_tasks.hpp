// Work that may wait for a driver or the kernel, moved off a thread that must not wait. Another
// thread does it, which lives as long as there is something to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>

namespace symm {
class BackgroundTasks {
 public:
  explicit BackgroundTasks(const char* thread = "symm-tasks") noexcept : thread_(thread) {}
  // Has the thread run `task` after those that wait already. False if `max_waiting` wait. Throws
  // if there is no memory or no thread. Where it returns false or throws, `task` is unchanged.
  bool run(std::function<void()>& task, size_t max_waiting = SIZE_MAX);

 private:
  void work() noexcept;

  const char* const thread_;
  std::mutex mutex_;
  std::list<std::function<void()>> waiting_;
  bool started_ = false;
};

// The one of this process.
BackgroundTasks& background_tasks();

// Runs `task` on the thread for background tasks; on the calling thread only if there is no memory
// or no thread for that.
template <class Task>
void do_elsewhere(Task task) noexcept {
  std::function<void()> work;
  try {
    work = std::move(task);
    background_tasks().run(work);
  } catch (const std::exception&) {
    if (work) {
      work();
    } else {
      task();
    }
  }
}

// A container whose elements take long to destroy: a background task destroys them. Declare it
// before a lock is taken, so that the lock is released first.
template <class Container>
struct DroppedElsewhere : Container {
  ~DroppedElsewhere() {
    if (!this->empty()) do_elsewhere([mine = std::move(static_cast<Container&>(*this))] {});
  }
};
}  // namespace symm
