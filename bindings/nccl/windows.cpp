#include "bindings/nccl/windows.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/symm_library.hpp"
#include <symm/symm.h>

namespace symm::nccl {
void Windows::note(const void* window, const void* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  all_.push_back({window, memory, bytes});
  ++fresh_;
}

// One that has not met stays in the list, as over: the other ranks count on this rank's answer.
void Windows::forget(const void* window) noexcept {
  symm_memory_t* met = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(all_.begin(), all_.end(),
        [&](const Window& one) { return one.name == window && !one.is_over; });
    if (found == all_.end()) return;
    met = std::exchange(found->met, nullptr);
    found->is_over = true;
    if (!found->is_fresh) all_.erase(found);
  }
  if (met != nullptr) symm_library().memory_release(met);
}

symm_memory_t* Windows::meet_one(const Window& window, symm_group_t* group, HostGroup& ranks) {
  const SymmLibrary& symm = symm_library();
  symm_buffer_t* buffer = nullptr;
  const bool has_buffer = !window.is_over && symm.buffer_adopt(group, window.memory, window.bytes,
                                                 nullptr, &buffer) == SYMM_OK;
  std::string why = window.is_over ? "it was deregistered" : symm.last_error();
  if (has_buffer) why = "that of another rank cannot be shared";

  symm_memory_t* met = nullptr;
  const bool has_all = ranks.all_wish(has_buffer);
  if (has_all && symm.rendezvous(group, buffer, nullptr, &met) != SYMM_OK) why = symm.last_error();
  if (buffer != nullptr) symm.buffer_release(buffer);
  if (met != nullptr) {
    log("a window of %zu bytes is symmetric memory", window.bytes);
  } else {
    log("a window of %zu bytes stays private memory: %s", window.bytes, why.c_str());
  }
  return met;
}

void Windows::meet(symm_group_t* group, HostGroup& ranks) {
  std::unique_lock lock(mutex_);
  for (auto next = all_.begin(); next != all_.end();) {
    const auto one = next++;
    if (!one->is_fresh) continue;
    const Window window = *one;
    lock.unlock();
    symm_memory_t* met = meet_one(window, group, ranks);
    lock.lock();

    // Nobody else takes a fresh one out of the list. Others may have been added behind it.
    next = std::next(one);
    one->is_fresh = false;
    --fresh_;
    if (one->is_over && met != nullptr) symm_library().memory_release(met);
    if (one->is_over) {
      all_.erase(one);
    } else {
      one->met = met;
    }
  }
}

void Windows::release() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Window& window : all_) {
    if (window.met != nullptr) symm_library().memory_release(window.met);
  }
  all_.clear();
}
}  // namespace symm::nccl
