// What a thread may not wait for itself, done by another,
// which is there as long as there is something to do.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>

namespace symm {
class BackgroundTasks {
 public:
  explicit BackgroundTasks(const char* thread = "symm-tasks") noexcept : thread_(thread) {}
  // One after the other. False, and `task` is as it was, if `most` wait already; so
  // if this throws for want of memory or a thread.
  bool run(std::function<void()>& task, size_t most = SIZE_MAX);

 private:
  void work() noexcept;

  const char* const thread_;
  std::mutex mutex_;
  std::list<std::function<void()>> waiting_;
  bool started_ = false;
};

BackgroundTasks& background_tasks();  // of this process

// What may wait for a driver or for the kernel, off a
// thread that must not: here only if nobody else can.
template <class Task>
void do_elsewhere(Task task) noexcept {
  std::function<void()> work;
  try {
    work = std::move(task);
    background_tasks().run(work);
  } catch (const std::exception&) {
    work ? work() : task();
  }
}

// A container whose elements take their time to go. It
// goes after the locks that were taken since it was made.
template <class Container>
struct DroppedElsewhere : Container {
  ~DroppedElsewhere() {
    if (!this->empty()) do_elsewhere([mine = std::move(static_cast<Container&>(*this))] {});
  }
};
}  // namespace symm
