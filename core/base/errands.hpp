// What a thread may not wait for itself, done by another,
// which is there as long as there is something to do.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>

namespace symm {
class Errands {
 public:
  explicit Errands(const char* thread = "symm-errands") noexcept : thread_(thread) {}
  // One after the other. False, and `errand` is as it was, if `most` wait already; so
  // if this throws for want of memory or a thread.
  bool run(std::function<void()>& errand, size_t most = SIZE_MAX);

 private:
  void work() noexcept;

  const char* const thread_;
  std::mutex mutex_;
  std::list<std::function<void()>> waiting_;
  bool started_ = false;
};

Errands& errands();  // of this process

// What may wait for a driver or for the kernel, off a
// thread that must not: here only if nobody else can.
template <class Errand>
void do_elsewhere(Errand errand) noexcept {
  std::function<void()> work;
  try {
    work = std::move(errand);
    errands().run(work);
  } catch (const std::exception&) {
    work ? work() : errand();
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
