// The queue of work that must not hold up a thread, and the thread that does it.
#include "core/base/background_tasks.hpp"

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"

namespace symm {
bool BackgroundTasks::run(std::function<void()>& task, size_t max_waiting) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= max_waiting) return false;

  // The allocation may throw, and does so before the task is moved, so the task is not lost.
  waiting_.emplace_back();
  waiting_.back().swap(task);

  try {
    if (!started_) process::start_thread(thread_, [this] { work(); });
  } catch (...) {
    task.swap(waiting_.back());
    waiting_.pop_back();
    throw;
  }

  started_ = true;
  return true;
}

void BackgroundTasks::work() noexcept {
  for (std::function<void()> next;; next = nullptr) {
    {
      const std::lock_guard lock(mutex_);
      started_ = !waiting_.empty();
      if (!started_) return;
      next.swap(waiting_.front());
      waiting_.pop_front();
    }

    try {
      with_reserve(next);
    } catch (const std::exception&) {
      continue;  // the task is lost, but the process goes on
    }
  }
}

BackgroundTasks& background_tasks() { return PerProcess<BackgroundTasks>::current(); }
}  // namespace symm
